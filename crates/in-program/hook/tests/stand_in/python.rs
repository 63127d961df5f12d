//! Lines of Python programs, with every interpreter of this machine.

use std::path::Path;
use std::process::Command;

use ttmon_ledger::layout::stack::NO_PYTHON;
use ttmon_model::ledger::FeatureState;
use ttmon_testing::pythons::{Installed, installed};

use super::{Program, Workshop};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/lines.py");

fn start(workshop: &Workshop, python: &Path) -> Program {
    let mut command = Command::new(python);
    command.arg("-B").arg(SCRIPT).arg(workshop.library("new"));
    workshop.spawn(command, true, &[("TTMON_STACKS", "1")])
}

/// The stack numbers of live buffers, oldest first.
fn stacks(program: &Program) -> Vec<u32> {
    let mut live = program.region().expect("a ledger").live_events().expect("readable").live;
    live.sort_by_key(|buffer| buffer.address);
    live.iter().map(|buffer| buffer.stack).collect()
}

/// A thread without Python has no line, no matter whether it makes the first allocation or a later one.
#[test]
fn a_thread_without_python_has_no_line() {
    let Some(workshop) = Workshop::open() else { return };
    let text = std::fs::read_to_string(SCRIPT).expect("there");
    let line = text.lines().position(|line| line.contains("metal.fake_allocate(")).map(|at| u32::try_from(at + 1).expect("short"));
    for python in installed().iter().filter(|python| python.is_known()) {
        let mut program = start(workshop, &python.path);
        for word in ["allocate_in_thread", "allocate", "allocate_in_thread"] {
            program.send(word);
        }
        let numbers = stacks(&program);
        assert_eq!(numbers, [NO_PYTHON, 1, NO_PYTHON], "{python:?}");
        let lines = program.region().expect("a ledger").lines().expect("readable");
        let frame = &lines.frames(1)[0];
        assert_eq!((&*frame.file, Some(frame.line), &*frame.function), (SCRIPT, line, "allocate"), "{python:?}");
        assert_eq!(program.feature("stacks"), (FeatureState::Found, 1, String::new()), "{python:?}");
    }
}

#[test]
fn an_unknown_python_has_no_lines_and_coverage_has_the_reason() {
    let Some(workshop) = Workshop::open() else { return };
    let expect = |python: &Installed, words: &[&str], reason: &str| {
        let mut program = start(workshop, &python.path);
        words.iter().for_each(|word| drop(program.send(word)));
        assert_eq!(stacks(&program), [0], "{python:?}");
        let (state, hits, why) = program.feature("stacks");
        assert_eq!((state, hits, why.as_str()), (FeatureState::SteppedAside, 0, reason), "{python:?}");
    };
    for python in &installed() {
        if python.is_known() {
            expect(python, &["forbid_copies", "allocate"], "unknown_interpreter: process_vm_readv is refused");
        } else {
            expect(python, &["allocate"], "unknown_interpreter: a version of Python that is not known");
        }
    }
}
