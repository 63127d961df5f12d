//! Starts a `ttmon serve`, and sends requests to it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{KilledOnDrop, command};
use crate::waiting::{TIMEOUT, until_or};

/// The token of every service of these tests.
pub const TOKEN: &str = "a-token-of-the-tests-0123456789";

/// A `ttmon serve`. It is killed when this is dropped.
#[derive(Debug)]
pub struct Service {
    // Dropped first, because the service uses the directory.
    process: Option<KilledOnDrop>,
    /// The port of the HTTP server, or 0 without one.
    pub port: u16,
    /// The port of `--metrics-listen`.
    pub metrics_port: Option<u16>,
    /// The socket of the API.
    pub api: PathBuf,
    /// Has the sockets `api.sock`, `alloc.sock` and `handover.sock`, and `state`, unless flags name others.
    pub directory: TempDir,
    /// How the service is started.
    pub command: Command,
    output: Arc<Mutex<String>>,
    errors: Arc<Mutex<String>>,
    /// The threads that read the output.
    readers: Vec<JoinHandle<()>>,
}

impl Service {
    /// Starts a service at a port that the kernel chooses, and waits until it is ready. The arguments follow `serve`.
    #[must_use]
    pub fn start(program: &Path, arguments: &[&str]) -> Self {
        Self::start_with(program, arguments, |_| {})
    }

    /// As [`Self::start`], after a change of the command.
    #[must_use]
    pub fn start_with(program: &Path, arguments: &[&str], change: impl FnOnce(&mut Command)) -> Self {
        // The state must be in memory, and other users must reach the sockets, with any umask.
        let mode = fs::Permissions::from_mode(0o755);
        let directory = tempfile::Builder::new().prefix("ttmon-test-").permissions(mode).tempdir_in("/dev/shm").unwrap();
        let mut command = command(program, &["serve"]);
        let is_given = |flag: &str| arguments.contains(&flag);
        for (flag, name) in [("--api", "api.sock"), ("--socket", "alloc.sock"), ("--handover", "handover.sock"), ("--state-dir", "state")] {
            if !is_given(flag) {
                command.arg(flag).arg(directory.path().join(name));
            }
        }
        if !is_given("--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.args(arguments).env("TTMON_TOKEN", TOKEN).stdout(Stdio::piped()).stderr(Stdio::piped());
        change(&mut command);
        let value_of = |flag: &str| Some(arguments[arguments.iter().position(|argument| *argument == flag)? + 1]);
        let mut service = Self {
            process: None,
            port: 0,
            metrics_port: None,
            api: value_of("--api").map_or_else(|| directory.path().join("api.sock"), PathBuf::from),
            directory,
            command,
            output: Arc::default(),
            errors: Arc::default(),
            readers: Vec::new(),
        };
        service.start_again();
        service
    }

    /// Starts the service again after its end, with the same directory and arguments.
    pub fn start_again(&mut self) {
        let known = self.errors().len();
        let mut child = self.command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", self.command));
        self.readers.push(collect(child.stdout.take().unwrap(), &self.output));
        self.readers.push(collect(child.stderr.take().unwrap(), &self.errors));
        let mut process = KilledOnDrop(child);
        self.until("ready", || {
            let status = process.0.try_wait().unwrap();
            assert!(status.is_none(), "ttmon serve ended, {status:?}:\n{}\n{}", self.output(), self.errors());
            self.try_unix("/readyz").is_some_and(|response| response.status == 200)
        });
        self.process = Some(process);
        if self.command.get_args().all(|argument| argument != "-q" && argument != "--quiet") {
            let announcement = |text: &str| text.lines().find(|line| line.starts_with("ttmon: serving")).map(str::to_owned);
            self.until("an announcement", || announcement(&self.errors()[known..]).is_some());
            let line = announcement(&self.errors()[known..]).unwrap();
            let (own, metrics) = line.split_once("; metrics alone").unwrap_or((&line, ""));
            self.port = port_of(own).unwrap_or(0);
            self.metrics_port = port_of(metrics);
        }
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    /// Returns the whole lines of its standard output.
    #[must_use]
    pub fn output(&self) -> String {
        self.output.lock().unwrap().clone()
    }

    /// Returns the whole lines of its standard error.
    #[must_use]
    pub fn errors(&self) -> String {
        self.errors.lock().unwrap().clone()
    }

    /// Returns the path of a socket or file in the service's directory.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the address of the HTTP server.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Requests a path over TCP, without the token.
    #[must_use]
    pub fn get(&self, path: &str) -> Response {
        self.with(path, "")
    }

    /// Requests a path over TCP with these header lines. Each ends with `\r\n`.
    #[must_use]
    pub fn with(&self, path: &str, headers: &str) -> Response {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost:{}\r\nConnection: close\r\n{headers}\r\n", self.port))
    }

    /// Sends a request over TCP as it is.
    #[must_use]
    pub fn send(&self, request: &str) -> Response {
        Response::to(self.port, request).unwrap_or_else(|error| panic!("{request}{error}\n{}", self.errors()))
    }

    /// Requests a path through the socket of the API. The kernel tells the service which user asks.
    #[must_use]
    pub fn unix(&self, path: &str) -> Response {
        self.try_unix(path).unwrap_or_else(|| panic!("{path}: no response\n{}", self.errors()))
    }

    fn try_unix(&self, path: &str) -> Option<Response> {
        let stream = UnixStream::connect(&self.api).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).ok()?;
        Response::read(stream, &format!("GET {path} HTTP/1.1\r\nHost: ttmon\r\nConnection: close\r\n\r\n")).ok()
    }

    /// Returns the document at a path, as the service's own user sees it.
    #[must_use]
    pub fn json(&self, path: &str) -> Value {
        self.unix(path).json()
    }

    /// Returns the value of a metric, with its labels, as the service's own user sees it.
    #[must_use]
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.unix("/metrics").body;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("there is no {name} in:\n{text}"))
    }

    /// Waits until a condition is true. A failure shows the output of the service.
    #[track_caller]
    pub fn until(&self, what: &str, is_so: impl FnMut() -> bool) {
        until_or(is_so, || format!("never: {what}; the service printed:\n{}\n{}", self.output(), self.errors()));
    }

    /// Sends a signal. After `STOP`, waits until all its threads have stopped.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process.as_ref().unwrap().0), signal).unwrap();
        if signal == Signal::STOP {
            self.until("stopped", || self.is_stopped());
        }
    }

    fn is_stopped(&self) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().flatten();
        let mut stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
        stats.all(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" T")))
    }

    /// Stops the service and reads the rest of its output. Returns its exit code, or `None` if a signal ended it.
    pub fn stop(&mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        let status = self.process.take().unwrap().0.wait().unwrap();
        self.readers.drain(..).for_each(|reader| reader.join().unwrap());
        status.code()
    }

    /// Kills the service.
    pub fn kill(&mut self) {
        drop(self.process.take().unwrap());
    }
}

/// Appends whole lines of an output to a text.
fn collect(mut from: impl Read + Send + 'static, to: &Arc<Mutex<String>>) -> JoinHandle<()> {
    let to = Arc::clone(to);
    thread::spawn(move || {
        let mut bytes = [0; 65536];
        let mut rest: Vec<u8> = Vec::new();
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            rest.extend_from_slice(&bytes[..length]);
            let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            to.lock().unwrap().push_str(&String::from_utf8_lossy(&rest[..whole]));
            rest.drain(..whole);
        }
    })
}

/// Returns the port of the address in a text.
fn port_of(text: &str) -> Option<u16> {
    let (_, address) = text.split_once("://")?;
    let (_, port) = address.split('/').next()?.rsplit_once(':')?;
    port.trim().parse().ok()
}

/// An answer to an HTTP request.
#[derive(Debug)]
pub struct Response {
    /// The status, such as 200.
    pub status: u16,
    /// The status line and the header lines, in lower case.
    pub head: String,
    /// The body.
    pub body: String,
}

impl Response {
    /// Sends a request to a port of this host. The response ends when the server closes the connection.
    pub fn to(port: u16, request: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Self::read(stream, request)
    }

    /// Sends a request on a connection. The response ends when the server closes the connection.
    pub fn read(mut stream: impl Read + Write, request: &str) -> std::io::Result<Self> {
        stream.write_all(request.as_bytes())?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let malformed = || std::io::Error::other(format!("not a response: {text:?}"));
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(malformed)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(malformed)?;
        Ok(Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() })
    }

    /// Returns the body as a document.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Checks that the document is a problem, and returns its type.
    #[must_use]
    pub fn problem(&self) -> String {
        assert!(self.head.contains("content-type: application/problem+json"), "{}", self.head);
        let document = self.json();
        assert_eq!(document["status"], self.status);
        document["type"].as_str().unwrap().trim_start_matches("urn:ttmon:problem:").to_owned()
    }
}
