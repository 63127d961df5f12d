//! The shared ledger: every live buffer of a process, written by the process itself and read by other processes.
//!
//! docs/ledger.md defines the bytes ([`layout`]), the behavior of the [writer] and of readers, and why the ledger stays exact after a
//! kill at any time. [`report`] defines the meaning of reports, the only policy in this crate. The crate contains most of the project's
//! unsafe code and does not depend on devices.

pub mod handover;
pub mod layout;
pub mod pages;
pub mod report;
pub mod tsc;
pub mod writer;
