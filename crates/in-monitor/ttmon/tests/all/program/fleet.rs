//! `ttmon fleet` and `ttmon sd`: their output and their usage errors.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use serde_json::Value;
use ttmon_testing::{KilledOnDrop, Response, until};

use crate::program::run::ttmon;
use crate::{TTMON, command, start_service};

/// A running command that serves HTTP.
struct Serving {
    _process: KilledOnDrop,
    port: u16,
}

impl Serving {
    fn start(arguments: &[&str]) -> Self {
        let mut child = command(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().trim_end_matches("/sd").rsplit(':').next().and_then(|port| port.parse().ok());
        Self { _process: KilledOnDrop(child), port: port.unwrap_or_else(|| panic!("{line}")) }
    }

    fn get(&self, path: &str) -> String {
        Response::to(self.port, &format!("GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{}\r\n\r\n", self.port)).unwrap().body
    }
}

/// Starts a store that gives the same answer to every request.
fn store(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut peer in listener.incoming().map_while(Result::ok) {
            let mut line = String::new();
            let _ = BufReader::new(&peer).read_line(&mut line);
            let _ = write!(peer, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len());
        }
    });
    format!("http://{address}")
}

#[test]
fn lists_of_hosts_are_printed_and_served() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = directory.path().join("hosts");
    fs::write(&hosts, "tt[1-2] rack=r1\n").unwrap();
    let place = hosts.to_string_lossy().into_owned();
    let ran = ttmon(&format!("sd --from hosts --input {place}"));
    let list: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &list[1]["targets"][0], &list[1]["labels"]["rack"]), (0, &"tt2:9478".into(), &"r1".into()), "{}", ran.stderr);
    let serving = Serving::start(&["sd", "--from", "hosts", "--input", &place, "--listen", "127.0.0.1:0"]);
    assert!(serving.get("/sd").contains("tt1:9478") && serving.get("/").contains("no such path"));
    fs::write(&hosts, "tt[1-3]\n").unwrap();
    assert!(serving.get("/sd").contains("tt3:9478"));
    // If the file cannot be read, the last list is still served.
    fs::write(&hosts, "a b\n").unwrap();
    assert!(serving.get("/sd").contains("tt3:9478"));
    let ran = ttmon(&format!("sd --from hosts --input {place}"));
    assert!(ran.code == 1 && ran.stderr.contains("line 1"), "{}", ran.stderr);
    // A message repeats only the beginning of a long word.
    fs::write(&hosts, "[".repeat(1 << 20)).unwrap();
    let ran = ttmon(&format!("sd --from hosts --input {place}"));
    assert!(ran.code == 1 && ran.stderr.contains("line 1") && ran.stderr.len() < 16 << 10, "{} bytes", ran.stderr.len());
}

#[test]
fn a_store_in_the_environment_that_is_no_text_is_refused() {
    let outcome = |flag: &str, value: &str| {
        let output = command(&["fleet", flag, value]).env("TTMON_STORE", OsStr::from_bytes(b"http://\xff")).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, message) = outcome("--connect", "unix:/nowhere/api.sock");
    assert!(code == Some(2) && message.contains("TTMON_STORE is not text"), "{code:?}: {message}");
    let (code, message) = outcome("--store", "http://127.0.0.1:1");
    assert!(code == Some(1) && !message.contains("TTMON_STORE"), "the flag wins: {code:?}: {message}");
}

#[test]
fn wrong_flags_are_refused() {
    for (line, code, message) in [
        ("fleet", 2, "--store URL"),
        ("fleet find --chips 8", 2, "--store URL"),
        ("fleet --store prometheus:9090", 2, "http://HOST:PORT"),
        ("fleet find --store http://127.0.0.1:1 --chips 0", 2, "--chips"),
        ("fleet find --store http://127.0.0.1:1 --free-dram much", 2, "much"),
        ("--sim n150 fleet --store http://127.0.0.1:1", 2, "leave"),
        ("sd --from hosts", 2, "--input"),
        ("sd --from nothing", 2, "nothing"),
        ("fleet --store http://127.0.0.1:1", 1, "cannot be reached"),
        ("fleet find --store http://127.0.0.1:1", 1, "cannot be reached"),
    ] {
        let ran = ttmon(line);
        assert_eq!(ran.code, code, "{line}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stderr.contains(message), "{line}: {}", ran.stderr);
    }
}

#[test]
fn hosts_of_a_store_are_found() {
    let url = store(
        r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"instance":"tt-01","rack":"r1"},"value":[1,"8"]}]}}"#,
    );
    let ran = ttmon(&format!("fleet find --chips 8 --json --store {url}"));
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &document["hosts"][0]["host"], &document["reserved"]), (0, &"tt-01".into(), &false.into()), "{}", ran.stderr);
    let ran = ttmon(&format!("fleet --store {url}"));
    assert!(ran.code == 0 && ran.stdout.contains("tt-01") && ran.stdout.contains("r1"), "{}{}", ran.stdout, ran.stderr);
    let refused = store(r#"{"status":"error","error":"too many samples"}"#);
    let ran = ttmon(&format!("fleet find --store {refused}"));
    assert!(ran.code == 1 && ran.stderr.contains("too many samples"), "{}", ran.stderr);
}

/// Labels of a store are untrusted text. In a table each stays in one cell, and a terminal gets no control characters.
#[test]
fn hostile_labels_forge_no_lines() {
    let url = store(
        "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[\
         {\"metric\":{\"instance\":\"a\\u001b[2J\\u009b2J\\u202e\\nFORGED\\t9\",\
         \"rack\":\"r\\nFORGED\",\"pod\":\"p\\nFORGED\",\"chips\":\"many\"},\"value\":[1,\"8\"]}]}}",
    );
    let directory = tempfile::tempdir().unwrap();
    let hosts = directory.path().join("hosts");
    fs::write(&hosts, "a rack=\u{9b}2J\u{202e}\n").unwrap();
    for line in ["fleet --store", "fleet --json --store", "fleet find --store", "fleet find --json --store", "sd --from hosts --input"] {
        let place = if line.starts_with("sd") { hosts.to_str().unwrap() } else { &url };
        let ran = ttmon(&format!("{line} {place}"));
        assert_eq!(ran.code, 0, "{line}: {}", ran.stderr);
        let is_harmless = |character: char| matches!(character, '\n' | '\t') || !(character.is_control() || character == '\u{202e}');
        assert!(ran.stdout.chars().all(is_harmless), "{line}: {:?}", ran.stdout);
        assert!(!ran.stdout.lines().any(|line| line.starts_with("FORGED")), "{line}: {:?}", ran.stdout);
        if line.starts_with("fleet --json") {
            let document = ran.json();
            assert_eq!(document["hosts"][0]["host"], "a\u{1b}[2J\u{9b}2J\u{202e}\nFORGED\t9");
            assert_eq!(document["workloads"][0]["chips"], 8.0, "a label replaces no value");
        }
    }
}

#[test]
fn hosts_are_asked_themselves_when_the_store_is_down() {
    let service = start_service(&["--quiet", "--sim", "t3k,idle", "--listen", "off"]);
    let find = |more: &str| ttmon(&format!("fleet find {more} --store http://127.0.0.1:1 --connect unix:{}", service.api.display()));
    let mut ran = find("--chips 9");
    // The host has little time for its answer.
    until("answered by the host", || {
        ran = find("--chips 8 --board n300 --free-dram 10G --json");
        ran.code == 0
    });
    assert!(ran.stderr.contains("http://127.0.0.1:1 cannot be reached") && ran.stderr.contains("asking the hosts"), "{}", ran.stderr);
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &document["hosts"][0]["chips"], &document["store"]), (0, &8.into(), &Value::Null), "{}", ran.stderr);
    let ran = find("--chips 9");
    assert!(ran.code == 1 && ran.stderr.contains("no host has 9 idle chips"), "{}", ran.stderr);
    let ran = ttmon("fleet find --connect unix:/nowhere/api.sock");
    assert!(ran.code == 1 && ran.stderr.contains("/nowhere/api.sock"), "{}", ran.stderr);
}

/// The scripts of deploy/slurm fail if a chip of the job is hot, but not if a chip of another job is.
#[test]
fn slurm_scripts_examine_the_chips_of_the_job() {
    for (spec, chips, expected) in [
        ("n300x2,idle", "", 0),
        ("n300x2,idle,fault=hot:0", "", 1),
        ("n300x2,idle,fault=hot:0", "0", 1),
        ("n300x2,idle,fault=hot:0", "1", 0),
    ] {
        for name in ["prolog.sh", "epilog.sh"] {
            let mut script = Command::new("sh");
            script.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy/slurm/").to_owned() + name);
            script.env("TTMON", TTMON).env("TTMON_SIM", spec).env("SLURM_JOB_GPUS", chips);
            let output = script.stdin(Stdio::null()).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(
                (output.status.code(), text.contains("CRITICAL: device 0")),
                (Some(expected), expected == 1),
                "{name} {spec}: {text}"
            );
        }
    }
}
