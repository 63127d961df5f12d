//! `ttmon who`: the processes on devices, one line each, then the devices without a process.

use std::io::{self, Write};

use ttmon_model::identity::ranges;
use ttmon_model::snapshot::State;
use ttmon_model::{Device, Kind, Process, Reading, Snapshot};

use crate::notes::{by_text, hidden, print_problems};
use crate::quantity::{ABSENT, age, size_or_absent};
use crate::snapshot::print_origin;
use crate::style::Style;
use crate::text::print_aligned;

const HEAD: [&str; 8] = ["PID", "USER", "DEVICES", "DRAM", "L1", "STARTED", "NAME", "WHERE"];

/// Prints a line per process below a header, and one line per state of devices without a visible process.
pub fn who(snapshot: &Snapshot, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let is_seen = |process: &&Process| !process.devices.is_empty() || !process.unmapped.is_empty();
    let mut rows: Vec<Vec<String>> = snapshot.processes.iter().filter(is_seen).map(|process| holder(snapshot, process)).collect();
    if !rows.is_empty() {
        rows.insert(0, HEAD.map(str::to_owned).into());
    }
    // Clean text may be shorter, so it is cleaned before it is aligned.
    rows.iter_mut().flatten().for_each(|part| *part = style.clean(part));
    print_aligned(&rows, style, out)?;
    let is_unseen = |device: &&Device| device.memory.hidden_processes > 0 || snapshot.processes_on(device.id).next().is_none();
    for (state, ids) in by_text(snapshot.devices.iter().filter(is_unseen).map(|device| (unseen(device), device.id))) {
        let devices = if ids.len() == 1 { "device" } else { "devices" };
        writeln!(out, "{}", style.clean(&format!("{devices} {}: {state}", ranges(ids))))?;
    }
    print_origin(snapshot, out)?;
    print_problems(snapshot, style, out)
}

fn holder(snapshot: &Snapshot, process: &Process) -> Vec<String> {
    let or_absent = |text: Reading<String>| text.unwrap_or_else(|_| ABSENT.to_owned());
    let started = process.start_time.map(|start| format!("{} ago", age(start, snapshot.time)));
    let launched = process.last_launch.ok().map(|last| format!("last program {} ago", age(last, snapshot.time)));
    let devices = ranges(process.devices.iter().map(|use_of| use_of.device));
    let unmapped = process.unmapped.iter().map(|unmapped| format!("unmapped chip {}", unmapped.id));
    let devices: Vec<String> = (!devices.is_empty()).then_some(devices).into_iter().chain(unmapped).collect();
    vec![
        process.key.pid.to_string(),
        or_absent(process.user.clone()),
        devices.join(", "),
        size_or_absent(process.total_of(&Kind::DRAM_BAR)),
        size_or_absent(process.total_of(&Kind::L1_BAR)),
        or_absent(started),
        or_absent(process.title()),
        launched.into_iter().chain(process.workloads()).collect::<Vec<_>>().join(", "),
    ]
}

fn unseen(device: &Device) -> String {
    match (hidden(device), device.memory.dram.used, device.via) {
        (Some(hidden), ..) => hidden,
        (None, Ok(_), _) if matches!(device.state, State::Gone | State::Resetting | State::Starting) => device.state.name().to_owned(),
        (None, Ok(_), _) => "free".to_owned(),
        (None, Err(_), Ok(via)) => format!("unknown: its users are those of device {via}"),
        (None, Err(reason), Err(_)) => format!("unknown ({reason}: {})", reason.explanation()),
    }
}
