//! The unique id of a chip. It is part of the names of TT-Metal's statistics, and identifies a chip on any machine.
//!
//! TT-Metal creates a statistics object for each chip that it opens, with both ids. If that call was not seen, its shared memory regions
//! among our mappings have both ids, too.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Metal ids of a process are small.
const CHIPS: usize = 256;

/// Unique ids by metal id; 0 if not known.
static UNIQUE: [AtomicU64; CHIPS] = [const { AtomicU64::new(0) }; CHIPS];

/// Records the ids of an opened chip.
pub(crate) fn opened(metal_id: i32, unique_id: u64) {
    if let Some(place) = usize::try_from(metal_id).ok().and_then(|id| UNIQUE.get(id)) {
        // For a chip without a unique id, TT-Metal passes the metal id instead, which identifies no chip.
        let is_made_up = i64::try_from(unique_id) == Ok(i64::from(metal_id));
        place.store(if is_made_up { 0 } else { unique_id }, Relaxed);
    }
}

/// Returns the unique id, 0 if not known.
pub(crate) fn unique_id(metal_id: u32) -> u64 {
    usize::try_from(metal_id).ok().and_then(|id| UNIQUE.get(id)).map_or(0, |unique| unique.load(Relaxed))
}

/// Searches TT-Metal's regions, if some of these chips have no unique id yet.
pub(crate) fn find_unique_ids(metal_ids: &[u32]) {
    if metal_ids.iter().any(|id| unique_id(*id) == 0) {
        read_regions();
    }
}

/// Longer than any line of /proc/self/maps: a path of 4,096 bytes and the columns before it.
const CHUNK_BYTES: usize = 8192;
const REGION_MARK: &[u8] = b"/tt_device_";
const REGION_END: &[u8] = b"_memory";
/// Offset of TT-Metal's chip number in a region.
const REGION_DEVICE: u64 = 40;

/// Records the ids of each chip with a statistics region in this process.
fn read_regions() {
    let (Ok(mut maps), Ok(memory)) = (File::open("/proc/self/maps"), File::open("/proc/self/mem")) else { return };
    let mut chunk = [0; CHUNK_BYTES];
    let mut filled = 0;
    loop {
        let Some(free) = chunk.get_mut(filled..) else { return };
        let read = maps.read(free).unwrap_or(0);
        filled += read;
        let known = chunk.get(..filled).unwrap_or_default();
        let whole = known.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        for (start, unique_id) in known.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n').filter_map(region_start) {
            let mut device = [0xFF; 4];
            // Read through the kernel, because the region may be unmapped meanwhile. Then the number stays that of no device.
            let _ = memory.read_at(&mut device, start + REGION_DEVICE);
            opened(i32::from_le_bytes(device), unique_id);
        }
        if read == 0 {
            return;
        }
        chunk.copy_within(whole..filled, 0);
        filled -= whole;
    }
}

/// Parses the start of a region and the unique id of its chip from a line such as
/// `7f2c1a000000-7f2c1a003000 rw-s 00000000 00:18 77   /dev/shm/tt_device_6532451_memory`.
fn region_start(line: &[u8]) -> Option<(u64, u64)> {
    let at = line.windows(REGION_MARK.len()).rposition(|window| window == REGION_MARK)?;
    let name = line.get(at + REGION_MARK.len()..)?;
    let end = name.windows(REGION_END.len()).position(|window| window == REGION_END)?;
    let unique_id = str::from_utf8(name.get(..end)?).ok()?.parse().ok()?;
    Some((start_of(line)?, unique_id))
}

/// Returns the start of a mapping with file offset 0.
fn start_of(line: &[u8]) -> Option<u64> {
    let mut columns = line.split(|byte| *byte == b' ');
    let range = str::from_utf8(columns.next()?).ok()?;
    let offset = columns.nth(1)?;
    if !offset.iter().all(|byte| *byte == b'0') {
        return None;
    }
    u64::from_str_radix(range.split_once('-')?.0, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_of_tt_metal_is_known_by_its_line() {
        let line = b"7f2c1a000000-7f2c1a003000 rw-s 00000000 00:18 77   /dev/shm/tt_device_6532451_memory";
        assert_eq!(region_start(line), Some((0x7f2c_1a00_0000, 6_532_451)));
        assert_eq!(region_start(b"7f2c1a000000-7f2c1a003000 rw-s 00000000 00:18 77   /dev/shm/tt_device_x_memory"), None);
        assert_eq!(region_start(b"7f2c1a000000-7f2c1a003000 rw-s 00001000 00:18 77   /dev/shm/tt_device_1_memory"), None);
        assert_eq!(region_start(b"7f2c1a000000-7f2c1a003000 rw-s 00000000 00:18 77   /dev/shm/other"), None);
    }
}
