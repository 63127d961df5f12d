//! `ttmon wait --idle`: comes back when nobody holds the devices.

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

use ttmon_model::identity::DeviceId;
use ttmon_model::sample::{Sample, Users};
use ttmon_model::snapshot::Device;
use ttmon_model::{Missing, Reading};
use ttmon_source::read::Pace;

use crate::cli::WaitArgs;
use crate::failure::{Failure, complain};
use crate::meant::Context;
use crate::open::Opened;

/// How often to look.
const INTERVAL: Duration = Duration::from_millis(200);

pub(crate) fn run(context: &Context, args: &WaitArgs) -> Result<(), Failure> {
    if context.json {
        return Err(Failure::usage("wait prints nothing; its exit code is the answer"));
    }
    let timeout = match args.timeout {
        None => None,
        Some(seconds) => Some(Duration::try_from_secs_f64(seconds).map_err(|_| Failure::usage("--timeout takes seconds"))?),
    };
    let started = Instant::now();
    let mut opened = Opened::new(context, Pace::Repeated, true)?;
    let mut is_said = !io::stderr().is_terminal();
    loop {
        let devices = opened.snapshot()?.devices;
        let Some(busy) = busy(&devices, opened.sample())? else { return Ok(()) };
        if !is_said {
            complain(&format!("waiting: {busy}"));
            is_said = true;
        }
        let left = timeout.map(|timeout| timeout.saturating_sub(started.elapsed()));
        if left == Some(Duration::ZERO) {
            let waited = started.elapsed().as_secs_f64();
            return Err(Failure::timed_out(format!("still not idle after {waited:.1} s: {busy}; ttmon who tells more")));
        }
        thread::sleep(left.unwrap_or(INTERVAL).min(INTERVAL));
    }
}

/// Who holds one of the devices, in words; `None` when nobody does.
fn busy(devices: &[Device], sample: Option<&Sample>) -> Result<Option<String>, Failure> {
    for device in devices {
        // A remote chip is used through its gateway.
        let id = device.via.unwrap_or(device.id);
        match users(sample, id) {
            Ok(users) => {
                if let Some(pid) = users.pids.first() {
                    return Ok(Some(format!("process {pid} holds device {id}")));
                }
                if users.hidden > 0 {
                    return Ok(Some(format!("a process of another container holds device {id}")));
                }
                if !users.is_complete {
                    return Err(unknown(
                        id,
                        "this driver does not tell, and this user may not look at other users' processes; try as root",
                    ));
                }
            }
            // A device that is away is held by nobody.
            Err(Missing::Gone) => {}
            // The list is locked while the last holder closes the device, and unreadable during a reset: look again.
            Err(reason @ (Missing::Timeout | Missing::Resetting | Missing::IoError)) => {
                return Ok(Some(format!("it cannot be told yet who holds device {id}: {}", reason.explanation())));
            }
            Err(reason) => return Err(unknown(id, reason.explanation())),
        }
    }
    Ok(None)
}

fn users(sample: Option<&Sample>, id: DeviceId) -> Reading<&Users> {
    let device = sample.and_then(|sample| sample.devices.iter().find(|device| device.id == id));
    device.ok_or(Missing::Gone)?.users.as_ref().map_err(|reason| *reason)
}

fn unknown(id: DeviceId, why: &str) -> Failure {
    Failure::new(format!("cannot tell who holds device {id}: {why}"))
}
