//! All that is seen: the state drawn into a buffer. Nothing changes here.

mod chart;
mod charts;
mod detail;
mod devices;
mod dialogs;
mod groups;
mod memory;
mod mesh;
mod processes;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ttmon_model::Snapshot;
use ttmon_model::sample::Origin;
use ttmon_print::quantity;

use crate::alerts::Grade;
use crate::canvas::{Canvas, Field, width};
use crate::keys::KEYS;
use crate::layout::{self, SIZE_MIN};
use crate::state::{Dialog, State, View};
use crate::theme::Role;

/// Draws everything.
pub(crate) fn view(state: &State, buffer: &mut Buffer) {
    let area = buffer.area;
    let canvas = &mut Canvas { buffer, theme: state.theme };
    let Some(frame) = layout::frame((area.width, area.height)) else {
        return too_small(canvas, area);
    };
    title(state, canvas, frame.title);
    match state.shown() {
        Some(snapshot) => match state.view {
            View::Main => main(state, canvas, frame.body),
            View::Charts => charts::draw(state, snapshot, canvas, frame.body),
            View::Detail => detail::draw(state, snapshot, canvas, frame.body),
            View::Memory => memory::draw(state, snapshot, canvas, frame.body),
            View::Mesh => mesh::draw(state, snapshot, canvas, frame.body),
        },
        None if state.view == View::Main && state.has_groups() => main(state, canvas, frame.body),
        None => waiting(state, canvas, frame.body),
    }
    status(state, canvas, frame.status);
    footer(state, canvas, frame.footer);
    if let Some(dialog) = &state.dialog {
        dialogs::draw(state, dialog, canvas, frame.body);
    }
}

/// Before the first snapshot.
fn waiting(state: &State, canvas: &mut Canvas<'_>, body: Rect) {
    let host = state.here();
    let text = match (&host.lost, &host.place) {
        (Some(lost), Some(_)) => format!("no answer since {}: {}; it is asked again and again", state.clock.second(lost.since), lost.why),
        (Some(lost), None) => lost.why.clone(),
        (None, Some(place)) => format!("asking {place}"),
        (None, None) => "reading the machine".to_owned(),
    };
    let text = canvas.clean(&text);
    canvas.say(body, 2, 1, &text, Role::Dim);
}

/// What a smaller screen is told, as far as it can show even that.
fn too_small(canvas: &mut Canvas<'_>, area: Rect) {
    let (columns, rows) = SIZE_MIN;
    let lines = [
        format!("ttmon top needs {columns}x{rows};"),
        format!("this is {}x{}.", area.width, area.height),
        "Make the terminal larger,".to_owned(),
        "or try: ttmon".to_owned(),
    ];
    for (row, line) in (0..).zip(&lines) {
        canvas.say(area, 0, row, line, Role::Plain);
    }
}

fn title(state: &State, canvas: &mut Canvas<'_>, area: Rect) {
    let is_wide = area.width >= layout::TITLE_WIDE_MIN;
    let tabs = layout::tabs(area.width, state.view);
    let left = Rect { width: tabs.first().map_or(area.width, |tab| tab.0.saturating_sub(1)), ..area };
    let mut at = canvas.say(left, 1, 0, "ttmon", Role::Strong) + 2;
    if let Some(snapshot) = state.shown() {
        for (text, role) in title_parts(state, snapshot, is_wide, canvas) {
            at = canvas.say(left, at, 0, &text, role) + 2;
        }
    }
    for (view, (from, _)) in View::ALL.into_iter().zip(tabs) {
        let role = if view == state.view { Role::Selected } else { Role::Dim };
        canvas.say(area, from, 0, &layout::tab(view, state.view, area.width), role);
    }
    let time = state.shown().map_or_else(String::new, |snapshot| state.clock.minute(snapshot.time));
    let (text, role) = pace(state, canvas);
    let end = Field::right(area.width.saturating_sub(13), 12);
    let role = if state.is_frozen() { Role::Selected } else { role };
    canvas.field(area, end, 0, &format!("{time} {text}"), canvas.style(role));
}

fn title_parts(state: &State, snapshot: &Snapshot, is_wide: bool, canvas: &Canvas<'_>) -> Vec<(String, Role)> {
    let mut parts = Vec::new();
    if state.replay.is_some() {
        parts.push(("[REPLAY]".to_owned(), Role::Warning));
    }
    match snapshot.origin {
        Origin::Sim => parts.push(("[SIMULATED]".to_owned(), Role::Warning)),
        Origin::Server => parts.push(("[FROM SERVER]".to_owned(), Role::Plain)),
        Origin::Local => {}
    }
    let count = if state.has_groups() && state.view == View::Main {
        parts = vec![(format!("{} hosts", state.hosts.len()), Role::Plain)];
        state.hosts.iter().filter_map(|host| host.shown()).map(|snapshot| snapshot.devices.len()).sum()
    } else {
        parts.push((canvas.clean(&snapshot.host), Role::Plain));
        snapshot.devices.len()
    };
    let word = match (is_wide, count) {
        (true, 1) => "device",
        (true, _) => "devices",
        (false, _) => "dev",
    };
    parts.push((format!("{count} {word}"), Role::Plain));
    if let Some(driver) = snapshot.driver.as_ref().ok().filter(|_| !state.has_groups()) {
        parts.push((format!("{} {}", if is_wide { "driver" } else { "drv" }, canvas.clean(driver)), Role::Plain));
    }
    parts
}

/// How often one looks, or why nothing moves.
fn pace(state: &State, canvas: &Canvas<'_>) -> (String, Role) {
    if state.is_frozen() {
        return ("FROZEN".to_owned(), Role::Selected);
    }
    if let Some(position) = state.replay {
        let speed = if position.speed >= 4 { format!("x{}", position.speed / 4) } else { format!("x1/{}", 4 / position.speed) };
        return (if position.is_paused { "PAUSED".to_owned() } else { speed }, Role::Strong);
    }
    let silent_for = state.here().silent_for;
    let is_told_below = state.has_groups() && state.view == View::Main;
    if !silent_for.is_zero() && !is_told_below {
        return (format!("{}{}s", canvas.glyphs().age, silent_for.as_secs()), Role::Warning);
    }
    let millis = state.settings.refresh.as_millis();
    let text = if millis.is_multiple_of(1000) { format!("{}s", millis / 1000) } else { format!("{millis}ms") };
    (text, Role::Dim)
}

fn main(state: &State, canvas: &mut Canvas<'_>, body: Rect) {
    let layout = layout::main_of(state, body);
    processes::draw(state, canvas, layout.processes);
    if layout.form == layout::Form::Groups {
        return groups::draw(state, canvas, &layout);
    }
    let Some(snapshot) = state.shown() else { return };
    devices::draw(state, snapshot, canvas, &layout);
    if let Some(area) = layout.kinds {
        devices::kinds(state, snapshot, canvas, area);
    }
    if let Some(area) = layout.charts {
        charts::on_main(state, snapshot, canvas, area);
    }
    if let Some(area) = layout.side {
        detail::side(state, snapshot, canvas, area);
    }
}

/// The newest of: what the user is to know now, why nothing comes, what happened last.
fn status(state: &State, canvas: &mut Canvas<'_>, area: Rect) {
    canvas.rule(area, 0, "", Role::Dim);
    if let Some(message) = state.message.as_ref().filter(|message| message.until.is_none_or(|until| until > state.now())) {
        let text = canvas.clean(&message.text);
        return canvas.rule(area, 0, &text, Role::Strong);
    }
    let is_told_above = state.has_groups() && state.view == View::Main;
    if let Some(lost) = state.here().lost.as_ref().filter(|_| !is_told_above) {
        let since = if state.here().place.is_some() { format!(" since {}", state.clock.second(lost.since)) } else { String::new() };
        let text = canvas.clean(&format!("no answer{since}: {}", lost.why));
        return canvas.rule(area, 0, &text, Role::Critical);
    }
    if let Some(frozen) = &state.here().frozen {
        let ago = quantity::age(frozen.snapshot.time, state.now());
        let rest = if state.history().is_whole(frozen.back) { "" } else { "; processes are not kept this far back" };
        let text = format!("frozen at {}, {ago} ago{rest}; , and . step, Space goes on", state.clock.second(frozen.snapshot.time));
        return canvas.rule(area, 0, &text, Role::Strong);
    }
    if let Some(position) = state.replay {
        let time = state.shown().map_or_else(String::new, |snapshot| state.clock.date(snapshot.time));
        let cut = if position.is_cut { ", its end was cut off" } else { "" };
        let place = format!("{time}, moment {} of {}{cut}", position.at + 1, position.count);
        let text = format!("{place}; Space , . {{ }} + - play, step, jump, speed");
        return canvas.rule(area, 0, &text, Role::Strong);
    }
    let mut at = 1;
    for (host, alert) in state.alerts().into_iter().take(4) {
        let name = host.map_or_else(String::new, |host| format!("{host}: "));
        let text = canvas.clean(&format!(" {} {name}{} ", state.clock.second(alert.time), alert.text));
        if at > 1 && at + width(&text) + 1 > area.width {
            break;
        }
        let role = match alert.grade {
            Grade::Good => Role::Plain,
            Grade::Warning => Role::Warning,
            Grade::Critical => Role::Critical,
        };
        at = canvas.say(area, at, 0, &text, role);
    }
}

fn footer(state: &State, canvas: &mut Canvas<'_>, area: Rect) {
    if let Some(Dialog::Filter { text, .. }) = &state.dialog {
        let at = canvas.say(area, 1, 0, "Filter: ", Role::Strong);
        let text = canvas.clean(text);
        let at = canvas.say(area, at, 0, &text, Role::Plain);
        let at = canvas.say(area, at, 0, " ", Role::Selected);
        canvas.say(area, at + 2, 0, "text user:ana dev:0 mem>1G   Enter keeps it, Esc drops it", Role::Dim);
        return;
    }
    for (index, from, _) in layout::footer(area.width) {
        let key = &KEYS[index];
        let name = key.chords.first().map_or_else(String::new, |chord| chord.name());
        let at = canvas.say(area, from, 0, &name, Role::Strong) + 1;
        canvas.say(area, at, 0, key.label, Role::Dim);
    }
}

/// The role of a share of something that is better not full.
fn fullness(share: f64) -> Role {
    match share {
        share if share >= 0.99 => Role::Critical,
        share if share >= ttmon_model::limits::WARNING_RATIO => Role::Warning,
        _ => Role::Plain,
    }
}

/// Rows of processes in an area.
pub(crate) fn process_rows(area: Rect) -> usize {
    processes::rows(area)
}

/// Lines of the page about a device.
pub(crate) fn detail_lines(snapshot: &Snapshot, device: &ttmon_model::Device) -> usize {
    detail::line_count(snapshot, device)
}

/// Rows of buffers in the memory view.
pub(crate) fn memory_rows(state: &State, snapshot: &Snapshot, body: Rect) -> usize {
    memory::buffer_rows(state, snapshot, body)
}

/// Buffers of a device that are listed.
pub(crate) fn buffer_count(snapshot: &Snapshot, device: &ttmon_model::Device) -> usize {
    memory::buffers(snapshot, device).len()
}
