//! The mock chips, and the simulated machine on whose rows they may be.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;
use ttmon_sim::{Machine, Spec};

use crate::region;

/// The cluster descriptors.
pub(crate) const DESCRIPTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ttnn/chips");
const UNIQUE_IDS: &str = "chip_unique_ids:";
const SEED: u64 = 1;

/// Mock chips of one case. TT-Metal's statistics of them are removed when this is dropped, because TT-Metal never removes them.
pub(crate) struct Chips {
    pub(crate) descriptor: PathBuf,
    /// Unique ids by metal id, if every chip is visible.
    pub(crate) unique_ids: BTreeMap<u64, u64>,
}

impl Chips {
    /// Writes a cluster descriptor into the folder. Its unique ids differ from those of all other cases, so that cases that run at the same
    /// time have statistics of their own.
    pub(crate) fn new(name: &str, folder: &Path) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let own = u64::from(std::process::id()) << 10 | COUNT.fetch_add(1, Ordering::Relaxed);
        let mut text = fs::read_to_string(Path::new(DESCRIPTORS).join(format!("{name}.yaml"))).unwrap();
        let mut unique_ids = unique_ids(&text).unwrap_or_else(|| panic!("{name}.yaml has no {UNIQUE_IDS}"));
        for id in unique_ids.values_mut() {
            // The last two bytes are those of the chip.
            let new = *id ^ own << 16;
            text = text.replace(&id.to_string(), &new.to_string());
            *id = new;
        }
        let descriptor = folder.join("chips.yaml");
        fs::write(&descriptor, text).unwrap();
        Self { descriptor, unique_ids }
    }
}

impl Drop for Chips {
    fn drop(&mut self) {
        region::remove(self.unique_ids.values().copied());
    }
}

/// Parses the pairs of numbers below the heading, in either of YAML's two notations.
pub(crate) fn unique_ids(text: &str) -> Option<BTreeMap<u64, u64>> {
    let rest = text.split_once(UNIQUE_IDS)?.1;
    let end = rest.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(rest.len());
    let numbers: Vec<u64> =
        rest[..end].split(|character: char| !character.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
    let ids: BTreeMap<u64, u64> = numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    (!ids.is_empty()).then_some(ids)
}

/// The files of a simulated machine that does nothing. Its rows are for the mock chips of one real process.
pub(crate) struct Rows(TempDir);

impl Rows {
    pub(crate) fn of(spec: &str) -> Self {
        let machine = Machine::new(&Spec::parse(&format!("{spec},idle")).unwrap(), SEED).unwrap();
        let directory = tempfile::tempdir().unwrap();
        machine.write(directory.path(), 0, &vec![None; machine.process_count()]).unwrap();
        fs::create_dir_all(directory.path().join("proc")).unwrap();
        Self(directory)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Shows a process to readers of these files as the holder of its devices, because memory of other processes would not count.
    pub(crate) fn link(&self, pid: u32) {
        let place = self.path().join("proc").join(pid.to_string());
        if place.exists() {
            return;
        }
        for device in fs::read_dir(self.path().join("proc/driver/tenstorrent")).unwrap() {
            fs::write(device.unwrap().path().join("pids"), format!("{pid}\n")).unwrap();
        }
        symlink(format!("/proc/{pid}"), &place).unwrap();
    }
}
