//! Measures the cost of 100 open pages, whether they delay a sample, and how soon a browser shows the page: `cargo xtask bench page
//! [--seconds N | --quick]`.
//!
//! A page follows the stream of deltas and requests alerts every 30 s. The cost is compared with the service without pages, and with a
//! thread that only writes the same number of bytes to as many connections. The folder of the browser's fonts comes in `PAGE_FONTS`.
#![allow(clippy::unwrap_used, reason = "a bench")]

mod measure;

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use measure::print_figure;
use serde_json::Value;
use ttmon_testing::measure::{load, number, quantile, thread_time};
use ttmon_testing::{Response, Service, TOKEN};

/// Duration of each half.
const SECONDS: usize = 30;
const QUICK_SECONDS: usize = 3;
const PAGES: u32 = 100;
/// Limit in percent of a core, in addition to the service without pages.
const PAGES_MAX_PERCENT: f64 = 2.0;
/// Limit of one page load on loopback.
const PAINT_MAX_MS: f64 = 300.0;
const DATA_MAX_MS: f64 = 500.0;
/// Limit per second, with 320 live sparklines.
const SCRIPT_MAX_MS: f64 = 30.0;
/// Interval at which a page requests alerts: `web/src/store.ts`.
const ALERTS_EVERY: Duration = Duration::from_secs(30);
const OPENED: [&str; 7] = [
    "/",
    "/assets/app.js",
    "/assets/app.css",
    "/api/v1/fields",
    "/api/v1/events",
    "/api/v1/alerts",
    "/api/v1/history?since=300&fields=temperature,power",
];

fn main() {
    let program = measure::released();
    let span = Duration::from_secs(number("--seconds", SECONDS, QUICK_SECONDS) as u64);
    println!("bench page: {}\n", load());
    println!("32 devices at one sample a second, {PAGES} pages, {} s each:", span.as_secs());
    let service = Service::start(&program, &["--sim", "galaxy"]);
    // The first samples find all processes and cost more.
    thread::sleep(Duration::from_secs(4));
    let alone = watch(&service, span);
    let received = open_pages(&service);
    // Opening the pages costs once. Only the steady state is measured.
    thread::sleep(Duration::from_secs(3));
    let before = received.load(Ordering::Relaxed);
    let with_pages = watch(&service, span);
    let bytes_per_s = (received.load(Ordering::Relaxed) - before) / u64::from(PAGES) / span.as_secs();
    let streams = service.metric("ttmon_http_streams");
    drop(service);
    let plain = plain_writes(bytes_per_s, span);
    print_figure("the service without pages, of a core", alone.percent, "%", None);
    print_figure("the service with pages, of a core", with_pages.percent, "%", None);
    print_figure("pages in all", with_pages.percent - alone.percent, "%", Some(PAGES_MAX_PERCENT));
    print_figure("a thread that writes as much to as many connections", plain, "%", None);
    print_figure("streams open", streams, "", None);
    print_figure("bytes to each page", bytes_per_s as f64 / 1e3, "kB/s", Some(30.0));
    print_figure("samples missed without pages", alone.missed, "", None);
    print_figure("samples missed with pages", with_pages.missed, "", Some(alone.missed));
    print_figure("oldest newest sample without pages", alone.oldest, "s", None);
    print_figure("oldest newest sample with pages (one sample a second)", with_pages.oldest, "s", Some(1.5));
    if std::env::var_os("PAGE_FONTS").is_some_and(|folder| !folder.is_empty()) {
        in_browser(&program);
    } else {
        println!("\nNO BROWSER OPENED THE PAGE: cargo xtask bench page installs it");
    }
}

/// Measures how soon Chromium paints the overview of 32 devices, and what its script costs: `measure` in `web/test/cost.mjs`.
fn in_browser(program: &Path) {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../web");
    let mut node = Command::new("node");
    node.arg("test/page.mjs").arg(program).arg("--measure").current_dir(web).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = node.output().unwrap();
    assert!(output.status.success(), "{node:?}: {}", output.status);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!("\nChromium, 32 devices, loopback, an empty cache:");
    for (key, what, limit) in [("paint", "first paint", PAINT_MAX_MS), ("data", "first data: a tile for every device", DATA_MAX_MS)] {
        let times: Vec<f64> = found[key].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
        print_figure(&format!("{what}, median of {}", times.len()), quantile(&times, 50), "ms", Some(limit));
        print_figure(&format!("{what}, slowest"), quantile(&times, 100), "ms", Some(limit));
    }
    let value = |key: &str| found[key].as_f64().unwrap();
    print_figure("live sparklines on the screen", value("sparklines"), "", None);
    print_figure("script with them, CPU time", value("script"), "ms/s", Some(SCRIPT_MAX_MS));
    print_figure("script, layout and paint, CPU time", value("whole"), "ms/s", None);
    print_figure("heap", value("heap"), "MB", None);
}

struct Watched {
    percent: f64,
    missed: f64,
    /// Highest age of the newest sample, in seconds.
    oldest: f64,
}

fn watch(service: &Service, span: Duration) -> Watched {
    let missed = service.metric("ttmon_samples_missed_total");
    let (before, started) = (cpu_seconds(service.pid()), Instant::now());
    let mut oldest: f64 = 0.0;
    while started.elapsed() < span {
        thread::sleep(Duration::from_millis(500));
        oldest = oldest.max(service.metric("ttmon_sample_age_seconds"));
    }
    let took = started.elapsed().as_secs_f64();
    let percent = (cpu_seconds(service.pid()) - before) / took * 100.0;
    Watched { percent, missed: service.metric("ttmon_samples_missed_total") - missed, oldest }
}

/// Returns the processor time of all threads of a process so far, including ended ones. The readers of the driver's files are separate
/// processes, which pages do not affect.
fn cpu_seconds(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields = text.rsplit(')').next().unwrap().split_whitespace();
    // User and system time are the fields 14 and 15 of proc_pid_stat(5). The first field after the name is field 3.
    fields.skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / TICKS_PER_SECOND
}

/// `USER_HZ`, the same on every current Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Opens pages: a stream for each, and their requests for alerts, evenly distributed over time. Returns the count of bytes that the
/// streams have received. The pages end with the service.
fn open_pages(service: &Service) -> Arc<AtomicU64> {
    let (port, received) = (service.port, Arc::new(AtomicU64::new(0)));
    for path in OPENED {
        // Without this header, events would be a stream that does not end.
        let response = service.with(path, &format!("Authorization: Bearer {TOKEN}\r\nAccept: application/json\r\n"));
        assert_eq!(response.status, 200, "{path}: {}", response.body);
    }
    for _ in 0..PAGES {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let head = format!("Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nAccept: text/event-stream\r\n\r\n");
        stream.write_all(format!("GET /api/v1/events?deltas=true HTTP/1.1\r\n{head}").as_bytes()).unwrap();
        let received = Arc::clone(&received);
        thread::spawn(move || {
            let mut piece = vec![0; 1 << 16];
            while let Ok(length @ 1..) = stream.read(&mut piece) {
                received.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
    }
    let pages = Arc::downgrade(&received);
    let request = format!("GET /api/v1/alerts HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
    thread::spawn(move || {
        while pages.strong_count() > 0 {
            // It fails when the service ends.
            let _ = Response::to(port, &request);
            thread::sleep(ALERTS_EVERY / PAGES);
        }
    });
    received
}

/// Returns the percentage of a core of a thread that writes this many bytes per second to as many connections.
fn plain_writes(bytes_per_s: u64, span: Duration) -> f64 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut written = Vec::new();
    for _ in 0..PAGES {
        let mut reader = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
        written.push(listener.accept().unwrap().0);
    }
    let block = vec![b'x'; usize::try_from(bytes_per_s).unwrap()];
    let (before, started) = (thread_time(), Instant::now());
    while started.elapsed() < span {
        written.iter_mut().for_each(|stream| stream.write_all(&block).unwrap());
        thread::sleep(Duration::from_secs(1));
    }
    (thread_time() - before).as_secs_f64() / started.elapsed().as_secs_f64() * 100.0
}
