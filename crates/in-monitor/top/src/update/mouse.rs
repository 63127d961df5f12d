//! The mouse: a click selects, the wheel scrolls.

use crossterm::event::{KeyCode, MouseButton, MouseEvent, MouseEventKind};
use ratatui_core::layout::{Position, Rect};

use super::{act, dialog, show};
use crate::keys::{Action, Chord, KEYS, Motion};
use crate::layout::{self, DeviceList, Form, Main, scrolled};
use crate::state::{Focus, ProcessRow, TopState, View};
use crate::view::{mesh_device_at, process_rows};

pub(super) fn update(state: &mut TopState, event: MouseEvent) {
    let Some(frame) = layout::frame(state.size) else { return };
    let at = Position { x: event.column, y: event.row };
    match event.kind {
        MouseEventKind::ScrollUp => turn(state, Motion::Up),
        MouseEventKind::ScrollDown => turn(state, Motion::Down),
        MouseEventKind::Down(MouseButton::Left) if state.dialog.is_none() => {
            if frame.title.contains(at) {
                let tab = layout::tabs(frame.title.width, state.view).iter().position(|(from, to)| (*from..*to).contains(&at.x));
                if let Some(tab) = tab {
                    show(state, View::ALL[tab]);
                }
                return;
            }
            if frame.footer.contains(at) {
                let mut hints = layout::footer(frame.footer.width, state).into_iter();
                if let Some(hint) = hints.find(|hint| (hint.from..hint.to).contains(&at.x)) {
                    act(state, KEYS[hint.key].action);
                }
                return;
            }
            match state.view {
                View::Main => click(state, &layout::main_of(state, frame.body), at),
                View::Memory => super::memory::click(state, frame.body, at),
                View::Mesh => {
                    if let Some(device) = state.shown().and_then(|snapshot| mesh_device_at(state, snapshot, frame.body, at)) {
                        state.host_mut().device = Some(device);
                    }
                }
                View::Charts | View::Detail => {}
            }
        }
        MouseEventKind::Down(MouseButton::Left) => dialog::click(state, frame.body, at),
        _ => {}
    }
}

fn turn(state: &mut TopState, motion: Motion) {
    let arrow = if motion == Motion::Up { KeyCode::Up } else { KeyCode::Down };
    if state.dialog.is_some() { dialog::press(state, Chord::Plain(arrow)) } else { act(state, Action::Move(motion)) }
}

fn click(state: &mut TopState, layout: &Main, at: Position) {
    if layout.processes.contains(at) {
        return click_process(state, layout.processes, at);
    }
    if layout.form == Form::Groups {
        return click_line(state, layout.devices, at);
    }
    let Some(snapshot) = state.shown().cloned() else { return };
    let devices = state.devices(&snapshot);
    let list = DeviceList::new(layout, state.device_row(&snapshot, &devices), devices.len());
    if let Some(device) = list.and_then(|list| list.at(at)).and_then(|place| devices.get(place)) {
        state.host_mut().device = Some(device.id);
        state.focus = Focus::Devices;
    }
}

/// Handles a click in the device list of several machines. It selects a device; on a heading, it folds or unfolds the machine.
fn click_line(state: &mut TopState, area: Rect, at: Position) {
    let Some(row) = at.y.checked_sub(area.y + 1) else { return };
    let lines = state.lines();
    let first = layout::first_line(state, &lines, usize::from(area.height.saturating_sub(1)));
    let Some(line) = lines.get(first + usize::from(row)).copied().filter(|_| area.contains(at)) else { return };
    state.focus = Focus::Devices;
    super::choose_line(state, line);
    if line.device.is_none() {
        act(state, Action::Fold);
    }
}

/// Handles a click in the process table. On a heading, it sorts by that column, or reverses the order. On a row, the first click
/// selects it, and the second click opens it.
fn click_process(state: &mut TopState, area: Rect, at: Position) {
    match at.y - area.y {
        0 => {}
        1 => {
            let columns = layout::process_columns(state, area.width);
            let hit = columns.iter().find(|(_, from, wide)| (*from..=from + wide).contains(&(at.x - area.x)));
            if let Some((column, ..)) = hit {
                super::sort_by(state, *column);
            }
        }
        row => {
            let processes = state.processes();
            let chosen = state.process_row(&processes);
            let first = scrolled(state.scroll, chosen, process_rows(area), processes.len());
            let hit = first + usize::from(row) - 2;
            let Some(owner) = processes.get(hit).map(ProcessRow::owner) else { return };
            let is_again = state.focus == Focus::Processes && state.process == Some(owner);
            (state.focus, state.process, state.scroll) = (Focus::Processes, Some(owner), first);
            if is_again {
                act(state, Action::Details);
            }
        }
    }
}
