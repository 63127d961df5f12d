//! Without the environment variables tracking is off, until a program starts it explicitly.

use ttmon_client::*;

#[test]
fn off_until_started() {
    for variable in ["TT_ALLOC_TRACKING_ENABLED", "TTMON_TRACKING"] {
        // SAFETY: the only test of this program, before anything else runs or reads the environment.
        unsafe { std::env::remove_var(variable) };
    }
    let has_ledger = || std::fs::read_to_string("/proc/self/maps").unwrap().contains("ttmon-ledger");
    assert_eq!(report_allocation(0, 1, TTMON_DRAM, 1), Outcome::Off);
    assert_eq!(report_allocation(-1, 1, TTMON_DRAM, 1), Outcome::Off);
    drop(tag("nothing"));
    assert!(!has_ledger());

    assert!(start(Options { machine: 0 }));
    assert_eq!(report_allocation(0, 1, TTMON_DRAM, 1), Outcome::Recorded);
    assert!(has_ledger());
    assert!(!start(Options { machine: 7 }));
}
