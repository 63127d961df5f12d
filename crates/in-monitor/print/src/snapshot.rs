//! The snapshot: the output of `ttmon` without arguments.

use std::io::{self, Write};

use ttmon_model::Snapshot;
use ttmon_model::sample::Origin;

use crate::breakdown::lines;
use crate::quantity::ABSENT;
use crate::style::Style;
use crate::table::inner_columns;
use crate::text::{Align, Cut, cut, pad, width};
use crate::{breakdown, devices, notes, processes};

/// Maximum number of columns for the driver version in the title. The other columns are for the host.
const DRIVER_COLUMNS_MAX: usize = 16;

/// Prints devices, memory in use, processes, tips and problems.
pub fn snapshot(snapshot: &Snapshot, style: &Style<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut head = Vec::new();
    devices::table(snapshot, style).print(Some(&title(snapshot, style)), style, &mut head)?;
    notes::print_devices(snapshot, style, &mut head)?;
    let mut tail = Vec::new();
    if style.show_processes {
        processes::print(snapshot, style, &mut tail)?;
        notes::print_tips(snapshot, style, &mut tail)?;
    }
    notes::print_problems(snapshot, style, &mut tail)?;
    // The breakdown is left out first, because the device table has the totals.
    let room = style.rows.map(|rows| rows.saturating_sub(lines(&head) + lines(&tail)));
    out.write_all(&head)?;
    out.write_all(&breakdown::text(snapshot, room, style)?)?;
    out.write_all(&tail)
}

/// Returns the mark in every output, so that a simulated machine is not confused with a real one, and empty for a real one. A service may
/// see less of this user's processes and more of other users' processes.
pub(crate) fn origin_mark(snapshot: &Snapshot) -> &'static str {
    match snapshot.origin {
        Origin::Local => "",
        Origin::Sim => "[SIMULATED]",
        Origin::Server => "[FROM SERVER]",
    }
}

pub(crate) fn print_origin(snapshot: &Snapshot, out: &mut dyn Write) -> io::Result<()> {
    match origin_mark(snapshot) {
        "" => Ok(()),
        mark => writeln!(out, "{mark}"),
    }
}

fn title(snapshot: &Snapshot, style: &Style<'_>) -> String {
    let glyphs = style.glyphs();
    let between = glyphs.between;
    let driver = cut(&style.clean(snapshot.driver.as_deref().unwrap_or(ABSENT)), DRIVER_COLUMNS_MAX, Cut::End, glyphs.ellipsis);
    let program = format!("ttmon {} {between} driver {driver} {between} host ", style.clean(style.version));
    let origin = origin_mark(snapshot);
    let space = if origin.is_empty() { "" } else { " " };
    let deep = if snapshot.is_deep() { format!(" {between} deep") } else { String::new() };
    let mark = format!("{space}{origin}{deep}");
    let clock = format!("  {}", style.clean(&style.local_time));
    let left = inner_columns(style).saturating_sub(width(&program) + width(&mark) + width(&clock));
    let host = cut(&style.clean(&snapshot.host), left, Cut::Middle, glyphs.ellipsis);
    let head = pad(&format!("{program}{host}{mark}"), inner_columns(style).saturating_sub(width(&clock)), Align::Left);
    cut(&format!("{head}{clock}"), inner_columns(style), Cut::Middle, glyphs.ellipsis)
}
