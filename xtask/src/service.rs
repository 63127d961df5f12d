//! Starts a `ttmon serve` for checks, and sends HTTP requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::files;
use crate::project::called;

pub(crate) const TOKEN: &str = "the-token-of-our-own-checks";
/// Timeout, on a machine under any load.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that is killed when this is dropped.
pub(crate) struct Ended(pub(crate) Child);

impl Ended {
    pub(crate) fn spawn(command: &mut Command) -> Result<Self, String> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        child.map(Self).map_err(|error| format!("{}: {error}", called(command)))
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct Service {
    _process: Ended,
    pub(crate) port: u16,
    _directory: tempfile::TempDir,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Service {
    /// Starts the service on a port that the kernel chooses, and waits until it is ready.
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Result<Self, String> {
        let directory = files::temporary()?;
        let api = directory.path().join("api.sock");
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--api"]).arg(&api).args(arguments);
        // The allocation socket, if there is one, is in this directory too.
        command.env("TTMON_SOCKET", directory.path().join("alloc.sock")).env("TTMON_TOKEN", TOKEN);
        let (process, port) = serve(&mut command, "http://")?;
        let service = Self { _process: process, port, _directory: directory };
        until("ready", || is_ok(port, "/readyz", ""))?;
        Ok(service)
    }

    pub(crate) fn get(&self, path: &str) -> Result<Answer, String> {
        get(self.port, path, &format!("Authorization: Bearer {TOKEN}\r\n"))
    }

    pub(crate) fn json(&self, path: &str) -> Result<Value, String> {
        let answer = self.get(path)?;
        serde_json::from_str(&answer.body).map_err(|error| format!("{path}: {error}"))
    }

    pub(crate) fn metric(&self, name: &str) -> Result<f64, String> {
        let text = self.get("/metrics")?.body;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).ok_or_else(|| format!("there is no {name} among the metrics"))
    }
}

/// Starts a service and reads its port from the printed address that begins with this text.
pub(crate) fn serve(command: &mut Command, address: &str) -> Result<(Ended, u16), String> {
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut process = Ended(spawned.map_err(|error| format!("ttmon serve: {error}"))?);
    let mut lines = BufReader::new(process.0.stderr.take().ok_or("ttmon serve has no messages")?).lines().map_while(Result::ok);
    let place = lines.find(|line| line.contains(address));
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    let port = place.and_then(|line| digits(line.rsplit(':').next()?).parse().ok());
    // Read further output, because a full pipe would block the service.
    thread::spawn(move || lines.for_each(drop));
    Ok((process, port.ok_or("ttmon serve did not say where it serves")?))
}

/// Sends a request to a port of this host, with optional header fields.
pub(crate) fn get(port: u16, path: &str, headers: &str) -> Result<Answer, String> {
    let failed = |error: std::io::Error| format!("{path}: {error}");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost:{port}\r\n{headers}\r\n").map_err(failed)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(failed)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| format!("{path}: no answer"))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(|| format!("{path}: no status"))?;
    Ok(Answer { status, body: body.to_owned() })
}

pub(crate) fn is_ok(port: u16, path: &str, headers: &str) -> bool {
    get(port, path, headers).is_ok_and(|answer| answer.status == 200)
}

pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() >= deadline {
            return Err(format!("not {what} within {} s", PATIENCE.as_secs()));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
