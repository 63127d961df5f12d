//! Runs the tests of python/ with the installed libraries.

use std::process::Stdio;

use super::{Gate, Outcome};
use crate::libs::{self, Profile};
use crate::project::{self, called};
use crate::stream::Voice;

const TESTS: &str = "python/tests";
/// Downloads pytest and the reader of torch.
const READERS: &str = "xtask/python_readers.py";

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let mut probe = gate.project.command("python3", &["--version"]);
    if let Err(why) = project::run(probe.stdout(Stdio::null())) {
        return Outcome::Skipped(format!("no python3 that runs, so {TESTS} was not tried: {why}"));
    }
    tests(gate).into()
}

fn tests(gate: &mut Gate) -> Result<(), String> {
    // The libraries that python/ttmon loads.
    let libraries = libs::build(gate.project, Profile::Release)?;
    // The program that python/ttmon starts. This is the one that its tests built.
    project::run(&mut gate.project.cargo(&["build", "--quiet", "--package", "ttmon"]))?;
    let target = gate.project.metadata()?.target;
    let readers = target.join("python-readers");
    if let Err(why) = project::run(gate.project.command("python3", &["-B", READERS]).arg(&readers)) {
        println!("NOT TRIED: torch's reader of snapshots, or pytest: {why}");
    }
    // Without -B, Python would leave compiled files in the tree.
    let mut python = gate.project.command("python3", &["-B", "-m", "unittest", "discover", "-s", TESTS]);
    python.env("TTMON_LIB", libraries).env("TTMON_READERS", readers).env("TTMON_PROGRAM", target.join("debug/ttmon"));
    println!("$ {}", called(&python));
    let before = gate.tally.total();
    gate.tally.stream(&mut python, Voice::Stderr)?;
    // An old Python succeeds without any tests.
    if gate.tally.total() == before { Err(format!("{TESTS} has no tests")) } else { Ok(()) }
}
