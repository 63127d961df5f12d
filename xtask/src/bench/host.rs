//! `cargo xtask bench host`: measures the service, a scrape, and the effect of many slow clients.
//!
//! Each figure is printed with its limit. A scrape is compared with a path that does nothing, in the same run.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::plain::Files;
use super::root::Root;
use super::snapshot::load;
use super::statistics::quantile;
use crate::files;
use crate::package;
use crate::project::{self, Project};
use crate::service::Service;

/// Duration of the sampler's measurement, long enough for a mean at one sample per second.
const SAMPLING: Duration = Duration::from_secs(20);
const SCRAPES: usize = 2000;
const SLOW_CLIENTS: usize = 1000;
const STREAMS: usize = 100;
const CROWDED: Duration = Duration::from_secs(15);

pub(super) fn run(project: &Project) -> Result<(), String> {
    let program = package::program::build(project)?;
    println!("bench host: {}\n", load());
    sampler(&program)?;
    scrapes(&program)?;
    crowd(&program)?;
    memory(&program)
}

/// Simulates a day of samples as fast as possible. Prints the memory at the beginning, after an hour and at the end.
pub(super) fn day(project: &Project) -> Result<(), String> {
    println!("bench day: {}\n", load());
    let name = "a_day_takes_no_more_than_its_first_hours";
    let mut command = project.cargo(&["test", "--release", "--quiet", "--package", "ttmon-serve", name, "--", "--nocapture"]);
    project::run(command.env("TTMON_LOOKS", "90000"))
}

pub(super) fn print_figure(what: &str, value: f64, unit: &str, limit: Option<f64>) {
    let verdict = limit.map(|limit| format!("at most {limit} {unit}: {}", if value <= limit { "ok" } else { "MISSED" }));
    let verdict = verdict.unwrap_or_default();
    println!("  {what:<62} {value:>10.3} {unit:<6} {verdict}");
}

/// Measures the sampling threads and their reading processes by the scheduler's accounting.
fn sampler(program: &Path) -> Result<(), String> {
    println!("32 devices, 200 processes, 100,000 buffers, one sample per second:");
    let service = Service::start(program, &["--sim", "galaxy,procs=200,buffers=170"])?;
    // The first samples find all processes and cost more than later ones.
    thread::sleep(Duration::from_secs(4));
    let tasks = Tasks::of(service.pid());
    let root = Root::make("galaxy")?;
    let files = Files::below(root.path())?;
    let (before, started) = (tasks.on_cpu(), Instant::now());
    let mut plain = Duration::ZERO;
    while started.elapsed() < SAMPLING {
        thread::sleep(Duration::from_secs(1));
        plain += files.read()?.1;
    }
    let (after, took) = (tasks.on_cpu(), started.elapsed());
    let percent = |index: usize| (after[index] - before[index]) / took.as_secs_f64() * 100.0;
    let (sampling, plain) = (percent(0) + percent(1), plain.as_secs_f64() / took.as_secs_f64() * 100.0);
    print_figure("threads that sample: sampler and scan", percent(0), "%", None);
    print_figure("processes that read for them", percent(1), "%", None);
    print_figure("other threads of the service", percent(2), "%", None);
    print_figure("sampling in all, of a core", sampling, "%", Some(1.0));
    print_figure(&format!("open, read, close of the {} files of 32 devices", files.count()), plain, "%", None);
    print_figure("sampling in all, of that", sampling / plain, "x", None);
    let snapshot = service.json("/api/v1/snapshot")?;
    let count = |name: &str| snapshot[name].as_array().map_or(0, Vec::len);
    let buffers = service.json("/api/v1/buffers?limit=1")?["count"].clone();
    println!("  ({} devices, {} processes, {buffers} buffers)", count("devices"), count("processes"));
    print_figure("history of 32 devices", service.metric("ttmon_history_bytes")? / 1e6, "MB", Some(20.0));
    Ok(())
}

/// Threads with measured processor time.
struct Tasks {
    sampling: Vec<PathBuf>,
    readers: Vec<PathBuf>,
    others: Vec<PathBuf>,
}

impl Tasks {
    fn of(pid: u32) -> Self {
        let tasks = |pid: u32| -> Vec<PathBuf> {
            let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect()
        };
        let is_named = |path: &Path, name: &str| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
        let (sampling, others) = tasks(pid).into_iter().partition(|path| is_named(path, "sampler") || is_named(path, "scan"));
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let readers = children.split_whitespace().filter_map(|child| child.parse().ok());
        let readers =
            readers.filter(|child: &u32| is_named(Path::new(&format!("/proc/{child}")), "ttmon-reader")).flat_map(tasks).collect();
        Self { sampling, readers, others }
    }

    /// Returns the processor seconds so far: of the sampling threads, of the reading processes, of the rest.
    fn on_cpu(&self) -> [f64; 3] {
        let seconds = |paths: &[PathBuf]| -> f64 {
            let text = paths.iter().filter_map(|path| fs::read_to_string(path.join("schedstat")).ok());
            text.filter_map(|text| text.split(' ').next()?.parse::<f64>().ok()).sum::<f64>() / 1e9
        };
        [seconds(&self.sampling), seconds(&self.readers), seconds(&self.others)]
    }
}

fn scrapes(program: &Path) -> Result<(), String> {
    println!("\nA scrape of 8 devices, {SCRAPES} on one connection:");
    let service = Service::start(program, &["--sim", "t3k"])?;
    let nothing = latencies(service.port, "/healthz", SCRAPES)?;
    let scrape = latencies(service.port, "/metrics", SCRAPES)?;
    print_figure("a path that does nothing, p50", nothing.0, "ms", None);
    print_figure("a path that does nothing, p99", nothing.1, "ms", None);
    print_figure("a scrape, p50", scrape.0, "ms", None);
    print_figure("a scrape, p99", scrape.1, "ms", Some(2.0));
    Ok(())
}

/// Returns the median and the 99th percentile, in milliseconds, of requests on one connection.
fn latencies(port: u16, path: &str, count: usize) -> Result<(f64, f64), String> {
    let failed = |error: std::io::Error| format!("{path}: {error}");
    let mut questions = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    questions.set_nodelay(true).map_err(failed)?;
    let mut answers = BufReader::with_capacity(1 << 20, questions.try_clone().map_err(failed)?);
    let mut took: Vec<f64> = Vec::with_capacity(count);
    let question = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    for _ in 0..count {
        let started = Instant::now();
        questions.write_all(question.as_bytes()).map_err(failed)?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            answers.read_line(&mut line).map_err(failed)?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().map_err(|error| format!("{path}: {error}"))?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        answers.read_exact(&mut body).map_err(failed)?;
        took.push(started.elapsed().as_secs_f64() * 1e3);
    }
    Ok((quantile(&took, 50), quantile(&took, 99)))
}

/// Opens clients that send half a request and wait, and streams that read every snapshot.
fn crowd(program: &Path) -> Result<(), String> {
    println!("\n{SLOW_CLIENTS} clients that never finish their question and {STREAMS} event streams, for {} s:", CROWDED.as_secs());
    let directory = files::temporary()?;
    let socket = directory.path().join("alloc.sock");
    let service = Service::start(program, &["--sim", "t3k", "--socket", socket.to_str().ok_or("a path that is no text")?])?;
    let alone = latencies(service.port, "/metrics", 200)?;
    let mut allocations = Allocations::connect(&socket)?;
    let socket_alone = allocations.latencies(QUERIES)?;
    let client = |text: &str| -> Result<TcpStream, String> {
        let mut stream = TcpStream::connect(("127.0.0.1", service.port)).map_err(|error| format!("a client: {error}"))?;
        stream.write_all(text.as_bytes()).map_err(|error| format!("a client: {error}"))?;
        Ok(stream)
    };
    let slow = (0..SLOW_CLIENTS).map(|_| client("GET /metrics HTTP/1.1\r\nHost: loc")).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..STREAMS {
        let mut stream = client("GET /api/v1/events?snapshots=true HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
    }
    let before = (service.metric("ttmon_samples_total")?, service.metric("ttmon_samples_missed_total")?);
    let started = Instant::now();
    let mut slowest: f64 = 0.0;
    let mut worst: f64 = 0.0;
    let mut socket_among: Vec<f64> = Vec::new();
    let mut oldest: f64 = 0.0;
    while started.elapsed() < CROWDED {
        slowest = slowest.max(service.metric("ttmon_sample_duration_seconds")? * 1e3);
        worst = worst.max(latencies(service.port, "/metrics", 50)?.1);
        socket_among.extend(allocations.latencies(QUERIES / 10)?);
        oldest = oldest.max(service.metric("ttmon_sample_age_seconds")?);
        thread::sleep(Duration::from_millis(300));
    }
    let took = started.elapsed().as_secs_f64();
    let samples = service.metric("ttmon_samples_total")? - before.0;
    print_figure("samples left out", service.metric("ttmon_samples_missed_total")? - before.1, "", Some(0.0));
    print_figure("samples fewer than seconds", (took - samples).max(0.0), "", Some(1.5));
    print_figure("the slowest sample", slowest, "ms", None);
    print_figure("the oldest newest sample (one sample per second)", oldest, "s", Some(1.5));
    for (name, part) in [("p50", 50), ("p99", 99)] {
        print_figure(&format!("a question on the allocation socket before, {name}"), quantile(&socket_alone, part), "ms", None);
        print_figure(&format!("a question on the allocation socket among them, {name}"), quantile(&socket_among, part), "ms", None);
    }
    print_figure("connections open", service.metric("ttmon_http_connections")?, "", None);
    print_figure("streams open", service.metric("ttmon_http_streams")?, "", None);
    print_figure("a scrape before, p99", alone.1, "ms", None);
    print_figure("a scrape among them, worst p99", worst, "ms", None);
    drop(slow);
    Ok(())
}

const QUERIES: usize = 2000;
/// A message of the longest format, and the type that requests the memory of device 0.
const MESSAGE_BYTES: usize = 144;
const QUERY: u8 = 3;

struct Allocations(UnixStream);

impl Allocations {
    fn connect(path: &Path) -> Result<Self, String> {
        let stream = UnixStream::connect(path).map_err(|error| format!("{}: {error}", path.display()))?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(|error| error.to_string())?;
        let mut allocations = Self(stream);
        // The first request is answered when the server knows the message length.
        allocations.latencies(2)?;
        Ok(allocations)
    }

    /// Returns the milliseconds of each request.
    fn latencies(&mut self, count: usize) -> Result<Vec<f64>, String> {
        let failed = |error: std::io::Error| format!("the allocation socket: {error}");
        let mut question = [0; MESSAGE_BYTES];
        question[0] = QUERY;
        let ask = |stream: &mut UnixStream| -> Result<f64, String> {
            let started = Instant::now();
            stream.write_all(&question).map_err(failed)?;
            stream.read_exact(&mut [0; MESSAGE_BYTES]).map_err(failed)?;
            Ok(started.elapsed().as_secs_f64() * 1e3)
        };
        (0..count).map(|_| ask(&mut self.0)).collect()
    }
}

/// Samples at the smallest interval for a while, to find memory that grows with every sample.
fn memory(program: &Path) -> Result<(), String> {
    println!("\nMemory, ten samples per second:");
    let service = Service::start(program, &["--sim", "galaxy", "--interval", "0.1"])?;
    thread::sleep(Duration::from_secs(5));
    let (first, looks) = (resident(service.pid())?, service.metric("ttmon_samples_total")?);
    thread::sleep(Duration::from_secs(30));
    let (last, later) = (resident(service.pid())?, service.metric("ttmon_samples_total")?);
    print_figure("resident at first", first, "MB", None);
    print_figure(&format!("after {:.0} more samples", later - looks), last, "MB", Some(first * 1.05 + 1.0));
    Ok(())
}

fn resident(pid: u32) -> Result<f64, String> {
    let status = files::read(Path::new(&format!("/proc/{pid}/status")))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").trim().parse().map_err(|error| format!("VmRSS: {error}"))?;
    Ok(kib / 1024.0)
}
