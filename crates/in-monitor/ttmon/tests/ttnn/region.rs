//! TT-Metal's own statistics, `/dev/shm/tt_device_<unique id>_memory`, and other files that its programs leave in /dev/shm.
//!
//! They are read to show where they are wrong, and removed after each case, because TT-Metal never removes them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const SHARED_MEMORY: &str = "/dev/shm";
pub(crate) const SLOTS_AT: usize = 856;
const SLOTS: usize = 64;
pub(crate) const SLOT_BYTES: usize = 120;

/// The kinds of memory that both these statistics and the allocators have.
pub(crate) const KINDS: [&str; 4] = ["dram", "l1", "l1_small", "trace"];

fn path(unique_id: u64) -> PathBuf {
    Path::new(SHARED_MEMORY).join(format!("tt_device_{unique_id}_memory"))
}

/// Returns the bytes of each kind that a process has on a chip, or `None` if the statistics do not have it.
pub(crate) fn slot(unique_id: u64, pid: u32) -> Option<[u64; KINDS.len()]> {
    parse(&fs::read(path(unique_id)).ok()?, pid)
}

pub(crate) fn parse(bytes: &[u8], pid: u32) -> Option<[u64; KINDS.len()]> {
    let slots = bytes.get(SLOTS_AT..SLOTS_AT + SLOTS * SLOT_BYTES)?.chunks_exact(SLOT_BYTES);
    let mine = slots.into_iter().find(|slot| slot[..4] == pid.to_le_bytes())?;
    let word = |at: usize| mine.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    Some([word(8)?, word(16)?, word(24)?, word(32)?])
}

/// Removes the statistics of these chips. The ids are used only here, so no statistics of real chips are lost.
pub(crate) fn remove(unique_ids: impl Iterator<Item = u64>) {
    for id in unique_ids {
        let _absent = fs::remove_file(path(id));
    }
}

/// Returns the files of shared memory that a process has mapped for Open MPI, which never removes them.
pub(crate) fn segments(pid: u32) -> BTreeSet<PathBuf> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let paths = maps.lines().filter_map(|line| Some(&line[line.find(SHARED_MEMORY)?..]));
    paths.filter(|path| path.contains("/sm_segment.")).map(PathBuf::from).collect()
}
