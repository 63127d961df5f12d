//! If no ledger can be created, tracking is off. A ledger that is created later records the lost reports.

use std::fs;
use std::process::Command;

use ttmon_client::*;
use ttmon_testing::is_alone;

/// Lowers the limit below the open descriptors, so that the next one is refused.
fn limit_descriptors(limit: libc::rlim_t) {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a local struct, which the kernel fills and then reads.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut now), 0);
        now.rlim_cur = limit.min(now.rlim_max);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const now), 0);
    }
}

#[test]
fn no_descriptor_is_off_and_not_an_error() {
    let tracked = |command: &mut Command| {
        command.env("TTMON_TRACKING", "1");
    };
    if !is_alone("no_ledger::no_descriptor_is_off_and_not_an_error", tracked) {
        return;
    }
    limit_descriptors(3);
    let refused = (1..=3).map(|id| report_allocation(0, 64, TTMON_DRAM, id)).collect::<Vec<_>>();
    let tagged = tag("layer 1");
    limit_descriptors(1024);
    assert_eq!(refused, [Outcome::Off; 3]);
    drop(tagged);
    assert!(!fs::read_to_string("/proc/self/maps").unwrap().contains("ttmon-ledger"));

    // The start is attempted again at every 2^k-th report.
    let tries = (4..100).take_while(|id| report_allocation(0, 64, TTMON_DRAM, *id) == Outcome::Off).count();
    assert!(tries < 90, "never started");
    assert!(fs::read_to_string("/proc/self/maps").unwrap().contains("ttmon-ledger"));
    assert_eq!(report_allocation(0, 1 << 40, TTMON_DRAM, 1), Outcome::BadArgument);
}
