//! The view from outside: what commands of ttmon print about a process.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::mock::{Chips, Rows};

pub(crate) const TTMON: &str = env!("CARGO_BIN_EXE_ttmon");

/// Exit code of `ttmon mem --pid` for a process that does not exist.
const NO_PROCESS: i32 = 3;

/// A process on this machine or, if there are rows, on those.
#[derive(Clone, Copy)]
pub(crate) struct Outside<'a> {
    pub(crate) chips: &'a Chips,
    pub(crate) rows: Option<&'a Rows>,
    /// Whether a mesh is visible before its first buffer. If not, a program without buffers may seem untracked.
    pub(crate) shows_empty: bool,
}

impl Outside<'_> {
    fn ask(&self, pid: u32, arguments: &[&str]) -> Output {
        let mut command = ttmon_testing::command(Path::new(TTMON), &[]);
        if let Some(rows) = self.rows {
            rows.link(pid);
            command.arg("--root").arg(rows.path()).arg("--cluster").arg(&self.chips.descriptor);
        }
        command.args(arguments).args(["--no-server", "--pid", &pid.to_string()]).output().unwrap()
    }

    /// Writes the summaries of the process's memory into a folder, as TT-Metal's MemoryReporter does.
    pub(crate) fn reports(&self, pid: u32, folder: &Path) -> Result<(), String> {
        let output = self.ask(pid, &["mem", "--csv", &folder.to_string_lossy()]);
        if output.status.success() { Ok(()) } else { Err(errors(&output)) }
    }

    /// Returns the events of the process, one JSON object per line.
    pub(crate) fn events(&self, pid: u32) -> Result<String, String> {
        let output = self.ask(pid, &["events", "--json"]);
        if output.status.success() { Ok(String::from_utf8_lossy(&output.stdout).into_owned()) } else { Err(errors(&output)) }
    }

    /// Returns the process as ttmon shows it; `Null` if ttmon reports that there is nothing to show.
    pub(crate) fn memory(&self, pid: u32) -> Result<Value, String> {
        let output = self.ask(pid, &["mem", "--json", "--banks", "--blocks", "--buffers"]);
        if !output.status.success() {
            let errors = errors(&output);
            let is_nothing = output.status.code() == Some(NO_PROCESS) || errors.contains("holds no device and has reported no memory");
            let is_empty = !self.shows_empty && errors.contains("does not report its memory");
            return if is_nothing || is_empty { Ok(Value::Null) } else { Err(errors) };
        }
        serde_json::from_slice(&output.stdout).map_err(|error| format!("ttmon mem --json: {error}"))
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}
