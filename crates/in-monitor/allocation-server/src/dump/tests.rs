use ttmon_ledger::layout::kind;
use ttmon_ledger_reader::{LedgerDetail, Lines, Region};
use ttmon_model::Kind;

use super::*;
use crate::limits::DUMP_BUFFERS_MAX;
use crate::owner::{Budget, ProcessView, Reported, Tracked};
use crate::peer;
use crate::store::Store;
use crate::store::tests::in_memory;

fn content(buffers: u64) -> Ledger {
    let directory = in_memory();
    let store = Store::open(&directory.path().join("state"), 0, "0.0.0").expect("in memory");
    let held = peer::held(std::process::id()).expect("descriptors").expect("alive");
    let mut budget = Budget::new(0);
    let mut tracked = Tracked::new(store.create(&held, &ProcessView::UNKNOWN).expect("room"), held.uid(), &mut budget);
    for address in 1..=buffers {
        let reported = Reported { device: 0, kind: kind::DRAM, address, size: 1024, flags: 0, tag: 0 };
        tracked.allocate(&reported, &mut budget).expect("room");
    }
    let region = Region::open(tracked.hosted.file().try_clone().expect("descriptor")).expect("a ledger");
    region.ledger(|_| LedgerDetail::Buffers, Lines::default, &mut |_, _| true).expect("readable").expect("no limit")
}

#[test]
fn unreadable_ledgers_are_no_perfect_cleanup() {
    let mut dump = Dump::new(Viewer::Whole);
    assert!(dump.text(About::Buffers, 0).contains("perfect cleanup"));
    dump.add_unreadable(7);
    for about in About::ALL {
        let text = dump.text(about, 0);
        assert!(text.starts_with("⚠ [PID 7] its ledger could not be read") && !text.contains("perfect cleanup"), "{text}");
    }
}

#[test]
fn users_see_their_own_buffers_and_totals_of_others() {
    let of = |viewer| {
        let mut dump = Dump::new(viewer);
        dump.add(7, 1000, &content(2), |_, _| false);
        dump.add(8, 1001, &content(3), |_, _| false);
        dump.text(About::Everything, 0)
    };
    let own = of(Viewer::User(1000));
    assert!(own.contains("  DRAM: 5 buffers, 0.00488281 MB total\n"), "{own}");
    assert!(own.contains("Buffer 0x2: 1 KB (PID 7, ref_count=1)\n    - 3 of other users: 3 KB\n") && !own.contains("PID 8"), "{own}");
    let whole = of(Viewer::Whole);
    assert!(whole.contains("Buffer 0x3: 1 KB (PID 8") && !whole.contains("other users"), "{whole}");
}

#[test]
fn lists_are_cut_with_a_count() {
    let mut dump = Dump::new(Viewer::Whole);
    dump.add(7, 0, &content(DUMP_BUFFERS_MAX as u64 + 5), |_, _| false);
    let text = dump.text(About::Buffers, 0);
    assert!(text.contains("Buffer 0xa:") && !text.contains("Buffer 0xb:") && text.contains("    ... and 5 more\n"), "{text}");
}

#[test]
fn a_process_with_a_ledger_of_its_own_is_listed_once() {
    let mut dump = Dump::new(Viewer::Whole);
    dump.add(7, 0, &content(2), |device, kind| device == 0 && kind == BufferKind::Of(Kind::Dram));
    assert!(dump.text(About::Buffers, 0).contains("perfect cleanup"));
}
