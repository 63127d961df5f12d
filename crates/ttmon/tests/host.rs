//! `ttmon serve` as others meet it: over its sockets, on simulated machines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use ttmon_sim::{Machine, Spec};

const TOKEN: &str = "a-token-of-the-tests-0123456789";
/// For what must come sooner or later, on a machine under any load.
const PATIENCE: Duration = Duration::from_secs(20);

struct Server {
    child: Child,
    port: u16,
    api: PathBuf,
    _directory: TempDir,
}

impl Server {
    fn start(spec: &str, more: &[&str]) -> Self {
        Self::of(&["--sim", spec], more)
    }

    fn of(machine: &[&str], more: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let api = directory.path().join("api.sock");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ttmon"));
        command.arg("serve").args(machine).args(["--listen", "127.0.0.1:0", "--api"]).arg(&api).args(more);
        command
            .env("TTMON_TOKEN", TOKEN)
            .env_remove("TTMON_SIM")
            .env_remove("TTMON_ROOT")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("ttmon serve");
        let stderr = BufReader::new(child.stderr.take().expect("its messages"));
        let line = stderr.lines().map_while(Result::ok).find(|line| line.contains("http://")).expect("where it serves");
        let port = line.rsplit(':').next().and_then(|port| port.trim().parse().ok()).expect("a port");
        let server = Self { child, port, api, _directory: directory };
        server.until("ready", || server.get("/readyz").status == 200);
        server
    }

    fn ask(&self, request: &str) -> Answer {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Answer::to(stream, request)
    }

    fn get(&self, path: &str) -> Answer {
        self.with(path, "")
    }

    fn with(&self, path: &str, headers: &str) -> Answer {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n{headers}\r\n", self.port))
    }

    fn unix(&self, path: &str) -> Answer {
        let stream = UnixStream::connect(&self.api).expect("a connection");
        Answer::to(stream, &format!("GET {path} HTTP/1.1\r\nHost: ttmon\r\nConnection: close\r\n\r\n"))
    }

    /// Waits for something that must come.
    fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < deadline, "never {what}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).expect("a pid")).expect("not 0");
        rustix::process::kill_process(pid, signal).expect("a signal");
    }

    fn stop(mut self) -> i32 {
        self.signal(rustix::process::Signal::TERM);
        self.child.wait().expect("an end").code().expect("an exit code")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !thread::panicking() {
            let _ = self.child.try_wait();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn to(mut stream: impl Read + Write, request: &str) -> Self {
        stream.write_all(request.as_bytes()).expect("a request");
        let mut text = Vec::new();
        stream.read_to_end(&mut text).expect("an answer");
        let text = String::from_utf8(text).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The title of a problem document, and that it is one.
    fn problem(&self) -> String {
        assert!(self.head.contains("content-type: application/problem+json"), "{}", self.head);
        let document = self.json();
        assert_eq!(document["status"], self.status);
        document["type"].as_str().expect("a type").trim_start_matches("urn:ttmon:problem:").to_owned()
    }
}

fn refused(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ttmon"))
        .args(["serve", "--sim", "n150"])
        .args(arguments)
        .env_remove("TTMON_TOKEN")
        .output()
        .expect("ttmon")
}

#[test]
fn every_path_of_the_description_answers() {
    let server = Server::start("n300,p150", &[]);
    let description = server.get("/api/v1/openapi.json").json();
    let paths: Vec<&String> = description["paths"].as_object().expect("paths").keys().collect();
    assert_eq!(paths.len(), 10, "{paths:?}");
    for path in paths.iter().filter(|path| !path.ends_with("/events") && !path.ends_with("/buffers")) {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        let content = description["paths"][path.as_str()]["get"]["responses"]["200"]["content"].as_object().expect("content");
        assert!(content.keys().any(|media| answer.head.contains(&format!("content-type: {media}"))), "{path}: {}", answer.head);
    }
    let snapshot = server.get("/api/v1/snapshot").json();
    assert_eq!((&snapshot["origin"], snapshot["devices"].as_array().map(Vec::len)), (&"sim".into(), Some(3)));
    let metrics = server.with("/metrics", "Accept: application/openmetrics-text; version=1.0.0\r\n");
    assert!(metrics.body.ends_with("# EOF\n") && metrics.head.contains("openmetrics-text"), "{}", metrics.head);
    assert!(metrics.body.contains("ttmon_device_temperature_celsius{device=\"0\""));
    assert_eq!(server.stop(), 0);
}

#[test]
fn strangers_are_turned_away() {
    let server = Server::start("n150", &[]);
    assert_eq!(server.get("/nonsense").problem(), "not-found");
    let post = format!("POST /metrics HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi", server.port);
    assert_eq!(server.ask(&post).problem(), "method");
    let foreign = "GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(server.ask(foreign).problem(), "foreign-host");
    assert_eq!(server.with("/metrics", "Origin: https://evil.example\r\n").problem(), "foreign-origin");
    assert_eq!(server.with("/metrics", "Authorization: Bearer wrong-wrong-wrong-wrong\r\n").problem(), "wrong-token");
    assert_eq!(server.get("/api/v1/history?since=x").problem(), "parameter");
    assert_eq!(server.get("/api/v1/history?fields=serial").problem(), "parameter");
    assert_eq!(server.ask("nonsense\r\n\r\n").status, 400);
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nCookie: {}\r\n\r\n", "x".repeat(20_000));
    assert_eq!(server.ask(&long).status, 431);
}

#[test]
fn buffers_and_commands_are_for_those_who_may() {
    let server = Server::start("n150,procs=2,buffers=5", &[]);
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    assert_eq!(server.get("/api/v1/buffers").problem(), "needs-token");
    let whole = server.with("/api/v1/buffers?limit=3", &token).json();
    let count = whole["count"].as_u64().expect("a count");
    assert!(count >= 10 && whole["buffers"].as_array().map(Vec::len) == Some(3), "{whole}");
    // This user's own service, asked by this user.
    assert_eq!(server.unix("/api/v1/buffers").json()["count"], count);
    let pid = whole["buffers"][0]["pid"].as_u64().expect("a pid");
    let of_one = server.unix(&format!("/api/v1/buffers?pid={pid}")).json();
    assert!(of_one["buffers"].as_array().is_some_and(|buffers| !buffers.is_empty() && buffers.iter().all(|buffer| buffer["pid"] == pid)));
    assert_eq!(server.unix("/api/v1/buffers?pid=1").json()["count"], 0);
    let command = |answer: Answer| answer.json()["processes"][0]["command"].clone();
    assert_eq!(command(server.get("/api/v1/processes")), Value::Null);
    assert!(command(server.with("/api/v1/processes", &token)).is_string());
    assert!(command(server.unix("/api/v1/processes")).is_string());
    // What is left out says why.
    assert_eq!(server.get("/api/v1/processes").json()["processes"][0]["missing"]["command"], "no_permission");
}

/// A machine as files, and its chip's reset as the errors that the driver answers with meanwhile.
fn machine_in_files(spec: &str) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let machine = Machine::new(&Spec::parse(spec).expect("a spec"), 1).expect("a machine");
    machine.write(directory.path(), 0, &vec![None; machine.process_count()]).expect("a tree");
    directory
}

#[test]
fn a_reset_is_a_gap_and_a_mark() {
    let root = machine_in_files("n150,idle");
    let faults = root.path().join(".ttmon-faults");
    let server = Server::of(&["--root", root.path().to_str().expect("text")], &["--interval", "0.2"]);
    let events = || server.with("/api/v1/events?after=0", "Accept: application/json\r\n").json();
    let has = |from: &str, to: &str| {
        let events = events();
        let events = events["events"].as_array().expect("a list").clone();
        events.iter().any(|event| event["event"] == "state" && event["from"] == from && event["to"] == to)
    };
    let latest = || {
        let history = server.get("/api/v1/history?since=60&fields=temperature").json();
        history["devices"][0]["fields"]["temperature"].as_array().map(|column| column.iter().rev().take(2).cloned().collect::<Vec<_>>())
    };
    let stand_in = machine_in_files("n150,idle,fault=reset:0");
    std::fs::copy(stand_in.path().join(".ttmon-faults"), &faults).expect("faults");
    server.until("in reset", || has("ok", "resetting"));
    // Two, of which the last may still get one.
    server.until("without a value", || latest() == Some(vec![Value::Null; 2]));
    std::fs::remove_file(&faults).expect("no more faults");
    server.until("back", || has("resetting", "ok"));
    let history = server.get("/api/v1/history?since=600&fields=temperature,power").json();
    let temperatures = history["devices"][0]["fields"]["temperature"].as_array().expect("a column");
    assert!(temperatures.iter().any(Value::is_null) && temperatures.iter().any(Value::is_number), "{temperatures:?}");
    assert!(temperatures.iter().filter_map(Value::as_f64).all(|degrees| (20.0..110.0).contains(&degrees)), "{temperatures:?}");
    assert!(history["marks"].as_array().is_some_and(|marks| marks.iter().any(|mark| mark["to"] == "resetting")));
}

#[test]
fn a_source_that_hangs_leaves_the_others_alone() {
    let server = Server::start("n150x2,fault=hang:1@1", &["--interval", "0.2", "--read-timeout", "50"]);
    let scrape = || server.get("/metrics").body;
    let has = |device: u32| scrape().contains(&format!("ttmon_device_temperature_celsius{{device=\"{device}\""));
    server.until("hanging", || !has(1));
    assert!(has(0));
    assert_eq!(server.get("/readyz").status, 200);
    let samples = |text: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with("ttmon_samples_total")).expect("a count");
        line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
    };
    let before = samples(&scrape());
    server.until("sampling on", || samples(&scrape()) > before + 3.0);
}

#[test]
fn streams_tell_what_happens_and_send_snapshots() {
    let server = Server::start("n150,fault=gone:0@3", &["--interval", "0.2"]);
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let request = "GET /api/v1/events?snapshots=true&after=0 HTTP/1.0\r\nHost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("a request");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("text/event-stream")));
    assert!(lines.any(|line| line == "event: started"));
    assert!(lines.any(|line| line == "event: snapshot"));
    let data = lines.find(|line| line.starts_with("data: {\"schema\":1")).expect("a snapshot");
    assert!(serde_json::from_str::<Value>(&data["data: ".len()..]).is_ok());
    assert!(lines.any(|line| line == "event: state"));
}

#[test]
fn one_service_a_socket_and_none_is_left_behind() {
    let server = Server::start("n150", &[]);
    let api = server.api.to_str().expect("text").to_owned();
    let second = refused(&["--listen", "off", "--api", &api]);
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another ttmon serve has it"));
    let port = format!("127.0.0.1:{}", server.port);
    let second = refused(&["--listen", &port]);
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("cannot listen on"));
    let socket = server.api.clone();
    assert_eq!(server.stop(), 0);
    assert!(!socket.exists());
}

#[test]
fn beyond_this_host_is_refused_with_the_reason() {
    let output = refused(&["--listen", "0.0.0.0:0"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("--allow-remote, --token-file FILE, --tls-cert FILE --tls-key FILE"), "{text}");
    let directory = tempfile::tempdir().expect("a directory");
    let token = directory.path().join("token");
    std::fs::write(&token, TOKEN).expect("a token");
    let output = refused(&["--token-file", token.to_str().expect("text")]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("chmod 600"), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A stopped service hangs whoever asks without patience; it goes on where it was, with a gap in between.
#[test]
fn a_service_that_was_stopped_has_a_gap() {
    let server = Server::start("n150", &["--interval", "0.5"]);
    server.until("seen", || server.get("/api/v1/history?fields=temperature").json()["points"].as_u64() > Some(0));
    server.signal(rustix::process::Signal::STOP);
    thread::sleep(Duration::from_millis(2500));
    server.signal(rustix::process::Signal::CONT);
    server.until("a gap with values on both sides", || {
        let history = server.get("/api/v1/history?since=60&fields=temperature").json();
        let column = history["devices"][0]["fields"]["temperature"].as_array().expect("a column").clone();
        let gap = column.iter().position(Value::is_null);
        gap.is_some_and(|gap| column[..gap].iter().any(Value::is_number) && column[gap..].iter().any(Value::is_number))
    });
    let events = server.with("/api/v1/events?after=0", "Accept: application/json\r\n").json();
    assert!(events["events"].as_array().is_some_and(|events| events.iter().any(|event| event["event"] == "gap")), "{events}");
}

/// Commands ask a service that is there, say so, and go on without one that hangs or is gone.
#[test]
fn commands_ask_a_service_and_do_without_one() {
    let server = Server::start("n300", &[]);
    let ttmon = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ttmon"));
        command.args(arguments).env("TTMON_API", &server.api).env_remove("TTMON_SIM").env_remove("TTMON_ROOT");
        let output = command.stdin(Stdio::null()).output().expect("ttmon");
        (output.status.code(), String::from_utf8(output.stdout).expect("text"))
    };
    let (code, text) = ttmon(&["--json"]);
    let document: Value = serde_json::from_str(&text).expect("a document");
    assert_eq!((code, &document["origin"], document["devices"].as_array().map(Vec::len)), (Some(0), &"sim".into(), Some(2)));
    assert_eq!(ttmon(&["-L", "-d", "0"]).1.lines().count(), 1);
    assert_eq!(ttmon(&["-L", "-d", "9"]).0, Some(3));
    assert!(ttmon(&["who"]).1.contains("SIMULATED"));
    // This machine has no such device, unless it has.
    let here = ttmon(&["--no-server", "-L"]);
    assert_ne!(here.1, ttmon(&["-L"]).1);
    server.signal(rustix::process::Signal::STOP);
    assert_eq!(ttmon(&["-L"]), here);
    server.signal(rustix::process::Signal::KILL);
    assert_eq!(ttmon(&["-L"]), here);
}
