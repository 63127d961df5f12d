//! Measures what the hook costs a program of the real ttnn on mock chips: `cargo xtask bench hook [--quick]`.
//!
//! The Python with ttnn comes in `TTMON_TTNN_PYTHON` as `VERSION=PATH`, the folder of the released libraries in `TTMON_BENCH_LIBRARIES`.
//!
//! The decisive figures are measured inside one process, with recording switched on and off in turns (hook.py). Costs that differ between
//! processes (the wrappers themselves, TT-Metal's own statistics) are shown by the smallest times of several processes.
#![allow(clippy::unwrap_used, reason = "a bench")]

use std::collections::HashMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use ttmon_testing::measure::{Limit, Verdicts, is_quick, load, quantile};
use ttmon_testing::ttnn::{self, Version};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/hook.py");
/// Descriptors of the mock machines.
const CHIPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../in-monitor/ttmon/tests/ttnn/chips");

const EVENT_MAX: Limit = Limit::AtMost(150.0, "ns");
const STEP_MAX: Limit = Limit::AtMost(2.0, "%");
const STEP_MAX_32: Limit = Limit::AtMost(3.0, "%");
/// Limits with the Python frames of each allocation.
const STACKS_EVENT_MAX: Limit = Limit::AtMost(200.0, "ns");
const STACKS_STEP_MAX: Limit = Limit::AtMost(2.5, "%");
const EXEC_MAX: Limit = Limit::AtMost(100.0, "us");

struct Bench {
    ttnn: Version,
    libraries: PathBuf,
    /// Number of turns of each kind inside a process, and number of processes of each kind.
    pairs: usize,
    processes: usize,
    execs: usize,
    verdicts: Verdicts,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Started {
    Plain,
    /// Without TT-Metal's own statistics.
    NoStatistics,
    /// The stub is preloaded, and tracking is off.
    Preloaded,
    Tracked,
    /// Tracked, with Python frames.
    WithStacks,
}

fn main() {
    let libraries = env::var_os("TTMON_BENCH_LIBRARIES").map(PathBuf::from);
    let (Some(ttnn), Some(libraries)) = (ttnn::versions().pop(), libraries) else {
        println!("not measured: cargo xtask bench hook builds the libraries and installs a Python with ttnn");
        return;
    };
    let (pairs, processes, execs) = if is_quick() { (40, 1, 100) } else { (150, 3, 500) };
    let mut bench = Bench { ttnn, libraries, pairs, processes, execs, verdicts: Verdicts::default() };
    println!("# The hook, beside its limits{}", if is_quick() { " (quick: fewer turns)" } else { "" });
    let version = &bench.ttnn.name;
    println!("ttnn {version} on mock chips; times are the thread's own on the processor; TT-Metal's own statistics are on, as by default.");
    println!("load before: {}\n", load());
    println!("| what | without | with | cost | limit | |\n|---|---|---|---|---|---|");
    bench.recording("n150", Started::Tracked, Some(EVENT_MAX), STEP_MAX);
    bench.recording("n150", Started::WithStacks, Some(STACKS_EVENT_MAX), STACKS_STEP_MAX);
    // Events are the same with any number of chips.
    bench.recording("galaxy", Started::Tracked, None, STEP_MAX_32);
    bench.exec();
    bench.between_processes();
    println!("\nload after: {}\nbench hook: {}", load(), bench.verdicts);
}

impl Bench {
    fn recording(&mut self, chips: &str, started: Started, event_max: Option<Limit>, step_max: Limit) {
        let turns = self.turns(chips, started, self.pairs);
        let (event, step) = (&turns["event"], &turns["step"]);
        let stacks = if started == Started::WithStacks { ", with stacks" } else { "" };
        let chips = if chips == "n150" { "1 chip" } else { "32 chips" };
        let ns = event.difference() / 2.0;
        let percent = (step.ratio() - 1.0) * 100.0;
        self.row(
            &format!("an allocation and its free, {chips}{stacks}"),
            &event.medians("us", 1e3),
            &format!("{ns:.0} ns an event"),
            event_max.map(|max| (ns, max)),
        );
        self.row(
            &format!("a step of 240 operations, {chips}{stacks}"),
            &step.medians("ms", 1e6),
            &format!("{percent:+.2} %"),
            Some((percent, step_max)),
        );
    }

    /// Measures a child that never uses TT-Metal.
    fn exec(&mut self) {
        let mut turns = Turns::default();
        for number in 0..self.execs {
            for is_on in [number % 2 == 0, number % 2 == 1] {
                let mut child = Command::new("/bin/true");
                child.stdin(Stdio::null()).env_remove("LD_PRELOAD").env("TTMON_TRACKING", "1");
                if is_on {
                    child.env("LD_PRELOAD", self.libraries.join("libttmon_stub.so"));
                }
                let start = Instant::now();
                assert!(child.status().unwrap().success());
                let took = start.elapsed().as_secs_f64() * 1e9;
                if is_on { &mut turns.on } else { &mut turns.off }.push(took);
            }
        }
        let us = turns.difference() / 1e3;
        let figures = format!("{:.0} us | {:.0} us", quantile(&turns.off, 50) / 1e3, quantile(&turns.on, 50) / 1e3);
        self.row("exec of /bin/true, the stub preloaded (wall)", &figures, &format!("{us:.0} us"), Some((us, EXEC_MAX)));
    }

    /// Prints the smallest times of several processes of each kind, run in turns.
    fn between_processes(&mut self) {
        let kinds = [Started::NoStatistics, Started::Plain, Started::Preloaded];
        let mut smallest = [(f64::MAX, f64::MAX); 3];
        for _ in 0..self.processes {
            for (kind, smallest) in kinds.into_iter().zip(&mut smallest) {
                let turns = self.turns("n150", kind, self.pairs / 2);
                *smallest = (smallest.0.min(turns["event"].smallest()), smallest.1.min(turns["step"].smallest()));
            }
        }
        let [bare, plain, preloaded] = smallest;
        for (what, from, to) in
            [("the wrappers alone (preloaded, tracking off), minima", plain, preloaded), ("TT-Metal's own statistics, minima", bare, plain)]
        {
            let figures = format!("{:.2} us | {:.2} us", from.0 / 1e3, to.0 / 1e3);
            self.row(&format!("{what}: an allocation and its free"), &figures, &format!("{:.0} ns an event", (to.0 - from.0) / 2.0), None);
            let figures = format!("{:.2} ms | {:.2} ms", from.1 / 1e6, to.1 / 1e6);
            self.row(&format!("{what}: a step"), &figures, &format!("{:+.2} %", (to.1 / from.1 - 1.0) * 100.0), None);
        }
    }

    /// Runs the script in a new process. Returns the turns by name.
    fn turns(&self, chips: &str, started: Started, pairs: usize) -> HashMap<String, Turns> {
        let folder = tempfile::tempdir().unwrap();
        let is_tracked = matches!(started, Started::Tracked | Started::WithStacks);
        let mut command = Command::new(&self.ttnn.python);
        command.arg(SCRIPT).arg(if is_tracked { &self.libraries } else { Path::new("-") }).arg(pairs.to_string());
        self.ttnn.on_mock_chips(&mut command, &Path::new(CHIPS).join(chips).with_extension("yaml"), folder.path());
        match started {
            Started::Plain => &mut command,
            Started::NoStatistics => command.env("TT_METAL_SHM_TRACKING_DISABLED", "1"),
            Started::Preloaded | Started::Tracked | Started::WithStacks => {
                command.env("LD_PRELOAD", self.libraries.join("libttmon_stub.so"))
            }
        };
        if is_tracked {
            command.env("TTMON_TRACKING", "1").env("TTMON_STACKS", if started == Started::WithStacks { "1" } else { "0" });
        }
        let output = command.output().unwrap();
        let mut turns: HashMap<String, Turns> = HashMap::new();
        // TT-Metal may print lines of its own.
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let mut words = line.split(' ');
            let (Some(name @ ("event" | "step")), Some(kind)) = (words.next(), words.next()) else { continue };
            let turns = turns.entry(name.to_owned()).or_default();
            let times = if kind == "on" { &mut turns.on } else { &mut turns.off };
            times.extend(words.map(|word| word.parse::<f64>().unwrap()));
        }
        let is_whole = |turns: &Turns| !turns.on.is_empty() && turns.on.len() == turns.off.len();
        let is_complete = turns.len() == 2 && turns.values().all(is_whole);
        assert!(is_complete, "{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        turns
    }

    fn row(&mut self, what: &str, figures: &str, cost: &str, limit: Option<(f64, Limit)>) {
        let verdict = limit.map(|(value, limit)| self.verdicts.judge(value, limit)).unwrap_or("shown");
        let limit = limit.map(|(_, limit)| limit.to_string()).unwrap_or_default();
        println!("| {what} | {figures} | {cost} | {limit} | {verdict} |");
    }
}

/// Nanoseconds of the turns with and without recording, in order.
#[derive(Default)]
struct Turns {
    on: Vec<f64>,
    off: Vec<f64>,
}

impl Turns {
    /// Returns the median of the differences between neighbouring turns.
    fn difference(&self) -> f64 {
        quantile(&self.on.iter().zip(&self.off).map(|(on, off)| on - off).collect::<Vec<_>>(), 50)
    }

    fn ratio(&self) -> f64 {
        quantile(&self.on.iter().zip(&self.off).map(|(on, off)| on / off).collect::<Vec<_>>(), 50)
    }

    fn smallest(&self) -> f64 {
        self.on.iter().chain(&self.off).copied().fold(f64::MAX, f64::min)
    }

    fn medians(&self, unit: &str, scale: f64) -> String {
        format!("{:.2} {unit} | {:.2} {unit}", quantile(&self.off, 50) / scale, quantile(&self.on, 50) / scale)
    }
}
