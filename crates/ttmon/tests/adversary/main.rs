//! What one user can do to everybody else's monitoring: nothing. Each case starts a service in private namespaces, attacks it as an
//! ordinary user and holds it to the limits of docs/security.md. Needs root: `cargo xtask ci --only adversary` runs it.
//!
//! This program is also its own attacker: `role NAME ARGS...` plays one of [`ROLES`].
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod baseline;
mod files;
mod host;
mod hostile;
mod http;
mod intake;
mod isolation;
mod scan;
mod squatting;
mod watch;

use std::process::{Command, ExitCode};

use isolation::Pids;

/// Set by the stage that runs these tests.
const ASKED_FOR: &str = "TTMON_TEST_ROOT";

/// A name, whether it has its own pids, and what it does inside its namespaces.
type Case = (&'static str, Pids, fn());

#[rustfmt::skip] // one a line
const CASES: &[&[Case]] = &[
    baseline::CASES,
    files::CASES,
    hostile::CASES,
    http::CASES,
    intake::CASES,
    scan::CASES,
    squatting::CASES,
];

/// What a process started by a case does, given its arguments.
type Role = (&'static str, fn(&[String]));

#[rustfmt::skip] // one a line
const ROLES: &[&[Role]] = &[
    watch::ROLES,
    files::ROLES,
    hostile::ROLES,
    http::ROLES,
    intake::ROLES,
    scan::ROLES,
    squatting::ROLES,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("role") => {
            let role = ROLES.iter().copied().flatten().find(|(name, _)| *name == arguments[1]).expect("a role of this name");
            role.1(&arguments[2..]);
            ExitCode::SUCCESS
        }
        Some("inside") => {
            let case = CASES.iter().copied().flatten().find(|(name, ..)| *name == arguments[1]).expect("a case of this name");
            isolation::enter();
            case.2();
            ExitCode::SUCCESS
        }
        _ => run_all(&arguments),
    }
}

fn run_all(arguments: &[String]) -> ExitCode {
    if !rustix::process::geteuid().is_root() || std::env::var_os(ASKED_FOR).is_none() {
        println!("NOT RUN: needs root and {ASKED_FOR}=1; cargo xtask ci --only adversary sets it");
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str()));
    let (mut passed, mut failed) = (0, 0);
    for (name, pids, _) in CASES.iter().copied().flatten().filter(|(name, ..)| is_wanted(name)) {
        let mut command: Command = isolation::isolated(name, *pids);
        if command.status().expect("unshare").success() {
            println!("test {name} ... ok");
            passed += 1;
        } else {
            println!("test {name} ... FAILED");
            failed += 1;
        }
    }
    println!("\ntest result: {}. {passed} passed; {failed} failed", if failed == 0 { "ok" } else { "FAILED" });
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
