//! A simulated machine: the files of the driver and of TT-Metal, updated over time, and real processes that use them.
//!
//! ```text
//!  Spec ──► Machine (the plan: chips, processes; what they are at any tick) ──► a tree below a directory
//!
//!  ttmon ── Simulation ──► engine ──► worker, worker ...      three kinds of process, one program
//!            owns            updates the tree   each writes its own slot of TT-Metal's statistics
//! ```
//!
//! [`Machine`] is pure: spec, seed and tick determine every byte except pids and wall-clock times. A tick is 250 ms. [`Simulation`] runs a
//! machine in other processes. When its owner ends in any way, these processes end too, and the tree is removed.
//!
//! Readers need no special case for a simulation, except for two files at the root of the tree. `.ttmon-faults` lists errors that a regular
//! file cannot produce (EIO, a read that hangs). `.ttmon-chips` has the data that `--deep` reads from each chip.
//!
//! ```no_run
//! use std::process::ExitCode;
//! use ttmon_sim::{Simulation, Spec};
//!
//! fn main() -> ExitCode {
//!     // This must come first: this process may be the engine or a worker of a simulation.
//!     if let Some(code) = ttmon_sim::run_as_part() {
//!         return code;
//!     }
//!     let spec = Spec::parse("t3k,fault=hot:2@10").expect("a good spec");
//!     let simulation = Simulation::start(&spec, 1).expect("a simulated machine");
//!     println!("files below {}", simulation.root().display());
//!     ExitCode::SUCCESS
//! }
//! ```

mod spec;

mod bank;
mod board;
mod chip;
mod machine;
mod process;

mod buffers;
mod load;
mod memory;
mod random;
mod telemetry;

mod faults;
mod files;
mod image;
mod kernel;
mod region;
mod tree;
mod write;

mod clock;
mod directory;
mod engine;
mod part;
mod simulation;
mod worker;

pub use machine::Machine;
pub use part::run_as_part;
pub use simulation::{Simulation, StartError};
pub use spec::{Spec, SpecError, words};
