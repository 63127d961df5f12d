//! `ttmon` as a whole, through its command line, its sockets and a terminal.
//!
//! Programs that must be alone in their process have tests of their own beside this one: `tracked`, `running` and `adversary`.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod as_root;
mod documents;
mod golden;
mod hooked;
mod host;
mod program;
mod screen;
mod serve;

use std::path::Path;
use std::process::Command;

use ttmon_testing::Service;

const TTMON: &str = env!("CARGO_BIN_EXE_ttmon");

fn command(arguments: &[&str]) -> Command {
    ttmon_testing::command(Path::new(TTMON), arguments)
}

/// Starts `ttmon serve` with these arguments.
fn start_service(arguments: &[&str]) -> Service {
    Service::start(Path::new(TTMON), arguments)
}
