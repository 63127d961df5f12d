//! `cargo xtask bench page`: measures the cost of 100 open pages, whether they delay a sample, and how soon a browser shows the page.
//!
//! A page follows the stream of deltas and requests alerts every 30 s. The cost is compared with the service without pages, and with a
//! thread that only writes the same number of bytes to as many connections.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::host::print_figure;
use super::snapshot::load;
use super::statistics::quantile;
use crate::files;
use crate::package;
use crate::project::{Project, output};
use crate::service::{Service, TOKEN, get};
use crate::web::Browser;

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

pub(super) fn run(project: &Project, seconds: u64) -> Result<(), String> {
    let browser = Browser::have(project);
    eprintln!("bench page: building the released program, which takes minutes");
    let program = package::program::build(project)?;
    println!("bench page: {}\n", load());
    println!("32 devices at one sample a second, {PAGES} pages, {seconds} s each:");
    let span = Duration::from_secs(seconds);
    let service = Service::start(&program, &["--sim", "galaxy"])?;
    // The first samples find all processes and cost more.
    thread::sleep(Duration::from_secs(4));
    let alone = watch(&service, span)?;
    let received = open_pages(&service)?;
    // Opening the pages costs once. Only the steady state is measured.
    thread::sleep(Duration::from_secs(3));
    let before = received.load(Ordering::Relaxed);
    let with_pages = watch(&service, span)?;
    let bytes_per_s = (received.load(Ordering::Relaxed) - before) / u64::from(PAGES) / seconds;
    let streams = service.metric("ttmon_http_streams")?;
    drop(service);
    let plain = plain_writes(bytes_per_s, span)?;
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
    match browser {
        Ok(browser) => in_browser(project, &browser, &program),
        Err(why) => {
            println!("\nNO BROWSER OPENED THE PAGE: {why}");
            Ok(())
        }
    }
}

/// Measures how soon Chromium paints the overview of 32 devices, and what its script costs: `measure` in `web/test/cost.mjs`.
fn in_browser(project: &Project, browser: &Browser, program: &Path) -> Result<(), String> {
    let text = output(browser.command(project, program).arg("--measure"))?;
    let found: Value = serde_json::from_str(&text).map_err(|error| format!("web/test/page.mjs --measure: {error}: {text}"))?;
    println!("\nChromium, 32 devices, loopback, an empty cache:");
    for (key, what, limit) in [("paint", "first paint", PAINT_MAX_MS), ("data", "first data: a tile for every device", DATA_MAX_MS)] {
        let times: Vec<f64> = found[key].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
        if times.is_empty() {
            return Err(format!("no times: {text}"));
        }
        print_figure(&format!("{what}, median of {}", times.len()), quantile(&times, 50), "ms", Some(limit));
        print_figure(&format!("{what}, slowest"), quantile(&times, 100), "ms", Some(limit));
    }
    let value = |key: &str| found[key].as_f64().ok_or_else(|| format!("no {key}: {text}"));
    print_figure("live sparklines on the screen", value("sparklines")?, "", None);
    print_figure("script with them, CPU time", value("script")?, "ms/s", Some(SCRIPT_MAX_MS));
    print_figure("script, layout and paint, CPU time", value("whole")?, "ms/s", None);
    print_figure("heap", value("heap")?, "MB", None);
    Ok(())
}

struct Watched {
    percent: f64,
    missed: f64,
    /// Highest age of the newest sample, in seconds.
    oldest: f64,
}

fn watch(service: &Service, span: Duration) -> Result<Watched, String> {
    let missed = service.metric("ttmon_samples_missed_total")?;
    let (before, started) = (cpu_seconds(service.pid())?, Instant::now());
    let mut oldest: f64 = 0.0;
    while started.elapsed() < span {
        thread::sleep(Duration::from_millis(500));
        oldest = oldest.max(service.metric("ttmon_sample_age_seconds")?);
    }
    let took = started.elapsed().as_secs_f64();
    let percent = (cpu_seconds(service.pid())? - before) / took * 100.0;
    Ok(Watched { percent, missed: service.metric("ttmon_samples_missed_total")? - missed, oldest })
}

/// Returns the processor time of all threads of a process so far, including ended ones. The readers of the driver's files are separate
/// processes, which pages do not affect.
fn cpu_seconds(pid: u32) -> Result<f64, String> {
    let text = files::read(Path::new(&format!("/proc/{pid}/stat")))?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|ticks| ticks.parse::<f64>().ok());
    // User and system time are the fields 14 and 15 of proc_pid_stat(5). The first field after the name is field 3.
    let ticks = ticks(11).zip(ticks(12)).ok_or("no times in /proc/PID/stat")?;
    Ok((ticks.0 + ticks.1) / TICKS_PER_SECOND)
}

/// `USER_HZ`, the same on every current Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Opens pages: a stream for each, and their requests for alerts, evenly distributed over time. Returns the count of bytes that the
/// streams have received. The pages end with the service.
fn open_pages(service: &Service) -> Result<Arc<AtomicU64>, String> {
    let failed = |error: io::Error| format!("a page: {error}");
    let (port, received) = (service.port, Arc::new(AtomicU64::new(0)));
    for path in OPENED {
        // Without this header, events would be a stream that does not end.
        get(port, path, &format!("Authorization: Bearer {TOKEN}\r\nAccept: application/json\r\n"))?;
    }
    for _ in 0..PAGES {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
        let head = format!("Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nAccept: text/event-stream\r\n\r\n");
        stream.write_all(format!("GET /api/v1/events?deltas=true HTTP/1.1\r\n{head}").as_bytes()).map_err(failed)?;
        let received = Arc::clone(&received);
        thread::spawn(move || {
            let mut piece = vec![0; 1 << 16];
            while let Ok(length @ 1..) = stream.read(&mut piece) {
                received.fetch_add(length as u64, Ordering::Relaxed);
            }
        });
    }
    let pages = Arc::downgrade(&received);
    thread::spawn(move || {
        while pages.strong_count() > 0 {
            // A failed request must not end the load.
            let _ = get(port, "/api/v1/alerts", &format!("Authorization: Bearer {TOKEN}\r\n"));
            thread::sleep(ALERTS_EVERY / PAGES);
        }
    });
    Ok(received)
}

/// Returns the percentage of a core of a thread that writes this many bytes per second to as many connections.
fn plain_writes(bytes_per_s: u64, span: Duration) -> Result<f64, String> {
    let failed = |error: io::Error| format!("plain writes: {error}");
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let mut written = Vec::new();
    for _ in 0..PAGES {
        let mut reader = TcpStream::connect(address).map_err(failed)?;
        thread::spawn(move || io::copy(&mut reader, &mut io::sink()));
        written.push(listener.accept().map_err(failed)?.0);
    }
    let block = vec![b'x'; usize::try_from(bytes_per_s).unwrap_or_default()];
    let own_time = || -> Result<f64, String> {
        let text = fs::read_to_string("/proc/thread-self/schedstat").map_err(failed)?;
        text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).map(|nanos| nanos / 1e9).ok_or_else(|| "no schedstat".to_owned())
    };
    let (before, started) = (own_time()?, Instant::now());
    while started.elapsed() < span {
        for stream in &mut written {
            stream.write_all(&block).map_err(failed)?;
        }
        thread::sleep(Duration::from_secs(1));
    }
    Ok((own_time()? - before) / started.elapsed().as_secs_f64() * 100.0)
}
