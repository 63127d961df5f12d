//! `ttmon run` and the commands that it starts. The commands are this program, started again with a script in `RUNNING_SCRIPT`. It then
//! reports buffers, or does other things that programs do.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod as_root;
mod plainly;
mod program;
mod reports;
mod signals;
mod terminal;
mod tools;

use libtest_mimic::{Arguments, Trial};

type Case = (&'static str, fn());

fn main() {
    if let Ok(script) = std::env::var(program::SCRIPT) {
        return program::run(&script);
    }
    // Use one thread, because the cases start programs and wait for signals.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let cases = [plainly::CASES, signals::CASES, terminal::CASES, reports::CASES].concat();
    let for_root = as_root::CASES.iter().map(|(name, case)| trial(name, *case).with_ignored_flag(true));
    let trials = cases.iter().map(|(name, case)| trial(name, *case)).chain(for_root).collect();
    libtest_mimic::run(&arguments, trials).exit();
}

fn trial(name: &str, case: fn()) -> Trial {
    Trial::test(name, move || {
        case();
        Ok(())
    })
}
