//! The owner's side of a running simulated machine.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use crate::directory;
use crate::machine::Machine;
use crate::part::{self, PartSettings};
use crate::spec::{Spec, SpecError};

/// Maximum time for the start, which takes well under a second except on a machine under heavy load.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time for the end. Ending the workers and removing the tree takes milliseconds.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// A simulated machine. It ends when this value is dropped, or when the process that started it ends in any way.
#[derive(Debug)]
pub struct Simulation {
    root: PathBuf,
    engine: Child,
    /// Ends the engine when it is closed or written to.
    orders: Option<ChildStdin>,
    /// Closed when the engine ends.
    answers: Option<ChildStdout>,
    /// The pid of the owner. A forked copy of the owner must not end the simulation.
    owner: u32,
}

impl Simulation {
    /// Starts a machine and waits until it runs. The program must call [`crate::run_as_part`] first in its `main`.
    pub fn start(spec: &Spec, seed: u64) -> Result<Self, StartError> {
        let machine = Machine::new(spec, seed).map_err(StartError::Spec)?;
        directory::sweep();
        let root = directory::create(machine.chips.len()).map_err(|error| {
            let remedy = "set TMPDIR to one that can be written";
            StartError::Failed(format!("no directory for the simulated machine's files: {error}; {remedy}"))
        })?;
        let settings = PartSettings { spec: spec.clone(), seed, directory: root.clone() };
        let mut command = part::command("engine");
        settings.give_to(&mut command);
        // A separate process group: Ctrl-C is sent to the foreground group of the terminal, and must not end the engine before its owner.
        command.arg0("ttmon-sim").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut engine = command.spawn().map_err(|error| {
            directory::remove(&root);
            StartError::Failed(format!("cannot start the simulated machine's engine: {error}"))
        })?;
        let (orders, answers) = (engine.stdin.take(), engine.stdout.take());
        let mut simulation = Self { root, engine, orders, answers, owner: std::process::id() };
        let answers = simulation.answers.as_mut().expect("the engine's output was asked for as a pipe");
        part::await_ready(answers, START_TIMEOUT).map_err(|error| {
            let words = error.to_string();
            StartError::Failed(format!("the simulated machine did not start: {}", words.escape_debug()))
        })?;
        Ok(simulation)
    }

    /// Returns the directory that is `/` in the simulated machine.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns a number that distinguishes this machine's ledgers from others. It is never 0.
    pub fn mark(&self) -> u64 {
        directory::mark(&self.root)
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        if self.owner != std::process::id() {
            return;
        }
        if let Some(mut orders) = self.orders.take() {
            // A byte is sent, because a closed pipe is not detected while a forked process holds a copy.
            let _ = orders.write_all(b"\n");
        }
        if let Some(answers) = self.answers.take() {
            // An engine that does not end in time is killed.
            let _ = part::wait_readable(&answers, END_TIMEOUT);
        }
        // Fails only if it has already ended.
        let _ = self.engine.kill();
        let _ = self.engine.wait();
        directory::remove(&self.root);
    }
}

/// Why a simulated machine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The spec describes an impossible machine.
    #[error(transparent)]
    Spec(SpecError),
    /// The machine could not be started.
    #[error("{0}")]
    Failed(String),
}
