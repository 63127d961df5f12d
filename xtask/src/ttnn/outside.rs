//! The view from outside: `ttmon mem --json --banks --blocks` of a process, with programs started tracked.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;

use super::case::Started;
use super::chips::Chips;
use super::timeout;
use super::tree::Tree;
use crate::libs::{self, Profile};
use crate::project::{self, Project};

/// Report of `ttmon run`, in the folder of a case.
pub(super) const REPORT: &str = "report.json";
const LIMIT: Duration = Duration::from_secs(30);
/// Exit code of `ttmon mem --pid` for a process that does not exist.
const NO_PROCESS: i32 = 3;

pub(crate) struct Tracking {
    pub(crate) ttmon: PathBuf,
    pub(crate) libraries: PathBuf,
}

impl Tracking {
    pub(crate) fn build(project: &Project) -> Result<Self, String> {
        let libraries = libs::build(project, Profile::Debug)?;
        project::run(&mut project.cargo(&["build", "--quiet", "--package", "ttmon"]))?;
        Ok(Self { ttmon: libraries.join("ttmon"), libraries })
    }

    /// Returns a command that starts tracked, in one of the ways.
    pub(super) fn tracked(&self, mut command: Command, started: Started) -> Command {
        match started {
            Started::Preloaded => {
                command.env("LD_PRELOAD", self.libraries.join("libttmon_stub.so")).env("TTMON_TRACKING", "1");
            }
            Started::Untracked => {}
            Started::ByWheel => {
                command.env("TT_ALLOC_TRACKING_ENABLED", "1");
            }
            Started::ByRun => {
                let mut run = Command::new(&self.ttmon);
                run.args(["run", "--report", REPORT, "--"]).arg(command.get_program()).args(command.get_args());
                if let Some(folder) = command.get_current_dir() {
                    run.current_dir(folder);
                }
                for (name, value) in command.get_envs() {
                    match value {
                        Some(value) => run.env(name, value),
                        None => run.env_remove(name),
                    };
                }
                run.env("TTMON_LIB", &self.libraries);
                return run;
            }
        }
        command
    }

    /// Runs a command of ttmon for a process on this machine, or on the rows of a tree.
    fn ask(&self, pid: u32, rows: Option<(&Tree, &Chips)>, arguments: &[&str]) -> Result<Output, String> {
        let mut command = Command::new(&self.ttmon);
        if let Some((tree, chips)) = rows {
            tree.link(pid)?;
            command.arg("--root").arg(tree.path()).arg("--cluster").arg(&chips.path);
        }
        command.args(arguments).args(["--no-server", "--pid", &pid.to_string()]);
        timeout::output(command.env_remove("TTMON_ROOT").env_remove("TTMON_SIM"), LIMIT)
    }

    /// Writes the summaries of the process's memory into a folder, as TT-Metal's MemoryReporter does.
    pub(super) fn reports(&self, pid: u32, folder: &Path) -> Result<(), String> {
        let said = self.ask(pid, None, &["mem", "--csv", &folder.to_string_lossy()])?;
        if said.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&said.stderr).trim().to_owned()) }
    }

    /// Returns the events of the process, one JSON object per line.
    pub(super) fn events(&self, pid: u32) -> Result<String, String> {
        let said = self.ask(pid, None, &["events", "--json"])?;
        if said.status.success() { Ok(String::from_utf8_lossy(&said.stdout).into_owned()) } else { Err("ttmon events failed".to_owned()) }
    }

    /// Returns the process as ttmon shows it; `Null` if ttmon reports that there is nothing to show.
    pub(super) fn memory(&self, pid: u32, rows: Option<(&Tree, &Chips)>) -> Result<Value, String> {
        let said = self.ask(pid, rows, &["mem", "--json", "--banks", "--blocks", "--buffers"])?;
        let complaint = String::from_utf8_lossy(&said.stderr);
        if !said.status.success() {
            let is_ended = said.status.code() == Some(NO_PROCESS);
            let is_nothing = is_ended || complaint.contains("holds no device and has reported no memory");
            return if is_nothing { Ok(Value::Null) } else { Err(complaint.trim().to_owned()) };
        }
        serde_json::from_slice(&said.stdout).map_err(|error| format!("ttmon mem --json: {error}"))
    }
}
