//! The launcher of the benches reports the cost of a program.

use std::process::{Command, Output};

fn cost(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask-cost")).args(arguments).output().expect("cargo builds the launcher for its tests")
}

#[test]
fn a_program_and_the_children_it_waits_for_are_counted() {
    let spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let output = cost(&["sh", "-c", &format!("({spin}); true")]);
    let line = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["wall_us", wall, "cpu_us", cpu, "peak_kib", peak, "launcher_kib", launcher] = words[..] else { panic!("{line}") };
    let number = |text: &str| text.parse::<u64>().unwrap();
    // No upper bounds: this host may be busy. The loop alone takes tens of milliseconds.
    assert!(number(cpu) > 1000, "{line}");
    assert!(number(wall) > 1000, "{line}");
    assert!(number(peak) > 0 && number(launcher) > 0, "{line}");
}

#[test]
fn a_program_that_fails_has_no_cost() {
    let output = cost(&["false"]);
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(!cost(&["/does/not/exist"]).status.success());
    assert!(!cost(&[]).status.success());
}
