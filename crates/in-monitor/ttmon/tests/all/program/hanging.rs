//! Reads that never return: the program still prints its output and ends.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::{Duration, Instant};

use ttmon_testing::KilledOnDrop;

use crate::program::run::{command, root, ttmon_at};
use crate::screen::start_ttmon;
use crate::start_service;

fn hang(root: &tempfile::TempDir, path: &str) {
    std::fs::write(root.path().join(".ttmon-faults"), format!("{path}\thang\n")).unwrap();
}

#[test]
fn one_field_of_one_device() {
    let root = root("t3k");
    hang(&root, "sys/class/tenstorrent/tenstorrent!1/tt_aiclk");
    let json = ttmon_at(root.path(), "--json --read-timeout 50").json();
    let devices = json["devices"].as_array().unwrap();
    assert_eq!(devices[1]["missing"]["aiclk_mhz"], "timeout");
    assert_eq!(devices[1]["state"], "ok");
    assert!(devices[1]["temperature"].is_number() && devices[1]["heartbeat"].is_number());
    assert!(devices[0]["aiclk_mhz"].is_number() && devices[2]["aiclk_mhz"].is_number());
    assert!(json["problems"].as_array().unwrap().iter().any(|problem| problem["reason"] == "timeout"), "{}", json["problems"]);
}

/// All reads hang. A reader of the output sees its end, and the parent gets the exit code, although the reading process cannot be waited
/// for.
#[test]
fn the_whole_machine() {
    let root = root("galaxy");
    let lines: String = (0..32).map(|id| format!("sys/class/tenstorrent/tenstorrent!{id}\thang\n")).collect();
    std::fs::write(root.path().join(".ttmon-faults"), lines).unwrap();
    let mut child = command("--json --read-timeout 50").arg("--root").arg(root.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    for device in json["devices"].as_array().unwrap() {
        assert_eq!((&device["state"], &device["missing"]["temperature"]), (&"unreadable".into(), &"timeout".into()));
    }
}

#[test]
fn the_list_of_users_and_a_process() {
    let root = root("n150");
    hang(&root, "proc/driver/tenstorrent/0/pids");
    let json = ttmon_at(root.path(), "--json --read-timeout 50").json();
    assert_eq!(json["devices"][0]["missing"]["memory.used"], "timeout");
    assert!(json["devices"][0]["temperature"].is_number());
    let waited = ttmon_at(root.path(), "wait --idle --read-timeout 50 --timeout 0.3");
    assert_eq!(waited.code, 4, "what cannot be read yet may be later: {}", waited.stderr);
}

/// With `-l`, a device that hangs costs its timeout only once. After that it is skipped.
#[test]
fn again_and_again() {
    let root = root("n150");
    hang(&root, "sys/class/tenstorrent/tenstorrent!0/tt_aiclk");
    let mut child = command("--json -lms 50 --read-timeout 50").arg("--root").arg(root.path()).stdout(Stdio::piped()).spawn().unwrap();
    let lines: Vec<String> = BufReader::new(child.stdout.take().unwrap()).lines().take(4).map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lines.iter().all(|line| line.contains("\"timeout\"")));
}

/// Hangs every file of a machine.
fn hang_all_files(root: &tempfile::TempDir) {
    let mut lines = String::new();
    let mut pending = vec![root.path().join("sys"), root.path().join("proc/driver")];
    while let Some(path) = pending.pop() {
        if path.is_symlink() {
            continue;
        }
        match std::fs::read_dir(&path) {
            Ok(entries) => pending.extend(entries.map(|entry| entry.unwrap().path())),
            Err(_) => lines += &format!("{}\thang\n", path.strip_prefix(root.path()).unwrap().display()),
        }
    }
    // The files of a device are read by these names.
    lines += &(0..4).map(|id| format!("sys/class/tenstorrent/tenstorrent!{id}\thang\n")).collect::<String>();
    std::fs::write(root.path().join(".ttmon-faults"), lines).unwrap();
}

/// Calls a function that starts a program and waits for its answer. A busy machine may need more than one try.
#[track_caller]
fn in_two_seconds(what: &str, mut answer: impl FnMut()) {
    let mut times = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        answer();
        times.push(started.elapsed());
        if times.last().is_some_and(|time| *time < Duration::from_secs(2)) {
            return;
        }
    }
    panic!("{what} takes {times:?}");
}

/// Every file of the driver and of the PCI bus hangs. The test of `ttmon-collect` does this with each file, link and directory alone.
#[test]
fn each_program_answers_in_two_seconds_while_all_files_hang() {
    let root = root("t3k");
    hang_all_files(&root);
    let place = root.path().to_str().unwrap();
    let is_answer = |document: &serde_json::Value| {
        let devices = document["devices"].as_array().unwrap();
        let local = devices.iter().filter(|device| device["location"] == "local");
        local.filter(|device| device["missing"]["temperature"] == "timeout").count() == 4
    };
    in_two_seconds("a snapshot", || assert!(is_answer(&ttmon_at(root.path(), "--json").json())));
    in_two_seconds("-l", || {
        let mut child = KilledOnDrop(command("--json -l 1").args(["--root", place]).stdout(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(is_answer(&serde_json::from_str(&line).unwrap()), "{line}");
    });
    in_two_seconds("serve", || {
        let service = start_service(&["--root", place]);
        assert!(is_answer(&service.json("/api/v1/snapshot")));
    });
    in_two_seconds("top", || {
        start_ttmon(120, 40, &format!("top --no-server --root {place}"), &[]).wait_for("UNREAD");
    });
}

/// The list of devices itself hangs.
#[test]
fn each_program_says_that_the_list_of_devices_hangs() {
    let root = root("n150");
    hang(&root, "sys/class/tenstorrent");
    let why = "sys/class/tenstorrent: timeout: the read did not come back in time";
    in_two_seconds("a snapshot", || {
        let result = ttmon_at(root.path(), "--json");
        assert_eq!((result.code, result.stdout.as_str(), result.stderr.contains(why)), (1, "", true), "{}", result.stderr);
    });
    in_two_seconds("top", || {
        let place = root.path().display();
        start_ttmon(200, 40, &format!("top --no-server --root {place}"), &[]).wait_for("sys/class/tenstorrent: timeout");
    });
}
