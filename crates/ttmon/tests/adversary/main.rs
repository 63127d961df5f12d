//! Checks that one user cannot harm the monitoring of other users. Each case starts a service in private namespaces, attacks it as an
//! ordinary user and checks the limits of docs/security.md. Needs root: `cargo xtask ci --only adversary` runs it.
//!
//! This program is also the attacker: `role NAME ARGS...` runs one of [`ROLES`].
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod alerts;
mod answers;
mod baseline;
mod files;
mod host;
mod hostile;
mod http;
mod intake;
mod isolation;
mod ledgers;
mod scan;
mod squatting;
mod watch;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use isolation::Pids;

/// The name of a case, whether it has its own pids, and the function to run inside its namespaces.
type Case = (&'static str, Pids, fn());

#[rustfmt::skip] // one per line
const CASES: &[&[Case]] = &[
    alerts::CASES,
    answers::CASES,
    baseline::CASES,
    files::CASES,
    hostile::CASES,
    http::CASES,
    intake::CASES,
    ledgers::CASES,
    scan::CASES,
    squatting::CASES,
];

/// A role: its name, and the function of the process, which gets its arguments.
type Role = (&'static str, fn(&[String]));

#[rustfmt::skip] // one per line
const ROLES: &[&[Role]] = &[
    watch::ROLES,
    alerts::ROLES,
    answers::ROLES,
    files::ROLES,
    hostile::ROLES,
    http::ROLES,
    intake::ROLES,
    ledgers::ROLES,
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
        _ => run_all(),
    }
}

/// Runs the cases one after the other. Each case needs root.
fn run_all() -> ExitCode {
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let trial = |(name, pids, _): &Case| {
        let (name, pids) = (*name, *pids);
        let run = move || match isolation::isolated(name, pids).status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(status.to_string().into()),
            Err(error) => Err(format!("unshare: {error}").into()),
        };
        Trial::test(name, run).with_ignored_flag(true)
    };
    libtest_mimic::run(&arguments, CASES.iter().copied().flatten().map(trial).collect()).exit_code()
}
