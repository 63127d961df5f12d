//! `cargo xtask bench top`: measures the interactive monitor, compared with the plain read of the same files.
//!
//! The machines change: this process writes temperature, power, clocks and memory every second. The scheduler's accounting measures
//! everything. Other monitors follow in the same run ([`super::peers`]).

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::peers;
use super::plain::Files;
use super::root::Root;
use super::sleepers::Sleepers;
use super::snapshot::load;
use super::statistics::{self, Durations};
use crate::package::program;
use crate::project::Project;
use crate::terminal::Terminal;

struct Case {
    spec: &'static str,
    devices: u32,
    size: (u16, u16),
    share_max: Option<f64>,
    rss_kb_max: u64,
    bytes_max: Option<f64>,
}

const CASES: &[Case] = &[
    Case { spec: "p150", devices: 1, size: (80, 24), share_max: None, rss_kb_max: 10_000, bytes_max: None },
    Case { spec: "p150x8", devices: 8, size: (80, 24), share_max: Some(0.12), rss_kb_max: 10_000, bytes_max: Some(1000.0) },
    Case { spec: "p150x8", devices: 8, size: (120, 40), share_max: Some(0.12), rss_kb_max: 10_000, bytes_max: None },
    Case { spec: "galaxy-bh", devices: 32, size: (200, 50), share_max: Some(0.35), rss_kb_max: 16_000, bytes_max: None },
];

pub(super) const WARM_UP: Duration = Duration::from_secs(4);
const FIRST_PAINT_MS_MAX: f64 = 15.0;
const FIRST_PAINT_RUNS: usize = 20;
const KEY_MS_MAX: f64 = 20.0;
const KEY_RUNS: usize = 300;
/// One hour of samples, one per second, in three minutes.
const HOUR_REFRESH_MS: &str = "50";
const HOUR: Duration = Duration::from_secs(180);
const HOUR_RSS_KB_MAX: u64 = 16_000;
const CROWD: usize = 2_000;
const CROWD_RATIO_MAX: f64 = 1.2;

pub(super) fn run(project: &Project, seconds: u64) -> Result<(), String> {
    let program = program::build(project)?;
    let time = Duration::from_secs(seconds);
    println!("bench top: {}, {seconds} s a row\n", load());
    println!("| devices | screen | share of a core | plain reading | ratio | RSS kB | all processes kB | bytes/s | limits |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for case in CASES {
        let root = Root::make(case.spec)?;
        let (cost, plain) = watched(&start(&program, &root, case.size)?, &root, "Processes (", time)?;
        println!("{}", case.row(&cost, plain));
    }
    crowd(&program, time)?;
    first_paint(&program)?;
    keys(&program)?;
    peers::nvtop(&program, time)?;
    peers::btop(time)?;
    println!("at the end: {}", load());
    Ok(())
}

struct Cost {
    share: f64,
    rss_kb: u64,
    all_kb: u64,
    bytes_per_s: f64,
}

impl Case {
    fn row(&self, cost: &Cost, plain: f64) -> String {
        let verdict = |name: &str, value: f64, most: Option<f64>| {
            most.map(|most| format!("{name} at most {most}: {}", statistics::verdict(value <= most)))
        };
        let verdicts = [
            verdict("share %", cost.share, self.share_max),
            verdict("RSS", cost.rss_kb as f64, Some(self.rss_kb_max as f64)),
            verdict("bytes/s", cost.bytes_per_s, self.bytes_max),
        ];
        let verdicts: Vec<String> = verdicts.into_iter().flatten().collect();
        let (columns, rows) = self.size;
        format!(
            "| {} | {columns}x{rows} | {:.3} % | {plain:.3} % | {:.2} | {} | {} | {:.0} | {} |",
            self.devices,
            cost.share,
            cost.share / plain,
            cost.rss_kb,
            cost.all_kb,
            cost.bytes_per_s,
            verdicts.join(", ")
        )
    }
}

pub(super) fn start(program: &Path, root: &Root, size: (u16, u16)) -> Result<Terminal, String> {
    start_with(program, root, size, "1000")
}

fn start_with(program: &Path, root: &Root, size: (u16, u16), refresh: &str) -> Result<Terminal, String> {
    Terminal::run(program, &["top", "-r", refresh, "--root", &root.path().display().to_string()], size)
}

/// Measures a program on a changing machine, from the time when it shows this text. Also measures as many plain reads of the same files.
fn watched(terminal: &Terminal, root: &Root, shows: &str, time: Duration) -> Result<(Cost, f64), String> {
    let files = Files::below(root.path())?;
    terminal.until(shows)?;
    terminal.bytes_for(WARM_UP);
    let before = terminal.cpu();
    let (mut bytes, mut plain) = (0, Duration::ZERO);
    let elapsed = root.run(time, || {
        plain += files.read()?.1;
        bytes += terminal.bytes_for(Duration::from_secs(1));
        Ok(())
    })?;
    let (rss_kb, all_kb) = terminal.memory();
    let share = (terminal.cpu() - before).as_secs_f64() / elapsed * 100.0;
    Ok((Cost { share, rss_kb, all_kb, bytes_per_s: bytes as f64 / elapsed }, plain.as_secs_f64() / elapsed * 100.0))
}

/// Measures with many unrelated processes, which must cost nothing.
fn crowd(program: &Path, time: Duration) -> Result<(), String> {
    let root = Root::make("p150x8")?;
    let (alone, _) = watched(&start(program, &root, (80, 24))?, &root, "Processes (", time)?;
    let crowd = Sleepers::start(CROWD)?;
    root.link(crowd.pids())?;
    let (crowded, _) = watched(&start(program, &root, (80, 24))?, &root, "Processes (", time)?;
    let ratio = crowded.share / alone.share;
    let verdict = statistics::verdict(ratio <= CROWD_RATIO_MAX);
    println!(
        "\nwith {CROWD} more processes: {:.3} % instead of {:.3} %, at most {CROWD_RATIO_MAX} times: {verdict}",
        crowded.share, alone.share
    );
    Ok(())
}

fn first_paint(program: &Path) -> Result<(), String> {
    let root = Root::make("p150x8")?;
    let (mut times, mut least) = (Durations::default(), Durations::default());
    for _ in 0..FIRST_PAINT_RUNS {
        times.push(start(program, &root, (80, 24))?.until("Processes (")?);
        least.push(Terminal::run(Path::new("echo"), &["there"], (80, 24))?.until("there")?);
    }
    let median = times.median_ms();
    let verdict = statistics::verdict(median <= FIRST_PAINT_MS_MAX);
    println!(
        "first paint, whole: median {median:.1} ms, p90 {:.1} ms (echo: {:.1}, {:.1}); at most {FIRST_PAINT_MS_MAX} ms: {verdict}",
        times.p90_ms(),
        least.median_ms(),
        least.p90_ms()
    );
    Ok(())
}

/// Takes as many samples as an hour has seconds, to find memory that grows with every sample.
pub(super) fn hour(project: &Project) -> Result<(), String> {
    let program = program::build(project)?;
    let root = Root::make("galaxy-bh")?;
    let terminal = start_with(&program, &root, (200, 50), HOUR_REFRESH_MS)?;
    terminal.until("Processes (")?;
    terminal.bytes_for(WARM_UP);
    let (first, _) = terminal.memory();
    root.run(HOUR, || {
        terminal.bytes_for(Duration::from_secs(1));
        Ok(())
    })?;
    let (rss, all) = terminal.memory();
    let verdict = statistics::verdict(rss <= HOUR_RSS_KB_MAX);
    println!(
        "32 devices, a sample every {HOUR_REFRESH_MS} ms for {} s: RSS {rss} kB ({first} after {} s), all processes {all} kB; at most {HOUR_RSS_KB_MAX} kB: {verdict}",
        HOUR.as_secs(),
        WARM_UP.as_secs()
    );
    Ok(())
}

/// Measures the time from a key to the first byte of output while a device does not answer, compared with a loop that only echoes keys.
fn keys(program: &Path) -> Result<(), String> {
    let root = Root::make("p150x8")?;
    root.hang(0)?;
    let mut top = start(program, &root, (80, 24))?;
    top.until("Processes (")?;
    let (ours, answered) = answers(&mut top, ["2", "1"]);
    let echo = PathBuf::from("/bin/sh");
    let mut empty = Terminal::run(&echo, &["-c", "stty raw -echo; echo ready; exec cat"], (80, 24))?;
    empty.until("ready")?;
    let (theirs, _) = answers(&mut empty, ["a", "b"]);
    let verdict = statistics::verdict(ours.p99_ms() <= KEY_MS_MAX && answered == KEY_RUNS);
    println!(
        "a key while a device hangs: {answered} of {KEY_RUNS} answered, median {:.1} ms, p99 {:.1} ms (an empty loop: {:.1}, {:.1}); at most {KEY_MS_MAX} ms: {verdict}",
        ours.median_ms(),
        ours.p99_ms(),
        theirs.median_ms(),
        theirs.p99_ms()
    );
    Ok(())
}

fn answers(terminal: &mut Terminal, keys: [&str; 2]) -> (Durations, usize) {
    let mut times = Durations::default();
    let mut answered = 0;
    for run in 0..KEY_RUNS {
        if let Some(time) = terminal.answer(keys[run % 2]) {
            times.push(time);
            answered += 1;
        }
        // A varying pause, to be independent of other intervals.
        thread::sleep(Duration::from_millis(7 + run as u64 % 13));
    }
    (times, answered)
}
