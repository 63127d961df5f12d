//! A static simulated machine in a directory in memory, with real processes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use ttmon_sim::{Machine, Spec};

use super::sleepers::Sleepers;
use crate::files;

/// In memory, like sysfs, so that no disk is measured.
const MEMORY: &str = "/dev/shm";

const SEED: u64 = 1;
/// A minute after the start, when the processes are busy. A tick is 250 ms.
const TICK: u64 = 240;

pub(super) struct Root {
    directory: TempDir,
    machine: Machine,
    /// The processes that hold the devices. They live as long as the root.
    holders: Sleepers,
}

impl Root {
    pub(super) fn make(spec: &str) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot make a machine {spec} below {MEMORY}: {error}");
        let directory = tempfile::Builder::new().prefix("ttmon-bench-").tempdir_in(MEMORY).map_err(failed)?;
        let machine = Spec::parse(spec).and_then(|spec| Machine::new(&spec, SEED)).map_err(|error| format!("{spec}: {error}"))?;
        let holders = Sleepers::start(machine.process_count())?;
        let pids: Vec<Option<u32>> = holders.pids().map(Some).collect();
        machine.write(directory.path(), TICK, &pids).map_err(failed)?;
        fs::create_dir_all(directory.path().join("proc")).map_err(failed)?;
        let root = Self { directory, machine, holders };
        root.link(root.holders.pids())?;
        Ok(root)
    }

    fn step(&self, seconds: u64) -> Result<(), String> {
        let pids: Vec<Option<u32>> = self.holders.pids().map(Some).collect();
        self.machine.write(self.path(), TICK + seconds * 4, &pids).map_err(|error| format!("{}: {error}", self.path().display()))
    }

    /// Changes the machine once a second for this time, and calls a function after each change. Returns the seconds that passed.
    pub(super) fn run(&self, time: Duration, mut each: impl FnMut() -> Result<(), String>) -> Result<f64, String> {
        let began = Instant::now();
        for tick in 1.. {
            self.step(tick)?;
            each()?;
            if began.elapsed() >= time {
                break;
            }
        }
        Ok(began.elapsed().as_secs_f64())
    }

    pub(super) fn hang(&self, device: u32) -> Result<(), String> {
        let directory = self.path().join(format!("sys/class/tenstorrent/tenstorrent!{device}"));
        let target = fs::canonicalize(&directory).map_err(files::at(&directory))?;
        let inside = target.strip_prefix(self.path()).unwrap_or(&target).join("tt_aiclk");
        files::write(&self.path().join(".ttmon-faults"), format!("{}\thang\n", inside.display()))
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Shows these processes to readers of this root.
    pub(super) fn link(&self, pids: impl Iterator<Item = u32>) -> Result<(), String> {
        for pid in pids {
            let place = self.place(pid);
            symlink(format!("/proc/{pid}"), &place).map_err(|error| format!("{}: {error}", place.display()))?;
        }
        Ok(())
    }

    pub(super) fn unlink(&self, pids: impl Iterator<Item = u32>) -> Result<(), String> {
        for place in pids.map(|pid| self.place(pid)) {
            fs::remove_file(&place).map_err(|error| format!("{}: {error}", place.display()))?;
        }
        Ok(())
    }

    fn place(&self, pid: u32) -> PathBuf {
        self.path().join("proc").join(pid.to_string())
    }
}
