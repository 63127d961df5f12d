//! Growth since the last mark by line, for ledgers that are read at the end.

use std::fs::File;

use ttmon_buffer_history::History;
use ttmon_buffer_history::LedgerSummary;
use ttmon_ledger::layout::{WriterKind, kind};
use ttmon_ledger::writer::{AllocatorId, AllocatorSpec, Buffer, Chip, ClockChoice, Config, Frame, Key, KindGeometry, Session, Writer};
use ttmon_ledger_reader::Region;

fn put(session: &mut Session<'_>, allocator: AllocatorId, address: u64, size: u64, line: u32) {
    let code = session.code("/me/model.py", "forward", 1).expect("room");
    let stack = session.add_stack(line.into(), &[Frame { code, line }], false);
    session.insert(Key { allocator, kind: kind::DRAM, address }, &Buffer { size, stack, ..Buffer::default() }).expect("room");
}

fn growth(is_closed: bool) -> Option<Vec<(u32, i64)>> {
    let config = Config { kind: WriterKind::Hook, version: "1", clock: ClockChoice::Auto, machine: 7, on_created: None };
    let writer = Writer::beside_others(config, 1024);
    let chips = [Chip { metal_id: 0, unique_id: 0, flags: 0 }];
    let spec = AllocatorSpec { given_id: 0, origin: 2, mesh: (1, 1), kinds: [KindGeometry::default(); 6], chips: &chips };
    let mut session = writer.session().expect("session");
    let id = session.open_allocator(&spec).expect("room");
    put(&mut session, id, 1, 100, 5);
    put(&mut session, id, 2, 50, 6);
    session.mark();
    // This free-all frees buffers. Only the last one before a close is the end.
    put(&mut session, id, 3, 1000, 9);
    session.free_all(id);
    put(&mut session, id, 4, 300, 7);
    put(&mut session, id, 5, 30, 8);
    session.remove(Key { allocator: id, kind: kind::DRAM, address: 5 }).expect("live");
    if is_closed {
        session.close_allocator(id);
    }
    drop(session);
    let file = File::open(format!("/proc/self/fd/{}", writer.descriptor().expect("a ledger"))).expect("open");
    let summary = LedgerSummary::read(&Region::open(file).expect("a ledger"), History::default(), None, false, 10).expect("read");
    let lines = summary.growth?.into_iter().map(|(line, bytes)| (line.map_or(0, |line| line.line), bytes));
    Some(lines.collect())
}

#[test]
fn growth_by_line_is_that_before_the_close() {
    for is_closed in [false, true] {
        assert_eq!(growth(is_closed), Some(vec![(7, 300), (6, -50), (5, -100)]), "closed: {is_closed}");
    }
}
