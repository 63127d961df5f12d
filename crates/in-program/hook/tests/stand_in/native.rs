//! Stacks of programs without Python.

use std::fs;
use std::path::Path;
use std::process::Command;

use ttmon_ledger::layout::stack::NO_PYTHON;

use ttmon_model::ledger::FeatureState;

use super::Workshop;

/// The stack of a program without Python has its source lines, resolved here from return addresses.
#[test]
fn threads_without_python_have_stacks_of_machine_code() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.start_with(true, &[("TTMON_OPS", "1"), ("TTMON_STACKS", "1")]);
    program.load(&workshop.library("new"));
    program.send("open 0 1");
    for _ in 0..3 {
        program.allocate("0 0 1024 256");
    }
    let region = program.region().expect("it has a ledger");
    let numbers: Vec<u32> = region.live_events().expect("readable").live.iter().map(|buffer| buffer.stack).collect();
    let lines = region.lines().expect("readable");
    assert_eq!(numbers, vec![numbers[0]; 3], "the same call has the same stack");
    let frames = lines.frames(numbers[0]);
    let native: Vec<_> = frames.iter().filter_map(|frame| frame.native()).collect();
    assert!(native.len() == frames.len() && native.iter().all(|frame| !frame.object.contains("libttmon_hook")), "{frames:?}");
    let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/program.cpp")).expect("there");
    let call = "std::uint64_t address = allocate(library, buffer);";
    let line = source.lines().position(|line| line.contains(call)).expect("the call") + 1;
    let lines: Vec<String> = native.iter().map(|frame| source_line(frame.object, frame.address)).collect();
    let is_call = |text: &String| text.contains("answer") && text.contains(&format!("program.cpp:{line}"));
    assert!(lines.iter().any(is_call), "{lines:?}");
    let (state, hits, _) = program.feature("stacks");
    assert_eq!((state, hits), (FeatureState::Found, 1));
}

/// Returns the function and the line of an address, as binutils print them.
fn source_line(object: &str, address: u64) -> String {
    let mut command = Command::new("addr2line");
    command.args(["--functions", "--demangle", "--inlines", "--exe", object]).arg(format!("{address:#x}"));
    let output = command.output().expect("addr2line, which comes with the compiler");
    String::from_utf8_lossy(&output.stdout).replace('\n', " ")
}

/// Unwinding takes microseconds. Without operations there are no stacks of machine code, and coverage reports that.
#[test]
fn no_stacks_of_machine_code_without_operations() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.start_with(true, &[("TTMON_STACKS", "1")]);
    program.load(&workshop.library("new"));
    program.send("open 0 1");
    program.allocate("0 0 1024 256");
    let region = program.region().expect("it has a ledger");
    assert_eq!(region.live_events().expect("readable").live[0].stack, NO_PYTHON);
    assert!(region.lines().expect("readable").is_empty());
    let (state, _, reason) = program.feature("stacks");
    assert_eq!((state, reason.as_str()), (FeatureState::SteppedAside, "no_python: no Python was found in this process"));
}
