//! A ledger is written by a program, so its figures may be of any size.

use ttmon_buffer_history::{Checks, CommandEnd, LedgerSummary, RunSummary};
use ttmon_model::Kind;
use ttmon_model::ledger::{BufferKind, Ledger, LedgerAllocator, LedgerChip, LedgerRow, LedgerWriter, Marked, RowEnd};

const FIGURES: (u64, u64) = (u64::MAX, u64::MAX);

fn summary() -> LedgerSummary {
    let row = LedgerRow {
        count: u64::MAX,
        used: u64::MAX,
        allocated: Some(u64::MAX),
        allocations: u64::MAX,
        peak: u64::MAX,
        peak_allocated: u64::MAX,
        marked: Some(Marked { used: u64::MAX, ..Marked::default() }),
        end: Some(Box::new(RowEnd { leaked: FIGURES, cached: FIGURES, ..RowEnd::default() })),
        ..LedgerRow::empty(BufferKind::Of(Kind::Dram))
    };
    let chips = vec![LedgerChip { metal_id: Some(0), unique_id: None }];
    let allocator = LedgerAllocator { chips, rows: vec![row.clone(), row], ..LedgerAllocator::default() };
    let allocators = vec![allocator.clone(), allocator];
    LedgerSummary {
        pid: 1,
        program: String::new(),
        is_running: false,
        ledger: Ledger { events: u64::MAX, lost: [u64::MAX; 8], cost: FIGURES, allocators, ..Ledger::empty(LedgerWriter::Hook) },
        chips: Vec::new(),
        left: Vec::new(),
        refusals: Vec::new(),
        tightest: Vec::new(),
        phases: Vec::new(),
        unsafe_traces: Vec::new(),
        growth: None,
        missed: u64::MAX,
        host_rss: None,
    }
}

#[test]
fn sums_stay_at_the_largest_number() {
    let run = RunSummary::new(Vec::new(), CommandEnd::Exit(0), (0, 1), vec![summary(), summary()], None);
    let chip = run.chips.values().next().expect("a chip");
    assert_eq!((run.leaked(), chip.leaked, chip.cached, run.allocations()), (FIGURES, FIGURES, FIGURES, u64::MAX));
    let document = run.report("0", |_| None);
    assert_eq!((document["events"].as_u64(), document["missed_events"].as_u64()), (Some(u64::MAX), Some(u64::MAX)));
    assert!(Checks { leak: Some(0), ..Checks::default() }.failures(&run)[0].starts_with("--fail-on-leak: "));
}
