//! The API for other programs to read the data of ttmon: which processes use how much memory of which device.
//!
//! ```no_run
//! use ttmon_monitor::Monitor;
//!
//! let monitor = Monitor::new()?;
//! if let Some(stats) = monitor.system_stats(0)? {
//!     match stats.dram_used {
//!         Ok(bytes) => println!("{bytes} bytes of DRAM in use"),
//!         Err(reason) => println!("the DRAM in use is unknown: {reason}"),
//!     }
//! }
//! if let Some(process) = monitor.process_stats(std::process::id())? {
//!     println!("this process is {}", process.status.name());
//! }
//! # Ok::<(), ttmon_monitor::Error>(())
//! ```
//!
//! libttmon_monitor.so offers the same functions as a C ABI, declared in `include/ttmon_monitor.h`. `ttmon_monitor.hpp` and Python's
//! `ttmon.monitor` are based on it. As everywhere in ttmon, an unknown value is a reason and never a number.
//!
//! The library prints nothing, opens no device and never forks the program. A few threads that block all signals read the files of the
//! driver. A read may hang in the driver while a chip is being reset. It is abandoned after 200 ms, but may delay the end of the program
//! until the driver answers.

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
