//! The process table: the selected columns that fit, sorted, filtered, as a list or a tree.

use ratatui_core::layout::Rect;
use ttmon_model::units::UnixTime;
use ttmon_print::quantity::ABSENT;

use crate::canvas::{Canvas, Field};
use crate::columns::COLUMNS;
use crate::host::Host;
use crate::layout::{process_columns, scrolled};
use crate::state::{Depth, Focus, TopState};
use crate::theme::Role;

pub(crate) fn rows(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(2))
}

pub(super) fn draw(state: &TopState, canvas: &mut Canvas<'_>, area: Rect) {
    let processes = state.processes();
    let chosen = state.process_row(&processes);
    let chosen_owner = state.chosen_process(&processes).map(crate::state::ProcessRow::owner);
    let first = scrolled(state.scroll, chosen, rows(area), processes.len());
    rule(state, canvas, area, processes.len(), first);
    let columns = process_columns(state, area.width);
    canvas.buffer.set_style(Rect { y: area.y + 1, height: 1, ..area }, canvas.theme.style(Role::Heading));
    for (index, at, width) in &columns {
        let column = &COLUMNS[*index];
        let sign = if *index == state.settings.sort { canvas.glyphs().sorted(state.settings.descending) } else { "" };
        let field = if column.is_number { Field::right(*at, *width) } else { Field::left(*at, *width) };
        canvas.field(area, field, 1, &format!("{}{sign}", column.title), canvas.style(Role::Heading));
    }
    if processes.is_empty() {
        return nothing(state, canvas, area);
    }
    for (row, process) in (2..area.height).zip(processes.iter().skip(first)) {
        let now = state.hosts[process.host].shown().map_or(UnixTime(0), |snapshot| snapshot.time);
        let is_chosen = chosen_owner == Some(process.owner());
        for (index, at, width) in &columns {
            let column = &COLUMNS[*index];
            let (text, role) = match (column.value)(process) {
                Ok(value) => (value.text(now), Role::Plain),
                // A process outside containers has an empty cell.
                Err(ttmon_model::Missing::NoSource) if column.name == "container" => (String::new(), Role::Dim),
                Err(_) => (ABSENT.to_owned(), Role::Dim),
            };
            let text = if column.name == "name" { format!("{}{text}", branch(process.depth, canvas)) } else { text };
            let field = if column.is_number { Field::right(*at, *width) } else { Field::left(*at, *width) };
            canvas.field(area, field, row, &text, canvas.style(role));
        }
        let row_area = Rect { y: area.y + row, height: 1, ..area };
        if state.hosts[process.host].is_stale() {
            canvas.fade(row_area);
        }
        if is_chosen && state.focus == Focus::Processes {
            canvas.buffer.set_style(row_area, canvas.theme.style(Role::Selected));
        }
    }
}

fn rule(state: &TopState, canvas: &mut Canvas<'_>, area: Rect, shown: usize, first: usize) {
    let all = state.process_count();
    let count = if all == shown { all.to_string() } else { format!("{shown} of {all}") };
    let mut text = format!("Processes ({count})  sort: {}", COLUMNS[state.settings.sort].name);
    if !state.filter_text.is_empty() {
        text += &format!("  filter: {}", state.filter_text);
    }
    if state.settings.tree {
        text += "  tree";
    }
    canvas.rule(area, 0, &text, Role::Title);
    super::hidden_rows(canvas, area, first..first + rows(area), shown);
}

fn nothing(state: &TopState, canvas: &mut Canvas<'_>, area: Rect) {
    let is_known = |host: &Host| host.shown().is_some_and(|shown| shown.devices.iter().all(|device| device.memory.dram.used.is_ok()));
    let is_certain = state.hosts.iter().all(is_known);
    let text = match () {
        () if state.process_count() > 0 => "no process passes the filter; Esc drops it",
        () if state.is_frozen() && !state.host().history.is_whole(state.host().back()) => "processes are not kept this far back",
        () if is_certain => "no process holds a device",
        () => "no process is seen to hold a device",
    };
    canvas.text(area, 1, 2, text, Role::Dim);
}

fn branch(depth: Depth, canvas: &Canvas<'_>) -> String {
    if depth.level == 0 {
        return String::new();
    }
    let [branch, last] = canvas.glyphs().branches;
    let indent = " ".repeat(usize::from(depth.level.min(12) - 1) * 2);
    format!("{indent}{}", if depth.is_last { last } else { branch })
}
