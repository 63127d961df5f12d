//! Measures one `ttmon --json` on machines of several sizes: `cargo xtask bench snapshot [--runs N | --quick]`.
//!
//! The released static program has limits. The dynamic one of `cargo build --release`, named by `TTMON_BENCH_DYNAMIC`, is shown. Each
//! machine is measured alone and with many unrelated processes. All machines are measured in turns, alternating with the plain read of the
//! same files, and the other processes are started and ended a few times, so that other load of this host affects every row equally.
#![allow(clippy::unwrap_used, reason = "a bench")]

mod measure;

use std::path::{Path, PathBuf};
use std::time::Duration;

use measure::{Cost, MachineFiles, cost, idle_processes, milliseconds, read_plainly};
use ttmon_testing::measure::{load, number, quantile};

/// A machine with its limits. Medians are compared, because the slowest runs depend on the host.
struct Case {
    spec: &'static str,
    devices: &'static str,
    wall_ms_max: Option<f64>,
    cpu_ms_max: Option<f64>,
}

const CASES: [Case; 3] = [
    Case { spec: "p150x4", devices: "4", wall_ms_max: Some(10.0), cpu_ms_max: Some(5.0) },
    Case { spec: "t3k", devices: "4 + 4 remote", wall_ms_max: Some(10.0), cpu_ms_max: Some(5.0) },
    Case { spec: "galaxy-bh", devices: "32", wall_ms_max: Some(20.0), cpu_ms_max: None },
];

/// Limit of every row: twice the plain read, plus the start of a program.
const CPU_PLAIN_RATIO_MAX: f64 = 2.0;
const CPU_START_MS_MAX: f64 = 2.0;
const EXTRA_RATIO_MAX: f64 = 1.2;
const PEAK_KIB_MAX: u64 = 6_000;

const EXTRA_PROCESSES: usize = 2_000;
/// Enough for a stable median and 90th percentile.
const RUNS: usize = 200;
const QUICK_RUNS: usize = 5;
const ROUNDS: usize = 5;
const WARM_UP_RUNS: usize = 3;

struct Bench {
    case: &'static Case,
    machine: MachineFiles,
    files: Vec<PathBuf>,
    alone: Runs,
    crowded: Runs,
    dynamic: Runs,
}

/// The runs of a row, each with a plain read.
#[derive(Default)]
struct Runs {
    wall: Vec<Duration>,
    cpu: Vec<Duration>,
    plain_wall: Vec<Duration>,
    plain_cpu: Vec<Duration>,
    /// The highest peak of all runs, and the peak of the launcher in that run.
    peak_kib: (u64, u64),
}

fn main() {
    if measure::was_launcher() {
        return;
    }
    let runs = number("--runs", RUNS, QUICK_RUNS);
    let (program, dynamic) = (measure::released(), measure::program("TTMON_BENCH_DYNAMIC"));
    let mut benches = CASES.each_ref().map(Bench::new);
    take_turns(&mut benches, WARM_UP_RUNS, |bench| {
        bench.once(&program);
    });
    println!("load before: {}", load());
    for round in 0..ROUNDS {
        let share = runs / ROUNDS + usize::from(round < runs % ROUNDS);
        take_turns(&mut benches, share, |bench| {
            let once = bench.once(&program);
            bench.alone.add(&once);
            let once = bench.once(&dynamic);
            bench.dynamic.add(&once);
        });
        let extra_processes = idle_processes(EXTRA_PROCESSES);
        benches.iter().for_each(|bench| bench.machine.show(&extra_processes));
        take_turns(&mut benches, share, |bench| {
            let once = bench.once(&program);
            bench.crowded.add(&once);
        });
        benches.iter().for_each(|bench| bench.machine.hide(&extra_processes));
    }
    println!("load after:  {}", load());
    print_table(&benches, runs);
}

fn take_turns(benches: &mut [Bench], runs: usize, mut once: impl FnMut(&mut Bench)) {
    (0..runs).for_each(|_| benches.iter_mut().for_each(&mut once));
}

impl Bench {
    fn new(case: &'static Case) -> Self {
        let machine = MachineFiles::new(case.spec);
        let files = machine.published();
        Self { case, machine, files, alone: Runs::default(), crowded: Runs::default(), dynamic: Runs::default() }
    }

    /// Returns the cost of a run, and the times of a plain read.
    fn once(&self, program: &Path) -> (Cost, (Duration, Duration)) {
        let ours = cost(program, &["--root", self.machine.path().to_str().unwrap(), "--json"]);
        (ours, read_plainly(&self.files))
    }

    fn print_row(&self, name: &str, runs: &Runs, verdict: &str) {
        let median = |times: &[Duration]| quantile(&milliseconds(times), 50);
        let (peak_kib, launcher_kib) = runs.peak_kib;
        let mark = if peak_kib <= launcher_kib { "<=" } else { "" };
        let wall_limit = self.case.wall_ms_max.map_or_else(|| "-".to_owned(), |limit| format!("{limit:.1}"));
        let cpu_limit = self.case.cpu_ms_max.map_or(runs.cpu_ms_max(), |limit| limit.min(runs.cpu_ms_max()));
        println!(
            "{name:<18} {:<13} {:>6} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>6.1} {:>9} {:>16}  {verdict}",
            self.case.devices,
            self.files.len(),
            median(&runs.wall),
            quantile(&milliseconds(&runs.wall), 90),
            median(&runs.cpu),
            median(&runs.plain_wall),
            median(&runs.plain_cpu),
            median(&runs.cpu) / median(&runs.plain_cpu),
            format!("{mark}{peak_kib}"),
            format!("{wall_limit}, {cpu_limit:.1}"),
        );
    }

    /// Returns the limits that were missed, each with its numbers.
    fn verdict(&self, runs: &Runs, alone: Option<&Runs>) -> String {
        let medians = |runs: &Runs| [&runs.wall, &runs.cpu].map(|times| quantile(&milliseconds(times), 50));
        let [wall, cpu] = medians(runs);
        let mut limits = vec![("CPU", cpu, runs.cpu_ms_max())];
        limits.extend(self.case.wall_ms_max.map(|limit| ("wall", wall, limit)));
        limits.extend(self.case.cpu_ms_max.map(|limit| ("CPU", cpu, limit)));
        if let Some([wall_alone, cpu_alone]) = alone.map(medians) {
            limits.push(("wall beside extra processes", wall, EXTRA_RATIO_MAX * wall_alone));
            limits.push(("CPU beside extra processes", cpu, EXTRA_RATIO_MAX * cpu_alone));
        }
        let over = limits.into_iter().filter(|(_, value, limit)| value > limit);
        let mut missed: Vec<String> = over.map(|(what, value, limit)| format!("{what} {value:.2} > {limit:.2} ms")).collect();
        if runs.peak_kib.0 > PEAK_KIB_MAX {
            missed.push(format!("peak {} > {PEAK_KIB_MAX} kB", runs.peak_kib.0));
        }
        if missed.is_empty() { "holds".to_owned() } else { format!("MISSED: {}", missed.join(", ")) }
    }
}

impl Runs {
    fn add(&mut self, (ours, plain): &(Cost, (Duration, Duration))) {
        self.wall.push(ours.wall);
        self.cpu.push(ours.cpu);
        self.plain_wall.push(plain.0);
        self.plain_cpu.push(plain.1);
        self.peak_kib = self.peak_kib.max((ours.peak_kib, ours.launcher_kib));
    }

    fn cpu_ms_max(&self) -> f64 {
        CPU_PLAIN_RATIO_MAX * quantile(&milliseconds(&self.plain_cpu), 50) + CPU_START_MS_MAX
    }
}

fn print_table(benches: &[Bench], runs: usize) {
    println!(
        "\n{:<18} {:<13} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>9} {:>16}  verdict",
        "machine", "devices", "files", "wall ms", "p90", "CPU ms", "plain ms", "its CPU", "ratio", "peak kB", "wall, CPU limit"
    );
    for bench in benches {
        let spec = bench.case.spec;
        bench.print_row(spec, &bench.alone, &bench.verdict(&bench.alone, None));
        bench.print_row(&format!("{spec} + {EXTRA_PROCESSES}"), &bench.crowded, &bench.verdict(&bench.crowded, Some(&bench.alone)));
        bench.print_row(&format!("{spec}, dynamic"), &bench.dynamic, "not released");
    }
    println!(
        "\nMedians of {runs} runs a row. Ours is exec to exit of `ttmon --root DIR --json > /dev/null`, with CPU and peak as the kernel \
         tells\n\
         a small launcher, descendants contained; a peak marked <= is the launcher's own and only an upper bound. Plain is open, read,\n\
         close of the same files in one process, without exec. Limits of every row: CPU {CPU_PLAIN_RATIO_MAX} x plain + {CPU_START_MS_MAX} ms, \
         peak {PEAK_KIB_MAX} kB;\nwith {EXTRA_PROCESSES} more processes, {EXTRA_RATIO_MAX} x the row without."
    );
}
