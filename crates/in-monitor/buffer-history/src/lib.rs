//! What happened to the buffers of programs over time: the events of all ledgers, the growth of their memory, the report of a run, and
//! files for other viewers.

mod addresses;
mod checks;
mod chips;
pub mod chrome;
pub mod document;
mod feed;
mod growth;
mod history;
mod ledger_summary;
mod live;
pub mod memory_viz;
mod phases;
mod pickle;
mod recorder;
mod report;
mod room;
mod run_summary;
mod size;
mod spool;
mod trace;
mod traces;
mod usage;

pub use checks::{Checks, buffers};
pub use chips::{Chip, ChipName};
pub use feed::{FeedError, LedgerFeed};
pub use growth::{GroupGrowth, GrowthSinceMark, growth_since_mark};
pub use history::History;
pub use ledger_summary::LedgerSummary;
pub use recorder::{News, Recorder, Scene};
pub use run_summary::{CommandEnd, Leftover, Overhead, RunSummary};
pub use size::{Limit, Size, SizeError};
pub use spool::{Spool, SpoolFile};
pub use trace::{About, Buffer, DrawnMemory, Owner, Trace};
pub use usage::{ChipUsage, KindUsage};
