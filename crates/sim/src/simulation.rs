//! A simulated machine that runs: the owner's side.

use std::fmt;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use crate::directory;
use crate::machine::Machine;
use crate::part::{self, Errand, NotReady};
use crate::spec::{Spec, SpecError};

/// Writing a tree and starting 200 processes takes well under a second; a machine under heavy load gets more.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Ending the workers and removing the tree takes milliseconds.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// A simulated machine. It ends when this is dropped, or with the process that started it, in whichever way that ends.
#[derive(Debug)]
pub struct Simulation {
    root: PathBuf,
    engine: Child,
    /// Closed, or written to, it ends the engine.
    orders: Option<ChildStdin>,
    /// Closed by the engine's end.
    answers: Option<ChildStdout>,
    /// A forked copy of the owner owns nothing.
    owner: u32,
}

impl Simulation {
    /// Starts a machine. When this returns, its tree is whole and its processes run. The program must call
    /// [`crate::run_as_part`] first thing in its `main`.
    pub fn start(spec: &Spec, seed: u64) -> Result<Self, StartError> {
        let machine = Machine::new(spec, seed).map_err(StartError::Spec)?;
        directory::sweep();
        let root = directory::create(machine.chips.len()).map_err(StartError::Directory)?;
        let errand = Errand { spec: spec.clone(), seed, directory: root.clone() };
        let mut command = part::command("engine");
        errand.give_to(&mut command);
        // Ctrl-C goes to the terminal's foreground group; what the engine must not miss is its owner's end after that.
        command.arg0("ttmon-sim").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut engine = command.spawn().map_err(|error| {
            directory::remove(&root);
            StartError::Spawn(error)
        })?;
        let (orders, answers) = (engine.stdin.take(), engine.stdout.take());
        let mut simulation = Self { root, engine, orders, answers, owner: std::process::id() };
        let answers = simulation.answers.as_mut().expect("the engine's output was asked for as a pipe");
        part::await_ready(answers, START_TIMEOUT).map_err(StartError::Engine)?;
        Ok(simulation)
    }

    /// The directory that stands for `/` in the simulated machine.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Distinguishes this machine's ledgers from others; never 0.
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
            // Send a byte: closing alone is not noticed while a forked process holds a copy of the pipe.
            let _ = orders.write_all(b"\n");
        }
        if let Some(answers) = self.answers.take() {
            let _ = part::wait_readable(&answers, END_TIMEOUT);
        }
        let _ = self.engine.kill();
        let _ = self.engine.wait();
        directory::remove(&self.root);
    }
}

/// Why a simulated machine did not start.
#[derive(Debug)]
pub enum StartError {
    /// The spec describes an impossible machine.
    Spec(SpecError),
    /// No directory for its files.
    Directory(io::Error),
    /// Its engine could not be started.
    Spawn(io::Error),
    /// Its engine is not ready.
    Engine(NotReady),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spec(error) => error.fmt(f),
            Self::Directory(error) => {
                write!(f, "no directory for the simulated machine's files: {error}; set TMPDIR to one that can be written")
            }
            Self::Spawn(error) => write!(f, "cannot start the simulated machine's engine: {error}"),
            Self::Engine(words) => write!(f, "the simulated machine did not start: {}", words.to_string().escape_debug()),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Spec(error) => Some(error),
            Self::Directory(error) | Self::Spawn(error) => Some(error),
            Self::Engine(error) => Some(error),
        }
    }
}
