//! Every field of docs/ledger.md, at the offset given there.

use ttmon_ledger::layout::Op;
use ttmon_model::ledger::{
    AtClose, BufferKind, Exactness, LedgerAllocator, LedgerChip, LedgerGeometry, LedgerSelfCheck, LedgerWriter, Marked, VisibleDevices,
};
use ttmon_model::units::UnixTime;
use ttmon_model::{Kind, PerKind};
use ttmon_testing::encoder::{Encoder, Entry, Shape, event_words, filled};

use super::{list, open};
use crate::Event;
use crate::entry::Entry as Read;

/// Unix time of a ledger time. The encoder's ledgers are created at 1,000 of their clock.
fn unix(time: u64) -> u64 {
    1_700_000_000_000_000_000 + time - 1_000
}

fn shapes() -> [Shape; 2] {
    [Shape::small(), Shape { longer: 24, ..Shape::small() }]
}

#[test]
fn the_full_layout_is_as_long_as_the_page_says() {
    let region = Encoder::new(Shape::full(1 << 20));
    assert_eq!(region.bytes.len(), 0x4FE_9000);
    assert_eq!(region.entries.offset, 0xFE_9000);
}

#[test]
fn the_identity_is_read() {
    let mut region = Encoder::new(Shape::small());
    region.put32(0x084, 3);
    region.put64(0x098, 77);
    region.put32(0x0A4, 815);
    region.put64(0x0C0, 999);
    region.put32(0x0C8, 1);
    region.put32(0x0CC, 1);
    region.text(0x130, b"0,3");
    let read = open(&region.bytes).unwrap();
    let identity = read.identity();
    assert_eq!((identity.pid, identity.start_ticks, identity.pid_namespace), (4711, 123_456, 4_026_531_836));
    assert_eq!((identity.machine, identity.writer), (77, LedgerWriter::Service));
    assert_eq!((identity.owner_pid, identity.owner_start_ticks), (815, 999));
    assert_eq!((identity.program.as_str(), identity.version.as_str()), ("python3", "0.1.0"));
    let ledger = read.figures().unwrap();
    assert_eq!((ledger.visible_devices, ledger.is_mock, ledger.writer), (VisibleDevices::Only("0,3".into()), true, LedgerWriter::Service));
    region.put32(0x0C8, 2);
    assert_eq!(open(&region.bytes).unwrap().figures().unwrap().visible_devices, VisibleDevices::Cut);
    assert_eq!(identity.created_unix_ns, unix(1_000));
}

#[test]
fn an_unknown_writer_and_a_broken_name_are_read() {
    let mut region = Encoder::new(Shape::small());
    region.put32(0x084, 9);
    region.text(0x0F0, &[0xFF; 64]);
    let read = open(&region.bytes).unwrap();
    let ledger = read.figures().unwrap();
    let writer = read.identity().writer;
    assert_eq!((writer, ledger.visible_devices, ledger.is_mock), (LedgerWriter::Unknown, VisibleDevices::All, false));
    assert_eq!(read.identity().program, "\u{FFFD}".repeat(64), "no NUL, no UTF-8");
}

#[test]
fn counters() {
    for shape in shapes() {
        let mut region = Encoder::new(shape);
        region.put64(0x200, 2 * 19);
        region.put64(0x220, 5);
        region.put64(0x230, 1 | 4);
        region.put64(0x238, 7_000);
        for reason in 0..8 {
            region.put64(0x240 + 8 * reason, 100 + reason);
        }
        let totals = open(&region.bytes).unwrap().figures().unwrap();
        assert_eq!((totals.exactness, totals.events), (Exactness::Exact, 19));
        assert_eq!((totals.is_exact, totals.last_time), (false, UnixTime(unix(7_000))));
        assert_eq!(totals.lost, [100, 101, 102, 103, 104, 105, 106, 107]);
        assert_eq!(totals.allocators, []);
    }
}

#[test]
fn an_allocator_is_read() {
    for shape in shapes() {
        let mut region = Encoder::new(shape);
        let at = Encoder::at(region.allocators, 2);
        region.put64(0x210, 4);
        region.put64(at, 9 << 8 | 3);
        region.put64(at + 0x08, 2_000);
        region.put64(at + 0x10, 3_000);
        region.put16(at + 0x18, 8);
        region.put16(at + 0x1A, 4);
        region.put32(at + 0x1C, 2);
        region.put32(at + 0x20, 31);
        region.put32(at + 0x24, 2);
        region.put32(at + 0x100, 6);
        region.put32(at + 0x104, 5);
        region.put64(at + 0x108, 0xABCD);
        region.put32(at + 0x110, u32::MAX);
        region.put64(Encoder::at(region.allocators, 3), 1 << 8 | 1);
        for (field, value) in [(0xB8, 1 | 4 | 8), (0xC0, 70), (0xC8, 2), (0xD0, 0x20_000)] {
            region.put64(at + field, value);
        }
        region.put32(at + 0x28 + 24, 64);
        let totals = open(&region.bytes).unwrap().figures().unwrap();
        let chips = vec![LedgerChip { metal_id: Some(6), unique_id: Some(0xABCD) }, LedgerChip { metal_id: None, unique_id: None }];
        let l1 = LedgerGeometry { banks: 64, bank_bytes: 0, base: 0 };
        let expected = LedgerAllocator {
            slot: 2,
            generation: 9,
            given_id: 31,
            origin: LedgerWriter::Hook,
            mesh: Some((8, 4)),
            chips,
            opened: UnixTime(unix(2_000)),
            closed: Some(UnixTime(unix(3_000))),
            geometry: PerKind::from_fn(|kind| (kind == Kind::L1).then_some(l1)),
            self_check: LedgerSelfCheck {
                is_inexact: true,
                is_restored: false,
                is_per_core: true,
                l1_lower_end: Some(0x20_000),
                checks: 70,
                differences: 2,
            },
            rows: vec![],
            buffers_left_out: 0,
        };
        assert_eq!(totals.allocators, [expected], "one that is being written is not there");
    }
}

#[test]
fn a_row_is_read() {
    for shape in shapes() {
        let mut region = Encoder::new(shape);
        region.open_allocator(1, 4);
        let (allocator, at) = (Encoder::at(region.allocators, 1), Encoder::at(region.rows, 12));
        region.put32(allocator + 0x28 + 4 * 24, 12);
        region.put32(allocator + 0x28 + 4 * 24 + 4, 64);
        region.put64(allocator + 0x28 + 4 * 24 + 8, 1 << 30);
        region.put64(allocator + 0x28 + 4 * 24 + 16, 0x500);
        for field in (0..32).filter(|field| *field != 8) {
            region.put64(at + 8 * field, 10_000 + field);
        }
        region.put64(at + 0x20, 4);
        region.put64(0x318, 10_031);
        // A row of the slot's former allocator.
        region.put64(Encoder::at(region.rows, 13) + 0x40, 7 << 8 | 2);
        let totals = open(&region.bytes).unwrap().figures().unwrap();
        let [row] = &totals.allocators[0].rows[..] else { panic!("one row in use: {totals:?}") };
        let geometry = LedgerGeometry { banks: 12, bank_bytes: 1 << 30, base: 0x500 };
        assert_eq!((totals.allocators[0].geometry_of(row.kind), row.capacity), (Some(geometry), Some(12 << 30)));
        assert_eq!((row.kind, row.used, row.allocated, row.count), (BufferKind::Of(Kind::Cb), 10_001, Some(10_002), 9_999));
        assert_eq!((row.peak, row.peak_time, row.peak_allocated), (10_009, UnixTime(unix(10_010)), 10_006));
        assert_eq!((row.allocations, row.refused), (10_003, 10_018));
        assert_eq!((row.unlisted_count, row.unlisted_bytes), (10_019, 10_020));
        let at_close = AtClose { last: (10_024, 10_023), time: UnixTime(unix(10_025)), all: (10_027, 10_026) };
        assert_eq!(row.at_close, Some(at_close));
        let record = list(&open(&region.bytes).unwrap()).figures.rows[12];
        assert_eq!((record.epoch, record.peak_span.event, record.unlisted_allocated), (10_000, 10_007, 10_021));
        assert_eq!(row.marked, Some(Marked { used: 10_028, allocated: 10_029, count: 10_030 }));
        // A mark at which this row was not in use.
        region.put64(0x318, 10_032);
        let totals = open(&region.bytes).unwrap().figures().unwrap();
        assert_eq!(totals.allocators[0].rows[0].marked, Some(Marked::default()));
        region.put64(0x318, 0);
        assert_eq!(open(&region.bytes).unwrap().figures().unwrap().allocators[0].rows[0].marked, None);
    }
}

#[test]
fn entries_are_read_with_their_tags() {
    for shape in shapes() {
        let mut region = filled(shape, 3, 4096);
        let at = Encoder::at(region.tags, 1);
        region.put(at, &[7]);
        region.text(at + 1, b"layer 7 and what is behind");
        region.put64(0x218, 2);
        let tagged = Entry { tag: 1, operation: 1, refs: 5, ..Entry::example(2, 0, 4096) };
        let untagged = Entry { tag: 2, operation: 77, ..Entry::example(3, 0, 4096) };
        region.entry(1, &tagged);
        region.entry(2, &untagged);
        let listing = list(&open(&region.bytes).unwrap());
        assert_eq!((listing.figures.ledger.exactness, listing.bad_entries), (Exactness::Exact, 0));
        assert_eq!([0, 1, 2].map(|id| listing.tags.get(id).map(|text| text.as_str())), [None, Some("layer 7"), None]);
        assert_eq!(listing.entries[1], read(1, &tagged));
        assert_eq!(listing.entries[2], Read { tag: 0, operation: 0, ..read(2, &untagged) }, "a tag that has no text");
        let [set] = &listing.peak_sets[..] else { panic!("one row: {:?}", listing.peak_sets) };
        assert_eq!((set.peak, set.live, set.gone.len(), set.is_whole()), (3 * 4096, (3, 3 * 4096), 0, true));
        assert_eq!(set.members(&listing.entries).count(), 3);
    }
}

#[test]
fn stacks_are_read() {
    for shape in shapes() {
        let mut region = filled(shape, 3, 4096);
        for (record, file, function) in [(0, "/home/me/model.py", "Decoder.forward"), (1, "/lib/ttnn/decorators.py", "__call__")] {
            let at = Encoder::at(region.codes, record);
            region.put32(at, 10 * (record + 1));
            region.put32(at + 4, record);
            region.text(at + 8, file.as_bytes());
            region.text(at + 0x180, function.as_bytes());
        }
        for (record, code, line) in [(0, 1, 21), (1, 0, 14), (2, 9, 1), (3, 0, 0)] {
            let at = Encoder::at(region.frames, record);
            region.put32(at, code);
            region.put32(at + 4, line);
        }
        // The second has an unknown function, and more frames than the table.
        region.put64(Encoder::at(region.stacks, 0), 2 << 32);
        region.put64(Encoder::at(region.stacks, 1), 2 | 60 << 32 | 1 << 48);
        for (at, count) in [(0x380, 2), (0x388, 4), (0x390, 2), (0x398, 7)] {
            region.put64(at, count);
        }
        for (slot, stack) in [(0, 1), (1, 3), (2, u32::MAX)] {
            region.entry(slot, &Entry { stack, ..Entry::example(u64::from(slot) + 1, 0, 4096) });
        }
        let ledger = open(&region.bytes).unwrap();
        let listing = list(&ledger);
        assert_eq!(listing.entries.iter().map(|entry| entry.stack).collect::<Vec<_>>(), [1, 0, u32::MAX], "3 is no stack");
        let lines = ledger.lines().unwrap();
        let frames = |number| lines.frames(number).iter().map(|frame| format!("{}:{}", frame.function, frame.line)).collect::<Vec<_>>();
        assert_eq!(frames(1), ["__call__:21", "Decoder.forward:14"]);
        assert_eq!(frames(2), ["Decoder.forward:0"]);
        assert!([0, 3, u32::MAX].into_iter().all(|number| frames(number).is_empty()));
        assert_eq!((&*lines.frames(1)[0].file, lines.len()), ("/lib/ttnn/decorators.py", 2));
    }
}

#[test]
fn free_and_dead_entries_are_not_live() {
    let mut region = filled(Shape::small(), 6, 100);
    region.put64(Encoder::at(region.entries, 0), 0);
    region.put64(Encoder::at(region.entries, 1), 1);
    let row = Encoder::at(region.rows, 0);
    region.put64(row, 4);
    region.put64(row + 0x08, 200);
    region.put64(row + 0x18, 2);
    // The peak was before the free-all. Two of its members are in the peak copies, one of them twice.
    region.put64(row + 0x38, 4);
    region.put64(row + 0x48, 400 + 70 + 8);
    region.put64(row + 0x60, 70);
    region.put64(row + 0x68, 2);
    region.put64(row + 0x70, 8);
    region.put64(row + 0x78, 1);
    for (place, event, peak_event) in [(0, 1, 4), (1, 2, 4), (2, 2, 4), (3, 1, 3)] {
        let at = Encoder::at(region.peak_copies, place);
        for (word, value) in Entry::example(event, 0, 100).words().into_iter().enumerate() {
            region.put64(at + 8 * word as u64, value);
        }
        region.put64(at + 0x38, peak_event);
    }
    let listing = list(&open(&region.bytes).unwrap());
    assert_eq!(listing.figures.ledger.exactness, Exactness::Exact);
    let events: Vec<u64> = listing.entries.iter().map(|entry| entry.event).collect();
    assert_eq!(events, [5, 6]);
    let [set] = &listing.peak_sets[..] else { panic!("one row") };
    let mut members: Vec<u64> = set.members(&listing.entries).map(|entry| entry.event).collect();
    members.sort_unstable();
    assert_eq!((members.as_slice(), set.live, set.unlisted, set.lost), (&[1, 2, 3, 4][..], (0, 0), (2, 70), (1, 8)));
    assert!(set.is_whole());
}

#[test]
fn events_are_read() {
    for shape in shapes() {
        let mut region = filled(shape, 10, 64);
        let entry = Entry { tag: 3, row: 9, operation: 2, stack: 5, ..Entry::example(11, 9, 64) };
        let at = region.events.offset + 11 * u64::from(region.events.stride);
        for (word, value) in event_words(3, 5, &entry).into_iter().enumerate() {
            region.put64(at + 8 * word as u64, value);
        }
        region.put64(0x200, 22);
        region.put64(0x218, 4);
        let recorded = open(&region.bytes).unwrap().events(9).unwrap();
        assert_eq!((recorded.overrun, recorded.next, recorded.events.len()), (0, 11, 2));
        let expected = Event {
            number: 11,
            time: unix(entry.time),
            op: Op::Ref,
            allocator: 1,
            kind: BufferKind::Of(Kind::L1),
            address: entry.address,
            size: 64,
            slot: 5,
            tag: 3,
            per_bank: 0,
            page: entry.page,
            refs: entry.per_bank,
            operation: 2,
            stack: 0,
        };
        assert_eq!(recorded.events[1], expected);
        assert_eq!((recorded.events[0].op, recorded.events[0].per_bank), (Op::Alloc, 11));
    }
}

#[test]
fn overwritten_events_are_counted() {
    // The ring has 256 records; there were 300 events.
    let region = filled(Shape { entries: 300, ..Shape::small() }, 300, 64);
    let reader = open(&region.bytes).unwrap();
    let all = reader.events(0).unwrap();
    // The writer may already be at event 301, which overwrites 45.
    assert_eq!((all.events[0].number, all.events.len(), all.overrun, all.next), (46, 255, 45, 300));
    let some = reader.events(290).unwrap();
    assert_eq!((some.events[0].number, some.events.len(), some.overrun), (291, 10, 0));
    assert_eq!(reader.events(300).unwrap().events, []);
    assert_eq!(reader.events(u64::MAX).unwrap().next, 300);
}

#[test]
fn events_of_recycled_rows_are_left_out() {
    let mut region = filled(Shape::small(), 20, 64);
    region.put64(0x288, 16);
    let recorded = open(&region.bytes).unwrap().events(0).unwrap();
    assert_eq!((recorded.events[0].number, recorded.overrun, recorded.next), (16, 15, 20));
}

#[test]
fn a_ledger_is_read_at_an_offset() {
    let region = filled(Shape::small(), 5, 64);
    let mut bytes = vec![0xEE; 8192];
    bytes.extend_from_slice(&region.bytes);
    let file = super::file(&bytes);
    let read = crate::Region::open_at(file, 8192, region.bytes.len() as u64).unwrap();
    assert_eq!(list(&read).entries.len(), 5);
}

fn read(slot: u32, entry: &Entry) -> Read {
    Read {
        slot,
        event: entry.event,
        allocator: entry.row / 8,
        kind: (entry.row % 8) as u8,
        address: entry.address,
        size: entry.size,
        time: unix(entry.time),
        per_bank: entry.per_bank,
        page: entry.page,
        layout: entry.layout,
        cores: entry.cores,
        flags: entry.flags,
        tag: entry.tag,
        refs: entry.refs,
        operation: entry.operation,
        stack: entry.stack,
    }
}
