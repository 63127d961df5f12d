//! Measures one run of a program: wall time, processor time, peak memory.
//!
//! The launcher `xtask-cost` measures it; its documentation explains why it is a separate small program. The numbers include the
//! descendants that the program waited for.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::project::{self, Project, output};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) wall: Duration,
    /// User and system time.
    pub(super) cpu: Duration,
    pub(super) peak_kib: u64,
    /// The launcher's own peak. A lower peak of the program cannot be measured.
    pub(super) launcher_kib: u64,
}

pub(super) struct Launcher(PathBuf);

impl Launcher {
    pub(super) fn build(project: &Project) -> Result<Self, String> {
        project::run(&mut project.cargo(&["build", "--quiet", "--package", "xtask", "--bin", "xtask-cost"]))?;
        Ok(Self(project.metadata()?.target.join("debug/xtask-cost")))
    }

    pub(super) fn measure(&self, program: &Path, arguments: &[&str]) -> Result<Cost, String> {
        let line = output(Command::new(&self.0).arg(program).args(arguments).stdin(Stdio::null()))?;
        parse(&line).ok_or_else(|| format!("the launcher said {line:?}"))
    }
}

/// Parses `wall_us 1234 cpu_us 987 peak_kib 3028 launcher_kib 2140`.
fn parse(line: &str) -> Option<Cost> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["wall_us", wall, "cpu_us", cpu, "peak_kib", peak, "launcher_kib", launcher] = words[..] else { return None };
    Some(Cost {
        wall: Duration::from_micros(wall.parse().ok()?),
        cpu: Duration::from_micros(cpu.parse().ok()?),
        peak_kib: peak.parse().ok()?,
        launcher_kib: launcher.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_is_understood() {
        let cost = Cost { wall: Duration::from_micros(1234), cpu: Duration::from_micros(987), peak_kib: 3028, launcher_kib: 2140 };
        assert_eq!(parse("wall_us 1234 cpu_us 987 peak_kib 3028 launcher_kib 2140\n"), Some(cost));
        assert_eq!(parse("wall_us 1"), None);
    }
}
