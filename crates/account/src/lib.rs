//! The account of a command under `ttmon run`: what its ledgers say at the end, by chip and kind, and whether checks hold.
//!
//! A [`Digest`] is one ledger, read for the last time. An [`Account`] puts all digests onto the devices of the machine.
//! [`Account::report`] is its document. Nothing here starts a program, waits or prints.

mod account;
mod checks;
mod digest;
mod names;
mod report;
mod size;

pub use account::{Account, ChipPlace, CommandEnd, Leftover, OfKind, OnChip, Overhead, RefusedOnChips};
pub use checks::{Checks, buffers};
pub use digest::{Digest, DigestAllocator, DigestFailure, DigestRow, Group, LeftBuffer};
pub use size::{Limit, Size, SizeError};
