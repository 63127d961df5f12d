//! The client in this process, and in programs in C, C++ and Python.
#![allow(missing_docs, reason = "tests")]

mod c_abi;
mod meaning;
mod no_ledger;
mod off;
mod python;
