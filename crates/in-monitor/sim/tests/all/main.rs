//! The files of a simulated machine.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod real;
mod tree;
