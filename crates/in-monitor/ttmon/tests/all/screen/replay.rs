//! Recordings are replayed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::screen::start_top;

fn record(path: &Path, more: &str) -> Output {
    crate::command(&["record"]).arg(path).args(more.split_ascii_whitespace()).output().unwrap()
}

/// Records a dozen frames of a simulated machine.
fn recording(directory: &Path) -> PathBuf {
    let path = directory.join("night");
    let output = record(&path, "--sim t3k --duration 1.1 -r 100");
    assert!(output.status.success(), "{output:?}");
    path
}

#[test]
fn a_recording_is_played_stepped_and_jumped_through() {
    let directory = tempfile::tempdir().unwrap();
    let path = recording(directory.path());
    let mut top = start_top(120, 40, &format!("--replay {}", path.display()));
    top.wait_for("[REPLAY]");
    top.wait_for("[SIMULATED]");
    top.wait_for("Processes (3)");
    // The recording plays to its end and pauses there.
    top.wait_for("PAUSED");
    let count = top.wait_for("frame").lines().find_map(|line| line.split("frame ").nth(1)?.split([' ', ';', ',']).next()?.parse().ok());
    let count: usize = count.unwrap();
    assert!(count >= 3, "{count}");
    top.expect(",", &format!("frame {} of {count}", count - 1));
    top.expect(".", &format!("frame {count} of {count}"));
    top.expect("{", &format!("frame 1 of {count}"));
    top.press("-");
    top.expect(" ", "x1/2");
    top.wait_for("PAUSED");
    top.expect("2", "Device 0 n300 L");
    // The recording has memory and events too.
    top.expect("4", "Memory of device 0");
    top.wait("buffers and a map", |text| {
        let has_map = text.lines().any(|line| line.contains(" dram ") && line.contains("███") && line.contains("frag"));
        has_map && text.contains("activations") && text.contains("CBs by core")
    });
    // The last events before the recording began were on the program's second chip.
    top.expect("]]]]", "Memory of device 4");
    top.wait("events", |text| !text.contains("nothing was recorded"));
    top.expect("1", "Processes (3)");
    top.expect("K", "they get no signals");
    top.press("q");
    let (status, after) = top.end();
    assert!(status.success());
    after.assert_restored();
}

#[test]
fn some_devices_of_a_recording() {
    let directory = tempfile::tempdir().unwrap();
    let path = recording(directory.path());
    let mut top = start_top(120, 40, &format!("--replay {} -d 0,2", path.display()));
    top.wait_for("2 devices");
    top.expect("\r", "VARIABLES");
    top.wait_for("variables of processes are not recorded");
    let (status, after) = start_top(120, 40, &format!("--replay {} -d 77", path.display())).end();
    assert_eq!(status.exit_code(), 3, "{after:?}");
    assert!(after.text.contains("no device 77 (available: 0-7)"), "{after:?}");
    after.assert_restored();
}

#[test]
fn utilization_is_recorded_with_deep() {
    let directory = tempfile::tempdir().unwrap();
    for (flag, is_deep) in [("--deep", true), ("", false)] {
        let path = directory.path().join(format!("recording{flag}"));
        assert!(record(&path, &format!("--sim p150,procs=1 --seed 3 --duration 2 -r 600 {flag}")).status.success());
        let top = start_top(120, 40, &format!("--replay {}", path.display()));
        // The replay stops at the last frame. Utilization needs two samples.
        let text = top.wait_for("PAUSED");
        let heading = text.lines().position(|line| line.contains("p150a")).unwrap_or_else(|| panic!("{text}"));
        let row = text.lines().nth(heading + 1).unwrap();
        // With utilization there are three percentages, otherwise only those of DRAM and L1.
        let shares = if is_deep { 3 } else { 2 };
        assert_eq!((text.contains("[DEEP]"), text.contains("UTIL"), row.matches('%').count()), (is_deep, is_deep, shares), "{text}");
    }
}

#[test]
fn a_truncated_end_is_reported_and_the_rest_is_shown() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("long");
    assert!(record(&path, "--sim n150 --duration 6 -r 50").status.success());
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    let top = start_top(120, 40, &format!("--replay {}", path.display()));
    top.wait_for("its end was cut off");
    top.wait_for("Processes (");
}

#[test]
fn unplayable_recordings_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text");
    fs::write(&path, "this is no recording, although it is long enough to be one").unwrap();
    let (status, after) = start_top(120, 40, &format!("--replay {}", path.display())).end();
    assert_eq!(status.exit_code(), 1);
    assert!(after.text.contains("it is not a recording of ttmon"), "{after:?}");
    let output = record(&path, "--sim n150 --duration 0");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && text.contains("exists and was left alone; replace it with --force"), "{text}");
    assert!(record(&path, "--sim n150 --duration 0 --force").status.success());
    for (place, words) in [(directory.path(), "is a directory; name a file in it"), (Path::new("-"), "record writes a file")] {
        for force in ["", " --force"] {
            let output = record(place, &format!("--sim n150 --duration 0{force}"));
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success() && text.contains(words), "{text}");
        }
    }
    let full = record(Path::new("/dev/full"), "--sim n150 --duration 0 --force");
    let text = String::from_utf8(full.stderr).unwrap();
    assert!(full.status.code() == Some(1) && text.contains("cannot write /dev/full"), "{text}");
}
