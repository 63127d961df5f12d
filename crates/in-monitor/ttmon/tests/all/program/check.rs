//! `ttmon check`: the line, its performance data and the exit codes of monitoring plugins.

use crate::program::run::{root, ttmon, ttmon_at};

/// Checks the exit code and the beginning of the line.
fn answers(arguments: &str, code: i32, line: &str) {
    let ran = ttmon(arguments);
    assert_eq!(ran.code, code, "{arguments}: {}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.starts_with(line), "{arguments}: {}", ran.stdout);
    assert_eq!(ran.stdout.lines().count(), 1, "{arguments}: {}", ran.stdout);
}

#[test]
fn healthy_machines_pass() {
    answers("--sim t3k check", 0, "TTMON OK: 8 devices | temperature_0=");
    answers("--sim n150 check --healthy --max-temp 70 --count 1 --no-stale", 0, "TTMON OK: 1 device | ");
    answers("--sim t3k check --count 8", 0, "TTMON OK");
    answers("--sim t3k check --min-free-dram 100M 3", 0, "TTMON OK: 1 device");
    answers("--sim t3k check --idle 3", 0, "TTMON OK");
}

#[test]
fn unhealthy_devices_are_critical() {
    answers("--sim n150,fault=hot:0 check", 2, "TTMON CRITICAL: device 0: temperature 7");
    answers("--sim t3k,fault=gone:2 check", 2, "TTMON CRITICAL: device 2: unplugged");
    answers("--sim t3k,fault=gone:2 check --count 8", 2, "TTMON CRITICAL: 6 of 8 devices can be read");
    answers("--sim t3k check --idle", 2, "TTMON CRITICAL: device 0: held by 1 process");
    answers("--sim n150 check --max-temp 30", 2, "TTMON CRITICAL: device 0: ");
    answers("--sim n150 check --min-free-dram 11.9G", 2, "TTMON CRITICAL: device 0: ");
}

#[test]
fn memory_that_nobody_reports_is_not_free() {
    answers("--sim t3k check --min-free-dram 100M -d 2", 3, "TTMON UNKNOWN: device 2: free DRAM unknown");
}

#[test]
fn usage_errors_and_missing_devices_are_unknown() {
    answers("--sim t3k check -d 99", 3, "TTMON UNKNOWN: no device 99 (available: 0-7)");
    answers("--sim t3k check --min-free-dram much", 3, "TTMON UNKNOWN: ");
    answers("--sim t3k check --max-temp nan", 3, "TTMON UNKNOWN: ");
    assert_eq!(ttmon("--sim t3k check --nonsense").code, 3);
    assert_eq!(ttmon_at(tempfile::tempdir().unwrap().path(), "check").code, 3);
    let denied = root("n150");
    std::fs::write(denied.path().join(".ttmon-faults"), "sys/class/tenstorrent\tEACCES\n").unwrap();
    assert_eq!(ttmon_at(denied.path(), "check").code, 3);
}

#[test]
fn the_document_has_the_same_verdict() {
    let ran = ttmon("--sim t3k check --max-temp 30 --json");
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &document["exit_code"], &document["status"]), (2, &2.into(), &"CRITICAL".into()));
    assert_eq!(document["findings"][0]["check"], "max-temp");
}
