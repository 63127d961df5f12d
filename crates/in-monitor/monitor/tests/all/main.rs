//! Compares the reading API with the output of `ttmon` for the same machine: in Rust, C, C++ and Python.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod banks;
mod lines;
mod machine;
mod programs;
mod rust;
mod tools;
