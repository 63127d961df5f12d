//! What the benches of the program share: a simulated machine, plain reading of its files, the cost of one run of a program, idle
//! processes.
#![allow(dead_code, reason = "each bench uses a part")]
#![allow(clippy::unwrap_used, reason = "benches")]

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use tempfile::TempDir;
use ttmon_sim::{Machine, Spec};
use ttmon_testing::KilledOnDrop;
use ttmon_testing::measure::{Limit, Verdicts, kib, thread_time};

/// In memory, like sysfs, so that no disk is measured.
const MEMORY: &str = "/dev/shm";
const SEED: u64 = 1;
/// A minute after the start, when the processes are busy.
const FIRST_TICK: u64 = 60 * TICKS_PER_SECOND;
const TICKS_PER_SECOND: u64 = 4;

/// Directories of the kernel driver and TT-Metal, below the root of a machine.
const PUBLISHED: &[&str] = &["sys", "proc/driver", "dev/shm"];

/// Tells a process of this bench that it is a launcher.
const LAUNCHER: &str = "--launcher";

/// Returns the program that `cargo xtask bench` names in a variable, or the one that cargo has built for this bench.
pub(crate) fn program(variable: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| env!("CARGO_BIN_EXE_ttmon").into(), PathBuf::from)
}

/// Returns the released program.
pub(crate) fn released() -> PathBuf {
    program("TTMON_BENCH_PROGRAM")
}

/// Starts idle processes. If this program is killed, they end after an hour.
pub(crate) fn idle_processes(count: usize) -> Vec<KilledOnDrop> {
    (0..count).map(|_| KilledOnDrop::spawn(Command::new("sleep").arg("3600"))).collect()
}

/// Returns the processes that a process has started.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    texts.flat_map(|text| text.split_whitespace().map(|child| child.parse().unwrap()).collect::<Vec<_>>()).collect()
}

/// Prints a figure with its limit.
pub(crate) fn print_figure(what: &str, value: f64, unit: &'static str, limit: Option<f64>) {
    let text = limit.map(|limit| Verdicts::default().text(value, Limit::AtMost(limit, unit)));
    println!("  {what:<62} {value:>10.3} {unit:<6} {}", text.unwrap_or_default());
}

/// A simulated machine in files, with real idle processes that hold its devices.
pub(crate) struct MachineFiles {
    directory: TempDir,
    machine: Machine,
    holders: Vec<KilledOnDrop>,
}

impl MachineFiles {
    pub(crate) fn new(spec: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("ttmon-bench-").tempdir_in(MEMORY).unwrap();
        let machine = Machine::new(&Spec::parse(spec).unwrap(), SEED).unwrap();
        let holders = idle_processes(machine.process_count());
        let files = Self { directory, machine, holders };
        files.write(FIRST_TICK);
        fs::create_dir_all(files.path().join("proc")).unwrap();
        files.show(&files.holders);
        files
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    fn write(&self, tick: u64) {
        let pids: Vec<Option<u32>> = self.holders.iter().map(|holder| Some(holder.id())).collect();
        self.machine.write(self.path(), tick, &pids).unwrap();
    }

    /// Changes the machine for this time, and calls a function after each change, which takes a second. Returns the seconds that passed.
    pub(crate) fn run(&self, time: Duration, mut each: impl FnMut()) -> f64 {
        let started = Instant::now();
        for second in 1.. {
            self.write(FIRST_TICK + second * TICKS_PER_SECOND);
            each();
            if started.elapsed() >= time {
                break;
            }
        }
        started.elapsed().as_secs_f64()
    }

    /// Lets a file of a device not answer.
    pub(crate) fn hang(&self, device: u32) {
        let directory = fs::canonicalize(self.path().join(format!("sys/class/tenstorrent/tenstorrent!{device}"))).unwrap();
        let file = directory.strip_prefix(self.path()).unwrap().join("tt_aiclk");
        fs::write(self.path().join(".ttmon-faults"), format!("{}\thang\n", file.display())).unwrap();
    }

    /// Shows processes to readers of this machine.
    pub(crate) fn show(&self, processes: &[KilledOnDrop]) {
        processes.iter().for_each(|process| symlink(format!("/proc/{}", process.id()), self.process(process)).unwrap());
    }

    pub(crate) fn hide(&self, processes: &[KilledOnDrop]) {
        processes.iter().for_each(|process| fs::remove_file(self.process(process)).unwrap());
    }

    fn process(&self, process: &KilledOnDrop) -> PathBuf {
        self.path().join("proc").join(process.id().to_string())
    }

    /// Returns every file that a monitor needs, except those of processes.
    pub(crate) fn published(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        PUBLISHED.iter().map(|part| self.path().join(part)).filter(|part| part.exists()).for_each(|part| walk(&part, &mut files));
        files
    }
}

/// Lists all files. Links of sysfs are skipped, because they lead to directories that are listed anyway.
fn walk(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            walk(&entry.path(), files);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
}

/// Opens, reads and closes files in this process. Returns the wall time and the processor time.
///
/// This is the baseline of a monitor, which also starts, lists directories, reads processes and prints.
pub(crate) fn read_plainly(files: &[PathBuf]) -> (Duration, Duration) {
    let mut buffer = [0; 16 * 1024];
    let (cpu, started) = (thread_time(), Instant::now());
    for path in files {
        let mut file = File::open(path).unwrap();
        while file.read(&mut buffer).unwrap() > 0 {}
    }
    (started.elapsed(), thread_time() - cpu)
}

/// What one run of a program takes, with the descendants that it waits for.
pub(crate) struct Cost {
    pub(crate) wall: Duration,
    /// User and system time.
    pub(crate) cpu: Duration,
    pub(crate) peak_kib: u64,
    /// The peak of the launcher itself. A lower peak of the program cannot be measured.
    pub(crate) launcher_kib: u64,
}

/// Runs a program once without its output.
///
/// A new process of this bench starts it. Before exec, a child has the memory of its parent, so the peak of a large parent is reported for
/// every small child; and the kernel tells the peak only for all children of a process together.
pub(crate) fn cost(program: &Path, arguments: &[&str]) -> Cost {
    let mut launcher = Command::new(std::env::current_exe().unwrap());
    let output = launcher.arg(LAUNCHER).arg(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<u64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [wall, cpu, peak_kib, launcher_kib] = numbers[..] else { panic!("{launcher:?}: {}", output.status) };
    Cost { wall: Duration::from_micros(wall), cpu: Duration::from_micros(cpu), peak_kib, launcher_kib }
}

/// Whether this process is a launcher. If so, it has started its program and printed the cost.
pub(crate) fn was_launcher() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|first| first != LAUNCHER) {
        return false;
    }
    let mut command = Command::new(arguments.next().unwrap());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    let started = Instant::now();
    let status = command.status().unwrap();
    let wall = started.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let cpu = usage.user_time() + usage.system_time();
    let cpu_us = i128::from(cpu.tv_sec()) * 1_000_000 + i128::from(cpu.tv_usec());
    // Read last, so that it is not less than the memory that the child had before exec.
    println!("{} {cpu_us} {} {}", wall.as_micros(), usage.max_rss(), kib("/proc/self/status", "VmHWM:").unwrap());
    true
}

/// Returns durations in milliseconds.
pub(crate) fn milliseconds(durations: &[Duration]) -> Vec<f64> {
    durations.iter().map(|duration| duration.as_secs_f64() * 1e3).collect()
}
