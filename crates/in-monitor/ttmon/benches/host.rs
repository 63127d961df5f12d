//! Measures the service, a scrape, and the effect of many slow clients: `cargo xtask bench host`.
//!
//! Each figure is printed with its limit. A scrape is compared with a path that does nothing, in the same run.
#![allow(clippy::unwrap_used, reason = "a bench")]

mod measure;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use measure::{MachineFiles, children, print_figure, read_plainly};
use ttmon_testing::Service;
use ttmon_testing::measure::{load, quantile, resident_kib, task_time};

/// Duration of the sampler's measurement, long enough for a mean at one sample per second.
const SAMPLING: Duration = Duration::from_secs(20);
const SCRAPES: usize = 2000;
const SLOW_CLIENTS: usize = 1000;
const STREAMS: usize = 100;
const SLOW_CLIENTS_TIME: Duration = Duration::from_secs(15);
const QUERIES: usize = 2000;
/// A message of the longest format, and the type that requests the memory of device 0.
const MESSAGE_BYTES: usize = 144;
const QUERY: u8 = 3;

fn main() {
    let program = measure::released();
    println!("bench host: {}\n", load());
    sampler(&program);
    scrapes(&program);
    slow_clients(&program);
    memory(&program);
}

/// Measures the sampling threads and their reading processes by the scheduler's accounting.
fn sampler(program: &Path) {
    println!("32 devices, 200 processes, 100,000 buffers, one sample per second:");
    let service = Service::start(program, &["--sim", "galaxy,procs=200,buffers=170"]);
    // The first samples find all processes and cost more than later ones.
    thread::sleep(Duration::from_secs(4));
    let tasks = tasks(service.pid());
    let files = MachineFiles::new("galaxy");
    let published = files.published();
    let seconds = || tasks.each_ref().map(|tasks| tasks.iter().map(|task| task_time(task).as_secs_f64()).sum::<f64>());
    let (before, started) = (seconds(), Instant::now());
    let mut plain = Duration::ZERO;
    while started.elapsed() < SAMPLING {
        thread::sleep(Duration::from_secs(1));
        plain += read_plainly(&published).1;
    }
    let (after, took) = (seconds(), started.elapsed().as_secs_f64());
    let percent = |index: usize| (after[index] - before[index]) / took * 100.0;
    let (sampling, plain) = (percent(0) + percent(1), plain.as_secs_f64() / took * 100.0);
    print_figure("threads that sample: sampler and scan", percent(0), "%", None);
    print_figure("processes that read for them", percent(1), "%", None);
    print_figure("other threads of the service", percent(2), "%", None);
    print_figure("sampling in all, of a core", sampling, "%", Some(1.0));
    print_figure(&format!("open, read, close of the {} files of 32 devices", published.len()), plain, "%", None);
    print_figure("sampling in all, of that", sampling / plain, "x", None);
    let snapshot = service.json("/api/v1/snapshot");
    let count = |name: &str| snapshot[name].as_array().map_or(0, Vec::len);
    let buffers = service.json("/api/v1/buffers?limit=1")["count"].clone();
    println!("  ({} devices, {} processes, {buffers} buffers)", count("devices"), count("processes"));
    print_figure("history of 32 devices", service.metric("ttmon_history_bytes") / 1e6, "MB", Some(20.0));
}

/// Returns the folders of the threads that sample, of those in the reading processes, and of the other threads of the service.
fn tasks(pid: u32) -> [Vec<PathBuf>; 3] {
    let tasks = |pid: u32| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().map(|task| task.path());
    let is_named = |path: &Path, name: &str| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
    let (sampling, others) = tasks(pid).partition(|path| is_named(path, "sampler") || is_named(path, "scan"));
    let readers = children(pid).into_iter().filter(|child| is_named(Path::new(&format!("/proc/{child}")), "ttmon-reader"));
    [sampling, readers.flat_map(tasks).collect(), others]
}

fn scrapes(program: &Path) {
    println!("\nA scrape of 8 devices, {SCRAPES} on one connection:");
    let service = Service::start(program, &["--sim", "t3k"]);
    let nothing = latencies(service.port, "/healthz", SCRAPES);
    let scrape = latencies(service.port, "/metrics", SCRAPES);
    print_figure("a path that does nothing, p50", quantile(&nothing, 50), "ms", None);
    print_figure("a path that does nothing, p99", quantile(&nothing, 99), "ms", None);
    print_figure("a scrape, p50", quantile(&scrape, 50), "ms", None);
    print_figure("a scrape, p99", quantile(&scrape, 99), "ms", Some(2.0));
}

/// Returns the milliseconds of each of many requests on one connection.
fn latencies(port: u16, path: &str, count: usize) -> Vec<f64> {
    let mut requests = TcpStream::connect(("127.0.0.1", port)).unwrap();
    requests.set_nodelay(true).unwrap();
    let mut responses = BufReader::with_capacity(1 << 20, requests.try_clone().unwrap());
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut latency = || {
        let started = Instant::now();
        requests.write_all(request.as_bytes()).unwrap();
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(responses.read_line(&mut line).unwrap() > 0, "{path}: the connection was closed");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        responses.read_exact(&mut vec![0; length]).unwrap();
        started.elapsed().as_secs_f64() * 1e3
    };
    (0..count).map(|_| latency()).collect()
}

/// Opens clients that send half a request and wait, and streams that read every snapshot.
fn slow_clients(program: &Path) {
    println!(
        "\n{SLOW_CLIENTS} clients that never finish their question and {STREAMS} event streams, for {} s:",
        SLOW_CLIENTS_TIME.as_secs()
    );
    let service = Service::start(program, &["--sim", "t3k"]);
    let alone = latencies(service.port, "/metrics", 200);
    let mut allocations = UnixStream::connect(service.path("alloc.sock")).unwrap();
    // The first request is answered when the server knows the message length.
    queries(&mut allocations, 2);
    let socket_alone = queries(&mut allocations, QUERIES);
    let client = |text: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", service.port)).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    let slow: Vec<_> = (0..SLOW_CLIENTS).map(|_| client("GET /metrics HTTP/1.1\r\nHost: loc")).collect();
    for _ in 0..STREAMS {
        let mut stream = client("GET /api/v1/events?snapshots=true HTTP/1.1\r\nHost: localhost\r\n\r\n");
        thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
    }
    let before = (service.metric("ttmon_samples_total"), service.metric("ttmon_samples_missed_total"));
    let started = Instant::now();
    let (mut slowest, mut worst, mut oldest): (f64, f64, f64) = (0.0, 0.0, 0.0);
    let mut socket_among = Vec::new();
    while started.elapsed() < SLOW_CLIENTS_TIME {
        slowest = slowest.max(service.metric("ttmon_sample_duration_seconds") * 1e3);
        worst = worst.max(quantile(&latencies(service.port, "/metrics", 50), 99));
        socket_among.extend(queries(&mut allocations, QUERIES / 10));
        oldest = oldest.max(service.metric("ttmon_sample_age_seconds"));
        thread::sleep(Duration::from_millis(300));
    }
    let took = started.elapsed().as_secs_f64();
    let samples = service.metric("ttmon_samples_total") - before.0;
    print_figure("samples left out", service.metric("ttmon_samples_missed_total") - before.1, "", Some(0.0));
    print_figure("samples fewer than seconds", (took - samples).max(0.0), "", Some(1.5));
    print_figure("the slowest sample", slowest, "ms", None);
    print_figure("the oldest newest sample (one sample per second)", oldest, "s", Some(1.5));
    for (name, part) in [("p50", 50), ("p99", 99)] {
        print_figure(&format!("a question on the allocation socket before, {name}"), quantile(&socket_alone, part), "ms", None);
        print_figure(&format!("a question on the allocation socket among them, {name}"), quantile(&socket_among, part), "ms", None);
    }
    print_figure("connections open", service.metric("ttmon_http_connections"), "", None);
    print_figure("streams open", service.metric("ttmon_http_streams"), "", None);
    print_figure("a scrape before, p99", quantile(&alone, 99), "ms", None);
    print_figure("a scrape among them, worst p99", worst, "ms", None);
    drop(slow);
}

/// Returns the milliseconds of each request on the allocation socket.
fn queries(stream: &mut UnixStream, count: usize) -> Vec<f64> {
    let mut question = [0; MESSAGE_BYTES];
    question[0] = QUERY;
    let mut latency = || {
        let started = Instant::now();
        stream.write_all(&question).unwrap();
        stream.read_exact(&mut [0; MESSAGE_BYTES]).unwrap();
        started.elapsed().as_secs_f64() * 1e3
    };
    (0..count).map(|_| latency()).collect()
}

/// Samples at the smallest interval for a while, to find memory that grows with every sample.
fn memory(program: &Path) {
    println!("\nMemory, ten samples per second:");
    let service = Service::start(program, &["--sim", "galaxy", "--interval", "0.1"]);
    let now = || (resident_kib(service.pid()) as f64 / 1024.0, service.metric("ttmon_samples_total"));
    thread::sleep(Duration::from_secs(5));
    let (first, before) = now();
    thread::sleep(Duration::from_secs(30));
    let (last, after) = now();
    print_figure("resident at first", first, "MB", None);
    print_figure(&format!("after {:.0} more samples", after - before), last, "MB", Some(first * 1.05 + 1.0));
}
