//! Measures `ttmon mem` with a process that has a million live buffers.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::cost::{Cost, Launcher};
use super::snapshot::load;
use crate::package;
use crate::project::{self, Project};

const BUFFERS: u32 = 1_000_000;
const RUNS: usize = 5;

struct Row {
    arguments: &'static [&'static str],
    cpu_s_max: f64,
    peak_mb_max: f64,
}

const ROWS: [Row; 2] = [
    Row { arguments: &["mem", "--no-server", "--json", "--buffers"], cpu_s_max: 1.5, peak_mb_max: 160.0 },
    Row { arguments: &["mem", "--no-server", "--buffers", "--top", "10"], cpu_s_max: 0.2, peak_mb_max: 100.0 },
];

pub(super) fn run(project: &Project) -> Result<(), String> {
    let program = package::program::build(project)?;
    project::run(&mut project.cargo(&["build", "--release", "--package", "ttmon-client", "--example", "many_buffers"]))?;
    let launcher = Launcher::build(project)?;
    let release = project.metadata()?.target.join("release");
    let holder = Holder::start(Command::new(release.join("examples/many_buffers")).arg(BUFFERS.to_string()))?;
    let pid = holder.0.id().to_string();
    println!("load before: {}", load());
    println!("\n{:<44} {:>7} {:>7} {:>8} {:>7}  verdict", format!("with {BUFFERS} buffers"), "CPU s", "limit", "peak MB", "limit");
    for row in &ROWS {
        let arguments: Vec<&str> = row.arguments.iter().copied().chain(["--pid", &pid]).collect();
        let costs = (0..RUNS).map(|_| launcher.measure(&program, &arguments)).collect::<Result<Vec<_>, _>>()?;
        println!("{}", line(row, &costs));
    }
    println!("\nThe least of {RUNS} runs. The output is discarded.");
    Ok(())
}

fn line(row: &Row, costs: &[Cost]) -> String {
    let cpu_s = costs.iter().map(|cost| cost.cpu.as_secs_f64()).fold(f64::INFINITY, f64::min);
    let peak_mb = costs.iter().map(|cost| cost.peak_kib as f64 * 1024.0 / 1e6).fold(f64::INFINITY, f64::min);
    let verdict = if cpu_s <= row.cpu_s_max && peak_mb <= row.peak_mb_max { "holds" } else { "MISSED" };
    let name = format!("ttmon {}", row.arguments.join(" "));
    format!("{name:<44} {cpu_s:>7.2} {:>7.1} {peak_mb:>8.0} {:>7.0}  {verdict}", row.cpu_s_max, row.peak_mb_max)
}

/// A process with buffers. It ends with its standard input, which is closed when this is dropped.
struct Holder(Child);

impl Holder {
    fn start(command: &mut Command) -> Result<Self, String> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(|error| error.to_string())?;
        }
        let holder = Self(child);
        if line.trim() == "ready" { Ok(holder) } else { Err(format!("many_buffers printed {line:?}")) }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn both_limits_are_judged() {
        let cost = |cpu_ms, peak_kib| Cost { wall: Duration::ZERO, cpu: Duration::from_millis(cpu_ms), peak_kib, launcher_kib: 0 };
        assert!(line(&ROWS[1], &[cost(900, 90_000), cost(190, 97_000)]).ends_with("holds"));
        assert!(line(&ROWS[1], &[cost(210, 90_000)]).ends_with("MISSED"));
        assert!(line(&ROWS[1], &[cost(100, 99_000)]).ends_with("MISSED"));
    }
}
