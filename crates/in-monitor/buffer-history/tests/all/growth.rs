//! Growth since the last mark by line, for ledgers that are read at the end.

use ttmon_buffer_history::{History, LedgerSummary};

use crate::ledger::{dram, put, writer};

fn growth(is_closed: bool) -> Option<Vec<(u32, i64)>> {
    let (writer, id, region) = writer();
    let mut session = writer.session().expect("session");
    put(&mut session, id, 1, 100, 5);
    put(&mut session, id, 2, 50, 6);
    session.mark();
    // This free-all frees buffers. Only the last one before a close is the end.
    put(&mut session, id, 3, 1000, 9);
    session.free_all(id);
    put(&mut session, id, 4, 300, 7);
    put(&mut session, id, 5, 30, 8);
    session.remove(dram(id, 5)).expect("live");
    if is_closed {
        session.close_allocator(id);
    }
    drop(session);
    let summary = LedgerSummary::read(&region, History::default(), None, false, 10).expect("read");
    let lines = summary.growth?.into_iter().map(|(line, bytes)| (line.map_or(0, |line| line.line), bytes));
    Some(lines.collect())
}

#[test]
fn growth_by_line_is_that_before_the_close() {
    for is_closed in [false, true] {
        assert_eq!(growth(is_closed), Some(vec![(7, 12 * 300), (6, -12 * 50), (5, -12 * 100)]), "closed: {is_closed}");
    }
}
