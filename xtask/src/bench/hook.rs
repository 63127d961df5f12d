//! `cargo xtask bench hook`: measures what the hook costs a program of the real ttnn on mock chips.
//!
//! The decisive figures are measured inside one process, with recording switched on and off in turns (xtask/bench/hook.py). Costs that
//! differ between processes (the wrappers themselves, TT-Metal's own statistics) are shown by the smallest times of several processes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::snapshot::load;
use crate::files;
use crate::libs::{self, Profile};
use crate::project::Project;
use crate::ttnn::{self, Chips, Environment};

const VERSION: &str = "0.81.1";
const SCRIPT: &str = "xtask/bench/hook.py";
const LIMIT: Duration = Duration::from_secs(300);

const EVENT_NS_MAX: f64 = 150.0;
const STEP_PERCENT_MAX: f64 = 2.0;
const STEP_PERCENT_MAX_32: f64 = 3.0;
/// Limit with the Python frames of each allocation.
const STACKS_EVENT_NS_MAX: f64 = 200.0;
const STACKS_STEP_PERCENT_MAX: f64 = 2.5;
const EXEC_US_MAX: f64 = 100.0;

/// Number of turns of each kind inside a process, and number of processes of each kind.
struct Effort {
    pairs: usize,
    processes: usize,
    execs: usize,
}

const QUICK: Effort = Effort { pairs: 40, processes: 1, execs: 100 };
const FULL: Effort = Effort { pairs: 150, processes: 3, execs: 500 };

pub(super) fn run(project: &Project, is_quick: bool) -> Result<(), String> {
    let effort = if is_quick { QUICK } else { FULL };
    let libraries = libs::build(project, Profile::Release)?;
    let environment = Environment::have(project, VERSION)?;
    println!("# The hook, beside its limits{}", if is_quick { " (quick: fewer turns)" } else { "" });
    println!("ttnn {VERSION} on mock chips; times are the thread's own on the processor; TT-Metal's own statistics are on, as by default.");
    println!("load before: {}\n", load());
    println!("| what | without | with | cost | limit | |\n|---|---|---|---|---|---|");
    let bench = Bench { project, environment, libraries: &libraries, effort };
    let missed = [
        bench.recording("n150", Started::Tracked, STEP_PERCENT_MAX)?,
        bench.recording("n150", Started::WithStacks, STACKS_STEP_PERCENT_MAX)?,
        bench.recording("galaxy", Started::Tracked, STEP_PERCENT_MAX_32)?,
        bench.exec()?,
    ];
    bench.between_processes()?;
    println!("\nload after: {}", load());
    let missed: usize = missed.iter().sum();
    println!("bench hook: {}", if missed == 0 { "all limits hold".to_owned() } else { format!("{missed} missed") });
    Ok(())
}

struct Bench<'a> {
    project: &'a Project,
    environment: Environment,
    libraries: &'a Path,
    effort: Effort,
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

impl Bench<'_> {
    fn recording(&self, chips: &str, started: Started, percent_max: f64) -> Result<usize, String> {
        let said = self.said(chips, started, self.effort.pairs)?;
        let count = said["chips"].as_u64().unwrap_or(0);
        let event = Turns::of(&said["event"])?;
        let step = Turns::of(&said["step"])?;
        let ns = event.difference() / 2.0;
        let percent = (step.ratio() - 1.0) * 100.0;
        let plural = if count == 1 { "chip" } else { "chips" };
        let (stacks, event_limit) =
            if started == Started::WithStacks { (", with stacks", STACKS_EVENT_NS_MAX) } else { ("", EVENT_NS_MAX) };
        let what = format!("an allocation and its free, {count} {plural}{stacks}");
        let pair = |turns: &Turns, unit: &str, scale: f64| {
            format!("{:.2} {unit} | {:.2} {unit}", median(&turns.off) / scale, median(&turns.on) / scale)
        };
        // The limit is checked with one chip only, because the events are the same with any number.
        let event_max = if count == 1 { Some(event_limit) } else { None };
        let mut missed = row(&what, &pair(&event, "us", 1e3), &format!("{ns:.0} ns an event"), event_max.map(|max| (ns, max, "ns")));
        let what = format!("a step of 240 operations, {count} {plural}{stacks}");
        missed += row(&what, &pair(&step, "ms", 1e6), &format!("{percent:+.2} %"), Some((percent, percent_max, "%")));
        Ok(missed)
    }

    /// Measures a child that never uses TT-Metal.
    fn exec(&self) -> Result<usize, String> {
        let mut turns = Turns { on: Vec::new(), off: Vec::new() };
        let stub = self.libraries.join("libttmon_stub.so");
        for number in 0..self.effort.execs {
            for is_on in if number % 2 == 0 { [true, false] } else { [false, true] } {
                let mut child = Command::new("/bin/true");
                child.stdin(Stdio::null()).env_remove("LD_PRELOAD").env("TTMON_TRACKING", "1");
                if is_on {
                    child.env("LD_PRELOAD", &stub);
                }
                let start = Instant::now();
                let done = child.status().map_err(|error| format!("/bin/true: {error}"))?;
                let took = start.elapsed().as_secs_f64() * 1e9;
                if !done.success() {
                    return Err(format!("/bin/true: {done}"));
                }
                if is_on { &mut turns.on } else { &mut turns.off }.push(took);
            }
        }
        let cost = turns.difference() / 1e3;
        let figures = format!("{:.0} us | {:.0} us", median(&turns.off) / 1e3, median(&turns.on) / 1e3);
        Ok(row("exec of /bin/true, the stub preloaded (wall)", &figures, &format!("{cost:.0} us"), Some((cost, EXEC_US_MAX, "us"))))
    }

    /// Prints the smallest times of several processes of each kind, run in turns.
    fn between_processes(&self) -> Result<(), String> {
        let kinds = [Started::NoStatistics, Started::Plain, Started::Preloaded];
        let mut smallest = [(f64::MAX, f64::MAX); 3];
        for _ in 0..self.effort.processes {
            for (kind, smallest) in kinds.into_iter().zip(&mut smallest) {
                let said = self.said("n150", kind, self.effort.pairs / 2)?;
                let (event, step) = (Turns::of(&said["event"])?, Turns::of(&said["step"])?);
                *smallest = (smallest.0.min(event.smallest()), smallest.1.min(step.smallest()));
            }
        }
        let [bare, plain, preloaded] = smallest;
        let compare = |what: &str, from: (f64, f64), to: (f64, f64)| {
            let ns = (to.0 - from.0) / 2.0;
            let figures = format!("{:.2} us | {:.2} us", from.0 / 1e3, to.0 / 1e3);
            row(&format!("{what}: an allocation and its free"), &figures, &format!("{ns:.0} ns an event"), None);
            let figures = format!("{:.2} ms | {:.2} ms", from.1 / 1e6, to.1 / 1e6);
            row(&format!("{what}: a step"), &figures, &format!("{:+.2} %", (to.1 / from.1 - 1.0) * 100.0), None);
        };
        compare("the wrappers alone (preloaded, tracking off), minima", plain, preloaded);
        compare("TT-Metal's own statistics, minima", bare, plain);
        Ok(())
    }

    fn said(&self, chips: &str, started: Started, pairs: usize) -> Result<Value, String> {
        let folder = files::temporary()?;
        let mock = Chips::read(self.project, chips)?;
        let mut command = self.environment.command(&self.environment.python, &mock, folder.path());
        let is_tracked = matches!(started, Started::Tracked | Started::WithStacks);
        let libraries = if is_tracked { self.libraries.as_os_str() } else { "-".as_ref() };
        command.arg(self.project.root.join(SCRIPT)).arg(libraries).arg(pairs.to_string()).stderr(Stdio::null());
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
        let done = ttnn::output(&mut command, LIMIT)?;
        let text = String::from_utf8_lossy(&done.stdout);
        let line = text.lines().find(|line| line.starts_with('{')).ok_or_else(|| format!("{SCRIPT} on {chips}: {}", done.status))?;
        serde_json::from_str(line).map_err(|error| format!("{SCRIPT} on {chips}: {error}"))
    }
}

/// Nanoseconds of the turns with and without recording, in order.
struct Turns {
    on: Vec<f64>,
    off: Vec<f64>,
}

impl Turns {
    fn of(said: &Value) -> Result<Self, String> {
        let list = |name: &str| -> Option<Vec<f64>> { said[name].as_array()?.iter().map(Value::as_f64).collect() };
        match (list("on"), list("off")) {
            (Some(on), Some(off)) if !on.is_empty() && on.len() == off.len() => Ok(Self { on, off }),
            _ => Err(format!("{SCRIPT} said something else than turns")),
        }
    }

    /// Returns the median of the differences between neighbouring turns.
    fn difference(&self) -> f64 {
        median(&self.on.iter().zip(&self.off).map(|(on, off)| on - off).collect::<Vec<_>>())
    }

    fn ratio(&self) -> f64 {
        median(&self.on.iter().zip(&self.off).map(|(on, off)| on / off).collect::<Vec<_>>())
    }

    fn smallest(&self) -> f64 {
        self.on.iter().chain(&self.off).copied().fold(f64::MAX, f64::min)
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.get(middle) {
        None => f64::NAN,
        Some(upper) if sorted.len().is_multiple_of(2) => (sorted.get(middle.wrapping_sub(1)).unwrap_or(upper) + upper) / 2.0,
        Some(middle) => *middle,
    }
}

/// Prints a row of the table. Returns 1 if its limit was missed.
fn row(what: &str, figures: &str, cost: &str, limit: Option<(f64, f64, &str)>) -> usize {
    let (limit, verdict, missed) = match limit {
        None => (String::new(), "shown", 0),
        Some((value, max, unit)) if value <= max => (format!("{max} {unit}"), "holds", 0),
        Some((_, max, unit)) => (format!("{max} {unit}"), "MISSED", 1),
    };
    println!("| {what} | {figures} | {cost} | {limit} | {verdict} |");
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_compared_and_not_the_whole() {
        let turns = Turns { on: vec![11.0, 22.0, 103.0], off: vec![10.0, 20.0, 100.0] };
        assert!((turns.difference() - 2.0).abs() < 1e-9);
        assert!((turns.ratio() - 1.1).abs() < 1e-9);
        assert!((turns.smallest() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_median_is_in_the_middle() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn what_the_script_does_not_say_is_an_error() {
        assert!(Turns::of(&serde_json::json!({"on": [1.0], "off": [2.0]})).is_ok());
        assert!(Turns::of(&serde_json::json!({"on": [1.0], "off": []})).is_err());
        assert!(Turns::of(&serde_json::json!({"on": ["a"], "off": [1.0]})).is_err());
        assert!(Turns::of(&serde_json::json!({})).is_err());
    }
}
