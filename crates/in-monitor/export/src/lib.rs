//! Memory traces for the viewers of other projects: PyTorch's memory_viz page, and the Chrome trace format, which Perfetto opens.
//!
//! A [`Trace`] collects allocations and frees from ledgers ([`LedgerFeed`]), a run report or a recording ([`document`]). It stores the
//! events in a [`Spool`] of bounded size, in memory first and then in a file. [`memory_viz`] and [`chrome`] write the trace.

pub mod chrome;
pub mod document;
mod feed;
pub mod memory_viz;
mod pickle;
mod spool;
mod trace;

pub use feed::{FeedError, LedgerFeed};
pub use spool::{Spool, SpoolFile};
pub use trace::{About, Buffer, Chip, Owner, Space, Trace};
