//! `cargo xtask bench server`: measures what the allocation server costs its clients, compared with a reader that only drains the socket.
//!
//! An example of the crate `intake` does the measurement. This module adds limits and verdicts to its lines.

use super::limits::Bound::{AtLeast, AtMost};
use super::limits::{Limit, Part};
use super::snapshot::load;
use super::verdicts::Verdicts;
use crate::project::{self, Project};

const ROWS: &[&str] = &[
    "| 1 connections, default buffer, quiet |",
    "| 1 connections, 1 MiB buffer, quiet |",
    "| 8 connections, default buffer, quiet |",
    "| 8 connections, 1 MiB buffer, quiet |",
    "| 1 connections, default buffer, log to a file |",
];

const LIMITS: &[Limit] = &[
    Limit(ROWS, Part::Cell(3), AtLeast(0.8), "of the drain rate"),
    Limit(&["idle: "], Part::After("p50"), AtMost(100e3), "ns"),
    Limit(&["idle: "], Part::After("p99"), AtMost(1e6), "ns"),
    Limit(&["load ratio p50:"], Part::After("p50:"), AtMost(1.5), "x the drain-only server's"),
    Limit(&["load ratio p99:"], Part::After("p99:"), AtMost(1.5), "x the drain-only server's"),
    Limit(&["100000 live:", "1000000 live:"], Part::After("live:"), AtMost(96.0), "B"),
    Limit(&["stall:"], Part::After("stall:"), AtMost(10e6), "ns"),
    Limit(&["from SIGKILL to zero:"], Part::After("worst"), AtMost(50e6), "ns"),
];

pub(super) fn run(project: &Project, is_quick: bool) -> Result<(), String> {
    project::run(&mut project.cargo(&["build", "--release", "--package", "ttmon", "--bin", "ttmon"]))?;
    project::run(&mut project.cargo(&["build", "--release", "--package", "ttmon-intake", "--example", "server_bench"]))?;
    let release = project.metadata()?.target.join("release");
    let program = release.join("ttmon");
    let program = program.to_str().ok_or("the target directory's name is not text")?;
    let arguments: &[&str] = if is_quick { &[program, "--quick"] } else { &[program] };
    println!("# The allocation server, beside its limits{}", if is_quick { " (quick: fewer messages and rounds)" } else { "" });
    println!("load before: {}", load());
    let mut command = project.command(release.join("examples/server_bench"), arguments);
    let mut verdicts = Verdicts::default();
    verdicts.judge(&mut command, LIMITS)?;
    println!("load after:  {}\n\n{verdicts}", load());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::limits::judge;
    use super::*;

    /// Lines in the format of the example.
    const LINES: &[(&str, usize)] = &[
        ("| 1 connections, default buffer, quiet | 900000 | 880000 | 0.98 |", 1),
        ("| 8 connections, 1 MiB buffer, quiet | 900000 | 880000 | 0.80 |", 1),
        ("| 1 connections, default buffer, log to a file | 900000 | 800000 | 0.89 |", 1),
        ("idle: served p50 12.3µs p99 40.1µs (drained p50 9µs p99 30µs)", 2),
        ("load ratio p50: 1.10", 1),
        ("load ratio p99: 1.5", 1),
        ("100000 live: 90.1 bytes each", 1),
        ("stall: 1.2ms beside an empty loop", 1),
        ("from SIGKILL to zero: worst 1.5ms (median 300µs)", 1),
    ];

    #[test]
    fn lines_of_the_example_meet_their_limits() {
        for (line, expected) in LINES {
            let judged = judge(LIMITS, line);
            assert_eq!(judged.len(), *expected, "{line}");
            assert!(judged.iter().all(|judged| judged.holds), "{line}");
        }
    }
}
