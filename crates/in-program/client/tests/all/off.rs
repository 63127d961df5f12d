//! Without the environment variables tracking is off, until a program starts it explicitly.

use std::process::Command;

use ttmon_client::*;
use ttmon_testing::is_alone;

#[test]
fn tracking_is_off_until_it_is_started() {
    let without_variables = |command: &mut Command| {
        command.env_remove("TT_ALLOC_TRACKING_ENABLED").env_remove("TTMON_TRACKING");
    };
    if !is_alone("off::tracking_is_off_until_it_is_started", without_variables) {
        return;
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
