//! The account of a command under `ttmon run`: the final contents of its ledgers by chip and kind, and the checks on them.
//!
//! A [`Digest`] is one ledger, read for the last time. An [`Account`] maps all digests to the devices of the machine. [`Account::report`]
//! returns its document. This crate starts no program, never waits and prints nothing.

mod account;
mod checks;
mod digest;
mod names;
mod report;
mod size;

pub use account::{Account, ChipPlace, CommandEnd, Leftover, OfKind, OnChip};
pub use checks::{Checks, buffers};
pub use digest::{Digest, DigestAllocator, DigestFailure, DigestRow, LeftBuffer, is_named};
pub use size::{Limit, Size, SizeError};
