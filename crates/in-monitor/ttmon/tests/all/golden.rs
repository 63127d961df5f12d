//! Golden files: what the program prints, writes and serves for fixed machines. A changed file is a change that users see.
//!
//! `UPDATE=1 cargo test --package ttmon --test all generated` writes the files below `golden/files`. With `TTMON_GOLDEN_PROGRAM=PATH` the
//! tests run another program, for example an earlier version.

mod ledger;
mod machine;
mod memory;
mod normal;
mod pages;
mod served;
mod snapshots;
mod written;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::TTMON;

/// The program that is examined.
fn program() -> PathBuf {
    std::env::var_os("TTMON_GOLDEN_PROGRAM").map_or_else(|| PathBuf::from(TTMON), PathBuf::from)
}

/// Returns a command with the variables and arguments of a line such as `COLUMNS=200 mem --banks`.
fn command(line: &str, folder: &Path) -> Command {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let is_variable = |word: &&&str| word.starts_with(|first: char| first.is_ascii_uppercase()) && word.contains('=');
    let (variables, arguments) = words.split_at(words.iter().take_while(is_variable).count());
    let mut command = ttmon_testing::command(&program(), arguments);
    isolate(&mut command, folder);
    command.envs(variables.iter().filter_map(|word| word.split_once('=')));
    command
}

/// Gives a command a working directory, so that no path in its output depends on the run, and no settings and state of this host.
fn isolate(command: &mut Command, folder: &Path) {
    command.current_dir(folder).env("TTMON_CONFIG", "/dev/null");
    for name in ["XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HOME"] {
        command.env(name, "/nonexistent");
    }
}

/// Compares a text with a golden file.
#[track_caller]
fn check(name: &str, text: &str) {
    ttmon_testing::generated(&format!("crates/in-monitor/ttmon/tests/all/golden/files/{name}"), &normal::normalize(text));
}

/// Returns a command line and everything that it printed, and its exit code if that is not 0.
fn transcript(line: &str, output: &Output) -> String {
    let [out, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let mut text = format!("$ {line}\n{out}{errors}");
    if !output.status.success() {
        writeln!(text, "({})", output.status).unwrap();
    }
    text.push('\n');
    text
}
