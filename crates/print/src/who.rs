//! `ttmon who`: who holds which device, a line each.

use std::io::{self, Write};

use ttmon_model::snapshot::State;
use ttmon_model::{Device, Process, Reading, Snapshot};

use crate::notes::{hidden, print_problems};
use crate::quantity::{ABSENT, age, size_or_absent};
use crate::snapshot::origin_mark;
use crate::style::Style;
use crate::text::aligned;

/// Prints a line for each process on each device, and one for each device that nobody is seen on.
pub fn who(snapshot: &Snapshot, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut rows = Vec::new();
    for device in &snapshot.devices {
        let place = [format!("device {}", device.id), device.label()];
        let holders: Vec<_> = snapshot.processes_on(device.id).collect();
        for (process, use_of) in &holders {
            rows.push(holder(snapshot, process, &place, use_of.dram(), use_of.l1()));
        }
        if holders.is_empty() || device.memory.hidden_processes > 0 {
            rows.push(place.into_iter().chain([unseen(device)]).collect());
        }
    }
    for process in &snapshot.processes {
        for unmapped in &process.unmapped {
            let place = ["unmapped".to_owned(), format!("chip {}", unmapped.id)];
            rows.push(holder(snapshot, process, &place, unmapped.kinds.dram(), unmapped.kinds.l1()));
        }
    }
    for row in &mut rows {
        row.iter_mut().for_each(|part| *part = style.clean(part));
    }
    for line in aligned(&rows) {
        writeln!(out, "{}", format!("{line}  {}", origin_mark(snapshot)).trim_end())?;
    }
    print_problems(snapshot, style, out)
}

fn holder(snapshot: &Snapshot, process: &Process, place: &[String], dram: Reading<u64>, l1: Reading<u64>) -> Vec<String> {
    let or_absent = |text: Reading<String>| text.unwrap_or_else(|_| ABSENT.to_owned());
    let started = process.start_time.map(|start| format!("{} ago", age(start, snapshot.time)));
    let launched = process.last_launch.ok().map(|last| format!("last program {} ago", age(last, snapshot.time)));
    let mut row = place.to_vec();
    row.extend([
        process.key.pid.to_string(),
        or_absent(process.user.clone()),
        or_absent(process.title()),
        format!("{} DRAM", size_or_absent(dram)),
        format!("{} L1", size_or_absent(l1)),
        format!("started {}", or_absent(started)),
        launched.into_iter().chain(process.workloads()).collect::<Vec<_>>().join(", "),
    ]);
    row
}

/// What can be said of a device on which no process is seen.
fn unseen(device: &Device) -> String {
    match (hidden(device), device.memory.dram.used, device.via) {
        (Some(hidden), ..) => hidden,
        (None, Ok(_), _) if matches!(device.state, State::Gone | State::Resetting | State::Starting) => device.state.name().to_owned(),
        (None, Ok(_), _) => "free".to_owned(),
        (None, Err(_), Ok(via)) => format!("unknown: its users are those of device {via}"),
        (None, Err(reason), Err(_)) => format!("unknown ({reason}: {})", reason.explanation()),
    }
}
