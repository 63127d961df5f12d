//! The buffers whose release would have made room for a refused request, from a real ledger.

use std::fs::File;

use ttmon_buffer_history::History;
use ttmon_buffer_history::LedgerSummary;
use ttmon_ledger::layout::{Refused, WriterKind, kind};
use ttmon_ledger::writer::{
    AllocatorId, AllocatorSpec, Buffer, Chip, ClockChoice, Config, Failure, Frame, Key, KindGeometry, Session, Writer,
};
use ttmon_ledger_reader::Region;

const BASE: u64 = 0x100;
const BANK: u64 = 1000;

fn writer() -> (Writer, AllocatorId) {
    let config = Config { kind: WriterKind::Hook, version: "1", clock: ClockChoice::Auto, machine: 7, on_created: None };
    let writer = Writer::beside_others(config, 1024);
    let mut kinds = [KindGeometry::default(); 6];
    kinds[0] = KindGeometry { banks: 12, alignment: 1, bank_bytes: BANK, base: BASE };
    let chips = [Chip { metal_id: 0, unique_id: 0, flags: 0 }];
    let spec = AllocatorSpec { given_id: 0, origin: 2, mesh: (1, 1), kinds, chips: &chips };
    let id = writer.session().expect("session").open_allocator(&spec).expect("room");
    (writer, id)
}

fn put(session: &mut Session<'_>, allocator: AllocatorId, start: u64, per_bank: u32, line: u32) {
    let code = session.code("/me/model.py", "forward", 1).expect("room");
    let stack = session.add_stack(line.into(), &[Frame { code, line }], false);
    let buffer = Buffer { size: u64::from(per_bank) * 12, per_bank, stack, ..Buffer::default() };
    session.insert(Key { allocator, kind: kind::DRAM, address: BASE + start }, &buffer).expect("room");
}

fn refuse(session: &mut Session<'_>, allocator: AllocatorId, per_bank: u64, free: u64, largest: u64) {
    session.failed(&Failure {
        what: Refused::OutOfMemory,
        allocator,
        kind: kind::DRAM,
        size: per_bank * 12,
        per_bank,
        banks: 12,
        free_per_bank: free,
        largest_free_per_bank: largest,
        tag: 0,
        operation: 0,
        stack: 0,
        message: "",
    });
}

fn summary(writer: &Writer) -> LedgerSummary {
    let file = File::open(format!("/proc/self/fd/{}", writer.descriptor().expect("a ledger"))).expect("open");
    LedgerSummary::read(&Region::open(file).expect("a ledger"), History::default(), None, false, 10).expect("read")
}

/// The live buffers are those at the refusal, independent of later frees, closes and allocations.
#[test]
fn the_cheapest_window_is_that_of_the_refusal() {
    for is_closed in [false, true] {
        let (writer, id) = writer();
        let mut session = writer.session().expect("session");
        for (start, per_bank, line) in [(100, 200, 5), (400, 50, 6), (600, 300, 5)] {
            put(&mut session, id, start, per_bank, line);
        }
        refuse(&mut session, id, 280, 450, 150);
        // Afterwards, the buffer in the way is freed, another is allocated at its address and freed, and a third stays live.
        session.remove(Key { allocator: id, kind: kind::DRAM, address: BASE + 400 }).expect("live");
        put(&mut session, id, 400, 70, 7);
        session.remove(Key { allocator: id, kind: kind::DRAM, address: BASE + 400 }).expect("live");
        put(&mut session, id, 300, 20, 8);
        if is_closed {
            session.free_all(id);
        }
        drop(session);
        let summary = summary(&writer);
        let [refused] = summary.refusals.as_slice() else { panic!("one: {:?}", summary.refusals) };
        let window = refused.refusal.window.as_ref().expect("known");
        assert_eq!((refused.refusal.bank_bytes, window.start, window.bytes), (BANK, 300, 50), "closed: {is_closed}");
        let lines: Vec<_> = window.lines.iter().map(|line| (line.line.as_ref().map(|line| line.line), line.count)).collect();
        assert_eq!(lines, [(Some(6), 1)]);
    }
}

#[test]
fn inconsistent_figures_are_not_reported() {
    let (writer, id) = writer();
    let mut session = writer.session().expect("session");
    put(&mut session, id, 0, 200, 5);
    // The allocator itself reports fewer free bytes.
    refuse(&mut session, id, 900, 700, 700);
    drop(session);
    assert_eq!(summary(&writer).refusals[0].refusal.window, None);

    // The ring of the recorder has been overwritten since the refusal.
    let (writer, id) = self::writer();
    let mut session = writer.session().expect("session");
    put(&mut session, id, 0, 200, 5);
    refuse(&mut session, id, 900, 800, 800);
    for _ in 0..40_000 {
        put(&mut session, id, 500, 10, 5);
        session.remove(Key { allocator: id, kind: kind::DRAM, address: BASE + 500 }).expect("live");
    }
    drop(session);
    let refusal = &summary(&writer).refusals[0].refusal;
    assert_eq!((&refusal.window, refusal.is_overrun), (&None, true));
    assert!(refusal.words("device 0").ends_with("; what was live then is not known (ring overrun)"));
}
