//! How other programs read what ttmon knows: who holds how much memory of which device.
//!
//! ```no_run
//! use ttmon_monitor::Monitor;
//!
//! let monitor = Monitor::new()?;
//! if let Some(stats) = monitor.system_stats(0)? {
//!     match stats.dram_used {
//!         Ok(bytes) => println!("{bytes} bytes of DRAM in use"),
//!         Err(reason) => println!("nobody knows: {reason}"),
//!     }
//! }
//! if let Some(process) = monitor.process_stats(std::process::id())? {
//!     println!("this process is {}", process.status.name());
//! }
//! # Ok::<(), ttmon_monitor::Error>(())
//! ```
//!
//! The same as a C ABI is libttmon_monitor.so with `include/ttmon_monitor.h`; `ttmon_monitor.hpp` and Python's
//! `ttmon.monitor` stand on that. What is not known is a reason and never a number, as everywhere in ttmon.
//!
//! A guest's manners: nothing is printed, no device is opened, the program is never forked. Files of the driver are read
//! by a few threads that block all signals; a read that hangs in the driver while a chip is being reset is given up after
//! 200 ms, and may delay the end of the program until the driver answers.

mod exports;
mod fill;
mod gate;
mod monitor;
mod signals;
mod stats;

pub use exports::*;
pub use monitor::{Error, MAX_AGE, Monitor};
pub use stats::{AllocatorStats, DetailedStats, ProcessStats, SystemStats, UseOfDevice};
pub use ttmon_model::memory::{Figure, KindMemory};
pub use ttmon_model::snapshot::{Banks, Block, DeviceUse, Health, State, Status, Unmapped};
pub use ttmon_model::{Kind, Missing, PerKind, Reading, Source};
