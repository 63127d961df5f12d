//! Runs the program, and creates machines for it to read.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use ttmon_sim::{Machine, Spec};

/// The result of a command.
pub(crate) struct CommandResult {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandResult {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {} {}", self.stdout, self.stderr))
    }
}

/// Returns the program with these arguments, in a clean environment.
pub(crate) fn command(arguments: &str) -> Command {
    crate::command(&arguments.split_ascii_whitespace().collect::<Vec<_>>())
}

pub(crate) fn ran(output: Output) -> CommandResult {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    CommandResult { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
}

pub(crate) fn ttmon(arguments: &str) -> CommandResult {
    ran(command(arguments).output().unwrap())
}

/// Writes a simulated machine without processes into a directory.
pub(crate) fn root(spec: &str) -> tempfile::TempDir {
    let directory = ttmon_testing::directory();
    write_root(spec, directory.path());
    directory
}

pub(crate) fn write_root(spec: &str, directory: &Path) {
    let machine = Machine::new(&Spec::parse(spec).unwrap(), 1).unwrap();
    machine.write(directory, 0, &vec![None; machine.process_count()]).unwrap();
}

pub(crate) fn ttmon_at(root: &Path, arguments: &str) -> CommandResult {
    ran(command(arguments).arg("--root").arg(root).output().unwrap())
}
