//! The shared ledger: every live buffer of a process, written by the process itself and read from outside.
//!
//! docs/ledger.md is the authority for the bytes ([`layout`]), for what the [writer] and the [reader] do, and for why a
//! kill at any time leaves the ledger exact. [`report`] has the meaning of reports, the only policy here. This crate is
//! the home of the project's unsafe code and knows no devices.

pub mod layout;
mod pages;
pub mod reader;
pub mod report;
mod tsc;
pub mod writer;
