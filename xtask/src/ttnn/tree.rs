//! A static simulated machine with one real process, which provides rows for chips.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;
use ttmon_sim::{Machine, Spec};

use crate::files;

const SEED: u64 = 1;

pub(super) struct Tree(TempDir);

impl Tree {
    /// Creates a machine. Only the linked process holds its devices.
    pub(super) fn make(spec: &str) -> Result<Self, String> {
        let machine = Spec::parse(&format!("{spec},idle")).and_then(|spec| Machine::new(&spec, SEED));
        let machine = machine.map_err(|error| format!("{spec}: {error}"))?;
        let failed = |error: std::io::Error| format!("a tree of {spec}: {error}");
        let directory = tempfile::tempdir().map_err(failed)?;
        machine.write(directory.path(), 0, &vec![None; machine.process_count()]).map_err(failed)?;
        fs::create_dir_all(directory.path().join("proc")).map_err(failed)?;
        Ok(Self(directory))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Shows a process to readers of this tree as the holder of its devices, because memory of other processes would not count.
    pub(super) fn link(&self, pid: u32) -> Result<(), String> {
        let place = self.path().join("proc").join(pid.to_string());
        if place.exists() {
            return Ok(());
        }
        for device in fs::read_dir(self.path().join("proc/driver/tenstorrent")).map_err(files::at(&place))?.flatten() {
            files::write(&device.path().join("pids"), format!("{pid}\n"))?;
        }
        symlink(format!("/proc/{pid}"), &place).map_err(files::at(&place))
    }
}
