//! Keys of dialogs.

use crossterm::event::KeyCode;
use ratatui_core::layout::{Position, Rect};

use super::{Effect, bounded, moved, next_refresh};
use crate::columns::choosable;
use crate::keys::{self, Action, Chord, Motion, Step};
use crate::layout;
use crate::metric::METRICS;
use crate::settings::{Settings, ThemeChoice, ZOOMS};
use crate::signals::SIGNALS;
use crate::state::{Dialog, Page, SignalDialog, TopState, View};
use crate::view::page_line_count;

const FILTER_CHARACTERS_MAX: usize = 200;

pub(super) fn press(state: &mut TopState, chord: Chord) {
    let Some(dialog) = state.dialog.take() else { return };
    let action = keys::action(chord);
    match dialog {
        Dialog::Page { page, scroll } => turn(state, page, scroll, action),
        Dialog::Filter { text, before } if state.view == View::Memory => super::memory::typed(state, text, before, chord),
        Dialog::Filter { text, before } => filter(state, text, before, chord),
        Dialog::Sort { at } => sort(state, at, action),
        Dialog::Setup { at } => setup(state, at, chord, action),
        Dialog::Signal(dialog) => choose_signal(state, dialog, chord, action),
    }
}

fn choose_signal(state: &mut TopState, mut dialog: SignalDialog, chord: Chord, action: Option<Action>) {
    match (action, chord) {
        (Some(Action::Escape | Action::Quit), _) => return,
        (_, Chord::Plain(KeyCode::Char('y'))) if dialog.is_confirming => {
            return state.effects.push(Effect::Signal(dialog.key, dialog.user, dialog.at));
        }
        (Some(Action::Move(motion)), _) => {
            (dialog.at, dialog.is_confirming) = (moved(dialog.at, motion, SIGNALS.len(), 4), false);
        }
        (Some(Action::Details), _) => dialog.is_confirming = true,
        _ => {}
    }
    state.dialog = Some(Dialog::Signal(dialog));
}

fn turn(state: &mut TopState, page: Page, mut scroll: usize, action: Option<Action>) {
    match (action, &page) {
        (Some(Action::Escape | Action::Quit), _) => return,
        (Some(Action::Help), Page::Help) | (Some(Action::Alerts), Page::Alerts) => return,
        (Some(Action::Details), Page::Alerts | Page::Process(_) | Page::Buffer(_)) => return,
        (Some(Action::Signal), Page::Process(of)) => return super::signal(state, Some(*of)),
        (Some(Action::Move(motion)), page) => scroll = turned(state, scroll, motion, page_line_count(state, page)),
        _ => {}
    }
    state.dialog = Some(Dialog::Page { page, scroll });
}

/// Returns the scroll position of a full-height window after a move. The last line never scrolls above the bottom.
fn turned(state: &TopState, scroll: usize, motion: Motion, lines: usize) -> usize {
    let rows = layout::frame(state.size).map_or(0, |frame| usize::from(frame.body.height.saturating_sub(2)));
    let last = lines.saturating_sub(rows);
    moved(scroll.min(last), motion, last + 1, 10)
}

pub(super) fn edit(text: &mut String, chord: Chord) {
    match chord {
        Chord::Ctrl('u') => text.clear(),
        Chord::Plain(KeyCode::Backspace) => _ = text.pop(),
        Chord::Plain(KeyCode::Char(character)) if text.chars().count() < FILTER_CHARACTERS_MAX => text.push(character),
        _ => {}
    }
}

/// The input is applied at once; invalid input is reported and changes nothing.
fn filter(state: &mut TopState, mut text: String, before: String, chord: Chord) {
    match chord {
        Chord::Plain(KeyCode::Esc) => _ = state.set_filter(&before),
        Chord::Plain(KeyCode::Enter) => {
            if let Err(bad) = state.set_filter(&text) {
                // Restore the earlier filter instead of applying the valid part of an invalid one.
                _ = state.set_filter(&before);
                super::show_message(state, bad.to_string());
            }
        }
        _ => {
            edit(&mut text, chord);
            _ = state.set_filter(&text);
            state.dialog = Some(Dialog::Filter { text, before });
        }
    }
}

fn sort(state: &mut TopState, at: usize, action: Option<Action>) {
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
}

/// A setting of the F2 dialog: its name, its value, and how to step to the next value.
struct SettingChoice {
    name: &'static str,
    value: fn(&Settings) -> String,
    step: fn(&mut Settings, Step),
}

const fn choice(name: &'static str, value: fn(&Settings) -> String, step: fn(&mut Settings, Step)) -> SettingChoice {
    SettingChoice { name, value, step }
}

const CHOICES: &[SettingChoice] = &[
    choice("Refresh", |s| format!("{} ms", s.refresh.as_millis()), |s, step| s.refresh = next_refresh(s.refresh, step)),
    choice("Theme", |s| s.theme.name().to_owned(), |s, step| s.theme = neighbour(&ThemeChoice::ALL, s.theme, step)),
    choice("First view", |s| s.view.name().to_owned(), |s, step| s.view = neighbour(&View::ALL, s.view, step)),
    choice("Charts look back", |s| format!("{} s", ZOOMS[s.zoom]), |s, step| s.zoom = bounded(s.zoom, step, ZOOMS.len())),
    choice(
        "Metric of charts and mesh",
        |s| METRICS[s.metric].title.to_owned(),
        |s, step| s.metric = bounded(s.metric, step, METRICS.len()),
    ),
    choice("Devices with the worst first", |s| yes(s.worst_first), |s, _| s.worst_first = !s.worst_first),
    choice("Bell for alerts", |s| yes(s.bell), |s, _| s.bell = !s.bell),
];

fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

fn neighbour<T: Copy + PartialEq>(all: &[T], one: T, step: Step) -> T {
    let place = all.iter().position(|other| *other == one).unwrap_or(0);
    all[bounded(place, step, all.len())]
}

pub(crate) fn setup_rows(state: &TopState) -> Vec<(String, String)> {
    let settings = &state.settings;
    let choices = CHOICES.iter().map(|choice| (choice.name.to_owned(), (choice.value)(settings)));
    let column = |(index, title): (usize, &str)| (format!("Column {title}"), yes(settings.columns.contains(&index)));
    choices.chain(choosable().iter().map(|column| column.title).enumerate().map(column)).collect()
}

fn setup(state: &mut TopState, at: usize, chord: Chord, action: Option<Action>) {
    state.dialog = Some(Dialog::Setup { at });
    match (chord, action) {
        (Chord::Plain(KeyCode::Left), _) => change(state, at, Step::Before),
        (Chord::Plain(KeyCode::Right | KeyCode::Enter | KeyCode::Char(' ')), _) => change(state, at, Step::After),
        // Closing the dialog saves the changes.
        (_, Some(Action::Escape | Action::Quit | Action::Setup)) => {
            state.dialog = None;
            let is_changed = std::mem::take(&mut state.is_setup_changed);
            state.effects.extend(is_changed.then_some(Effect::Save));
        }
        (_, Some(Action::Save)) => state.effects.push(Effect::Save),
        (_, Some(Action::Move(motion))) => {
            state.dialog = Some(Dialog::Setup { at: moved(at, motion, CHOICES.len() + choosable().len(), 8) });
        }
        _ => {}
    }
}

fn change(state: &mut TopState, at: usize, step: Step) {
    let refresh = state.settings.refresh;
    state.is_setup_changed = true;
    match CHOICES.get(at) {
        Some(choice) => (choice.step)(&mut state.settings, step),
        None => toggle(&mut state.settings, at - CHOICES.len()),
    }
    state.theme = state.detected.chosen(state.settings.theme);
    super::send_refresh(state, refresh);
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

/// Handles a click in a list dialog. The first click selects a line, the second click confirms it.
pub(super) fn click(state: &mut TopState, body: Rect, position: Position) {
    let (at, count) = match &state.dialog {
        Some(Dialog::Sort { at }) => (*at, state.columns().len()),
        Some(Dialog::Setup { at }) => (*at, CHOICES.len() + choosable().len()),
        _ => return,
    };
    let Some(hit) = layout::choice_at(body, count, at, position) else { return };
    if hit == at {
        return press(state, Chord::Plain(KeyCode::Enter));
    }
    if let Some(Dialog::Sort { at } | Dialog::Setup { at }) = &mut state.dialog {
        *at = hit;
    }
}
