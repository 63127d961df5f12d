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

use libtest_mimic::{Arguments, Failed, Trial};

use isolation::Pids;

/// The name of a case, whether it has its own pids, and the function to run inside its namespaces.
type Case = (&'static str, Pids, fn());

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

/// Cases that run at the same time. Most of a case is waiting for samples. With full strength each case has the machine for itself.
const LANES: usize = 3;

/// Runs the cases. Each case needs root.
fn run_all() -> ExitCode {
    let arguments = Arguments::from_args();
    let lanes = arguments.test_threads.unwrap_or(host::strength(LANES, 1));
    let arguments = Arguments { test_threads: Some(lanes), ..arguments };
    let trial = |(name, pids, _): &Case| {
        let (name, pids) = (*name, *pids);
        Trial::test(name, move || run(name, pids)).with_ignored_flag(true)
    };
    libtest_mimic::run(&arguments, CASES.iter().copied().flatten().map(trial).collect()).exit_code()
}

/// Runs a case, and prints its output as a whole.
fn run(name: &str, pids: Pids) -> Result<(), Failed> {
    let output = isolation::isolated(name, pids).output().map_err(|error| format!("unshare: {error}"))?;
    let [text, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    println!("-- {name}\n{text}{errors}");
    if output.status.success() { Ok(()) } else { Err(output.status.to_string().into()) }
}
