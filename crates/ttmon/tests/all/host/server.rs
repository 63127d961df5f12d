//! Starts a `ttmon serve` of a simulated machine, and sends HTTP requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const TOKEN: &str = "a-token-of-the-tests-0123456789";
/// Timeout for conditions that must become true eventually, on a machine under any load.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) port: u16,
    pub(crate) api: PathBuf,
    /// The port of `--metrics-listen`.
    pub(crate) metrics_port: Option<u16>,
    _directory: TempDir,
}

impl Server {
    pub(crate) fn start(spec: &str, more: &[&str]) -> Self {
        Self::of(&["--sim", spec], more)
    }

    pub(crate) fn of(machine: &[&str], more: &[&str]) -> Self {
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
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
        let mut ports = line.split("http://").skip(1).map(|place| place.rsplit_once(':').and_then(|(_, port)| digits(port)));
        let port = ports.next().flatten().expect("a port");
        let server = Self { child, port, api, metrics_port: ports.next().flatten(), _directory: directory };
        server.until("ready", || server.get("/readyz").status == 200);
        server
    }

    pub(crate) fn ask(&self, request: &str) -> Answer {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a time-out");
        Answer::to(stream, request)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.with(path, "")
    }

    pub(crate) fn with(&self, path: &str, headers: &str) -> Answer {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n{headers}\r\n", self.port))
    }

    pub(crate) fn unix(&self, path: &str) -> Answer {
        let stream = UnixStream::connect(&self.api).expect("a connection");
        Answer::to(stream, &format!("GET {path} HTTP/1.1\r\nHost: ttmon\r\nConnection: close\r\n\r\n"))
    }

    /// Waits until a condition is true.
    pub(crate) fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !is_so() {
            assert!(Instant::now() < deadline, "never {what}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).expect("a pid")).expect("not 0");
        rustix::process::kill_process(pid, signal).expect("a signal");
        if signal == rustix::process::Signal::STOP {
            // The threads stop one after the other.
            while !self.is_stopped() {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn is_stopped(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("the service runs").flatten();
        let mut stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
        stats.all(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T")))
    }

    pub(crate) fn stop(mut self) -> i32 {
        self.signal(rustix::process::Signal::TERM);
        self.child.wait().expect("an end").code().expect("an exit code")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn to(mut stream: impl Read + Write, request: &str) -> Self {
        stream.write_all(request.as_bytes()).expect("a request");
        let mut text = Vec::new();
        stream.read_to_end(&mut text).expect("an answer");
        let text = String::from_utf8_lossy(&text).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Checks that the document is a problem, and returns its type.
    pub(crate) fn problem(&self) -> String {
        assert!(self.head.contains("content-type: application/problem+json"), "{}", self.head);
        let document = self.json();
        assert_eq!(document["status"], self.status);
        document["type"].as_str().expect("a type").trim_start_matches("urn:ttmon:problem:").to_owned()
    }
}
