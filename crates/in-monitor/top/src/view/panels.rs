//! Panels of the main view if rows are left: the largest groups of memory, and the newest events.

use std::cmp::Reverse;

use ratatui_core::layout::Rect;
use ttmon_model::groups::{BufferGroup, GroupBy, GroupKey, groups as grouped};
use ttmon_model::snapshot::Severity;
use ttmon_model::units::UnixTime;
use ttmon_model::{Kind, Snapshot};
use ttmon_print::quantity::size;

use super::alert_text;
use crate::canvas::{Canvas, Field};
use crate::marks::Mark;
use crate::state::TopState;
use crate::theme::Role;

const BAR_COLUMNS: u16 = 12;

struct PanelGroup {
    bytes: u64,
    count: String,
    name: String,
}

/// Draws the largest groups of live buffers, by line if lines are known, otherwise by tag. Without a list of buffers, draws the largest
/// totals of processes.
pub(super) fn groups(snapshot: &Snapshot, canvas: &mut Canvas<'_>, area: Rect) {
    let rows = usize::from(area.height.saturating_sub(1));
    let (by, list) = largest(snapshot, rows);
    canvas.rule(area, 0, &format!("Largest memory by {by}"), Role::Title);
    if list.is_empty() {
        canvas.text(area, 1, 1, "no tracked process has memory on a device", Role::Dim);
    }
    let total = list.iter().map(|group| group.bytes).max().unwrap_or(0).max(1);
    for (row, group) in (1..).zip(&list) {
        canvas.field(area, Field::right(0, 9), row, &size(group.bytes), canvas.style(Role::Plain));
        let share = group.bytes as f64 / total as f64;
        let bar = ttmon_print::bar_cells(share, usize::from(BAR_COLUMNS), canvas.glyphs().fill);
        canvas.put(area, 10, row, &bar, canvas.theme.hue(0));
        canvas.field(area, Field::right(11 + BAR_COLUMNS, 8), row, &group.count, canvas.style(Role::Dim));
        let field = Field::left(20 + BAR_COLUMNS, area.width.saturating_sub(21 + BAR_COLUMNS));
        canvas.field(area, field, row, &group.name, canvas.style(Role::Plain));
    }
}

fn largest(snapshot: &Snapshot, rows: usize) -> (&'static str, Vec<PanelGroup>) {
    let entries = || snapshot.buffers.iter().map(|buffer| &buffer.buffer);
    if entries().next().is_none() {
        return of_processes(snapshot, rows);
    }
    let (word, by) = match () {
        () if entries().any(|entry| entry.stack.is_some()) => ("line", GroupBy::Line),
        () if entries().any(|entry| entry.tag.is_some()) => ("tag", GroupBy::Tag),
        () => ("operation", GroupBy::Op),
    };
    let line = |group: BufferGroup| PanelGroup { bytes: group.bytes, count: format!("x{}", group.count), name: key_text(&group.key) };
    (word, grouped(entries(), by, None).into_iter().take(rows).map(line).collect())
}

pub(super) fn key_text(key: &GroupKey) -> String {
    match key {
        GroupKey::Line(Some(line)) => format!("{}:{} {}", line.file, line.line, line.function),
        GroupKey::Text(Some(text)) => text.to_string(),
        GroupKey::Line(None) | GroupKey::Text(None) => "not known".to_owned(),
    }
}

/// Returns each kind of memory of each process, summed over its devices. If rows are left, lists each device separately.
fn of_processes(snapshot: &Snapshot, rows: usize) -> (&'static str, Vec<PanelGroup>) {
    let (mut totals, mut parts) = (Vec::new(), Vec::new());
    for process in &snapshot.processes {
        let name = format!("{} {}", process.key.pid, process.title().unwrap_or_else(|_| "?".to_owned()));
        for kind in [Kind::Dram, Kind::Trace, Kind::L1, Kind::L1Small, Kind::Cb] {
            let group = |bytes, name| PanelGroup { bytes, count: kind.name().to_owned(), name };
            if let Ok(bytes @ 1..) = process.total(kind) {
                totals.push(group(bytes, name.clone()));
            }
            // The end stays visible if the text is cut.
            let on = |(device, bytes)| group(bytes, format!("{name} on device {device}"));
            parts.extend(process.parts(kind).filter(|(_, bytes)| *bytes > 0).map(on));
        }
    }
    // Memory on chips without a row is only in the totals.
    let sum = |list: &[PanelGroup]| list.iter().fold(0, |sum: u64, group| sum.saturating_add(group.bytes));
    let is_split = totals.len() < rows && parts.len() > totals.len() && sum(&parts) == sum(&totals);
    let (by, mut list) = if is_split { ("process and device", parts) } else { ("process", totals) };
    list.sort_by_key(|group| Reverse(group.bytes));
    list.truncate(rows);
    (by, list)
}

pub(super) fn events(state: &TopState, canvas: &mut Canvas<'_>, area: Rect) {
    canvas.rule(area, 0, "Newest events", Role::Title);
    // Clocks of several machines differ.
    let is_one_clock = !state.has_groups() || state.is_frozen();
    let shown = state.shown().filter(|_| is_one_clock).map_or(UnixTime(u64::MAX), |snapshot| snapshot.time);
    let alerts = state.alerts().into_iter().map(|(host, alert)| (alert.time, alert.severity, alert_text(state, host, alert)));
    let mark_text = |mark: &Mark| format!("{} {}", state.clock.second(mark.time), mark.text);
    let marks = state.host().marks.iter().rev().map(|mark| (mark.time, mark.kind.severity(), mark_text(mark)));
    // Marks do not name their machine.
    let marks = marks.filter(|_| !state.has_groups());
    let mut lines: Vec<(UnixTime, Severity, String)> = alerts.chain(marks).filter(|(time, ..)| *time <= shown).collect();
    lines.sort_by_key(|(time, ..)| Reverse(*time));
    if lines.is_empty() {
        canvas.text(area, 1, 1, "none so far", Role::Dim);
    }
    let field = Field::start(1, area.width.saturating_sub(2));
    for (row, (_, severity, text)) in (1..area.height).zip(&lines) {
        canvas.field(area, field, row, text, canvas.style((*severity).into()));
    }
    super::hidden_rows(canvas, area, 0..usize::from(area.height.saturating_sub(1)), lines.len());
}
