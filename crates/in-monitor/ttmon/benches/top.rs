//! Measures the interactive monitor beside the plain read of the same files: `cargo xtask bench top [--seconds N | --quick |
//! --hour]`.
//!
//! The machines change: this process writes temperature, power, clocks and memory every second. The scheduler's accounting measures
//! everything. The verdict is the ratio to plain reading, in the same run. Other monitors follow for information.
#![allow(clippy::unwrap_used, reason = "a bench")]

mod measure;

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use measure::{MachineFiles, children, idle_processes, milliseconds, read_plainly};
use ttmon_testing::Terminal;
use ttmon_testing::measure::Limit::AtMost;
use ttmon_testing::measure::{Limit, Verdicts, arguments, kib, load, number, process_time, quantile};

struct Case {
    spec: &'static str,
    devices: &'static str,
    size: (u16, u16),
    /// To plain reading.
    ratio: Option<Limit>,
    rss: Limit,
    bytes: Option<Limit>,
}

const RATIO_MAX: Option<Limit> = Some(AtMost(0.5, "times plain reading"));
const SMALL: Limit = AtMost(10_000.0, "kB");
const LARGE: Limit = AtMost(16_000.0, "kB");

const CASES: [Case; 4] = [
    Case { spec: "p150", devices: "1", size: (80, 24), ratio: None, rss: SMALL, bytes: None },
    Case { spec: "p150x8", devices: "8", size: (80, 24), ratio: RATIO_MAX, rss: SMALL, bytes: Some(AtMost(1000.0, "bytes/s")) },
    Case { spec: "p150x8", devices: "8", size: (120, 40), ratio: RATIO_MAX, rss: SMALL, bytes: None },
    Case { spec: "galaxy-bh", devices: "32", size: (200, 50), ratio: RATIO_MAX, rss: LARGE, bytes: None },
];

/// Long enough that clock ticks do not matter.
const SECONDS: usize = 120;
const QUICK_SECONDS: usize = 3;
const WARM_UP: Duration = Duration::from_secs(4);
const SECOND: Duration = Duration::from_secs(1);
/// What the screen shows when it is complete.
const COMPLETE: &str = "Processes (";

const FIRST_PAINT_MAX: Limit = AtMost(15.0, "ms");
const FIRST_PAINT_RUNS: usize = 20;
const KEY_MAX: Limit = AtMost(20.0, "ms");
const KEY_RUNS: usize = 300;
/// One hour of samples, one per second, in three minutes.
const HOUR_REFRESH_MS: &str = "50";
const HOUR: Duration = Duration::from_secs(180);
const EXTRA_PROCESSES: usize = 2_000;
const EXTRA_CPU_RATIO_MAX: Limit = AtMost(1.2, "times");

/// Machine, devices, and size of the terminal of the comparison with nvtop.
const NVTOP_CASES: [(&str, &str, (u16, u16)); 2] = [("p150x8", "8", (120, 40)), ("galaxy-bh", "32", (200, 50))];
const NVTOP_TIMEOUT: Duration = Duration::from_secs(20);

fn main() {
    if arguments() == ["--hour"] {
        return hour();
    }
    let time = Duration::from_secs(number("--seconds", SECONDS, QUICK_SECONDS) as u64);
    println!("bench top: {}, {} s a row\n", load(), time.as_secs());
    println!("| devices | screen | share of a core | plain reading | ratio | RSS kB | all processes kB | bytes/s | limits |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut verdicts = Verdicts::default();
    for case in &CASES {
        let figures = figures(&MachineFiles::new(case.spec), case.size, time);
        case.print_row(&figures, &mut verdicts);
    }
    println!();
    measure_extra_processes(time, &mut verdicts);
    first_paint(&mut verdicts);
    keys(&mut verdicts);
    nvtop(time);
    btop(time);
    println!("at the end: {}\n\n{verdicts}", load());
}

/// What a program takes. Shares are in percent of a core.
struct Figures {
    share: f64,
    plain_share: f64,
    rss_kb: u64,
    all_kb: u64,
    bytes_per_s: f64,
}

impl Case {
    fn print_row(&self, figures: &Figures, verdicts: &mut Verdicts) {
        let ratio = figures.share / figures.plain_share;
        let mut texts = Vec::from_iter(self.ratio.map(|limit| verdicts.text(ratio, limit)));
        texts.push(verdicts.text(figures.rss_kb as f64, self.rss));
        texts.extend(self.bytes.map(|limit| verdicts.text(figures.bytes_per_s, limit)));
        let Figures { share, plain_share, rss_kb, all_kb, bytes_per_s } = figures;
        let ((columns, rows), texts) = (self.size, texts.join(", "));
        println!(
            "| {} | {columns}x{rows} | {share:.3} % | {plain_share:.3} % | {ratio:.2} | {rss_kb} | {all_kb} | {bytes_per_s:.0} | {texts} |",
            self.devices
        );
    }
}

fn start(machine: &MachineFiles, size: (u16, u16), refresh_ms: &str) -> Terminal {
    run(&measure::released(), &["top", "-r", refresh_ms, "--root", machine.path().to_str().unwrap()], size)
}

fn run(program: &Path, arguments: &[&str], (columns, rows): (u16, u16)) -> Terminal {
    Terminal::start(program, columns, rows, arguments, &[])
}

/// Measures a program on a changing machine after its first screen. Also measures as many plain reads of the same files.
fn figures(machine: &MachineFiles, size: (u16, u16), time: Duration) -> Figures {
    let files = machine.published();
    let terminal = start(machine, size, "1000");
    terminal.wait_written(0, COMPLETE);
    thread::sleep(WARM_UP);
    let (bytes, cpu) = (terminal.bytes(), cpu_time(&terminal));
    let mut plain = Duration::ZERO;
    let elapsed = machine.run(time, || {
        plain += read_plainly(&files).1;
        thread::sleep(SECOND);
    });
    let share = |time: Duration| time.as_secs_f64() / elapsed * 100.0;
    let (rss_kb, all_kb) = memory_kb(&terminal);
    let bytes_per_s = (terminal.bytes() - bytes) as f64 / elapsed;
    Figures { share: share(cpu_time(&terminal) - cpu), plain_share: share(plain), rss_kb, all_kb, bytes_per_s }
}

/// Measures with many unrelated processes, which must cost nothing.
fn measure_extra_processes(time: Duration, verdicts: &mut Verdicts) {
    let machine = MachineFiles::new("p150x8");
    let alone = figures(&machine, (80, 24), time).share;
    let extra_processes = idle_processes(EXTRA_PROCESSES);
    machine.show(&extra_processes);
    let crowded = figures(&machine, (80, 24), time).share;
    let verdict = verdicts.text(crowded / alone, EXTRA_CPU_RATIO_MAX);
    println!("with {EXTRA_PROCESSES} more processes: {crowded:.3} % instead of {alone:.3} %, {verdict}");
}

fn first_paint(verdicts: &mut Verdicts) {
    let machine = MachineFiles::new("p150x8");
    let (mut times, mut least) = (Vec::new(), Vec::new());
    for _ in 0..FIRST_PAINT_RUNS {
        times.push(time_until(&start(&machine, (80, 24), "1000"), COMPLETE));
        least.push(time_until(&run(Path::new("echo"), &["there"], (80, 24)), "there"));
    }
    let [[median, p90], [least_median, least_p90]] = [times, least].map(|times| [50, 90].map(|part| quantile(&milliseconds(&times), part)));
    let verdict = verdicts.text(median, FIRST_PAINT_MAX);
    println!("first paint, whole: median {median:.1} ms, p90 {p90:.1} ms (echo: {least_median:.1}, {least_p90:.1}); {verdict}");
}

/// Returns the time from the start of a program until it has written this text.
fn time_until(terminal: &Terminal, text: &str) -> Duration {
    terminal.wait_for_byte(terminal.wait_written(0, text) - 1) - terminal.started
}

/// Measures the time from a key to the first byte of output while a device does not answer, compared with a loop that only echoes keys.
fn keys(verdicts: &mut Verdicts) {
    let machine = MachineFiles::new("p150x8");
    machine.hang(0);
    let mut top = start(&machine, (80, 24), "1000");
    top.wait_written(0, COMPLETE);
    let ours = answers(&mut top, ["2", "1"]);
    let mut empty = run(Path::new("/bin/sh"), &["-c", "stty raw -echo; echo ready; exec cat"], (80, 24));
    empty.wait_written(0, "ready");
    let theirs = answers(&mut empty, ["a", "b"]);
    let [[median, p99], [empty_median, empty_p99]] = [ours, theirs].map(|times| [50, 99].map(|part| quantile(&milliseconds(&times), part)));
    let verdict = verdicts.text(p99, KEY_MAX);
    println!(
        "a key while a device hangs: {KEY_RUNS} answered, median {median:.1} ms, p99 {p99:.1} ms \
         (an empty loop: {empty_median:.1}, {empty_p99:.1}); {verdict}"
    );
}

fn answers(terminal: &mut Terminal, keys: [&str; 2]) -> Vec<Duration> {
    let answer = |run: usize| {
        let (bytes, pressed) = (terminal.bytes(), Instant::now());
        terminal.press(keys[run % 2]);
        let answered = terminal.wait_for_byte(bytes);
        // A varying pause, to be independent of other intervals.
        thread::sleep(Duration::from_millis(7 + run as u64 % 13));
        answered - pressed
    };
    (0..KEY_RUNS).map(answer).collect()
}

/// Takes as many samples as an hour has seconds, to find memory that grows with every sample.
fn hour() {
    let machine = MachineFiles::new("galaxy-bh");
    let terminal = start(&machine, (200, 50), HOUR_REFRESH_MS);
    terminal.wait_written(0, COMPLETE);
    thread::sleep(WARM_UP);
    let (first, _) = memory_kb(&terminal);
    machine.run(HOUR, || thread::sleep(SECOND));
    let (rss, all) = memory_kb(&terminal);
    let verdict = Verdicts::default().text(rss as f64, LARGE);
    let (seconds, warm_up) = (HOUR.as_secs(), WARM_UP.as_secs());
    println!(
        "32 devices, a sample every {HOUR_REFRESH_MS} ms for {seconds} s: RSS {rss} kB \
         ({first} after {warm_up} s), all processes {all} kB; {verdict}"
    );
}

/// Compares with nvtop on the same simulated devices at the same time.
///
/// nvtop supports these cards since 2026, later than any release of Debian, so `TTMON_BENCH_NVTOP` names a program built from its sources.
/// It reads only `/sys` and `/proc/driver`. So it runs in a mount namespace with the simulated machine mounted over them, which needs root.
fn nvtop(time: Duration) {
    let program = std::env::var("TTMON_BENCH_NVTOP").unwrap_or_else(|_| "nvtop".to_owned());
    if !is_there(&program) {
        println!("nvtop is not here and was not measured (build it from its sources and name it by TTMON_BENCH_NVTOP)");
        return;
    }
    for (spec, devices, size) in NVTOP_CASES {
        let machine = MachineFiles::new(spec);
        let over = machine.path().display();
        let script = format!("mount --bind {over}/sys /sys && mount --bind {over}/proc/driver /proc/driver && exec {program} -d 10");
        let theirs = run(Path::new("unshare"), &["--mount", "sh", "-c", &script], size);
        while !theirs.written().contains("Device 0") {
            if theirs.started.elapsed() > NVTOP_TIMEOUT {
                println!("this nvtop shows no Tenstorrent devices and was not measured");
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let ours = start(&machine, size, "1000");
        ours.wait_written(0, COMPLETE);
        thread::sleep(WARM_UP);
        let before = [&ours, &theirs].map(cpu_time);
        let elapsed = machine.run(time, || thread::sleep(SECOND));
        let share = |terminal: &Terminal, before: Duration| (cpu_time(terminal) - before).as_secs_f64() / elapsed * 100.0;
        let (ours, theirs) = (share(&ours, before[0]), share(&theirs, before[1]));
        let (columns, rows) = size;
        println!(
            "beside nvtop, {devices} devices, {columns}x{rows}: ttmon {ours:.3} %, nvtop {theirs:.3} % of a core: {:.2} x",
            ours / theirs
        );
    }
}

fn btop(time: Duration) {
    if !is_there("btop") {
        println!("btop is not here and was not measured (apt-get install btop)");
        return;
    }
    let terminal = run(Path::new("btop"), &["--utf-force", "-p", "0"], (120, 40));
    thread::sleep(WARM_UP);
    let (started, cpu, bytes) = (Instant::now(), cpu_time(&terminal), terminal.bytes());
    thread::sleep(time);
    let elapsed = started.elapsed().as_secs_f64();
    let share = (cpu_time(&terminal) - cpu).as_secs_f64() / elapsed * 100.0;
    let (rss, bytes) = (memory_kb(&terminal).0, (terminal.bytes() - bytes) as f64 / elapsed);
    println!("btop, 120x40, no devices: {share:.3} % of a core, RSS {rss} kB, {bytes:.0} bytes/s");
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Returns a program and its children.
fn processes(terminal: &Terminal) -> Vec<u32> {
    let own = terminal.pid();
    [vec![own], children(own)].concat()
}

/// Returns the processor time of a program and its children so far.
fn cpu_time(terminal: &Terminal) -> Duration {
    processes(terminal).into_iter().map(process_time).sum()
}

/// Returns the resident memory of a program, and the memory of it and its children with shared pages counted once.
fn memory_kb(terminal: &Terminal) -> (u64, u64) {
    let all = processes(terminal).into_iter().filter_map(|pid| kib(&format!("/proc/{pid}/smaps_rollup"), "Pss:"));
    (kib(&format!("/proc/{}/status", terminal.pid()), "VmRSS:").unwrap_or(0), all.sum())
}
