//! Whole machines, read from trees in the driver's formats.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod boards;
mod hanging;
mod limits;
mod memory;
mod numbers;
mod slots;
mod states;
mod tracked;
mod tree;
