//! Reads that never return: the program still prints its output and ends.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::program::run::{command, root, ttmon_at};

const LONG: Duration = Duration::from_secs(10);

fn hang(root: &tempfile::TempDir, path: &str) {
    std::fs::write(root.path().join(".ttmon-faults"), format!("{path}\thang\n")).unwrap();
}

#[test]
fn one_field_of_one_device() {
    let root = root("t3k");
    hang(&root, "sys/class/tenstorrent/tenstorrent!1/tt_aiclk");
    let started = Instant::now();
    let json = ttmon_at(root.path(), "--json --read-timeout 50").json();
    assert!(started.elapsed() < LONG);
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
    hang(&root, "sys/class/tenstorrent");
    let started = Instant::now();
    let mut child = command("--json --read-timeout 50").arg("--root").arg(root.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(started.elapsed() < LONG);
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
    let lines: Vec<String> =
        std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap())).take(4).map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lines.iter().all(|line| line.contains("\"timeout\"")));
}
