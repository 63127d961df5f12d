//! Dialogs over a view: help, lists, and the details of a process.

use ratatui_core::layout::Rect;
use ttmon_model::{Kind, Process, Snapshot};
use ttmon_print::quantity::{ABSENT, age, size, size_or_absent};
use ttmon_print::{ranges, text};

use super::memory;
use crate::canvas::{Canvas, Field, folded, spark};
use crate::columns::COLUMNS;
use crate::keys::KEYS;
use crate::layout::{columns_shown, scrolled, window};
use crate::signals::SIGNALS;
use crate::state::{Dialog, Owner, Page, SignalDialog, TopState};
use crate::theme::Role;
use crate::update::setup_rows;

/// Maximum number of buffers that are listed for a process, the largest ones.
const BUFFERS_MAX: usize = 1000;

pub(super) fn draw(state: &TopState, dialog: &Dialog, canvas: &mut Canvas<'_>, body: Rect) {
    match dialog {
        Dialog::Page { page: Page::Help, scroll } => help(*scroll, canvas, body),
        Dialog::Page { page: Page::Alerts, scroll } => alerts(state, *scroll, canvas, body),
        Dialog::Page { page: Page::Process(of), scroll } => process(state, *of, *scroll, canvas, body),
        Dialog::Page { page: Page::Buffer(lines), scroll } => {
            let lines: Vec<(String, Role)> = lines.iter().map(|line| (line.clone(), Role::Plain)).collect();
            page("Buffer: Esc closes it", &lines, rows_of(&lines), *scroll, canvas, body);
        }
        Dialog::Filter { .. } => {}
        Dialog::Sort { at } => sort(state, *at, canvas, body),
        Dialog::Signal(dialog) => signal(dialog, canvas, body),
        Dialog::Setup { at } => setup(state, *at, canvas, body),
    }
}

pub(crate) fn page_line_count(state: &TopState, page: &Page) -> usize {
    let columns = columns(state.size.0);
    match page {
        Page::Help => help_lines(state.size.0).len(),
        Page::Alerts => super::alert_lines(state, columns).len(),
        Page::Process(of) => state.hosts[of.0].shown().map_or(0, |snapshot| process_lines(state, snapshot, *of, columns).len()),
        Page::Buffer(lines) => lines.len(),
    }
}

fn rows_of<T>(lines: &[T]) -> u16 {
    u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2)
}

const HELP_COLUMNS: u16 = 76;
const CHORDS_COLUMNS: u16 = 16;

/// Lines of the help: keys, and a part of what they do. Quit comes first, so that it is visible on any screen.
fn help_lines(screen: u16) -> Vec<(String, &'static str)> {
    let columns = HELP_COLUMNS.min(screen).saturating_sub(CHORDS_COLUMNS + 5);
    let mut lines = Vec::new();
    for key in KEYS.iter().rev().take(1).chain(&KEYS[..KEYS.len() - 1]) {
        let mut chords = key.chords.iter().map(|chord| chord.name()).collect::<Vec<_>>().join(" ");
        lines.extend(folded(key.help, columns).into_iter().map(|text| (std::mem::take(&mut chords), text)));
    }
    lines
}

fn help(scroll: usize, canvas: &mut Canvas<'_>, body: Rect) {
    let lines = help_lines(body.width);
    let area = window(body, HELP_COLUMNS, rows_of(&lines));
    let inside = canvas.window(area, "Help: Esc closes, Up Down scroll");
    let first = scroll.min(lines.len().saturating_sub(usize::from(inside.height)));
    for (row, (chords, text)) in (0..inside.height).zip(lines.iter().skip(first)) {
        canvas.field(inside, Field::left(1, CHORDS_COLUMNS), row, chords, canvas.style(Role::Strong));
        canvas.text(inside, CHORDS_COLUMNS + 2, row, text, Role::Plain);
    }
    hidden(canvas, area, first, lines.len());
}

fn alerts(state: &TopState, scroll: usize, canvas: &mut Canvas<'_>, body: Rect) {
    let title = format!("Alerts ({}), newest first: Esc closes it, Up and Down scroll", state.alerts().len());
    let mut lines = super::alert_lines(state, columns(body.width));
    if lines.is_empty() {
        lines.push(("nothing happened since this was started".to_owned(), Role::Dim));
    }
    page(&title, &lines, rows_of(&lines), scroll, canvas, body);
}

/// Returns the columns of a line in a window that is nearly as wide as the screen.
fn columns(width: u16) -> u16 {
    width.saturating_sub(8)
}

fn page(title: &str, lines: &[(String, Role)], rows: u16, scroll: usize, canvas: &mut Canvas<'_>, body: Rect) {
    let area = window(body, columns(body.width) + 4, rows);
    let inside = canvas.window(area, title);
    let first = scroll.min(lines.len().saturating_sub(usize::from(inside.height)));
    for (row, (text, role)) in (0..inside.height).zip(lines.iter().skip(first)) {
        canvas.text(inside, 1, row, text, *role);
    }
    hidden(canvas, area, first, lines.len());
}

/// Draws how many lines are above and below on the lower edge of a window, and the visible part on its right edge.
fn hidden(canvas: &mut Canvas<'_>, area: Rect, above: usize, all: usize) {
    let rows = usize::from(area.height.saturating_sub(2));
    let below = all.saturating_sub(above + rows);
    if above + below > 0 && rows > 0 && area.width > 0 {
        let all = above + rows + below;
        for row in above * rows / all..((above + rows) * rows).div_ceil(all).min(rows) {
            let row = u16::try_from(row).unwrap_or(u16::MAX).saturating_add(1);
            canvas.text(area, area.width - 1, row, canvas.glyphs().thumb, Role::Title);
        }
    }
    let text = super::more(canvas, above, below);
    super::on_the_rule(canvas, Rect { y: area.bottom().saturating_sub(1), height: 1, ..area }, &text);
}

fn choices(title: &str, lines: &[String], at: usize, canvas: &mut Canvas<'_>, body: Rect) {
    let area = crate::layout::choices(body, lines.len());
    let inside = canvas.window(area, title);
    let first = scrolled(0, at, usize::from(inside.height), lines.len());
    for (row, (index, line)) in (0..inside.height).zip(lines.iter().enumerate().skip(first)) {
        let role = if index == at { Role::Selected } else { Role::Plain };
        canvas.field(inside, Field::left(0, inside.width), row, &format!(" {line}"), canvas.style(role));
    }
    hidden(canvas, area, first, lines.len());
}

fn sort(state: &TopState, at: usize, canvas: &mut Canvas<'_>, body: Rect) {
    let shown = columns_shown(state);
    let line = |index: &usize| {
        let hidden = if shown.contains(index) { "" } else { "(hidden) " };
        format!("{:<14} {hidden}{}", COLUMNS[*index].title, COLUMNS[*index].help)
    };
    let lines: Vec<String> = state.columns().iter().map(line).collect();
    choices("Sort by: Enter chooses, Esc leaves it", &lines, at, canvas, body);
}

fn setup(state: &TopState, at: usize, canvas: &mut Canvas<'_>, body: Rect) {
    // On a narrow screen a long name is cut, so that the value is visible.
    let columns = usize::from(body.width.saturating_sub(17)).min(34);
    let ellipsis = canvas.glyphs().ellipsis;
    let line = |(name, value): (String, String)| format!("{:<columns$} {value}", text::cut(&name, columns, text::Cut::End, ellipsis));
    let lines: Vec<String> = setup_rows(state).into_iter().map(line).collect();
    choices("Setup: Left Right change, Esc saves", &lines, at, canvas, body);
}

fn signal(dialog: &SignalDialog, canvas: &mut Canvas<'_>, body: Rect) {
    let rows = u16::try_from(SIGNALS.len()).unwrap_or(0) + 6;
    let title = format!("Send a signal to {} of {}", dialog.key.pid, dialog.user);
    let inside = canvas.window(window(body, 64, rows), &title);
    canvas.field(inside, Field::left(1, inside.width.saturating_sub(2)), 0, &dialog.command, canvas.style(Role::Plain));
    // On a small screen the list scrolls, so that the chosen signal is always visible.
    let last = inside.height.saturating_sub(1);
    let first = scrolled(0, dialog.at, usize::from(last.saturating_sub(2)), SIGNALS.len());
    for (row, (index, signal)) in (2..last).zip(SIGNALS.iter().enumerate().skip(first)) {
        let role = if index == dialog.at { Role::Selected } else { Role::Plain };
        let text = format!(" {:<6} {}", signal.name, signal.help);
        canvas.field(inside, Field::left(1, inside.width.saturating_sub(2)), row, &text, canvas.style(role));
    }
    if dialog.is_confirming {
        let name = SIGNALS[dialog.at].name;
        canvas.text(inside, 1, last, &format!("Really send {name}? y: yes, Esc: no"), Role::Critical);
    } else {
        canvas.text(inside, 1, last, "Enter: confirm, Esc: close", Role::Dim);
    }
}

fn process(state: &TopState, of: Owner, scroll: usize, canvas: &mut Canvas<'_>, body: Rect) {
    let Some(snapshot) = state.hosts[of.0].shown() else { return };
    let host = if state.has_groups() { format!(" on {}", state.hosts[of.0].name()) } else { String::new() };
    let signal = if state.can_signal(of.0) { ", F9 sends a signal" } else { "" };
    let title = format!("Process {}{host}: Esc closes, Up Down scroll{signal}", of.1.pid);
    // Use the full height, so that the window does not jump when its buffers arrive.
    page(&title, &process_lines(state, snapshot, of, columns(body.width)), body.height, scroll, canvas, body);
}

fn process_lines(state: &TopState, snapshot: &Snapshot, of: Owner, columns: u16) -> Vec<(String, Role)> {
    let fold = |(text, role): (String, Role)| {
        let text = text::clean(&text, state.theme.ascii);
        folded(&text, columns).into_iter().map(|line| (line.to_owned(), role)).collect::<Vec<_>>()
    };
    known_of(state, snapshot, of, columns).into_iter().flat_map(fold).collect()
}

/// Returns the properties of a process, its memory by chip and kind, its variables and its buffers.
fn known_of(state: &TopState, snapshot: &Snapshot, of: Owner, columns: u16) -> Vec<(String, Role)> {
    let (host, key) = of;
    let Some(process) = snapshot.processes.iter().find(|process| process.key == key) else {
        return vec![("it is no longer there".to_owned(), Role::Warning)];
    };
    let or_absent = |text: Option<&String>| text.map_or_else(|| ABSENT.to_owned(), Clone::clone);
    let mut lines = vec![
        (format!("command    {}", or_absent(process.command.as_ref().ok())), Role::Plain),
        (format!("user       {}", or_absent(process.user.as_ref().ok())), Role::Plain),
        (format!("memory is  {}", process.status_title()), Role::Plain),
    ];
    if let Ok(start) = process.start_time {
        let text = format!("started    {}, {} ago", state.clock.date(start), age(start, snapshot.time));
        lines.push((text, Role::Plain));
    }
    let memory = size_or_absent(process.rss);
    let cpu = process.cpu.map_or_else(|_| ABSENT.to_owned(), |cpu| format!("{:.0}%", cpu * 100.0));
    lines.push((format!("host       memory {memory}, CPU {cpu}"), Role::Plain));
    if let Ok(launches) = process.launches {
        let rate = process.launches_per_s.map_or_else(|_| String::new(), |rate| format!(", {rate:.1} a second"));
        let last = process.last_launch.map_or_else(|_| String::new(), |last| format!(", the last {} ago", age(last, snapshot.time)));
        lines.push((format!("launches   {launches}{rate}{last}"), Role::Plain));
    }
    lines.extend(process.workloads().into_iter().map(|workload| (format!("runs in    {workload}"), Role::Plain)));
    lines.push(("MEMORY".to_owned(), Role::Heading));
    for use_of in &process.devices {
        for kind in Kind::ALL {
            let figure = &use_of.kinds[kind];
            if let Ok(used @ 1..) = figure.used {
                let peak = figure.peak.map_or_else(|_| String::new(), |peak| format!(", peak {}", size(peak)));
                lines.push((format!("device {:<3} {:<9} {}{peak}", use_of.device, kind.name(), size(used)), Role::Plain));
            }
        }
    }
    let values = state.hosts[host].history.process(key);
    let highest = values.iter().flatten().fold(0.0f32, |high, value| high.max(*value));
    if highest > 0.0 {
        let name = "DRAM over time ";
        let room = usize::from(columns).saturating_sub(name.len());
        let tail = &values[values.len().saturating_sub(room)..];
        lines.push((format!("{name}{}", spark(tail, (0.0, f64::from(highest)), state.theme.glyphs().spark)), Role::Plain));
    }
    environment(state, of, &mut lines);
    buffers(state, snapshot, of, process, &mut lines);
    lines
}

fn environment(state: &TopState, owner: Owner, lines: &mut Vec<(String, Role)>) {
    lines.push(("VARIABLES".to_owned(), Role::Heading));
    match state.environment.as_ref().filter(|(of, _)| *of == owner) {
        None => lines.push(("not asked for yet".to_owned(), Role::Dim)),
        Some((_, Err(why))) => lines.push((format!("N/A: {why}"), Role::Dim)),
        Some((_, Ok(variables))) if variables.is_empty() => lines.push(("none that begins with TT".to_owned(), Role::Dim)),
        Some((_, Ok(variables))) => lines.extend(variables.iter().map(|variable| (variable.clone(), Role::Plain))),
    }
}

fn buffers(state: &TopState, snapshot: &Snapshot, of: Owner, process: &Process, lines: &mut Vec<(String, Role)>) {
    let mut buffers: Vec<_> = snapshot.buffers.iter().filter(|buffer| buffer.process() == of.1).collect();
    buffers.sort_by_key(|buffer| std::cmp::Reverse(buffer.buffer.size));
    let mut counts = process.devices.iter().flat_map(|use_of| Kind::ALL.map(|kind| use_of.kinds[kind].count));
    let is_counted = counts.any(|count| count.is_ok_and(|count| count > 0));
    lines.push((format!("BUFFERS ({})", buffers.len()), Role::Heading));
    if buffers.is_empty() && is_counted {
        lines.push((memory::why_unlisted(state, &state.hosts[of.0]).to_owned(), Role::Dim));
    }
    for buffer in buffers.iter().take(BUFFERS_MAX) {
        let entry = &buffer.buffer;
        let devices = ranges(buffer.devices().iter().copied());
        let tag = entry.tag.as_deref().map_or("", String::as_str);
        let text = format!(
            "{:>9} {:<9} {:>14} dev {devices:<6} {:>6} {tag}",
            size(entry.size),
            entry.kind.name(),
            format!("{:#x}", entry.address),
            age(entry.time, snapshot.lists_time)
        );
        lines.push((text, Role::Plain));
    }
    if let Some(more @ 1..) = buffers.len().checked_sub(BUFFERS_MAX) {
        lines.push((format!("{more} more, none of them larger; ttmon mem --buffers lists all"), Role::Dim));
    }
}
