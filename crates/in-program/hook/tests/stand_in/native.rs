//! Stacks of programs without Python.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use ttmon_ledger::layout::Coverage;
use ttmon_ledger::layout::stack::NO_PYTHON;
use ttmon_model::stack::{SourceLine, user_line};

use super::Workshop;

/// The stack of a program without Python has its source lines, resolved here from return addresses.
#[test]
fn stacks_of_machine_code() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.start_with(true, &[("TTMON_OPS", "1"), ("TTMON_STACKS", "1")]);
    program.load(&workshop.library("new"));
    program.say("open 0 1");
    for _ in 0..3 {
        program.allocate("0 0 1024 256");
    }
    let region = program.region().expect("it has a ledger");
    let numbers: Vec<u32> = region.list().expect("readable").entries.iter().map(|entry| entry.stack).collect();
    let stacks = region.stacks().expect("readable");
    assert_eq!(numbers, vec![numbers[0]; 3], "the same call has the same stack");
    let frames: Vec<_> = stacks.frames(numbers[0]).collect();
    assert!(frames.iter().all(|(code, _)| code.is_native && !code.file.contains("libttmon_hook")), "{frames:?}");
    let lines = frames.iter().map(|(code, line)| Arc::new(SourceLine::of_native(&code.file, *line, &code.function)));
    let resolved: Vec<Arc<SourceLine>> =
        ttmon_symbols::resolve(&lines.collect::<Vec<_>>()).iter().flat_map(|lines| lines.to_vec()).collect();
    let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/program.cpp")).expect("there");
    let line_of = |text: &str| source.lines().position(|line| line.contains(text)).map(|at| u32::try_from(at + 1).expect("short"));
    let has = |line: Option<u32>, function: &str| {
        let is_it =
            |frame: &Arc<SourceLine>| Some(frame.line) == line && frame.file.ends_with("program.cpp") && frame.function.ends_with(function);
        resolved.iter().any(is_it)
    };
    assert!(has(line_of("std::uint64_t address = allocate(library, buffer);"), "answer"), "{resolved:?}");
    let user = user_line(resolved.iter()).expect("a line");
    assert!(user.file.ends_with("program.cpp"), "{user}");
    let (state, hits, _) = program.feature("stacks");
    assert_eq!((state, hits), (Coverage::Found, 1));
}

/// Unwinding takes microseconds. Without operations there are no stacks of machine code, and coverage reports that.
#[test]
fn no_stacks_of_machine_code_without_operations() {
    let Some(workshop) = Workshop::open() else { return };
    let mut program = workshop.start_with(true, &[("TTMON_STACKS", "1")]);
    program.load(&workshop.library("new"));
    program.say("open 0 1");
    program.allocate("0 0 1024 256");
    let region = program.region().expect("it has a ledger");
    assert_eq!(region.list().expect("readable").entries[0].stack, NO_PYTHON);
    assert!(region.stacks().expect("readable").is_empty());
    let (state, _, reason) = program.feature("stacks");
    assert_eq!((state, reason.as_str()), (Coverage::SteppedAside, "no_python: no Python was found in this process"));
}
