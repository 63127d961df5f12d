//! Starts `ttmon run`, and commands for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

use crate::program::SCRIPT;

/// A folder with a library to preload. These programs report their memory themselves, and the hook has its own tests.
static LIBRARIES: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    ttmon_testing::add_hook(folder.path());
    folder
});

/// `ttmon run WORDS...`
pub(crate) fn run(words: &[&str]) -> Command {
    let mut command = ttmon_testing::command(Path::new(env!("CARGO_BIN_EXE_ttmon")), &["run"]);
    command.args(words).env_remove("LD_PRELOAD").env("TTMON_LIB", LIBRARIES.path());
    command
}

/// `ttmon run FLAGS... -- this program, with a script`.
pub(crate) fn scripted(flags: &[&str], script: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let words: Vec<&str> = flags.iter().copied().chain(["--", program.to_str().unwrap()]).collect();
    let mut command = run(&words);
    command.env(SCRIPT, script);
    command
}

pub(crate) struct CommandResult {
    pub(crate) output: Output,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn ran(command: &mut Command) -> CommandResult {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    CommandResult { stdout: text(&output.stdout), stderr: text(&output.stderr), output }
}

impl CommandResult {
    pub(crate) fn code(&self) -> Option<i32> {
        self.output.status.code()
    }
}

/// Runs a script with a report. Returns both.
pub(crate) fn reported(script: &str) -> (CommandResult, Value) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    let ran = ran(&mut scripted(&["--report", path.to_str().unwrap()], script));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr));
    (ran, serde_json::from_str(&text).unwrap())
}

/// A running `ttmon run`, and its output.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn send(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// Closes its output. Returns its exit status.
    pub(crate) fn leave(self) -> ExitStatus {
        let Self { mut child, lines } = self;
        drop(lines);
        child.wait().unwrap()
    }

    pub(crate) fn end(mut self) -> CommandResult {
        drop(self.child.stdin.take());
        let output = self.child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        CommandResult { stdout: text(&output.stdout), stderr: text(&output.stderr), output }
    }
}

/// Replaces times that depend on the speed of the machine: `at 00:41` becomes `at TIME`.
pub(crate) fn timeless(text: &str) -> String {
    let words = text.split_inclusive([' ', '\n']).scan("", |before, word| {
        let is_time = matches!(before.trim_end(), "at" | "age" | "after") && word.starts_with(|first: char| first.is_ascii_digit());
        *before = word;
        let kept = &word[word.trim_end_matches([' ', '\n', ',']).len()..];
        Some(if is_time { format!("TIME{kept}") } else { word.to_owned() })
    });
    words.collect()
}

/// Whether a process is alive and not a zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    String::from_utf8_lossy(&stat).rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Writes a file with a mode.
pub(crate) fn file(folder: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    path
}
