//! The process that runs a simulated machine. It writes the tree, starts the workers, and removes everything when its parent has ended.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use rustix::process::getppid;
use rustix::thread::set_name;

use crate::clock::{self, Clock};
use crate::machine::{Life, Machine};
use crate::part::{self, PartSettings};
use crate::tree::Tree;
use crate::{directory, worker};

/// Maximum time to wait for a worker. A worker is ready within milliseconds, or never.
const WORKER_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) fn run() -> io::Result<()> {
    let parent = getppid();
    set_name(c"ttmon-sim")?;
    let settings = PartSettings::from_environment()?;
    if !directory::is_ours(&settings.directory) {
        return Err(io::Error::other(format!("{} is no directory of a simulation", settings.directory.display())));
    }
    let mut engine = Engine::new(&settings)?;
    engine.start_workers()?;
    engine.step()?;
    part::say_ready()?;
    loop {
        // The parent writes a byte, or its end of the pipe is closed when it ends. A forked child may hold a copy of that end, so the
        // parent's pid is checked too.
        let is_over = part::wait_readable(io::stdin(), engine.clock.until_next_tick())? || getppid() != parent;
        if is_over {
            return Ok(());
        }
        engine.step()?;
    }
}

/// The running machine. Dropping it ends its workers and removes its tree.
struct Engine {
    machine: Machine,
    directory: PathBuf,
    clock: Clock,
    /// The workers, in the order of the plan.
    workers: Vec<Child>,
    lives: Vec<Life>,
    _lock: File,
}

impl Engine {
    /// Writes the tree without processes. Workers need their regions first.
    fn new(settings: &PartSettings) -> io::Result<Self> {
        let machine = settings.machine()?;
        let mut engine = Self {
            lives: vec![Life::Absent; machine.process_count()],
            machine,
            directory: settings.directory.clone(),
            clock: Clock::start(),
            workers: Vec::new(),
            _lock: directory::lock(&settings.directory)?,
        };
        engine.tree(0).lay()?;
        // Time starts when the tree is complete, even if it is written slowly on a busy machine.
        engine.clock = Clock::start();
        Ok(engine)
    }

    fn start_workers(&mut self) -> io::Result<()> {
        for (process, life) in self.machine.processes.iter().zip(&mut self.lives) {
            let worker = worker::spawn(process, self.clock)?;
            *life = Life::Running { pid: worker.id() };
            self.workers.push(worker);
        }
        for worker in &mut self.workers {
            let answers = worker.stdout.take().ok_or_else(|| io::Error::other("a worker without a pipe"))?;
            part::await_ready(answers, WORKER_TIMEOUT).map_err(|error| io::Error::other(format!("a simulated process: {error}")))?;
        }
        Ok(())
    }

    fn step(&mut self) -> io::Result<()> {
        let tick = self.clock.tick();
        for (worker, life) in self.workers.iter_mut().zip(&mut self.lives) {
            if matches!(life, Life::Running { .. }) && worker.try_wait()?.is_some() {
                *life = Life::Ended { tick };
            }
        }
        self.tree(tick).shift()
    }

    fn tree(&self, tick: u64) -> Tree<'_> {
        Tree { machine: &self.machine, root: &self.directory, tick, lives: &self.lives, now: clock::unix_time() }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            // A dead worker cannot be killed, so the error is ignored.
            let _ = worker.kill();
            let _ = worker.wait();
        }
        directory::remove(&self.directory);
    }
}
