//! TT-Metal's statistics of a simulated machine.
//!
//! Each part of a region has one writer. The tree writes the head (version, totals, figures of the chip) and the slot of dead processes.
//! Each process writes its own slot, at an index that the plan determines.
//!
//! | bytes | contents | owner |
//! |---|---|---|
//! | 0..856 | head | the tree |
//! | 856 + 120 i | slot i, i < 63 | the process that has slot i |
//! | 856 + 120 x 63 | slot 63 | the tree |

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ttmon_model::PerKind;
use ttmon_model::region::{BYTES, Region, SLOT_BYTES, SLOTS_AT as HEAD_BYTES, Slot, file_name};
use ttmon_model::units::UnixTime;

/// The slot of a dead process.
pub(crate) const STALE_SLOT: usize = 63;
const VERSION: u32 = 3;
/// The offset of the 16 chip entries in the head, 48 bytes each.
const CHIPS_AT: usize = 88;
const CHIP_BYTES: usize = 48;
const _: () = assert!(CHIPS_AT + 16 * CHIP_BYTES == HEAD_BYTES && HEAD_BYTES + (STALE_SLOT + 1) * SLOT_BYTES < BYTES);

pub(crate) fn path(root: &Path, unique_id: u64) -> PathBuf {
    root.join("dev/shm").join(file_name(unique_id))
}

pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.set_len(BYTES as u64)?;
    Ok(file)
}

#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) unique_id: u64,
    /// The chip's number inside the latest process.
    pub(crate) device_id: u32,
    /// Number of slots in use.
    pub(crate) processes: u32,
    pub(crate) totals: PerKind<u64>,
    pub(crate) updated: UnixTime,
}

impl Head {
    pub(crate) fn write(&self, file: &File) -> io::Result<()> {
        file.write_all_at(&self.encode(), 0)
    }

    fn encode(&self) -> Vec<u8> {
        let region = Region { version: VERSION, device_id: self.device_id, totals: self.totals.clone(), slots: Vec::new() };
        let mut bytes = region.encode(self.unique_id);
        bytes.truncate(HEAD_BYTES);
        let totals: Vec<u8> = bytes[48..CHIPS_AT].to_vec();
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(4, &self.processes.to_le_bytes());
        put(8, &self.updated.0.to_le_bytes());
        put(16, &self.processes.to_le_bytes());
        // The first entry is this chip and repeats its totals. A chip id of all ones marks an unused entry.
        put(CHIPS_AT, &self.device_id.to_le_bytes());
        put(CHIPS_AT + 8, &totals);
        for unused in 1..16 {
            put(CHIPS_AT + unused * CHIP_BYTES, &u32::MAX.to_le_bytes());
        }
        bytes
    }
}

pub(crate) fn write_slot(file: &File, index: usize, slot: Slot) -> io::Result<()> {
    let region = Region { version: VERSION, device_id: 0, totals: PerKind::default(), slots: vec![slot] };
    let bytes = region.encode(0);
    file.write_all_at(&bytes[HEAD_BYTES..HEAD_BYTES + SLOT_BYTES], (HEAD_BYTES + index * SLOT_BYTES) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use ttmon_model::Kind;

    #[test]
    fn head_and_slots_make_a_region_the_model_reads() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("dev/shm")).unwrap();
        let path = path(root.path(), 77);
        let mut totals = PerKind::default();
        totals[Kind::Dram] = 4096;
        totals[Kind::Cb] = 5;
        let slot = |pid: u32| Slot { pid, used: totals.clone(), updated: UnixTime(9), name: "python3".to_owned() };
        let file = open_or_create(&path).unwrap();
        write_slot(&file, STALE_SLOT, slot(3)).unwrap();
        write_slot(&file, 0, slot(1)).unwrap();
        write_slot(&file, 1, slot(2)).unwrap();
        let head = Head { unique_id: 77, device_id: 4, processes: 3, totals: totals.clone(), updated: UnixTime(8) };
        head.write(&open_or_create(&path).unwrap()).unwrap();

        let bytes = fs::read(&path).unwrap();
        assert_eq!(bytes.len(), BYTES);
        let expected = Region { version: 3, device_id: 4, totals: totals.clone(), slots: vec![slot(1), slot(2), slot(3)] };
        assert_eq!(Region::parse(&bytes), Ok(expected));
        // The offsets are those of TT-Metal's header: processes, time, references, id, and the first and second chip entry.
        assert_eq!((bytes[4], bytes[8], bytes[16], bytes[32]), (3, 8, 3, 77));
        assert_eq!((bytes[88], &bytes[96..98], bytes[128]), (4, &[0u8, 16][..], 5));
        assert_eq!(bytes[136..140], [0xFF; 4]);
    }

    #[test]
    fn regions_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let file = open_or_create(&root.path().join("region")).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}
