//! `cargo xtask bench snapshot`: measures one `ttmon --json` on machines of several sizes.
//!
//! The program is the released static one. The dynamic one of `cargo build --release` is measured too, without limits. Each machine is
//! measured alone and with many unrelated processes. All machines are measured in turns, alternating with the plain read of the same files,
//! and the other processes are started and ended a few times, so that other load of this host affects every row equally.

use std::fs;
use std::path::Path;

use super::cost::{Cost, Launcher};
use super::plain::{Files, PlainRead};
use super::root::Root;
use super::sleepers::Sleepers;
use super::statistics::Durations;
use crate::package;
use crate::project::{self, Project};

/// A row of the table with its limits. Medians are compared, because the slowest runs depend on the host.
struct Case {
    spec: &'static str,
    devices: &'static str,
    wall_ms_max: Option<f64>,
    cpu_ms_max: Option<f64>,
}

const CASES: &[Case] = &[
    Case { spec: "p150x4", devices: "4", wall_ms_max: Some(10.0), cpu_ms_max: Some(5.0) },
    Case { spec: "t3k", devices: "4 + 4 remote", wall_ms_max: Some(10.0), cpu_ms_max: Some(5.0) },
    Case { spec: "galaxy-bh", devices: "32", wall_ms_max: Some(20.0), cpu_ms_max: None },
];

/// Limit of every row: twice the plain read, plus the start of a program.
const CPU_PLAIN_RATIO_MAX: f64 = 2.0;
const CPU_START_MS_MAX: f64 = 2.0;
const CROWD_RATIO_MAX: f64 = 1.2;
const PEAK_KIB_MAX: u64 = 6_000;

const CROWD: usize = 2_000;
const ROUNDS: usize = 5;
const WARM_UP_RUNS: usize = 3;

#[derive(Clone, Default)]
struct Measured {
    wall: Durations,
    cpu: Durations,
    plain_wall: Durations,
    plain_cpu: Durations,
    /// The highest peak of all runs, and the peak of the launcher in that run.
    peak_kib: u64,
    launcher_kib: u64,
}

struct Bench {
    case: &'static Case,
    root: Root,
    files: Files,
    alone: Measured,
    crowded: Measured,
    dynamic: Measured,
}

pub(super) fn run(project: &Project, runs: usize) -> Result<(), String> {
    let program = package::program::build(project)?;
    project::run(&mut project.cargo(&["build", "--release", "--package", "ttmon"]))?;
    let dynamic = project.metadata()?.target.join("release/ttmon");
    let launcher = Launcher::build(project)?;
    let mut benches = CASES.iter().map(Bench::make).collect::<Result<Vec<_>, _>>()?;
    take_turns(&mut benches, WARM_UP_RUNS, |bench| bench.once(&launcher, &program).map(drop))?;
    println!("load before: {}", load());
    for round in 0..ROUNDS {
        let share = runs / ROUNDS + usize::from(round < runs % ROUNDS);
        take_turns(&mut benches, share, |bench| {
            bench.once(&launcher, &program).map(|once| bench.alone.add(once))?;
            bench.once(&launcher, &dynamic).map(|once| bench.dynamic.add(once))
        })?;
        let crowd = Sleepers::start(CROWD)?;
        benches.iter().try_for_each(|bench| bench.root.link(crowd.pids()))?;
        take_turns(&mut benches, share, |bench| bench.once(&launcher, &program).map(|once| bench.crowded.add(once)))?;
        benches.iter().try_for_each(|bench| bench.root.unlink(crowd.pids()))?;
    }
    println!("load after:  {}", load());
    print!("{}", table(&benches, runs));
    Ok(())
}

fn take_turns(benches: &mut [Bench], runs: usize, mut once: impl FnMut(&mut Bench) -> Result<(), String>) -> Result<(), String> {
    (0..runs).try_for_each(|_| benches.iter_mut().try_for_each(&mut once))
}

impl Bench {
    fn make(case: &'static Case) -> Result<Self, String> {
        let root = Root::make(case.spec)?;
        let files = Files::below(root.path())?;
        Ok(Self { case, root, files, alone: Measured::default(), crowded: Measured::default(), dynamic: Measured::default() })
    }

    fn once(&self, launcher: &Launcher, program: &Path) -> Result<(Cost, PlainRead), String> {
        let root = self.root.path().to_str().ok_or("the root has a name that is not UTF-8")?;
        let ours = launcher.measure(program, &["--root", root, "--json"])?;
        Ok((ours, self.files.read()?))
    }
}

impl Measured {
    fn add(&mut self, (ours, plain): (Cost, PlainRead)) {
        self.wall.push(ours.wall);
        self.cpu.push(ours.cpu);
        self.plain_wall.push(plain.0);
        self.plain_cpu.push(plain.1);
        (self.peak_kib, self.launcher_kib) = (self.peak_kib, self.launcher_kib).max((ours.peak_kib, ours.launcher_kib));
    }

    fn cpu_ms_max(&self) -> f64 {
        CPU_PLAIN_RATIO_MAX * self.plain_cpu.median_ms() + CPU_START_MS_MAX
    }
}

/// Returns the limits that were missed, each with its numbers. Empty if all were met.
fn missed(case: &Case, measured: &Measured, alone: Option<&Measured>) -> Vec<String> {
    let (wall, cpu) = (measured.wall.median_ms(), measured.cpu.median_ms());
    let mut limits = vec![("CPU", cpu, measured.cpu_ms_max())];
    limits.extend(case.wall_ms_max.map(|limit| ("wall", wall, limit)));
    limits.extend(case.cpu_ms_max.map(|limit| ("CPU", cpu, limit)));
    if let Some(alone) = alone {
        limits.push(("wall in the crowd", wall, CROWD_RATIO_MAX * alone.wall.median_ms()));
        limits.push(("CPU in the crowd", cpu, CROWD_RATIO_MAX * alone.cpu.median_ms()));
    }
    let over = limits.into_iter().filter(|(_, value, limit)| value > limit);
    let mut missed: Vec<String> = over.map(|(what, value, limit)| format!("{what} {value:.2} > {limit:.2} ms")).collect();
    if measured.peak_kib > PEAK_KIB_MAX {
        missed.push(format!("peak {} > {PEAK_KIB_MAX} kB", measured.peak_kib));
    }
    missed
}

fn table(benches: &[Bench], runs: usize) -> String {
    let mut text = format!(
        "\n{:<18} {:<13} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>9} {:>16}  verdict\n",
        "machine", "devices", "files", "wall ms", "p90", "CPU ms", "plain ms", "its CPU", "ratio", "peak kB", "wall, CPU limit"
    );
    for bench in benches {
        let spec = bench.case.spec;
        text += &row(bench, spec, &bench.alone, &verdict(&missed(bench.case, &bench.alone, None)));
        let crowded = verdict(&missed(bench.case, &bench.crowded, Some(&bench.alone)));
        text += &row(bench, &format!("{spec} + {CROWD}"), &bench.crowded, &crowded);
        text += &row(bench, &format!("{spec}, dynamic"), &bench.dynamic, "not released");
    }
    text += &format!(
        "\nMedians of {runs} runs a row. Ours is exec to exit of `ttmon --root DIR --json > /dev/null`, with CPU and peak by wait4 of a\n\
         small launcher, descendants contained; a peak marked <= is the launcher's own and only an upper bound. Plain is open, read,\n\
         close of the same files in one process, without exec. Limits of every row: CPU {CPU_PLAIN_RATIO_MAX} x plain + {CPU_START_MS_MAX} ms, \
         peak {PEAK_KIB_MAX} kB;\nwith {CROWD} more processes, {CROWD_RATIO_MAX} x the row without.\n"
    );
    text
}

fn verdict(missed: &[String]) -> String {
    if missed.is_empty() { "holds".to_owned() } else { format!("MISSED: {}", missed.join(", ")) }
}

fn row(bench: &Bench, name: &str, measured: &Measured, verdict: &str) -> String {
    let Measured { wall, cpu, plain_wall, plain_cpu, peak_kib, launcher_kib } = measured;
    let mark = if peak_kib <= launcher_kib { "<=" } else { "" };
    let wall_limit = bench.case.wall_ms_max.map_or_else(|| "-".to_owned(), |limit| format!("{limit:.1}"));
    let cpu_limit = bench.case.cpu_ms_max.map_or(measured.cpu_ms_max(), |limit| limit.min(measured.cpu_ms_max()));
    format!(
        "{name:<18} {:<13} {:>6} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>6.1} {:>9} {:>16}  {verdict}\n",
        bench.case.devices,
        bench.files.count(),
        wall.median_ms(),
        wall.p90_ms(),
        cpu.median_ms(),
        plain_wall.median_ms(),
        plain_cpu.median_ms(),
        cpu.median_ms() / plain_cpu.median_ms(),
        format!("{mark}{peak_kib}"),
        format!("{wall_limit}, {cpu_limit:.1}"),
    )
}

/// Returns the load of this host over 1, 5 and 15 minutes, as the kernel prints it.
pub(super) fn load() -> String {
    fs::read_to_string("/proc/loadavg").map_or_else(|error| error.to_string(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const CASE: Case = Case { spec: "p150x4", devices: "4", wall_ms_max: Some(10.0), cpu_ms_max: Some(5.0) };

    fn measured(wall_ms: u64, cpu_ms: u64, plain_cpu_ms: u64, peak_kib: u64) -> Measured {
        let mut measured = Measured { peak_kib, ..Measured::default() };
        measured.wall.push(Duration::from_millis(wall_ms));
        measured.cpu.push(Duration::from_millis(cpu_ms));
        measured.plain_cpu.push(Duration::from_millis(plain_cpu_ms));
        measured
    }

    #[test]
    fn limits_hold_up_to_their_value() {
        assert_eq!(missed(&CASE, &measured(10, 5, 2, PEAK_KIB_MAX), None), [""; 0]);
        assert_eq!(missed(&CASE, &measured(11, 4, 1, 1), None), ["wall 11.00 > 10.00 ms"]);
        assert_eq!(missed(&CASE, &measured(1, 6, 2, 1), None), ["CPU 6.00 > 5.00 ms"]);
        assert_eq!(missed(&CASE, &measured(1, 4, 0, 1), None), ["CPU 4.00 > 2.00 ms"]);
        assert_eq!(missed(&CASE, &measured(1, 1, 1, 6_001), None), ["peak 6001 > 6000 kB"]);
    }

    #[test]
    fn a_crowd_is_held_against_the_row_without() {
        let alone = measured(5, 2, 1, 1);
        assert_eq!(missed(&CASE, &measured(6, 2, 1, 1), Some(&alone)), [""; 0]);
        assert_eq!(
            missed(&CASE, &measured(7, 3, 1, 1), Some(&alone)),
            ["wall in the crowd 7.00 > 6.00 ms", "CPU in the crowd 3.00 > 2.40 ms"]
        );
    }
}
