//! The buffers whose release would have made room for a refused request, from a real ledger.

use ttmon_buffer_history::{History, LedgerSummary};
use ttmon_ledger_reader::Region;

use crate::ledger::{self, BANK, dram, put, refuse, writer};

fn summary(region: &Region) -> LedgerSummary {
    LedgerSummary::read(region, History::default(), None, false, 10).expect("read")
}

/// The live buffers are those at the refusal, independent of later frees, closes and allocations.
#[test]
fn the_cheapest_window_is_that_of_the_refusal() {
    for is_closed in [false, true] {
        let (writer, id, region) = writer();
        let mut session = writer.session().expect("session");
        for (start, per_bank, line) in [(100, 200, 5), (400, 50, 6), (600, 300, 5)] {
            put(&mut session, id, start, per_bank, line);
        }
        session.failed(&refuse(id, 280, 450, 150));
        // Afterwards, the buffer in the way is freed, another is allocated at its address and freed, and a third stays live.
        session.remove(dram(id, 400)).expect("live");
        put(&mut session, id, 400, 70, 7);
        session.remove(dram(id, 400)).expect("live");
        put(&mut session, id, 300, 20, 8);
        if is_closed {
            session.free_all(id);
        }
        drop(session);
        let summary = summary(&region);
        let [refused] = summary.refusals.as_slice() else { panic!("one: {:?}", summary.refusals) };
        let window = refused.refusal.window.as_ref().expect("known");
        assert_eq!((refused.refusal.bank_bytes, window.start, window.bytes), (BANK, 300, 50), "closed: {is_closed}");
        let lines: Vec<_> = window.lines.iter().map(|line| (line.line.as_ref().map(|line| line.line), line.count)).collect();
        assert_eq!(lines, [(Some(6), 1)]);
    }
}

#[test]
fn inconsistent_figures_are_not_reported() {
    let (writer, id, region) = writer();
    let mut session = writer.session().expect("session");
    put(&mut session, id, 0, 200, 5);
    // The allocator itself reports fewer free bytes.
    session.failed(&refuse(id, 900, 700, 700));
    drop(session);
    assert_eq!(summary(&region).refusals[0].refusal.window, None);

    // The ring of the recorder has been overwritten since the refusal.
    let (writer, id, region) = ledger::writer();
    let mut session = writer.session().expect("session");
    put(&mut session, id, 0, 200, 5);
    session.failed(&refuse(id, 900, 800, 800));
    for _ in 0..40_000 {
        put(&mut session, id, 500, 10, 5);
        session.remove(dram(id, 500)).expect("live");
    }
    drop(session);
    let refusal = &summary(&region).refusals[0].refusal;
    assert_eq!((&refusal.window, refusal.is_overrun), (&None, true));
    assert!(refusal.words("device 0").ends_with("; what was live then is not known (ring overrun)"));
}
