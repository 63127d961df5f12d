//! Runs each case in a forked child of a process without threads: what it does to itself, it does alone.

#![allow(dead_code, unreachable_pub, reason = "each test binary is a crate of its own and uses its part")]

use std::{panic, process::exit};

pub struct Case {
    pub name: &'static str,
    pub run: fn(),
}

/// Runs those whose name contains the argument, if there is one. `--list` as test runners ask for it.
pub fn run(cases: &[Case]) -> ! {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        cases.iter().for_each(|case| println!("{}: test", case.name));
        exit(0);
    }
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    let (mut passed, mut failed) = (0, 0);
    for case in cases.iter().filter(|case| wanted.is_none_or(|wanted| case.name.contains(wanted.as_str()))) {
        let status = in_child(case.run);
        println!("test {} ... {}", case.name, if status == 0 { "ok".to_owned() } else { format!("FAILED ({status:#x})") });
        if status == 0 { passed += 1 } else { failed += 1 }
    }
    println!("\ntest result: {}. {passed} passed; {failed} failed", if failed == 0 { "ok" } else { "FAILED" });
    exit(i32::from(failed != 0))
}

/// The wait status of a forked child that runs `work`, for two minutes at most.
pub fn in_child(work: impl FnOnce()) -> i32 {
    // SAFETY: this process has one thread, or the child calls nothing that another could hold locked.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        // SAFETY: no conditions.
        unsafe { libc::alarm(120) };
        let result = panic::catch_unwind(panic::AssertUnwindSafe(work));
        // SAFETY: ends this child without running the parent's exit handlers.
        unsafe { libc::_exit(if result.is_ok() { 0 } else { 101 }) };
    }
    wait(child)
}

/// Waits for a child and returns its status.
pub fn wait(child: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: the kernel writes an int of ours.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {}
    status
}
