//! The service under attack, and the processes that attack it.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use ttmon_sim::{Machine, Spec};
use ttmon_testing::until;

use crate::isolation::{TTMON, role};

/// The users of a case: the attacker, and a user who only sends ordinary requests.
pub(crate) const ATTACKER: u32 = 64_001;
pub(crate) const BYSTANDER: u32 = 64_002;

pub(crate) const API: &str = "/run/ttmon/api.sock";
pub(crate) const ALLOCATIONS: &str = "/run/ttmon/alloc.sock";
pub(crate) const HANDOVER: &str = "/run/ttmon/handover.sock";
pub(crate) const STATE: &str = "/run/ttmon/state";
pub(crate) const HTTP: &str = "127.0.0.1:9477";
/// Standard output and standard error of the service.
pub(crate) const LOG: &str = "/run/service.log";

/// Time between two samples.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// A `ttmon serve` that root runs.
pub(crate) struct Host {
    child: Child,
    /// Open descriptors and resident bytes before any attack.
    before: (usize, u64),
}

impl Host {
    /// Starts the service for a machine with two chips below a directory, with all sockets at their default paths.
    pub(crate) fn start() -> Self {
        fs::create_dir("/run/machine").unwrap();
        let machine = Machine::new(&Spec::parse("n300,idle").unwrap(), 1).unwrap();
        machine.write(Path::new("/run/machine"), 0, &[]).unwrap();
        fs::create_dir_all("/run/machine/proc").unwrap();
        Self::with(&["--root", "/run/machine", "--socket", ALLOCATIONS, "--handover", HANDOVER, "--state-dir", STATE, "--api", API])
    }

    /// Starts the service with these arguments.
    pub(crate) fn with(arguments: &[&str]) -> Self {
        let log = fs::File::create(LOG).unwrap();
        let mut command = Command::new(TTMON);
        command.args(["serve", "--quiet", "--interval", &INTERVAL.as_secs().to_string(), "--listen", HTTP]).args(arguments);
        for variable in ["TTMON_SIM", "TTMON_ROOT", "TTMON_SOCKET", "TTMON_API", "TTMON_STATE_DIR", "XDG_RUNTIME_DIR"] {
            command.env_remove(variable);
        }
        let child = command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        let mut host = Self { child, before: (0, 0) };
        until("ready", || ask(API, "/healthz").is_ok_and(|answer| answer.0 == 200));
        until("sampled", || host.sample_age().is_some());
        host.before = (host.descriptors(), host.rss());
        host
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Returns the resident bytes of the service and of its reading processes.
    pub(crate) fn rss(&self) -> u64 {
        rss(self.pid())
    }

    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).map_or(0, Iterator::count)
    }

    /// Returns the age of the newest device sample.
    pub(crate) fn sample_age(&self) -> Option<Duration> {
        metric("ttmon_sample_age_seconds").map(Duration::from_secs_f64)
    }

    /// Waits at most a minute until the resources of an attack are released.
    pub(crate) fn gives_back(&self) {
        // The C library does not return freed pages of small allocations.
        const SLACK_BYTES: u64 = 96 << 20;
        const SLACK_DESCRIPTORS: usize = 32;
        let (descriptors, rss) = self.before;
        until("descriptors given back", || self.descriptors() <= descriptors + SLACK_DESCRIPTORS);
        until("memory given back", || self.rss() <= rss + SLACK_BYTES);
        println!("  kept: {} MB more than before", self.rss().saturating_sub(rss) >> 20);
    }

    /// Bytes of messages written so far.
    pub(crate) fn log_bytes(&self) -> u64 {
        fs::metadata(LOG).unwrap().len()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = fs::read_to_string(LOG).unwrap_or_default();
            let from = log.char_indices().rev().nth(3000).map_or(0, |(at, _)| at);
            eprintln!("-- the end of the service's messages:\n{}", &log[from..]);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process of a user in one of the roles. It is killed when this is dropped.
pub(crate) struct Actor {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Actor {
    /// Starts the process and waits until it prints `ready`.
    pub(crate) fn start(uid: u32, name: &str, arguments: &[&str]) -> Self {
        let mut actor = Self::begin(uid, name, arguments);
        assert_eq!(actor.line(), "ready", "{name}");
        actor
    }

    /// Starts the process.
    pub(crate) fn begin(uid: u32, name: &str, arguments: &[&str]) -> Self {
        let mut child = role(uid, name, arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Returns the next line of its output, or an empty text after its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let _ = self.lines.read_line(&mut line);
        line.trim_end().to_owned()
    }

    /// Closes its input.
    pub(crate) fn close(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits until the process ends by itself.
    pub(crate) fn finish(mut self) {
        self.close();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Prints `ready` and waits until the case ends this process. An attacker calls this when all its resources are allocated.
pub(crate) fn hold() {
    println!("ready");
    let _ = io::stdin().read(&mut [0]);
}

/// Variable that selects the full strength, which takes minutes and gigabytes.
const FULL: &str = "TTMON_ADVERSARY_FULL";

/// Returns the number of attackers: `usual`, or `full` with the full strength.
pub(crate) fn strength(usual: usize, full: usize) -> usize {
    if std::env::var_os(FULL).is_some() { full } else { usual }
}

/// Resident memory of a process and its children, in bytes.
pub(crate) fn rss(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    kib.unwrap_or_default() * 1024 + children.split_whitespace().filter_map(|pid| Some(rss(pid.parse().ok()?))).sum::<u64>()
}

/// Sends a request. Returns status and body. A place that begins with / is a Unix socket, any other place is an address.
pub(crate) fn ask(place: &str, path: &str) -> io::Result<(u16, String)> {
    let time = Some(Duration::from_secs(20));
    if place.starts_with('/') {
        let stream = UnixStream::connect(place)?;
        stream.set_read_timeout(time)?;
        exchange(stream, path)
    } else {
        let address: SocketAddr = place.parse().map_err(io::Error::other)?;
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(20))?;
        stream.set_read_timeout(time)?;
        exchange(stream, path)
    }
}

fn exchange(mut stream: impl Read + Write, path: &str) -> io::Result<(u16, String)> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok((status, body.to_owned()))
}

/// Returns a metric of the service by the beginning of its line.
pub(crate) fn metric(name: &str) -> Option<f64> {
    let (_, text) = ask(API, "/metrics").ok()?;
    text.lines().find(|line| line.starts_with(name)).and_then(|line| line.rsplit(' ').next()?.parse().ok())
}
