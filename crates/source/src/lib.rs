//! Reads a machine into a [`Sample`](ttmon_model::Sample): the driver's files, processes, TT-Metal's statistics.
//!
//! Nothing below `/dev/tenstorrent` is opened, unless `Options::deep` asks for it: opening a device blocks other tools.
//!
//! ```no_run
//! use ttmon_source::{Machine, Options, Root};
//! let mut machine = Machine::new(Root::real(), Options::default())?;
//! let sample = machine.sample()?;
//! # Ok::<(), ttmon_source::Error>(())
//! ```
//!
//! A read of one of the driver's files may block for seconds, in a way that not even a signal ends, while another
//! tool resets the chip. So all reads go in [batches](ttmon_reads) to worker threads with a deadline, and where the program can
//! still fork those threads live in a [process of their own](ttmon_reads::isolate) that can be left behind.

pub mod budget;
mod cluster;
mod device;
mod examined;
pub mod ledgers;
mod lines;
mod machine;
mod naming;
mod process;
mod purse;
mod regions;
mod root;
pub mod served;
mod users;

pub use cluster::{ClusterError, parse_cluster, read_cluster};
pub use lines::{Lines, Resolver, resolve_snapshot, set_resolver};
pub use machine::{Departed, DeviceReader, End, Error, Isolation, Ledgers, Machine, Options, Reach, Scanned, Scanner, Scope};
pub use process::Life;
pub use root::Root;
