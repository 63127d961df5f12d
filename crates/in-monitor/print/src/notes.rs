//! Notes around the tables: unusual devices, tips, problems.

use std::io::{self, Write};

use ttmon_model::identity::ranges;
use ttmon_model::sample::Origin;
use ttmon_model::snapshot::Status;
use ttmon_model::{Device, DeviceId, Missing, Snapshot};

use crate::quantity::size;
use crate::style::Style;
use crate::text::wrap;

const PROBLEMS_MAX: usize = 5;
const TIP_PIDS_MAX: usize = 3;

/// Prints notes about devices that have no column in the device table. Devices with the same note share a line.
pub(crate) fn print_devices(snapshot: &Snapshot, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let notes = snapshot.devices.iter().flat_map(|device| device_notes(device).into_iter().map(|text| (text, device.id)));
    for (text, ids) in by_text(notes) {
        let who = if let [id] = ids.as_slice() { format!("device {id}") } else { format!("devices {}, each", ranges(ids)) };
        print_wrapped(&style.clean(&format!("{who}: {text}")), style, out)?;
    }
    Ok(())
}

/// Returns each text once, with its devices.
pub(crate) fn by_text(notes: impl Iterator<Item = (String, DeviceId)>) -> Vec<(String, Vec<DeviceId>)> {
    let mut texts: Vec<(String, Vec<DeviceId>)> = Vec::new();
    for (text, id) in notes {
        match texts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, ids)) => ids.push(id),
            None => texts.push((text, vec![id])),
        }
    }
    texts
}

fn device_notes(device: &Device) -> Vec<String> {
    let stale = Some(device.memory.stale_bytes).filter(|stale| *stale > 0);
    let stale = stale.map(|stale| format!("{} left in TT-Metal's statistics by dead processes", size(stale)));
    device.health_reasons.iter().cloned().chain(hidden(device)).chain(stale).collect()
}

/// Returns a note about processes that have the device open but cannot be identified.
pub(crate) fn hidden(device: &Device) -> Option<String> {
    match device.memory.hidden_processes {
        0 => None,
        1 => Some("1 open file of a process in another container".to_owned()),
        count => Some(format!("{count} open files of processes in other containers")),
    }
}

/// Prints how to see memory that is not shown. Prints nothing for a simulated machine.
pub(crate) fn print_tips(snapshot: &Snapshot, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    if snapshot.origin == Origin::Sim {
        return Ok(());
    }
    let open: Vec<u32> =
        snapshot.processes.iter().filter(|process| process.status == Status::Open).map(|process| process.key.pid).collect();
    if !open.is_empty() {
        let whose = if open.len() == 1 { "its" } else { "their" };
        let text = format!("Tip: start {} with `ttmon run -- CMD` to see {whose} memory.", pid_list(&open));
        print_wrapped(&text, style, out)?;
    }
    let is_denied = snapshot.processes.iter().any(|process| process.status == Status::NoPermission)
        || snapshot.devices.iter().any(|device| device.memory.dram.used == Err(Missing::NoPermission));
    if is_denied {
        print_wrapped("Tip: run ttmon as root to see the memory of other users' processes.", style, out)?;
    }
    Ok(())
}

/// Formats `12346, 12350, 12351 and 4 more`.
fn pid_list(pids: &[u32]) -> String {
    let shown: Vec<String> = pids.iter().take(TIP_PIDS_MAX).map(u32::to_string).collect();
    match pids.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

pub(crate) fn print_problems(snapshot: &Snapshot, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    for problem in snapshot.problems.iter().take(PROBLEMS_MAX) {
        let detail = if problem.detail.is_empty() { problem.reason.explanation() } else { &problem.detail };
        print_wrapped(&style.clean(&format!("! {}: {detail}", place(&problem.part))), style, out)?;
    }
    match snapshot.problems.len().saturating_sub(PROBLEMS_MAX) {
        0 => Ok(()),
        more => writeln!(out, "and {more} more; see --json"),
    }
}

/// Replaces the path of a device's directory by `device N`.
fn place(part: &str) -> String {
    let device = part.rsplit_once("/class/tenstorrent/tenstorrent!").filter(|(_, id)| id.bytes().all(|byte| byte.is_ascii_digit()));
    device.map_or_else(|| part.to_owned(), |(_, id)| format!("device {id}"))
}

fn print_wrapped(text: &str, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    wrap(text, style.columns(), style.glyphs().ellipsis).iter().try_for_each(|line| writeln!(out, "{line}"))
}
