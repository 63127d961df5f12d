//! Runs each case in a forked child of a process without threads, so that its effects stay in the child.

use std::panic;

use libtest_mimic::{Arguments, Trial};

#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub run: fn(),
}

/// Runs the cases that the command line selects, in one thread.
pub fn run(cases: &[Case]) -> ! {
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let trial = |case: &Case| {
        let run = case.run;
        Trial::test(case.name, move || match in_child(run) {
            0 => Ok(()),
            status => Err(format!("wait status {status:#x}").into()),
        })
    };
    libtest_mimic::run(&arguments, cases.iter().map(trial).collect()).exit()
}

/// Runs `work` in a forked child for at most two minutes. Returns its wait status.
pub fn in_child(work: impl FnOnce()) -> i32 {
    // SAFETY: this process has one thread, or the child calls nothing that another thread could have locked.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        // SAFETY: no preconditions.
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
    // SAFETY: the kernel writes a local int.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {}
    status
}
