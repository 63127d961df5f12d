//! Reads a machine into a [`Sample`](ttmon_model::Sample): the driver's files, processes, TT-Metal's statistics.
//!
//! Files below `/dev/tenstorrent` are opened only if `Options::deep` is set, because an open device blocks other tools.
//!
//! ```no_run
//! use ttmon_collect::{Machine, Options, Root};
//! let mut machine = Machine::new(Root::real(), Options::default())?;
//! let sample = machine.sample()?;
//! # Ok::<(), ttmon_collect::Error>(())
//! ```
//!
//! While another tool resets the chip, a read of a driver file may block for seconds, and no signal can interrupt it. So all reads are sent
//! in [batches](crate::reads) to worker threads with a deadline. If the program can still fork, those threads run in a [separate
//! process](crate::reads::isolate) that can be abandoned.

pub mod budget;
mod cluster;
mod device;
mod examined;
pub mod handover;
pub mod ledgers;
mod machine;
mod naming;
mod process;
pub mod reads;
mod regions;
mod root;
pub mod served;
mod users;

pub use cluster::{parse_cluster, read_cluster};
pub use machine::{Departed, DeviceList, DeviceReader, End, Error, Isolation, LedgerScope, Ledgers, Machine, Options, Scanned, Scanner};
pub use process::{ProcessStat, ProcessStatus};
pub use root::Root;
pub use ttmon_ledger_reader::{Lines, Resolver, resolve_snapshot, set_resolver};
