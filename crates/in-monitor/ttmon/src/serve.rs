//! `ttmon serve`: runs the service of this host until a signal stops it.
//!
//! Start order: first the reading processes, because a fork must happen before there are threads; then the sockets; then the threads.

mod banner;
mod host;
mod intake;
mod paths;
mod secret;
mod systemd;

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGUSR1};
use signal_hook::flag;
use signal_hook::iterator::{Handle, Signals};

use ttmon_collect::reads::Sampling;

use crate::cli::{GlobalArgs, ServeArgs};
use crate::failure::{Failure, print_error};
use crate::invocation::Context;
use crate::open::{MachineConfig, MachineRequest};

pub(crate) use host::token;
pub(crate) use paths::{api_sockets, state as state_directory, state_directories};
pub(crate) use secret::print as print_token;

const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// Runs the service until a signal stops it.
pub(crate) fn run(common: &GlobalArgs, args: &ServeArgs) -> Result<(), Failure> {
    let context = &Context::new(common, &[])?.with_deep(args.deep);
    if common.json || !context.selection.is_empty() {
        return Err(Failure::usage("serve is about the whole machine; leave --json and -d out (--log json is how its lines look)"));
    }
    if !INTERVALS.contains(&args.interval) {
        return Err(Failure::usage("--interval takes 0.1 to 3600 seconds, or a time such as 5s"));
    }
    let mut placed = MachineConfig::new(context, MachineRequest::with_ledgers_of(Sampling::Repeated, None))?;
    // Include the reported allocations of this service, also with another state directory.
    placed.root.served.extend(args.state_dir.clone());
    // Take over signals before the sockets exist, because a process that finds the sockets may send signals.
    let mut signals = signals().map_err(|error| cannot("take over signals", &error))?;
    let machine = intake::open(context, args, &placed)?;
    let state = machine.is_some().then(|| intake::state(context, args, &placed));
    let mut opened = systemd::opened()?;
    let (host, announcement) = host::prepare(context, args, &placed, state, &mut opened)?;
    let stopper = || Stopper(signals.handle());
    let intake = machine.map(|machine| intake::start(context, args, &placed, machine, opened, stopper())).transpose()?;
    let host = host.start(intake.as_ref().map(intake::Running::handle), [stopper(), stopper(), stopper()])?;
    if !args.quiet {
        print_error(&announcement);
    }
    systemd::notify("READY=1");
    for _ in signals.forever().take_while(|signal| *signal == SIGUSR1) {
        intake.iter().for_each(intake::Running::statistics);
    }
    systemd::notify("STOPPING=1");
    let ended = intake.map_or(Ok(()), intake::Running::stop);
    let host_ended = host.stop().map_err(Failure::new);
    drop(placed.simulation);
    ended.and(host_ended)
}

fn cannot(what: &str, error: &io::Error) -> Failure {
    Failure::new(format!("cannot {what}: {error}; check the limits of this user"))
}

/// Stops the service when this is dropped, as a signal does.
struct Stopper(Handle);

impl Drop for Stopper {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn signals() -> io::Result<Signals> {
    // If the reader of the output is gone, a write fails, but the service continues.
    flag::register(SIGPIPE, Arc::new(AtomicBool::new(false)))?;
    // Keep signals ignored that nohup or a background shell ignored.
    let ignored = ignored();
    let stopping = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    Signals::new(stopping.chain([SIGUSR1]))
}

/// The signals that are ignored, by their bits, as the kernel lists them: `SigIgn: 0000000000000001`. None if the list cannot be read.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_part_ends_the_service() {
        let mut signals = Signals::new([SIGUSR1]).unwrap();
        drop(Stopper(signals.handle()));
        assert_eq!(signals.forever().next(), None);
    }
}
