//! Data that only a hook writes: circular buffers, launches, coverage, failures, entries live at free-alls. From bytes written by hand.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use ttmon_model::Kind;
use ttmon_model::event::{Large, Refused};
use ttmon_model::ledger::{BufferKind, FeatureState, HookFeature, LedgerCircular, LedgerLaunches};
use ttmon_model::units::UnixTime;
use ttmon_testing::encoder::{Encoder, Entry, Shape, filled};

use super::{list, open};
use crate::{Lines, ReadAt, Region};

/// Unix time of a ledger time. The encoder's clock starts at 1,000.
fn unix(time: u64) -> u64 {
    1_700_000_000_000_000_000 + time - 1_000
}

fn shapes() -> [Shape; 2] {
    [Shape::small(), Shape { longer: 24, ..Shape::small() }]
}

fn circular(region: &mut Encoder, slot: u32, event: u64, cores: [u8; 4], allocator: u16, flags: u8) {
    let at = Encoder::at(region.circulars, slot);
    region.put32(at + 0x08, 0x1_9D60);
    region.put32(at + 0x0C, 4096);
    region.put32(at + 0x10, 77);
    region.put(at + 0x14, &cores);
    region.put16(at + 0x18, allocator);
    region.put(at + 0x1A, &[if slot == 0 { 0xFF } else { 3 }, flags]);
    region.put64(at, event << 8 | 2);
    let used = region.get64(0x290).max(u64::from(slot) + 1);
    region.put64(0x290, used);
}

#[test]
fn live_circular_buffers_are_read() {
    for shape in shapes() {
        let mut region = Encoder::new(shape);
        region.open_allocator(1, 4);
        region.put64(0x200, 40);
        region.put64(Encoder::at(region.rows, 12), 5);
        circular(&mut region, 0, 9, [0, 1, 7, 6], 1, 1);
        circular(&mut region, 1, 8, [2, 2, 2, 2], 1, 2);
        // Died with its allocator, unknown allocator, cores from right to left, too many cores, incomplete.
        circular(&mut region, 2, 5, [0, 0, 1, 1], 1, 0);
        circular(&mut region, 3, 9, [0, 0, 1, 1], 2, 0);
        circular(&mut region, 4, 11, [1, 0, 0, 0], 1, 0);
        circular(&mut region, 5, 12, [0, 0, 64, 0], 1, 0);
        circular(&mut region, 6, 13, [0, 0, 0, 0], 1, 0);
        region.put64(Encoder::at(region.circulars, 6), 13 << 8 | 1);
        let read = open(&region.bytes).unwrap();
        let found = read.figures_with_circulars().unwrap();
        assert_eq!((found.allocators[0].slot, found.has_circulars), (1, true));
        let first =
            LedgerCircular { allocator: 0, chip: None, program: 77, address: 0x1_9D60, size: 4096, cores: [0, 1, 7, 6], is_global: false };
        let second = LedgerCircular { chip: Some(3), cores: [2, 2, 2, 2], is_global: true, ..first };
        assert_eq!(found.circulars, [second, first]);
    }
}

#[test]
fn launches_and_coverage_are_read() {
    for shape in shapes() {
        let mut region = Encoder::new(shape);
        let at = Encoder::at(region.launches, 2);
        region.put32(at, 32);
        region.put64(at + 8, 1_000_000);
        region.put64(at + 16, 7_000);
        region.put64(Encoder::at(region.launches, 3), u64::MAX);
        region.put64(0x300, 4);
        let at = Encoder::at(region.coverage, 1);
        region.put64(at, 240);
        region.put64(at + 8, 5 << 8 | 2);
        region.text(at + 0x10, b"allocate_buffer");
        region.text(at + 0x38, b"layout not known");
        region.put64(Encoder::at(region.coverage, 2) + 8, 9);
        region.put64(0x2F8, 3);
        let totals = open(&region.bytes).unwrap().figures().unwrap();
        assert_eq!(totals.launches, [LedgerLaunches { metal_id: 31, programs: 1_000_000, last: UnixTime(unix(7_000)) }]);
        let expected = HookFeature {
            name: "allocate_buffer".into(),
            hits: 240,
            state: FeatureState::SteppedAside,
            reason: Some("layout not known".into()),
        };
        assert_eq!(totals.coverage, [expected]);
    }
}

/// Coverage that changes during the second copy, after the state of its record.
struct ChangingSource {
    bytes: Mutex<Vec<u8>>,
    afterwards: Vec<u8>,
    table: u64,
    copies: AtomicU32,
}

impl ReadAt for ChangingSource {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let (at, mut bytes) = (usize::try_from(offset).unwrap(), self.bytes.lock().unwrap());
        let is_second = offset == self.table && self.copies.fetch_add(1, SeqCst) == 1;
        let (state, rest) = buffer.split_at_mut(if is_second { 0x10 } else { buffer.len() });
        state.copy_from_slice(&bytes[at..at + state.len()]);
        if is_second {
            bytes.clone_from(&self.afterwards);
        }
        rest.copy_from_slice(&bytes[at + state.len()..at + state.len() + rest.len()]);
        Ok(())
    }
}

#[test]
fn coverage_that_changes_is_not_torn() {
    let cover = |changes: u64, state: u64, name: &[u8], reason: &[u8]| {
        let mut region = Encoder::new(Shape::small());
        let at = Encoder::at(region.coverage, 0);
        region.put64(at + 8, changes << 8 | state);
        region.text(at + 0x10, name);
        region.text(at + 0x38, reason);
        region.put64(0x2F8, 1);
        region
    };
    let (before, after) = (cover(1, 1, b"allocate_buffer", b""), cover(2, 2, b"allocate", b"layout not known"));
    let (table, length) = (before.coverage.offset, before.bytes.len() as u64);
    let midway = ChangingSource { bytes: Mutex::new(before.bytes), afterwards: after.bytes, table, copies: AtomicU32::new(0) };
    let totals = Region::over(Box::new(midway), 0, length).unwrap().figures().unwrap();
    let [feature] = &totals.coverage[..] else { panic!("one: {:?}", totals.coverage) };
    let reported = (feature.state, feature.name.as_str(), feature.reason.as_deref());
    let whole = [(FeatureState::Found, "allocate_buffer", None), (FeatureState::SteppedAside, "allocate", Some("layout not known"))];
    assert!(whole.contains(&reported), "{reported:?}");
}

#[test]
fn refusals_are_read_with_their_names() {
    for shape in shapes() {
        let mut region = Encoder::new(shape);
        region.put64(0x218, 2);
        let tag = Encoder::at(region.tags, 1);
        region.put(tag, &[7]);
        region.text(tag + 1, b"layer 7");
        let at = Encoder::at(region.failures, 1);
        region.put64(at + 0x08, 6_000);
        region.put64(at + 0x10, 12);
        region.put(at + 0x18, &[1, 3]);
        region.put16(at + 0x1A, 200);
        region.put32(at + 0x1C, 9);
        for (field, value) in [(0x20, 1 << 41), (0x28, 1 << 37), (0x38, 500), (0x40, 400), (0x50, 17)] {
            region.put64(at + field, value);
        }
        region.put32(at + 0x30, 12);
        region.put32(at + 0x34, 1);
        region.put32(at + 0x48, 1);
        region.put32(at + 0x4C, 5);
        region.put64(at + 0x60, 0x10_0040);
        region.put64(at + 0x68, 1 << 30);
        region.put32(at + 0x70, 96);
        region.put16(at + 0x74, 1);
        region.put16(at + 0x7C, 1);
        region.text(at + 0x180, b"Out of Memory");
        region.put64(at, 6);
        region.put64(0x2F0, 6);
        // A record that is no failure, and one that is being written.
        region.put64(Encoder::at(region.failures, 2), 7);
        region.put(Encoder::at(region.failures, 3) + 0x18, &[1, 0]);
        let refusals = open(&region.bytes).unwrap().refusals(&Lines::default()).unwrap();
        let [refused] = &refusals[..] else { panic!("one: {refusals:?}") };
        let refusal = &refused.refusal;
        assert_eq!((refused.time, refused.event, refusal.what), (UnixTime(unix(6_000)), 12, Refused::OutOfMemory));
        assert_eq!((refusal.kind, refused.slot, refused.generation), (BufferKind::Of(Kind::Trace), 200, 9));
        assert_eq!((refusal.size, refusal.per_bank, refusal.banks), (1 << 41, 1 << 37, 12));
        assert_eq!((refusal.free_per_bank, refusal.largest_free_per_bank), (500, 400));
        assert_eq!((refused.tag.as_deref(), refusal.operation.as_str()), (Some("layer 7"), ""));
        assert_eq!((refusal.message.as_str(), refusal.line.as_ref()), ("Out of Memory", None));
        let large = Large { address: 0x10_0040, size: 1 << 30, per_bank: 96, tag: "layer 7".into(), operation: String::new(), line: None };
        assert_eq!(refusal.largest, [large]);
    }
}

/// Entries 1 to 4 of six died with their row: 3 and 4 are in their slots, 1 to 3 in the table.
#[test]
fn left_ones_are_reported_once() {
    let mut region = filled(Shape::small(), 6, 100);
    region.put64(Encoder::at(region.entries, 0), 0);
    region.put64(Encoder::at(region.entries, 1), 0);
    let row = Encoder::at(region.rows, 0);
    region.put64(row, 4);
    region.put64(row + 0x08, 200);
    region.put64(row + 0x18, 2);
    region.put64(row + 0xD8, 5);
    region.put64(row + 0xD0, 450);
    for (place, event) in [(0, 1), (1, 2), (2, 3), (3, 3), (4, 6)] {
        let at = Encoder::at(region.left, place);
        for (word, value) in Entry::example(event, 0, 100).words().into_iter().enumerate() {
            region.put64(at + 8 * word as u64, value);
        }
    }
    region.put64(0x298, 5);
    let read = |region: &Encoder| {
        let listing = list(&open(&region.bytes).unwrap());
        let mut events: Vec<u64> = listing.left.iter().map(|entry| entry.event).collect();
        events.sort_unstable();
        (events, listing.figures.ledger.allocators[0].rows[0].at_close.unwrap().all)
    };
    assert_eq!(read(&region), (vec![1, 2, 3, 4], (5, 450)), "6 is live yet, and one there was no room for");
    // Entries from before the slot's allocator do not belong to it.
    region.put64(row + 0xB0, 2);
    assert_eq!(read(&region).0, [3, 4]);
    // Killed before the row had counted them.
    region.put64(row + 0xB0, 0);
    region.put64(row + 0xD8, 1);
    region.put64(row + 0xD0, 100);
    region.put64(0x200, 13);
    assert_eq!(read(&region), (vec![1, 2, 3, 4], (4, 400)));
}
