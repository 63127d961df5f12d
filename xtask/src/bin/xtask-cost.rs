//! `xtask-cost PROGRAM [ARGUMENT]...`: runs a program once and prints its cost, by wait4(2).
//!
//! It is a separate program because it must be small. Before exec, a child has the memory of its parent, so the peak of a large parent is
//! reported for every small child. This program has 2 MB. It also prints its own peak; a figure that is not above that peak is only an
//! upper bound.

use std::fs;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use wait4::Wait4;

fn main() -> ExitCode {
    match measure() {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("xtask-cost: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the line that `bench/cost.rs` reads. The program's own output is discarded.
fn measure() -> Result<String, String> {
    let mut arguments = std::env::args_os().skip(1);
    let program = arguments.next().ok_or("no program named")?;
    let mut command = Command::new(&program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    let failed = |error: std::io::Error| format!("{}: {error}", program.display());

    let started = Instant::now();
    let mut child = command.spawn().map_err(failed)?;
    let ended = child.wait4().map_err(failed)?;
    let wall = started.elapsed();

    if !ended.status.success() {
        return Err(format!("{}: {}", program.display(), ended.status));
    }
    let cpu = ended.rusage.utime + ended.rusage.stime;
    // Read last, so that it is not less than the memory that the child had before exec.
    let launcher_kib = own_peak_kib().ok_or("/proc/self/status has no VmHWM")?;
    let peak_kib = ended.rusage.maxrss / 1024;
    Ok(format!("wall_us {} cpu_us {} peak_kib {peak_kib} launcher_kib {launcher_kib}", wall.as_micros(), cpu.as_micros()))
}

/// Parses a line such as `VmHWM:     2140 kB`.
fn own_peak_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
