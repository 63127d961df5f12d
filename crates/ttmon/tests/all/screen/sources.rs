//! Services as sources: they start, stop, hang and send invalid answers, and the screen shows this.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::screen::terminal::Terminal;

struct Server {
    child: Child,
    port: u16,
    api: PathBuf,
    _directory: tempfile::TempDir,
}

impl Server {
    /// Starts a service of a simulated machine. Port 0 means any free port.
    fn start(spec: &str, port: u16) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let api = directory.path().join("api.sock");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ttmon"));
        command.args(["serve", "--sim", spec, "--interval", "0.5", "--listen", &format!("127.0.0.1:{port}"), "--api"]).arg(&api);
        for variable in ["TTMON_SIM", "TTMON_ROOT", "TTMON_TOKEN", "TTMON_TOKEN_FILE"] {
            command.env_remove(variable);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let messages = BufReader::new(child.stderr.take().unwrap());
        let mut lines = messages.lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("http://")).expect("where it serves");
        let port = line.rsplit(':').next().and_then(|port| port.trim().parse().ok()).unwrap();
        // Read the output until its end, because a full pipe would block the service.
        thread::spawn(move || lines.for_each(drop));
        let server = Self { child, port, api, _directory: directory };
        server.until("ready", |server| server.get("/readyz").contains(" 200 "));
        server
    }

    fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds(self) {
            assert!(Instant::now() < deadline, "never {what}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the whole answer, or an empty text without an answer.
    fn get(&self, path: &str) -> String {
        let mut answer = String::new();
        let asked = UnixStream::connect(&self.api).and_then(|mut stream| {
            stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())?;
            stream.read_to_string(&mut answer)
        });
        asked.map_or_else(|_| String::new(), |_| answer)
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap().success());
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two services: the killed one is shown as lost, with the time, while the other continues. After a restart, it is shown again.
#[test]
fn a_host_goes_and_comes_back() {
    let (one, mut other) = (Server::start("n300", 0), Server::start("p150x2", 0));
    let mut top = Terminal::top(120, 40, &format!("--connect {} --connect {} -r 500", one.url(), other.url()));
    top.wait("both hosts", |text| text.contains("2 hosts  4 devices") && text.contains("p150a") && text.contains("n300 L"));
    top.wait_for("HOST");
    let port = other.port;
    other.child.kill().unwrap();
    other.child.wait().unwrap();
    top.wait_for("NO ANSWER since");
    top.wait_for("cannot be reached");
    top.wait("its last state", |text| text.contains("p150a") && text.contains("n300 L"));
    // Meanwhile keys still work, and the other host is sampled.
    top.expect("2", "the last 60 seconds");
    top.expect("1", "NO ANSWER since");
    let _again = Server::start("p150x2", port);
    top.wait("it to be back", |text| text.contains("answers again") && !text.contains("NO ANSWER"));
    top.press("\t");
    top.expect("f", "▸");
    top.press("f");
    top.wait("it to unfold", |text| !text.contains('▸'));
    top.press("q");
    assert!(top.end().0.success());
}

/// A service that hangs is reported, and the other one is still updated.
#[test]
fn a_host_that_hangs_holds_nothing_up() {
    let (one, other) = (Server::start("n300", 0), Server::start("p150", 0));
    let mut top = Terminal::top(120, 40, &format!("--connect {} --connect unix:{} -r 500", one.url(), other.api.display()));
    top.wait("both hosts", |text| text.contains("p150a") && text.contains("n300 L"));
    other.signal("STOP");
    top.expect("2", "the last 60 seconds");
    top.expect("1", "does not answer in time");
    other.signal("CONT");
    top.wait("it to be back", |text| text.contains("answers again") && !text.contains("NO ANSWER"));
}

/// An address without a service, and a server that is not ttmon.
#[test]
fn foreign_services_are_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for (count, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            let (mut stream, mut request) = (stream, [0; 1024]);
            let _ = stream.read(&mut request);
            let answer: &[u8] = if count.is_multiple_of(2) {
                b"HTTP/1.0 200 OK\r\n\r\n{\"schema\": 1, \"devices\": [7]}"
            } else {
                b"\x1b]0;boo\x07\xff\r\n\r\n"
            };
            let _ = stream.write_all(answer);
        }
    });
    let mut top = Terminal::top(120, 40, &format!("--connect http://127.0.0.1:{port} -r 500"));
    top.wait_for("answers in another way");
    top.wait_for("something that is not text");
    top.expect("?", "show or hide this help");
    let (status, after) = Terminal::top(80, 24, "--connect nonsense").end();
    assert!(!status.success() && after.text.contains("http://HOST:PORT"), "{after:?}");
}

/// The service of this machine is the source while it runs, and the charts begin with its history. When the service stops or hangs, the
/// machine is read directly. The service is used again when it answers.
#[test]
fn the_service_of_this_machine() {
    let mut server = Server::start("n300", 0);
    let api = server.api.display().to_string();
    let top = Terminal::top_with(120, 40, "-r 500", &[("TTMON_API", &api)]);
    top.wait_for("[SIMULATED]");
    server.signal("STOP");
    top.wait_for("does not answer in time: reading here");
    server.signal("CONT");
    top.wait_for("is back");
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    // This machine has no device, and the message says so.
    top.wait_for("cannot be reached (Connection refused): reading here; no");
}

/// The history of a service is on the screen before `top` has two samples.
#[test]
fn the_past_of_a_service() {
    let server = Server::start("n300", 0);
    let temperatures = |server: &Server| {
        let answer = server.get("/api/v1/history?fields=temperature");
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let history: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        history["devices"][0]["fields"]["temperature"]
            .as_array()
            .map_or(0, |column| column.iter().filter(|value| value.is_number()).count())
    };
    server.until("a past", |server| temperatures(server) >= 7);
    let mut top = Terminal::top(120, 40, &format!("--connect {} -r 60000", server.url()));
    top.wait_for("R via 0");
    top.expect("2", "the last 60 seconds");
    let dots = |text: &str| text.chars().filter(|character| ('\u{2801}'..='\u{28ff}').contains(character)).count();
    top.wait("a line, not a dot", |text| dots(text) > 12);
}
