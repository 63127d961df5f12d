//! Keys of dialogs.

use crossterm::event::KeyCode;
use ratatui_core::layout::{Position, Rect};

use super::{Effect, bounded, moved, paced};
use crate::columns::choosable;
use crate::filter::Filter;
use crate::keys::{self, Action, Chord, Motion, Step};
use crate::layout;
use crate::metric::METRICS;
use crate::settings::{Settings, ThemeChoice, ZOOMS};
use crate::signals::SIGNALS;
use crate::state::{Dialog, State, View};
use crate::view::{alert_line_count, help_line_count, process_line_count};

/// Longest filter text, in characters.
const FILTER_CHARACTERS_MAX: usize = 200;

pub(super) fn press(state: &mut State, chord: Chord, code: KeyCode) -> Vec<Effect> {
    let Some(dialog) = state.dialog.take() else { return Vec::new() };
    let action = keys::action(chord);
    match dialog {
        Dialog::Filter { text, before } if state.view == View::Memory => super::memory::typed(state, text, before, Some(chord), code),
        Dialog::Filter { before, .. } if chord == Chord::Ctrl('u') => filter(state, String::new(), before, KeyCode::Null),
        Dialog::Filter { text, before } if matches!(chord, Chord::Ctrl(_)) => filter(state, text, before, KeyCode::Null),
        Dialog::Filter { text, before } => filter(state, text, before, code),
        Dialog::Help { scroll } => {
            if let Some(Action::Move(motion)) = action {
                state.dialog = Some(Dialog::Help { scroll: turned(state, scroll, motion, help_line_count(state)) });
            } else if !matches!(action, Some(Action::Help | Action::Escape | Action::Quit)) {
                state.dialog = Some(Dialog::Help { scroll });
            }
            Vec::new()
        }
        Dialog::Alerts { scroll } => {
            let count = alert_line_count(state);
            match action {
                Some(Action::Escape | Action::Quit | Action::Alerts | Action::Details) => {}
                Some(Action::Move(motion)) => state.dialog = Some(Dialog::Alerts { scroll: turned(state, scroll, motion, count) }),
                _ => state.dialog = Some(Dialog::Alerts { scroll }),
            }
            Vec::new()
        }
        Dialog::Sort { at } => sort(state, at, action),
        Dialog::Setup { at } => setup(state, at, chord, action),
        Dialog::Signal(mut dialog) => {
            match (action, chord) {
                (Some(Action::Escape | Action::Quit), _) => return Vec::new(),
                (_, Chord::Char('y')) if dialog.is_asked => return vec![Effect::Signal(dialog.key, dialog.user, dialog.at)],
                (Some(Action::Move(motion)), _) => {
                    dialog.at = moved(dialog.at, motion, SIGNALS.len(), 4);
                    dialog.is_asked = false;
                }
                (Some(Action::Details), _) => dialog.is_asked = true,
                _ => {}
            }
            state.dialog = Some(Dialog::Signal(dialog));
            Vec::new()
        }
        Dialog::Buffer { lines, scroll } => {
            match action {
                Some(Action::Escape | Action::Quit | Action::Details) => {}
                Some(Action::Move(motion)) => {
                    let scroll = turned(state, scroll, motion, lines.len());
                    state.dialog = Some(Dialog::Buffer { lines, scroll });
                }
                _ => state.dialog = Some(Dialog::Buffer { lines, scroll }),
            }
            Vec::new()
        }
        Dialog::Process { of, scroll } => {
            match action {
                Some(Action::Escape | Action::Quit | Action::Details) => {}
                Some(Action::Move(motion)) => {
                    let lines = process_line_count(state, of);
                    state.dialog = Some(Dialog::Process { of, scroll: turned(state, scroll, motion, lines) });
                }
                Some(Action::Signal) => super::signal(state, Some(of)),
                _ => state.dialog = Some(Dialog::Process { of, scroll }),
            }
            Vec::new()
        }
    }
}

/// Returns the scroll position of a full-height window after a move. The last line never scrolls above the bottom.
fn turned(state: &State, scroll: usize, motion: Motion, lines: usize) -> usize {
    let rows = layout::frame(state.size).map_or(0, |frame| usize::from(frame.body.height.saturating_sub(2)));
    let last = lines.saturating_sub(rows);
    moved(scroll.min(last), motion, last + 1, 10)
}

/// Handles a key that is not a chord. It may be text for the filter.
pub(super) fn typed(state: &mut State, code: KeyCode) -> Vec<Effect> {
    match state.dialog.take() {
        Some(Dialog::Filter { text, before }) if state.view == View::Memory => super::memory::typed(state, text, before, None, code),
        Some(Dialog::Filter { text, before }) => filter(state, text, before, code),
        other => {
            state.dialog = other;
            Vec::new()
        }
    }
}

/// The input is applied at once; invalid input is reported and changes nothing.
fn filter(state: &mut State, mut text: String, before: String, code: KeyCode) -> Vec<Effect> {
    match code {
        KeyCode::Esc => {
            state.filter = Filter::parse(&before).unwrap_or_default();
            state.filter_text = before;
            return Vec::new();
        }
        KeyCode::Enter => {
            match Filter::parse(&text) {
                Ok(filter) => (state.filter, state.filter_text) = (filter, text),
                // Restore the earlier filter instead of applying the valid part of an invalid one.
                Err(bad) => {
                    state.filter = Filter::parse(&before).unwrap_or_default();
                    state.filter_text = before;
                    super::say(state, bad.to_string());
                }
            }
            return Vec::new();
        }
        KeyCode::Backspace => _ = text.pop(),
        KeyCode::Char(character) if text.chars().count() < FILTER_CHARACTERS_MAX => text.push(character),
        _ => {}
    }
    if let Ok(filter) = Filter::parse(&text) {
        state.filter = filter;
        state.filter_text.clone_from(&text);
    }
    state.dialog = Some(Dialog::Filter { text, before });
    Vec::new()
}

fn sort(state: &mut State, at: usize, action: Option<Action>) -> Vec<Effect> {
    match action {
        Some(Action::Escape | Action::Quit) => {}
        Some(Action::Details) => {
            if let Some(column) = state.columns().get(at) {
                super::sort_by(state, *column);
            }
        }
        Some(Action::Move(motion)) => state.dialog = Some(Dialog::Sort { at: moved(at, motion, state.columns().len(), 5) }),
        _ => state.dialog = Some(Dialog::Sort { at }),
    }
    Vec::new()
}

/// A setting of the F2 dialog: its name, its value, and how to step to the next value.
struct Choice {
    name: &'static str,
    value: fn(&Settings) -> String,
    step: fn(&mut Settings, Step),
}

/// The settings of the dialog; the columns follow them.
#[rustfmt::skip] // one row per line
const CHOICES: &[Choice] = &[
    Choice { name: "Refresh", value: |s| format!("{} ms", s.refresh.as_millis()), step: |s, step| s.refresh = paced(s.refresh, step) },
    Choice { name: "Theme", value: |s| s.theme.name().to_owned(), step: |s, step| s.theme = neighbour(&ThemeChoice::ALL, s.theme, step) },
    Choice { name: "First view", value: |s| s.view.title().to_owned(), step: |s, step| s.view = neighbour(&View::ALL, s.view, step) },
    Choice { name: "Charts look back", value: |s| format!("{} s", ZOOMS[s.zoom]), step: |s, step| s.zoom = bounded(s.zoom, step, ZOOMS.len()) },
    Choice { name: "Metric of charts and mesh", value: |s| METRICS[s.metric].title.to_owned(), step: |s, step| s.metric = bounded(s.metric, step, METRICS.len()) },
    Choice { name: "Devices with the worst first", value: |s| yes(s.worst_first), step: |s, _| s.worst_first = !s.worst_first },
    Choice { name: "Bell for alerts", value: |s| yes(s.bell), step: |s, _| s.bell = !s.bell },
];

fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

/// Returns the next or previous item of a list, without wrapping.
fn neighbour<T: Copy + PartialEq>(all: &[T], one: T, step: Step) -> T {
    let place = all.iter().position(|other| *other == one).unwrap_or(0);
    all[bounded(place, step, all.len())]
}

/// The rows of the F2 dialog: names and values.
pub(crate) fn setup_rows(state: &State) -> Vec<(String, String)> {
    let settings = &state.settings;
    let choices = CHOICES.iter().map(|choice| (choice.name.to_owned(), (choice.value)(settings)));
    let column = |(index, title): (usize, &str)| (format!("Column {title}"), yes(settings.columns.contains(&index)));
    choices.chain(choosable().iter().map(|column| column.title).enumerate().map(column)).collect()
}

fn setup(state: &mut State, at: usize, chord: Chord, action: Option<Action>) -> Vec<Effect> {
    let count = CHOICES.len() + choosable().len();
    let step = match (chord, action) {
        (Chord::Left, _) => Some(Step::Before),
        (Chord::Right | Chord::Enter | Chord::Char(' '), _) => Some(Step::After),
        // Closing the dialog saves the changes.
        (_, Some(Action::Escape | Action::Quit | Action::Setup)) => {
            let is_changed = std::mem::take(&mut state.is_setup_changed);
            return if is_changed { vec![Effect::Save] } else { Vec::new() };
        }
        (_, Some(Action::Save)) => {
            state.dialog = Some(Dialog::Setup { at });
            return vec![Effect::Save];
        }
        (_, Some(Action::Move(motion))) => {
            state.dialog = Some(Dialog::Setup { at: moved(at, motion, count, 8) });
            return Vec::new();
        }
        _ => None,
    };
    state.dialog = Some(Dialog::Setup { at });
    step.map_or_else(Vec::new, |step| change(state, at, step))
}

fn change(state: &mut State, at: usize, step: Step) -> Vec<Effect> {
    let refresh = state.settings.refresh;
    state.is_setup_changed = true;
    match CHOICES.get(at) {
        Some(choice) => (choice.step)(&mut state.settings, step),
        None => toggle(&mut state.settings, at - CHOICES.len()),
    }
    state.theme = state.themes.theme(state.settings.theme);
    super::send_pace(state, refresh)
}

/// Shows or hides a column. Columns stay in table order, and the last one cannot be hidden.
fn toggle(settings: &mut Settings, column: usize) {
    match settings.columns.iter().position(|shown| *shown == column) {
        Some(place) if settings.columns.len() > 1 => _ = settings.columns.remove(place),
        Some(_) => {}
        None => {
            let place = settings.columns.iter().position(|shown| *shown > column).unwrap_or(settings.columns.len());
            settings.columns.insert(place, column);
        }
    }
}

/// Handles the mouse wheel as an arrow key.
pub(super) fn wheel(state: &mut State, motion: Motion) -> Vec<Effect> {
    let chord = if motion == Motion::Up { Chord::Up } else { Chord::Down };
    press(state, chord, KeyCode::Null)
}

/// Handles a click in a list dialog. The first click selects a line, the second click confirms it.
pub(super) fn click(state: &mut State, body: Rect, position: Position) -> Vec<Effect> {
    let (at, count) = match &state.dialog {
        Some(Dialog::Sort { at }) => (*at, state.columns().len()),
        Some(Dialog::Setup { at }) => (*at, CHOICES.len() + choosable().len()),
        _ => return Vec::new(),
    };
    let Some(hit) = layout::choice_at(body, count, at, position) else { return Vec::new() };
    if hit == at {
        return press(state, Chord::Enter, KeyCode::Enter);
    }
    if let Some(Dialog::Sort { at } | Dialog::Setup { at }) = &mut state.dialog {
        *at = hit;
    }
    Vec::new()
}
