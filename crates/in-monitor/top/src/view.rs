//! Draws the state into a buffer. Changes nothing else.

mod chart;
mod charts;
mod detail;
mod devices;
mod dialogs;
mod groups;
mod memory;
mod mesh;
mod panels;
mod processes;

use std::ops::Range;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ttmon_model::Snapshot;
use ttmon_model::sample::Origin;
use ttmon_model::snapshot::Severity;
use ttmon_model::units::UnixTime;
use ttmon_print::quantity;
use ttmon_print::text::{self, Cut};

use crate::alerts::Alert;
use crate::canvas::{Canvas, Field, folded, width};
use crate::host::Host;
use crate::layout::{self, SIZE_MIN};
use crate::state::{Dialog, TopState, View};
use crate::theme::Role;

pub(crate) use devices::WORST_MAX;
pub(crate) use dialogs::page_line_count;
pub(crate) use memory::{
    buffer_at as memory_buffer, groups_by as memory_groups_by, list_rows as memory_rows, map_rows as memory_map_rows, names as memory_list,
    row_at as memory_row_at,
};
pub(crate) use mesh::device_at as mesh_device_at;
pub(crate) use processes::rows as process_rows;

const NAME_MIN: usize = 8;

pub(crate) fn view(state: &TopState, buffer: &mut Buffer) {
    let area = buffer.area;
    let canvas = &mut Canvas { buffer, theme: state.theme };
    let Some(frame) = layout::frame((area.width, area.height)) else {
        return too_small(canvas, area);
    };
    title(state, canvas, frame.title);
    match state.shown() {
        Some(snapshot) if snapshot.devices.is_empty() && state.view != View::Main => {
            canvas.text(frame.body, 2, 1, "there is no device", Role::Dim);
        }
        Some(snapshot) => match state.view {
            View::Main => main(state, canvas, frame.body),
            View::Charts => charts::draw(state, snapshot, canvas, frame.body),
            View::Detail => detail::draw(state, snapshot, canvas, frame.body),
            View::Memory => memory::draw(state, snapshot, canvas, frame.body),
            View::Mesh => mesh::draw(state, snapshot, canvas, frame.body),
        },
        None if state.is_overview() => main(state, canvas, frame.body),
        None => waiting(state, canvas, frame.body),
    }
    // With several machines, each row shows the age of its own data.
    if state.shown().is_some() && state.host().is_stale() && !state.is_overview() {
        canvas.fade(frame.body);
    }
    status(state, canvas, frame.status);
    footer(state, canvas, frame.footer);
    if let Some(dialog) = &state.dialog {
        dialogs::draw(state, dialog, canvas, frame.body);
    }
}

fn waiting(state: &TopState, canvas: &mut Canvas<'_>, body: Rect) {
    let host = state.host();
    let text = match (&host.error, &host.address) {
        (Some(error), Some(place)) => {
            format!("no answer from {place} since {}: {}; retrying", state.clock.second(error.since), error.message)
        }
        (Some(error), None) => error.message.clone(),
        (None, Some(place)) => format!("asking {place}"),
        (None, None) if host.is_recording => "reading the recording".to_owned(),
        (None, None) => "reading the machine".to_owned(),
    };
    paragraph(canvas, body, 2, &text);
}

/// Writes a message below the first row of an area, on as many lines as it needs.
fn paragraph(canvas: &mut Canvas<'_>, area: Rect, column: u16, text: &str) {
    let text = canvas.clean(text);
    for (row, line) in (1..area.height).zip(folded(&text, area.width.saturating_sub(column + 1))) {
        canvas.text(area, column, row, line, Role::Dim);
    }
}

fn too_small(canvas: &mut Canvas<'_>, area: Rect) {
    let (columns, rows) = SIZE_MIN;
    let lines = [
        format!("ttmon top needs {columns}x{rows};"),
        format!("this is {}x{}.", area.width, area.height),
        "Make the terminal larger,".to_owned(),
        "or try: ttmon".to_owned(),
    ];
    for (row, line) in (0..).zip(&lines) {
        canvas.text(area, 0, row, line, Role::Plain);
    }
}

fn title(state: &TopState, canvas: &mut Canvas<'_>, area: Rect) {
    let tabs = layout::tabs(area.width, state.view);
    let left = Rect { width: tabs.first().map_or(area.width, |tab| tab.0.saturating_sub(1)), ..area };
    let hosts = if state.is_overview() { &state.hosts[..] } else { std::slice::from_ref(state.host()) };
    let shown: Vec<&Snapshot> = hosts.iter().filter_map(|host| host.shown().map(AsRef::as_ref)).collect();
    let mut at = canvas.text(left, 1, 0, "ttmon", Role::Title) + 2;
    for (text, role) in title_parts(state, &shown, left.width.saturating_sub(at).into(), canvas) {
        at = canvas.text(left, at, 0, &text, role) + 2;
    }
    for (view, (from, _)) in View::ALL.into_iter().zip(tabs) {
        let role = if view == state.view { Role::Selected } else { Role::Title };
        canvas.text(area, from, 0, &layout::tab(view, state.view, area.width), role);
    }
    let time = shown.iter().map(|snapshot| snapshot.time).max().map_or_else(String::new, |time| state.clock.minute(time));
    let (refresh, role) = refresh(state, canvas);
    let columns = layout::TITLE_END_COLUMNS;
    // If there is no room for both, the clock is left out.
    let text = Some(format!("{time} {refresh}")).filter(|both| width(both) <= columns).unwrap_or(refresh);
    canvas.field(area, Field::right(area.width.saturating_sub(columns + 1), columns), 0, &text, canvas.style(role));
}

/// Returns the parts of the title: the source if it is not a live machine, its name, and its number of devices. If there is not enough
/// room, a long name is cut and the last parts are left out.
fn title_parts(state: &TopState, shown: &[&Snapshot], room: usize, canvas: &Canvas<'_>) -> Vec<(String, Role)> {
    let is_wide = state.size.0 >= layout::TITLE_WIDE_MIN;
    let mut marks = Vec::new();
    if state.replay.is_some() {
        marks.push(("[REPLAY]".to_owned(), Role::Warning));
    }
    match shown.iter().filter(|snapshot| snapshot.origin == Origin::Sim).count() {
        0 => {}
        count if count == shown.len() => marks.push(("[SIMULATED]".to_owned(), Role::Warning)),
        count => marks.push((format!("[{count} SIMULATED]"), Role::Warning)),
    }
    if shown.iter().any(|snapshot| snapshot.is_deep()) {
        marks.push(("[DEEP]".to_owned(), Role::Dim));
    }
    if !state.is_overview() && shown.iter().any(|snapshot| snapshot.origin == Origin::Server) {
        marks.push(("[FROM SERVER]".to_owned(), Role::Plain));
    }
    let mut figures = Vec::new();
    if !shown.is_empty() {
        let count: usize = shown.iter().map(|snapshot| snapshot.devices.len()).sum();
        let word = match (is_wide, count) {
            (true, 1) => "device",
            (true, _) => "devices",
            (false, _) => "dev",
        };
        figures.push((format!("{count} {word}"), Role::Plain));
    }
    let columns = |parts: &[(String, Role)]| parts.iter().map(|(text, _)| text::width(text) + 2).sum::<usize>();
    let left = room.saturating_sub(columns(&marks) + columns(&figures));
    let name = if state.is_overview() { format!("{} hosts", state.hosts.len()) } else { canvas.clean(state.host().name()) };
    let name = text::cut(&name, left.max(NAME_MIN), Cut::End, canvas.glyphs().ellipsis);
    if let ([snapshot], false) = (shown, state.has_groups())
        && let Ok(driver) = &snapshot.driver
    {
        figures.push((format!("{} {}", if is_wide { "driver" } else { "drv" }, canvas.clean(driver)), Role::Plain));
    }
    let mut parts = marks;
    parts.extend((!name.is_empty()).then_some((name, Role::Plain)));
    parts.extend(figures);
    while columns(&parts) > room + 2 && parts.pop().is_some() {}
    parts
}

fn refresh(state: &TopState, canvas: &Canvas<'_>) -> (String, Role) {
    if state.is_frozen() {
        return ("FROZEN".to_owned(), Role::Selected);
    }
    if let Some(position) = state.replay {
        let speed = if position.speed >= 4 { format!("x{}", position.speed / 4) } else { format!("x1/{}", 4 / position.speed) };
        return (if position.is_paused { "PAUSED".to_owned() } else { speed }, Role::Strong);
    }
    // With several machines, each heading shows this.
    let host = Some(state.host()).filter(|_| !state.is_overview());
    if host.is_some_and(|host| host.error.is_some()) {
        return ("LOST".to_owned(), Role::Critical);
    }
    if let Some(silence) = host.and_then(|host| silence(host, canvas)) {
        return (silence, Role::Warning);
    }
    let millis = state.settings.refresh.as_millis();
    let text = if millis.is_multiple_of(1000) { format!("{}s", millis / 1000) } else { format!("{millis}ms") };
    (text, Role::Dim)
}

fn silence(host: &Host, canvas: &Canvas<'_>) -> Option<String> {
    let nanoseconds = u64::try_from(host.silent_for.as_nanos()).unwrap_or(u64::MAX);
    (nanoseconds > 0).then(|| format!("{}{}", canvas.glyphs().age, quantity::age(UnixTime(0), UnixTime(nanoseconds))))
}

fn main(state: &TopState, canvas: &mut Canvas<'_>, body: Rect) {
    let layout = layout::main_of(state, body);
    processes::draw(state, canvas, layout.processes);
    if layout.form == layout::Form::Groups {
        groups::draw(state, canvas, &layout);
        if let Some(area) = layout.events {
            panels::events(state, canvas, area);
        }
        return;
    }
    let Some(snapshot) = state.shown() else { return };
    devices::draw(state, snapshot, canvas, &layout);
    if let Some(area) = layout.kinds {
        devices::kinds(state, snapshot, canvas, area);
    }
    if let Some(area) = layout.charts {
        charts::on_main(state, snapshot, canvas, area);
    }
    if let Some(area) = layout.groups {
        panels::groups(snapshot, canvas, area);
    }
    if let Some(area) = layout.events {
        panels::events(state, canvas, area);
    }
    if let Some(area) = layout.side {
        detail::side(state, snapshot, canvas, area);
    }
}

/// Draws the status line: a message, or why there is no answer, or the time of the paused display, or the newest alerts.
fn status(state: &TopState, canvas: &mut Canvas<'_>, area: Rect) {
    canvas.rule(area, 0, "", Role::Dim);
    if let Some(message) = state.message.as_ref().filter(|message| message.until.is_none_or(|until| until > state.host().now())) {
        return canvas.rule(area, 0, &message.text, Role::Strong);
    }
    if let Some(error) = state.host().error.as_ref().filter(|_| !state.is_overview()) {
        let since = if state.host().address.is_some() { format!(" since {}", state.clock.second(error.since)) } else { String::new() };
        let words = if state.replay.is_some() { String::new() } else { format!("no answer{since}: ") };
        return canvas.rule(area, 0, &format!("{words}{}", error.message), Role::Critical);
    }
    if let Some(frozen) = &state.host().frozen {
        let ago = quantity::age(frozen.snapshot.time, state.host().now());
        let rest = if state.host().history.is_whole(frozen.back) { "" } else { ", without processes" };
        let text = format!("frozen at {}, {ago} ago{rest}; , and . step, Space goes on", state.clock.second(frozen.snapshot.time));
        return canvas.rule(area, 0, &text, Role::Strong);
    }
    let mut at = 1;
    if let Some(position) = state.replay {
        let time = state.shown().map_or_else(String::new, |snapshot| state.clock.date(snapshot.time));
        let cut = if position.is_cut { ", its end was cut off" } else { "" };
        let text = format!(" {time}, frame {} of {}{cut} ", position.at + 1, position.count);
        at = canvas.text(area, at, 0, &text, Role::Strong);
    }
    let rest = Rect { x: area.x + at, width: area.width.saturating_sub(at), ..area };
    match state.hint {
        Some(hint) if state.alerts().is_empty() => {
            // A narrow screen shows the parts that fit.
            let fits = |hint: &&str| width(hint) + 2 <= rest.width;
            let hint = std::iter::successors(Some(hint), |hint| Some(hint.rsplit_once(", ")?.0)).find(fits);
            canvas.text(rest, 0, 0, &format!(" {} ", hint.unwrap_or_default()), Role::Strong);
        }
        _ => happened(state, canvas, rest),
    }
}

fn happened(state: &TopState, canvas: &mut Canvas<'_>, area: Rect) {
    let alerts = state.alerts();
    let mut at = 0;
    for (index, (host, alert)) in alerts.iter().enumerate() {
        let text = canvas.clean(&format!(" {} ", alert_text(state, *host, alert)));
        let behind = alerts.len() - index - 1;
        let rest = |count: usize| if count == 0 { String::new() } else { format!(" +{count}: a ") };
        if usize::from(at) + text::width(&text) + text::width(&rest(behind)) <= area.width.into() {
            at = canvas.text(area, at, 0, &text, alert.severity.into());
            continue;
        }
        let rest = if index == 0 { rest(behind) } else { rest(behind + 1) };
        if index == 0 {
            // A single alert that is too long is cut, not left out.
            let room = area.width.saturating_sub(width(&rest));
            canvas.field(area, Field::start(0, room), 0, &text, canvas.style(alert.severity.into()));
            at = room;
        }
        canvas.text(area, at, 0, &rest, Role::Strong);
        return;
    }
}

/// Returns the lines of the list of alerts, the newest alert first, each in full length.
fn alert_lines(state: &TopState, columns: u16) -> Vec<(String, Role)> {
    let mut lines = Vec::new();
    for (host, alert) in state.alerts() {
        let text = text::clean(&alert_text(state, host, alert), state.theme.ascii);
        lines.extend(folded(&text, columns).into_iter().map(|line| (line.to_owned(), alert.severity.into())));
    }
    lines
}

fn alert_text(state: &TopState, host: Option<&str>, alert: &Alert) -> String {
    let name = host.map_or_else(String::new, |host| format!("{host}: "));
    format!("{} {name}{}", state.clock.second(alert.time), alert.text)
}

fn footer(state: &TopState, canvas: &mut Canvas<'_>, area: Rect) {
    if let Some(Dialog::Filter { text, .. }) = &state.dialog {
        let at = canvas.text(area, 1, 0, "Filter: ", Role::Strong);
        // The cursor stays visible for any input.
        let room = usize::from(area.width.saturating_sub(at + 2));
        let text = text::cut(&canvas.clean(text), room, Cut::Middle, canvas.glyphs().ellipsis);
        let at = canvas.text(area, at, 0, &text, Role::Plain);
        let at = canvas.text(area, at, 0, " ", Role::Selected);
        let hint = match state.view {
            View::Memory => "tag, line, op, pid, kind, address   Enter: apply, Esc: cancel",
            _ => "text user:ana dev:0 mem>1G   Enter: apply, Esc: cancel",
        };
        canvas.text(area, at + 2, 0, hint, Role::Dim);
        return;
    }
    for hint in layout::footer(area.width, state) {
        let at = canvas.text(area, hint.from, 0, &hint.name, Role::Title) + 1;
        canvas.text(area, at, 0, hint.label, Role::Dim);
    }
}

fn graded(share: f64, critical: f64) -> Role {
    Severity::of_share(share, critical).into()
}

/// The height of a view that scrolls as a whole, and its visible part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) lines: usize,
    pub(crate) page: usize,
}

impl Extent {
    /// The highest scroll position: the last line is then at the bottom.
    pub(crate) fn last(self) -> usize {
        self.lines.saturating_sub(self.page)
    }
}

/// The extent of the current view. `None` if the arrow keys do not scroll it.
pub(crate) fn extent(state: &TopState) -> Option<Extent> {
    let body = layout::frame(state.size)?.body;
    let (snapshot, device) = state.shown_device()?;
    match state.view {
        View::Main | View::Mesh | View::Memory => None,
        View::Charts => Some(charts::extent(state, snapshot, body)),
        View::Detail => Some(detail::extent(snapshot, device, body)),
    }
}

/// Writes a text at the end of an area's first row, and changes nothing else.
fn at_the_end(canvas: &mut Canvas<'_>, area: Rect, text: &str) {
    if !text.is_empty() {
        canvas.text(area, area.width.saturating_sub(width(text) + 1), 0, &format!(" {text}"), Role::Strong);
    }
}

/// Writes a text near the end of a rule; the rule continues after it.
fn on_the_rule(canvas: &mut Canvas<'_>, area: Rect, text: &str) {
    if !text.is_empty() {
        at_the_end(canvas, Rect { width: area.width.saturating_sub(2), ..area }, &format!("{text} "));
    }
}

/// Writes on the rule above a list how many of its rows are above and below the visible ones.
fn hidden_rows(canvas: &mut Canvas<'_>, area: Rect, visible: Range<usize>, count: usize) {
    let text = more(canvas, visible.start, count.saturating_sub(visible.end));
    on_the_rule(canvas, area, &text);
}

/// Returns how many rows are above and below the visible part of a list; empty if all are visible.
fn more(canvas: &Canvas<'_>, above: usize, below: usize) -> String {
    let part = |count: usize, glyph: &str| if count > 0 { format!("+{count} {glyph} ") } else { String::new() };
    let [up, down] = canvas.glyphs().arrows;
    format!("{}{}", part(above, up), part(below, down)).trim_end().to_owned()
}
