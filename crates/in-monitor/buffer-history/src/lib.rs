//! What happened to the buffers of programs over time: the events of all ledgers, the growth of their memory, the report of a run, and
//! files for other viewers.

mod account;
mod checks;
pub mod chrome;
mod digest;
pub mod document;
mod feed;
mod growth;
mod history;
mod live;
pub mod memory_viz;
mod names;
mod phases;
mod pickle;
mod recorder;
mod report;
mod room;
mod size;
mod spool;
mod trace;
mod traces;

pub use account::{Account, ChipPlace, CommandEnd, Leftover, OfKind, OnChip, Overhead};
pub use checks::{Checks, buffers};
pub use digest::Digest;
pub use feed::{FeedError, LedgerFeed};
pub use growth::{GroupGrowth, GrowthSinceMark, growth_since_mark};
pub use history::History;
pub use recorder::{News, Recorder, Scene};
pub use size::{Limit, Size, SizeError};
pub use spool::{Spool, SpoolFile};
pub use trace::{About, Buffer, Chip, Owner, Space, Trace};
