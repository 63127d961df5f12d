//! Bytes of an attacker: any content, without a crash, a long time or much memory.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use proptest::prelude::*;
use rustix::fs::OFlags;
use ttmon_model::ledger::Exactness;
use ttmon_testing::encoder::{Encoder, Shape, filled};

use super::{file, list, open};
use crate::{EventCursor, LedgerDetail, ReadAt, ReadError, Region};

/// Reads everything. No result is larger than the tables of this version.
fn read_all(region: &Region) {
    let totals = region.figures().unwrap();
    assert!(totals.allocators.len() <= 256);
    assert!(totals.allocators.iter().all(|allocator| allocator.chips.len() <= 64 && allocator.rows.len() <= 8));
    let listing = list(region);
    assert!(listing.entries.len() <= 1 << 20 && listing.entries.capacity() <= 1 << 21);
    assert!(listing.tags.0.len() <= 4096 && listing.tags.0.iter().all(|tag| tag.len() <= 3 * 62));
    assert!(listing.entries.iter().all(|entry| (entry.tag as usize) < listing.tags.0.len()));
    let gone: usize = listing.peak_sets.iter().map(|set| set.gone.len()).sum();
    assert!(gone <= (1 << 20) + 16_384 && listing.peak_sets.len() <= 2048);
    assert!(listing.entries.iter().chain(&listing.left).all(|entry| (entry.operation as usize) < listing.tags.0.len()));
    assert!(listing.left.len() <= (1 << 20) + 4096);
    assert!(totals.launches.len() <= 256 && totals.coverage.len() <= 64);
    assert!(
        totals
            .coverage
            .iter()
            .all(|feature| feature.name.len() <= 3 * 40 && feature.reason.as_ref().is_none_or(|reason| reason.len() <= 3 * 72))
    );
    let lines = region.lines().unwrap();
    assert!(lines.len() <= 65_536 && (0..=lines.len()).all(|number| lines.frames(number).len() <= 64));
    let circulars = region.figures_with_circulars().unwrap().circulars;
    assert!(circulars.len() <= 65_536);
    assert!(circulars.iter().all(|circular| circular.cores.iter().all(|&core| core < 64)));
    let refusals = region.refusals(&lines).unwrap();
    assert!(refusals.iter().all(|refused| refused.refusal.largest.len() <= 8 && refused.refusal.message.len() <= 3 * 384));
    assert!(refusals.len() <= 64);
    let recorded = region.events(0).unwrap();
    assert!(recorded.events.len() <= 65_536);
    assert!(recorded.events.iter().all(|event| (event.tag as usize) < recorded.tags.0.len()));
    assert_eq!(recorded.events.len() as u64 + recorded.overrun, recorded.next);
}

/// Reads everything as the rest of the program does.
fn read_for_users(region: &Region) {
    let ledger = region.ledger(|_| LedgerDetail::Blocks, || region.lines().unwrap(), &mut |_, _| true).unwrap().unwrap();
    let allocators = ledger.allocators.len();
    assert!(ledger.buffers.len() <= 1 << 20 && ledger.buffers.iter().all(|buffer| usize::from(buffer.allocator) < allocators));
    assert!(ledger.circulars.iter().all(|circular| circular.allocator < allocators));
    let last = region.final_ledger(1000).unwrap();
    let rows = || last.ledger.allocators.iter().flat_map(|allocator| &allocator.rows);
    assert!(last.left.len() <= 1000 && rows().all(|row| row.end.as_ref().is_some_and(|end| end.at_peak.len() <= 65)));
    let live = region.live_events().unwrap();
    assert!(live.live.len() <= 1 << 20 && live.left.len() <= (1 << 20) + 4096);
    let mut cursor = EventCursor::default();
    let new = cursor.read(region, |event| event.number % 7 == 0, 10).unwrap();
    assert!(new.events.len() <= 10 && cursor.seen() == new.next && cursor.refusals(region, &new).len() <= 64);
}

fn refused(bytes: &[u8]) -> ReadError {
    open(bytes).expect_err("not a ledger")
}

#[test]
fn other_kinds_of_files_are_refused() {
    assert_eq!(Region::open(File::open("/dev/zero").unwrap()).unwrap_err(), ReadError::NotRegular);
    assert_eq!(Region::open(File::open("/dev/shm").unwrap()).unwrap_err(), ReadError::NotRegular);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ttmon-ledger");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let fifo = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&path).unwrap();
    assert_eq!(Region::open(fifo).unwrap_err(), ReadError::NotRegular);
    fs::remove_file(path).unwrap();
}

#[test]
fn files_without_a_ledger_are_refused() {
    assert_eq!(refused(b""), ReadError::TooShort);
    assert_eq!(refused(b"TTMONLD"), ReadError::TooShort);
    assert_eq!(refused(&[0; 4096]), ReadError::NotReady);
    let mut region = Encoder::new(Shape::small());
    region.text(0, b"TTMONLDH");
    assert_eq!(refused(&region.bytes), ReadError::NotReady);
    // A regular file of length 0 that can be read: this process's memory at an unmapped address.
    let nowhere = Region::open_at(File::open("/proc/self/mem").unwrap(), 0, 1 << 20);
    assert!(matches!(nowhere, Err(ReadError::Io(_))), "{nowhere:?}");
    assert_eq!(Region::open_at(file(&[0; 5000]), u64::MAX - 10, 5000).unwrap_err(), ReadError::TooShort);
}

#[test]
fn another_major_version_is_refused() {
    let mut region = Encoder::new(Shape::small());
    region.put16(0x00A, 7);
    assert!(open(&region.bytes).is_ok(), "a later minor version");
    region.put16(0x008, 1);
    region.put16(0x00A, 2);
    assert_eq!(refused(&region.bytes), ReadError::Version { major: 1, minor: 2 }, "it has not the tables");
    let old = "ledger of version 1.2 by an older ttmon (this one reads 2.x): start the program again";
    assert_eq!(refused(&region.bytes).to_string(), old);
    region.put16(0x00A, 7);
    for major in [0, 3, u16::MAX] {
        region.put16(0x008, major);
        assert_eq!(refused(&region.bytes), ReadError::Version { major, minor: 7 });
        assert!(refused(&region.bytes).to_string().contains(&format!("{major}.7")));
    }
}

#[test]
fn a_truncated_ledger_is_refused() {
    let region = filled(Shape::small(), 20, 64);
    let places = [region.allocators, region.rows, region.tags, region.peak_copies, region.events, region.entries];
    let more = [region.circulars, region.launches, region.coverage, region.failures, region.left, region.shared];
    for place in places.into_iter().chain(more) {
        for length in [place.offset - 1, place.offset, place.offset + 1, place.offset + u64::from(place.stride)] {
            assert_eq!(refused(&region.bytes[..usize::try_from(length).unwrap()]), ReadError::TooShort);
        }
    }
    // Truncated after it was opened.
    let file = file(&region.bytes);
    let read = Region::open(file.try_clone().unwrap()).unwrap();
    for place in places.into_iter().rev() {
        file.set_len(place.offset + 9).unwrap();
        assert_eq!(crate::list::list(&read).err(), Some(ReadError::TooShort));
    }
    file.set_len(0).unwrap();
    assert_eq!((read.figures().unwrap_err(), read.events(0).unwrap_err()), (ReadError::TooShort, ReadError::TooShort));
}

#[test]
fn broken_geometry_is_refused() {
    let whole = filled(Shape::small(), 20, 64);
    let check = |offset: u64, value: &[u8]| {
        let mut region = whole.clone();
        region.put(offset, value);
        assert!(matches!(refused(&region.bytes), ReadError::Geometry(_) | ReadError::TooShort), "{offset:#x} {value:?}");
    };
    for at in (0x018..0x078).step_by(16).chain((0x2A0..0x2F0).step_by(16)).chain([0x338]) {
        for offset in [0, 8, 0x0FFF, 0x1001, u64::MAX, u64::MAX - 7, whole.bytes.len() as u64, 1 << 62] {
            check(at, &offset.to_le_bytes());
        }
        for records in [0, u32::MAX, (1 << 20) + 1] {
            check(at + 8, &records.to_le_bytes());
        }
        for stride in [0_u32, 1, 8, 39, 63, 65, 1 << 16, u32::MAX] {
            check(at + 12, &stride.to_le_bytes());
        }
    }
    check(0x018, &whole.rows.offset.to_le_bytes());
    check(0x068, &whole.events.offset.to_le_bytes());
    check(0x00C, &0_u32.to_le_bytes());
    check(0x00C, &u32::MAX.to_le_bytes());
    check(0x010, &u64::MAX.to_le_bytes());
    check(0x010, &4096_u64.to_le_bytes());
}

#[test]
fn huge_counts_are_limited() {
    for value in [u64::MAX, 1 << 63, 1 << 32, 1 << 20] {
        let mut region = filled(Shape::small(), 20, 64);
        for offset in (0x200..0x2A0).step_by(8).chain((0x2F0..0x338).step_by(8)).chain([0x348]) {
            region.put64(offset, value & !1);
        }
        for offset in (region.rows.offset..region.tags.offset).step_by(8) {
            region.put64(offset, value);
        }
        region.put32(region.allocators.offset + 0x1C, u32::MAX);
        region.put64(region.rows.offset + 0x40, 1 << 8 | 2);
        read_all(&open(&region.bytes).unwrap());
        read_for_users(&open(&region.bytes).unwrap());
        region.put64(0x200, value | 1);
        read_all(&open(&region.bytes).unwrap());
        read_for_users(&open(&region.bytes).unwrap());
    }
}

/// A file that counts the bytes that are read.
struct Counted {
    file: File,
    reads: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

impl ReadAt for Counted {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.reads.fetch_add(1, Relaxed);
        self.bytes.fetch_add(buffer.len() as u64, Relaxed);
        FileExt::read_exact_at(&self.file, buffer, offset)
    }
}

/// Reads everything. Returns the number of reads and bytes.
fn cost_of_all(file: File) -> (u64, u64) {
    let (reads, bytes) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
    let length = file.metadata().unwrap().len();
    let counted = Counted { file, reads: Arc::clone(&reads), bytes: Arc::clone(&bytes) };
    read_all(&Region::over(Box::new(counted), 0, length).unwrap());
    (reads.load(Relaxed), bytes.load(Relaxed))
}

/// A sparse terabyte, and a full table of zeros: the cost is limited by the tables, not by the file.
#[test]
fn a_vast_sparse_file_costs_few_reads() {
    let region = Encoder::new(Shape::full(1 << 20));
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.write_all_at(&region.bytes[..0x1000], 0).unwrap();
    file.set_len(1 << 40).unwrap();
    file.write_all_at(&(1_u64 << 20).to_le_bytes(), 0x208).unwrap();
    let (_, bytes) = cost_of_all(file);
    assert!(bytes < 2 * region.bytes.len() as u64, "{bytes} bytes");
}

#[test]
fn a_ledger_that_is_never_complete_costs_few_reads() {
    let mut region = filled(Shape::small(), 20, 64);
    region.put64(0x200, u64::MAX);
    let (reads, _) = cost_of_all(file(&region.bytes));
    assert!(reads < 500, "{reads} reads, with a pause of 50 us for a few of them");
}

#[test]
fn random_bytes_after_a_valid_geometry_are_read() {
    let mut region = Encoder::new(Shape::full(1 << 14));
    let mut state = 0x1234_5678_9ABC_DEF0_u64;
    for offset in (0x080..region.bytes.len() as u64)
        .step_by(8)
        .filter(|offset| !(0x2A0..0x2F0).contains(offset) && !(0x338..0x348).contains(offset))
        .filter(|offset| !(0x350..0x380).contains(offset))
    {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        region.put64(offset, state);
    }
    read_all(&open(&region.bytes).unwrap());
    read_for_users(&open(&region.bytes).unwrap());
}

#[test]
fn entries_that_cannot_be_are_counted() {
    let mut region = filled(Shape::small(), 8, 64);
    let at = |slot| Encoder::at(region.entries, slot);
    let places = [at(0), at(1) + 0x28, at(2) + 0x2A, at(3) + 0x10, at(4)];
    region.put64(places[0], 1 << 8 | 3);
    region.put16(places[1], 31 * 8);
    region.put(places[2], &[5]);
    region.put64(places[3], 1 << 40);
    region.put64(places[4], 2);
    let listing = list(&open(&region.bytes).unwrap());
    assert_eq!((listing.bad_entries, listing.entries.len()), (5, 3));
    assert_eq!(listing.figures.ledger.exactness, Exactness::Changing, "the figures say eight");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_patched_ledger_is_read_or_refused(
        patches in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u64>(), 0..3_u64, Just(u64::MAX)]), 0..40),
        spare_geometry in any::<bool>(),
    ) {
        let mut region = filled(Shape::small(), 20, 64);
        let first = if spare_geometry { 0x200 } else { 0 };
        let words = region.bytes.len() / 8 - first / 8;
        for (place, value) in patches {
            region.put64((first + place.index(words) * 8) as u64, value);
        }
        if let Ok(read) = open(&region.bytes) {
            read_all(&read);
            read_for_users(&read);
        }
    }
}
