//! Faults: history has a gap or a mark, never a wrong value, and /readyz reports them.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use ttmon_sim::{Machine, Spec};
use ttmon_testing::until;

use crate::start_service;

/// Writes a machine as files. A reset of its chip is simulated by the errors that the driver returns during a reset.
fn machine_in_files(spec: &str) -> TempDir {
    let directory = ttmon_testing::directory();
    let machine = Machine::new(&Spec::parse(spec).expect("a spec"), 1).expect("a machine");
    machine.write(directory.path(), 0, &vec![None; machine.process_count()]).expect("a tree");
    directory
}

#[test]
fn a_reset_is_a_gap_and_a_mark() {
    let root = machine_in_files("n150,idle");
    let faults = root.path().join(".ttmon-faults");
    let service = start_service(&["--root", root.path().to_str().expect("text"), "--interval", "0.2"]);
    let events = || service.with("/api/v1/events?after=0", "Accept: application/json\r\n").json();
    let has = |from: &str, to: &str| {
        let events = events();
        let events = events["events"].as_array().expect("a list").clone();
        events.iter().any(|event| event["event"] == "state" && event["from"] == from && event["to"] == to)
    };
    let latest = || {
        let history = service.get("/api/v1/history?since=60&fields=temperature").json();
        history["devices"][0]["fields"]["temperature"].as_array().map(|column| column.iter().rev().take(2).cloned().collect::<Vec<_>>())
    };
    let stand_in = machine_in_files("n150,idle,fault=reset:0");
    fs::copy(stand_in.path().join(".ttmon-faults"), &faults).expect("faults");
    service.until("in reset", || has("ok", "resetting"));
    // Compares two slots, because the newest one may still get a value.
    service.until("without a value", || latest() == Some(vec![Value::Null; 2]));
    fs::remove_file(&faults).expect("no more faults");
    service.until("back", || has("resetting", "ok"));
    let history = service.get("/api/v1/history?since=600&fields=temperature,power").json();
    let temperatures = history["devices"][0]["fields"]["temperature"].as_array().expect("a column");
    assert!(temperatures.iter().any(Value::is_null) && temperatures.iter().any(Value::is_number), "{temperatures:?}");
    assert!(temperatures.iter().filter_map(Value::as_f64).all(|degrees| (20.0..110.0).contains(&degrees)), "{temperatures:?}");
    assert!(history["marks"].as_array().is_some_and(|marks| marks.iter().any(|mark| mark["to"] == "resetting")));
}

#[test]
fn a_hung_source_is_reported_and_others_continue() {
    let root = machine_in_files("n300x2,idle");
    let service = start_service(&["--root", root.path().to_str().expect("text"), "--interval", "0.2", "--read-timeout", "200"]);
    let identities = || -> Vec<String> {
        let text = service.get("/metrics").body;
        text.lines().filter(|line| line.starts_with("ttmon_device_info{")).map(str::to_owned).collect()
    };
    let before = identities();
    let stand_in = machine_in_files("n300x2,idle,fault=hang:1");
    fs::copy(stand_in.path().join(".ttmon-faults"), root.path().join(".ttmon-faults")).expect("faults");
    let scrape = || service.get("/metrics").body;
    let has = |device: u32| scrape().contains(&format!("ttmon_device_temperature_celsius{{device=\"{device}\""));
    service.until("hanging", || !has(1));
    service.until("the other one", || has(0));
    service.until("reported", || service.get("/readyz").status == 503);
    assert!(service.get("/readyz").body.contains("device 1 has not answered"), "{}", service.get("/readyz").body);
    assert_eq!((identities(), service.get("/api/v1/devices").json()["devices"].as_array().map(Vec::len)), (before, Some(4)));
    let samples = |text: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with("ttmon_samples_total")).expect("a count");
        line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
    };
    let before = samples(&scrape());
    service.until("sampling on", || samples(&scrape()) > before + 3.0);
}

/// While a service is stopped, clients without a deadline hang. After it is resumed, the history has a gap.
#[test]
fn a_service_that_was_stopped_has_a_gap() {
    let service = start_service(&["--sim", "n150", "--interval", "0.5"]);
    service.until("seen", || service.get("/api/v1/history?fields=temperature").json()["points"].as_u64() > Some(0));
    service.signal(rustix::process::Signal::STOP);
    let stopped = Instant::now();
    until("several intervals without a sample", || stopped.elapsed() >= Duration::from_millis(2500));
    service.signal(rustix::process::Signal::CONT);
    service.until("a gap with values on both sides", || {
        let history = service.get("/api/v1/history?since=60&fields=temperature").json();
        let column = history["devices"][0]["fields"]["temperature"].as_array().expect("a column").clone();
        let gap = column.iter().position(Value::is_null);
        gap.is_some_and(|gap| column[..gap].iter().any(Value::is_number) && column[gap..].iter().any(Value::is_number))
    });
    let events = service.with("/api/v1/events?after=0", "Accept: application/json\r\n").json();
    assert!(events["events"].as_array().is_some_and(|events| events.iter().any(|event| event["event"] == "gap")), "{events}");
}

/// If the state directory is full, only new entries are refused. Everything else continues, and /readyz reports it.
#[test]
#[ignore = "needs root"]
fn a_full_state_directory_is_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("text").to_owned();
    let run = |program: &str, arguments: &[&str]| {
        assert!(std::process::Command::new(program).args(arguments).status().expect(program).success());
    };
    run("mount", &["-t", "tmpfs", "-o", "size=8m", "tmpfs", &path]);
    let service = start_service(&["--sim", "n150", "--state-dir", &format!("{path}/state"), "--interval", "0.2"]);
    let warning = format!("warning: {path}/state is full");
    assert!(!service.get("/readyz").body.contains(&warning));
    fs::write(directory.path().join("ballast"), vec![1; 7 << 20]).expect("ballast");
    let ready = service.get("/readyz");
    assert!(ready.status == 200 && ready.body.contains(&warning), "{}", ready.body);
    let points = || service.get("/api/v1/history?since=60&fields=temperature").json()["points"].as_u64();
    let before = points();
    service.until("going on", || points() > before);
    fs::remove_file(directory.path().join("ballast")).expect("room");
    assert!(!service.get("/readyz").body.contains(&warning));
    drop(service);
    run("umount", &[&path]);
}

/// CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE, in the format of /proc.
const KEPT: u64 = 1 << 2 | 1 << 19;
/// `KEPT` with CAP_CHECKPOINT_RESTORE.
const KEPT_BY_SCAN: u64 = KEPT | 1 << 40;

/// Requires that a process or thread with this status can only read.
fn assert_restricted(status: &str, kept: u64) {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    assert_eq!((field("Seccomp:"), field("NoNewPrivs:")), (Some("2"), Some("1")), "{status}");
    let bits = field("CapEff:").and_then(|bits| u64::from_str_radix(bits, 16).ok()).expect("a number");
    assert_eq!(bits & !kept, 0, "{status}");
}

#[test]
fn scanning_threads_have_only_the_right_to_read() {
    let service = start_service(&["--sim", "n150"]);
    let threads = || fs::read_dir(format!("/proc/{}/task", service.pid())).expect("threads").flatten();
    let status = |name: &str| {
        let mut all = threads().filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
        all.find(|status| status.starts_with(&format!("Name:\t{name}\n")))
    };
    let is_restricted = |name: &str| status(name).is_some_and(|status| status.contains("Seccomp:\t2\n"));
    service.until("a scan", || is_restricted("scan"));
    // The service reads ledgers of other users at the first request.
    let mut peer = std::os::unix::net::UnixStream::connect(service.path("alloc.sock")).expect("a connection");
    std::io::Write::write_all(&mut peer, b"\n").expect("a request");
    service.until("a sample for the socket", || is_restricted("alloc-sampler"));
    for name in ["scan", "alloc-sampler"] {
        assert_restricted(&status(name).expect("a thread"), KEPT_BY_SCAN);
    }
    assert!(status("http").is_some_and(|status| status.contains("Seccomp:\t0\n")), "only these");
}

#[test]
fn readers_have_only_the_right_to_read() {
    let service = start_service(&["--sim", "n150"]);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", service.pid())).expect("children");
    let statuses = children.split_whitespace().filter_map(|child| fs::read_to_string(format!("/proc/{child}/status")).ok());
    let readers: Vec<String> = statuses.filter(|status| status.starts_with("Name:\tttmon-reader\n")).collect();
    assert!(!readers.is_empty(), "{children}");
    for status in readers {
        assert_restricted(&status, KEPT);
    }
}
