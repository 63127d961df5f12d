//! `cargo xtask bench`: measures the cost of our programs and prints it with the limits.
//!
//! A bench never fails, because a busy machine is not a defect of the program.

mod cost;
mod deep;
mod hook;
mod host;
mod ledger;
mod limits;
mod memory;
mod page;
mod peers;
mod plain;
mod root;
mod run;
mod server;
mod sleepers;
mod snapshot;
mod statistics;
mod terminal;
mod top;
mod verdicts;

use crate::project::Project;
use crate::stop::Stop;

pub(crate) const ARGUMENTS: &str = "snapshot [--runs N] | ledger [--quick] | hook [--quick] | server [--quick] | host | day | page [--seconds N] | run | mem | deep | top [--seconds N | --hour]";

/// Enough runs for a stable median and 90th percentile.
const RUNS: usize = 200;

/// Duration of each half of the page bench.
const PAGE_SECONDS: u64 = 30;

/// Long enough that clock ticks do not matter.
const SECONDS: u64 = 120;

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["snapshot"] => Ok(snapshot::run(project, RUNS)?),
        ["snapshot", flag @ "--runs", text] => Ok(snapshot::run(project, number(flag, text)?)?),
        ["host"] => Ok(host::run(project)?),
        ["day"] => Ok(host::day(project)?),
        ["page"] => Ok(page::run(project, PAGE_SECONDS)?),
        ["page", flag @ "--seconds", text] => Ok(page::run(project, number(flag, text)?)?),
        ["run"] => Ok(run::run(project, RUNS)?),
        ["deep"] => Ok(deep::run(project)?),
        ["mem"] => Ok(memory::run(project)?),
        ["top"] => Ok(top::run(project, SECONDS)?),
        ["top", flag @ "--seconds", text] => Ok(top::run(project, number(flag, text)?)?),
        ["top", "--hour"] => Ok(top::hour(project)?),
        ["ledger"] => Ok(ledger::run(project, false)?),
        ["ledger", "--quick"] => Ok(ledger::run(project, true)?),
        ["hook"] => Ok(hook::run(project, false)?),
        ["hook", "--quick"] => Ok(hook::run(project, true)?),
        ["server"] => Ok(server::run(project, false)?),
        ["server", "--quick"] => Ok(server::run(project, true)?),
        _ => Err(Stop::Usage(format!("bench wants one of: {ARGUMENTS}"))),
    }
}

fn number<N: TryFrom<u32>>(flag: &str, text: &str) -> Result<N, Stop> {
    let number = text.parse().ok().filter(|number| *number > 0).and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| Stop::Usage(format!("{flag} wants a number from 1 on, not {text}")))
}
