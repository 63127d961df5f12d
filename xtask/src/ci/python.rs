//! Runs the tests of python/ with the installed libraries.

use super::{Gate, Outcome};
use crate::libs::{self, Profile};
use crate::project::{self, called};
use crate::stop::untested;
use crate::stream::Voice;

const TESTS: &str = "python/tests";
/// Downloads pytest and the reader of torch.
const READERS: &str = "xtask/python_readers.py";

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let runs = project::probe(&mut gate.project.command("python3", &["--version"]));
    runs.map_err(untested(&format!("no python3 that runs, so {TESTS} was not tried")))?;
    // The libraries that python/ttmon loads.
    let libraries = libs::build(gate.project, Profile::Release)?;
    // The program that python/ttmon starts. This is the one that its tests built.
    let program = gate.ttmon(&[])?;
    let readers = gate.project.target()?.join("python-readers");
    if let Err(why) = project::run(gate.project.command("python3", &["-B", READERS]).arg(&readers)) {
        println!("NOT TRIED: torch's reader of snapshots, or pytest: {why}");
    }
    // Without -B, Python would leave compiled files in the tree.
    let mut python = gate.project.command("python3", &["-B", "-m", "unittest", "discover", "-s", TESTS]);
    python.env("TTMON_LIB", libraries).env("TTMON_READERS", readers).env("TTMON_PROGRAM", program);
    println!("$ {}", called(&python));
    let before = gate.tally.total();
    gate.tally.stream(&mut python, Voice::Stderr)?;
    // An old Python succeeds without any tests.
    if gate.tally.total() == before { Err(format!("{TESTS} has no tests").into()) } else { Ok(()) }
}
