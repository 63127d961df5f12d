//! `ttmon wait --idle`: waits until no process holds the devices.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

use ttmon_collect::reads::Sampling;
use ttmon_model::{Missing, Snapshot};

use crate::cli::{GlobalArgs, WaitArgs};
use crate::failure::{Failure, print_error};
use crate::invocation::Context;
use crate::open::MachineRequest;
use crate::server::Snapshots;

/// Interval between two samples.
const INTERVAL: Duration = Duration::from_millis(200);

pub(crate) fn run(common: &GlobalArgs, args: &WaitArgs) -> Result<(), Failure> {
    if common.json {
        return Err(Failure::usage("wait prints nothing; its exit code is the answer"));
    }
    let context = Context::new(common, &args.devices)?;
    let started = Instant::now();
    let mut snapshots = Snapshots::new(&context, MachineRequest::new(Sampling::Repeated));
    let mut is_announced = !io::stderr().is_terminal();
    loop {
        let is_served = snapshots.is_served();
        let snapshot = snapshots.next()?;
        let held = match busy(&snapshot) {
            // The service may see less, or have another version. If it does not know the holders, read the machine here.
            Err(_) if is_served && snapshots.is_served() => {
                snapshots = snapshots.without_services();
                continue;
            }
            held => held?,
        };
        let Some(held) = held else { return Ok(()) };
        if !is_announced {
            let by = if snapshots.is_served() { " (from server)" } else { "" };
            print_error(&format!("waiting{by}: {held}"));
            is_announced = true;
        }
        let left = args.timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
        if left == Some(Duration::ZERO) {
            let waited = started.elapsed().as_secs_f64();
            return Err(Failure::timed_out(format!("still not idle after {waited:.1} s: {held}; ttmon who shows more")));
        }
        thread::sleep(left.unwrap_or(INTERVAL).min(INTERVAL));
    }
}

/// Describes which process holds one of the devices; `None` if all are idle.
fn busy(snapshot: &Snapshot) -> Result<Option<String>, Failure> {
    for device in &snapshot.devices {
        // A remote chip is used through its gateway.
        let id = device.via.unwrap_or(device.id);
        match device.memory.holders {
            Ok(0) => {}
            Ok(count) => {
                let mut named = snapshot.processes_on(device.id);
                return Ok(Some(match (named.next(), named.next(), count) {
                    (Some((process, _)), None, 1) => format!("process {} holds device {id}", process.key.pid),
                    (None, ..) if device.memory.hidden_processes > 0 => format!("a process of another container holds device {id}"),
                    (.., 1) => format!("a process holds device {id}"),
                    (.., count) => format!("{count} processes hold device {id}"),
                }));
            }
            // No process can hold a missing device.
            Err(Missing::Gone) => {}
            // The list is locked while the last holder closes the device, and unreadable during a reset, so try again.
            Err(reason @ (Missing::Timeout | Missing::Resetting | Missing::IoError)) => {
                return Ok(Some(format!("it is not known yet which process holds device {id}: {}", reason.explanation())));
            }
            Err(Missing::NoPermission) => {
                let why = "this driver does not report it, and this user may not read other users' processes; try as root";
                return Err(Failure::new(format!("cannot find out who holds device {id}: {why}")));
            }
            Err(reason) => return Err(Failure::new(format!("cannot find out who holds device {id}: {}", reason.explanation()))),
        }
    }
    Ok(None)
}
