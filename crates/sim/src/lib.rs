//! A simulated machine: the files the driver and TT-Metal would write, kept moving, and real processes to hold them.
//!
//! ```text
//!  Spec ──► Machine (the plan: chips, processes; what they are at any tick) ──► a tree below a directory
//!
//!  ttmon ── Simulation ──► engine ──► worker, worker ...      three kinds of process, all the same program
//!            owns            moves the tree   each writes its own slot of TT-Metal's statistics
//! ```
//!
//! [`Machine`] is pure: the same spec, seed and tick give the same bytes, but for pids and wall-clock times. A tick is
//! 250 ms. [`Simulation`] brings a machine to life in other processes; whichever way its owner ends, they end too and
//! the tree goes with them.
//!
//! Readers do not know that they look at a simulation. What a plain file cannot say (EIO, a read that hangs) is a line in
//! `.ttmon-faults` at the root of the tree. What `--deep` reads of a chip is a file of `.ttmon-chips` beside it.
//!
//! ```no_run
//! use std::process::ExitCode;
//! use ttmon_sim::{Simulation, Spec};
//!
//! fn main() -> ExitCode {
//!     // First of all: this process may be the engine or a worker of a simulation.
//!     if let Some(code) = ttmon_sim::run_as_part() {
//!         return code;
//!     }
//!     let spec = Spec::parse("t3k,fault=hot:2@10").expect("a good spec");
//!     let simulation = Simulation::start(&spec, 1).expect("a simulated machine");
//!     println!("look below {}", simulation.root().display());
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
mod paper;
mod region;
mod tree;

mod clock;
mod directory;
mod engine;
mod part;
mod simulation;
mod worker;

pub use machine::Machine;
pub use part::{NotReady, run_as_part};
pub use simulation::{Simulation, StartError};
pub use spec::{FaultKind, Spec, SpecError, words};
