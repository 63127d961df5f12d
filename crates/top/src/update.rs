//! All that can change, changes here: an event comes in, the state is another, and what has to be done outside comes out.

mod dialog;
mod mouse;

use std::sync::Arc;
use std::time::Duration;

use ttmon_model::units::UnixTime;
use ttmon_model::{ProcessKey, Snapshot};

use crate::event::Event;
use crate::feed::{News, Request};
use crate::keys::{self, Action, Chord, Motion, Step};
use crate::layout;
use crate::metric::METRICS;
use crate::settings::{REFRESHES, ZOOMS};
use crate::state::{Dialog, Focus, Frozen, Message, SignalDialog, State, View};
use crate::view::{buffer_count, detail_lines, process_rows};

pub(crate) use dialog::setup_rows;

/// A minute at one look a second.
const MOMENTS_PER_JUMP: usize = 60;
/// The oldest go when there are more.
const HAPPENINGS_MAX: usize = 200;
/// How long a message stays.
const MESSAGE_TIME: Duration = Duration::from_secs(6);

/// What has to be done outside.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    Quit,
    /// End as this signal would have ended us.
    Die(i32),
    /// Ctrl-Z.
    Suspend,
    Ask(Request),
    /// To a process, from a user's name, which of the signals.
    Signal(ProcessKey, String, usize),
    Save,
    Ring,
    /// The program cannot go on.
    Fail(crate::feed::Lost),
}

/// Takes an event in.
pub(crate) fn update(state: &mut State, event: Event) -> Vec<Effect> {
    let before = wants_buffers(state);
    let mut effects = change(state, event);
    let now = wants_buffers(state);
    if now != before {
        effects.push(Effect::Ask(Request::Buffers(now)));
    }
    effects
}

fn change(state: &mut State, event: Event) -> Vec<Effect> {
    match event {
        Event::Key(key) => match Chord::of(key) {
            Some(chord) => press(state, chord, key.code),
            None => dialog::typed(state, key.code),
        },
        Event::Mouse(event) => mouse::update(state, event),
        Event::Resized(width, height) => {
            state.size = (width, height);
            Vec::new()
        }
        Event::News(news) => hear(state, news),
        Event::Silence(silence) => {
            state.silent_for = silence;
            Vec::new()
        }
        Event::Signal(signal_hook::consts::SIGTSTP) => vec![Effect::Suspend],
        Event::Signal(signal) => vec![Effect::Die(signal)],
        Event::InputLost(why) => {
            let message = format!("the keyboard is gone: {why}; start it again in a terminal");
            vec![Effect::Fail(crate::feed::Lost { message, is_no_device: false })]
        }
    }
}

fn hear(state: &mut State, news: News) -> Vec<Effect> {
    match news {
        News::Snapshot(snapshot) => {
            state.lost = None;
            state.silent_for = Duration::ZERO;
            take(state, Arc::new(*snapshot))
        }
        News::Lost(lost) if state.live.is_none() && state.replay.is_none() => vec![Effect::Fail(lost)],
        News::Lost(lost) => {
            state.lost = Some(lost.message);
            Vec::new()
        }
        News::Happenings(happened) => {
            state.happenings.extend(happened);
            let excess = state.happenings.len().saturating_sub(HAPPENINGS_MAX);
            state.happenings.drain(..excess);
            Vec::new()
        }
        News::Position(position) => {
            state.replay = Some(position);
            Vec::new()
        }
        News::Environment(key, variables) => {
            state.environment = Some((key, variables));
            Vec::new()
        }
    }
}

fn take(state: &mut State, snapshot: Arc<Snapshot>) -> Vec<Effect> {
    let before = state.history.len();
    state.history.push(&snapshot);
    if let Some(frozen) = &mut state.frozen {
        // The picture stays; the newest moment is one further away. A clock set back takes the past with it.
        frozen.back = if state.history.len() >= before { (frozen.back + 1).min(state.history.len() - 1) } else { 0 };
    }
    if let Some(message) = &mut state.message {
        message.until.get_or_insert(end_of_message(snapshot.time));
    }
    let is_worse = state.alerts.watch(&snapshot);
    state.live = Some(snapshot);
    if is_worse && state.settings.bell { vec![Effect::Ring] } else { Vec::new() }
}

fn press(state: &mut State, chord: Chord, code: crossterm::event::KeyCode) -> Vec<Effect> {
    // Whatever is open, Ctrl-C leaves and Ctrl-Z goes to the shell.
    match chord {
        Chord::Ctrl('c') => return vec![Effect::Quit],
        Chord::Ctrl('z') => return vec![Effect::Suspend],
        _ => {}
    }
    if state.dialog.is_some() {
        return dialog::press(state, chord, code);
    }
    keys::action(chord).map_or_else(Vec::new, |action| act(state, action))
}

/// Does what a key, or a click on its word, means.
pub(super) fn act(state: &mut State, action: Action) -> Vec<Effect> {
    match action {
        Action::Quit => return vec![Effect::Quit],
        Action::Show(view) => show(state, view),
        Action::Device(step) => choose_device(state, step),
        Action::Move(motion) => go(state, motion),
        Action::Focus => {
            state.focus = if state.focus == Focus::Devices { Focus::Processes } else { Focus::Devices };
        }
        Action::Filter => {
            let text = state.filter_text.clone();
            state.dialog = Some(Dialog::Filter { before: text.clone(), text });
        }
        Action::SortMenu => {
            let at = state.settings.columns.iter().position(|column| *column == state.settings.sort).unwrap_or(0);
            state.dialog = Some(Dialog::Sort { at });
        }
        Action::SortBy(step) => {
            let columns = &state.settings.columns;
            let at = columns.iter().position(|column| *column == state.settings.sort).unwrap_or(0);
            state.settings.sort = columns[stepped(at, step, columns.len())];
        }
        Action::Reverse => state.settings.descending = !state.settings.descending,
        Action::Tree => state.settings.tree = !state.settings.tree,
        Action::Details => return details(state),
        Action::Signal => signal(state),
        Action::Freeze if state.replay.is_some() => return vec![Effect::Ask(Request::Pause)],
        Action::Back(step) if state.replay.is_some() => return vec![Effect::Ask(Request::Step(step))],
        Action::Jump(step) if state.replay.is_some() => return vec![Effect::Ask(Request::Jump(step))],
        Action::Pace(step) if state.replay.is_some() => return vec![Effect::Ask(Request::Speed(step))],
        Action::Freeze => freeze(state),
        Action::Back(step) => step_in_time(state, step, 1),
        Action::Jump(step) => step_in_time(state, step, MOMENTS_PER_JUMP),
        Action::Pace(step) => return pace(state, step),
        Action::Zoom(step) => state.settings.zoom = bounded(state.settings.zoom, step, ZOOMS.len()),
        Action::Metric => next_metric(state),
        Action::Overlay => state.is_overlaid = !state.is_overlaid,
        Action::WorstFirst => state.settings.worst_first = !state.settings.worst_first,
        Action::Setup => state.dialog = Some(Dialog::Setup { at: 0 }),
        Action::Save => return vec![Effect::Save],
        Action::Refresh => return vec![Effect::Ask(Request::Now)],
        Action::Help => state.dialog = Some(Dialog::Help { scroll: 0 }),
        Action::Escape => escape(state),
    }
    Vec::new()
}

fn show(state: &mut State, view: View) {
    state.view = view;
    state.scroll = 0;
}

/// Every live buffer is read only while somebody looks at them.
fn wants_buffers(state: &State) -> bool {
    state.view == View::Memory || matches!(state.dialog, Some(Dialog::Process { .. }))
}

fn escape(state: &mut State) {
    if state.frozen.is_some() {
        state.frozen = None;
    } else if !state.filter_text.is_empty() {
        state.filter_text.clear();
        state.filter = crate::filter::Filter::default();
    } else if state.view != View::Main {
        show(state, View::Main);
    }
}

fn choose_device(state: &mut State, step: Step) {
    let Some(snapshot) = state.shown().cloned() else { return };
    let devices = state.devices(&snapshot);
    if devices.is_empty() {
        return;
    }
    let chosen = state.chosen_device(&snapshot).map(|device| device.id);
    let at = devices.iter().position(|device| Some(device.id) == chosen).unwrap_or(0);
    state.device = Some(devices[stepped(at, step, devices.len())].id);
}

/// Moves in the list that has the keys: devices, processes, or the page of a view that scrolls.
fn go(state: &mut State, motion: Motion) {
    let Some(snapshot) = state.shown().cloned() else { return };
    let Some(frame) = layout::frame(state.size) else { return };
    match (state.view, state.focus) {
        (View::Main, Focus::Devices) => {
            let devices = state.devices(&snapshot);
            let chosen = state.chosen_device(&snapshot).map(|device| device.id);
            let at = devices.iter().position(|device| Some(device.id) == chosen).unwrap_or(0);
            if let Some(device) = devices.get(moved(at, motion, devices.len(), 8)) {
                state.device = Some(device.id);
            }
        }
        (View::Main, Focus::Processes) => {
            let page = process_rows(layout::main(frame.body, snapshot.devices.len()).processes);
            let processes = state.processes(&snapshot);
            let at = moved(state.process_row(&processes), motion, processes.len(), page);
            let (chosen, count) = (processes.get(at).map(|(process, _)| process.key), processes.len());
            state.scroll = layout::scrolled(state.scroll, at, page, count);
            state.process = chosen;
        }
        (View::Detail, _) => {
            let page = usize::from(frame.body.height - 1);
            let lines = state.chosen_device(&snapshot).map_or(0, |device| detail_lines(&snapshot, device));
            state.scroll = moved(state.scroll, motion, lines, page);
        }
        (View::Memory, _) => {
            let page = crate::view::memory_rows(state, &snapshot, frame.body);
            let lines = state.chosen_device(&snapshot).map_or(0, |device| buffer_count(&snapshot, device));
            state.scroll = moved(state.scroll, motion, lines.saturating_sub(page.saturating_sub(1)), page);
        }
        (View::Charts | View::Mesh, _) => match motion {
            Motion::Up | Motion::PageUp => choose_device(state, Step::Before),
            Motion::Down | Motion::PageDown => choose_device(state, Step::After),
            Motion::Home => state.device = snapshot.devices.first().map(|device| device.id),
            Motion::End => state.device = snapshot.devices.last().map(|device| device.id),
        },
    }
}

/// The place after a move, among so many.
pub(super) fn moved(at: usize, motion: Motion, count: usize, page: usize) -> usize {
    let last = count.saturating_sub(1);
    match motion {
        Motion::Up => at.saturating_sub(1),
        Motion::Down => at + 1,
        Motion::PageUp => at.saturating_sub(page.max(1)),
        Motion::PageDown => at + page.max(1),
        Motion::Home => 0,
        Motion::End => last,
    }
    .min(last)
}

/// The neighbour, around the corner if need be.
fn stepped(at: usize, step: Step, count: usize) -> usize {
    match step {
        Step::Before => (at + count - 1) % count.max(1),
        Step::After => (at + 1) % count.max(1),
    }
}

/// The neighbour, if there is one on that side.
pub(super) fn bounded(at: usize, step: Step, count: usize) -> usize {
    match step {
        Step::Before => at.saturating_sub(1),
        Step::After => (at + 1).min(count.saturating_sub(1)),
    }
}

fn details(state: &mut State) -> Vec<Effect> {
    let Some(snapshot) = state.shown().cloned() else { return Vec::new() };
    if state.view != View::Main {
        return Vec::new();
    }
    if state.focus == Focus::Devices {
        show(state, View::Detail);
        return Vec::new();
    }
    let processes = state.processes(&snapshot);
    let Some((process, _)) = processes.get(state.process_row(&processes)) else { return Vec::new() };
    let key = process.key;
    state.process = Some(key);
    state.environment = None;
    state.dialog = Some(Dialog::Process { key, scroll: 0 });
    vec![Effect::Ask(Request::Environment(key))]
}

/// Opens the dialog for the chosen process, and keeps who that is.
pub(super) fn signal(state: &mut State) {
    if state.is_read_only {
        return say(state, "signals are off: this is --read-only");
    }
    if state.replay.is_some() {
        return say(state, "these are processes of a recording: they get no signals");
    }
    let Some(snapshot) = state.shown().cloned() else { return };
    let processes = state.processes(&snapshot);
    let Some((process, _)) = processes.get(state.process_row(&processes)) else {
        return say(state, "there is no process to send a signal to");
    };
    let text = |reading: &ttmon_model::Reading<String>| reading.clone().unwrap_or_else(|_| "?".to_owned());
    let dialog = SignalDialog { key: process.key, command: text(&process.command), user: text(&process.user), at: 0, is_asked: false };
    state.dialog = Some(Dialog::Signal(dialog));
}

fn freeze(state: &mut State) {
    state.frozen = match (&state.frozen, &state.live) {
        (None, Some(snapshot)) => Some(Frozen { back: 0, snapshot: Arc::clone(snapshot) }),
        _ => None,
    };
}

fn step_in_time(state: &mut State, step: Step, moments: usize) {
    let back = match step {
        Step::Before => (state.back() + moments).min(state.history.len().saturating_sub(1)),
        Step::After => state.back().saturating_sub(moments),
    };
    if step == Step::After && state.frozen.is_none() {
        return;
    }
    if let Some(snapshot) = state.history.snapshot(back) {
        state.frozen = Some(Frozen { back, snapshot });
    }
}

fn pace(state: &mut State, step: Step) -> Vec<Effect> {
    let millis = u64::try_from(state.settings.refresh.as_millis()).unwrap_or(u64::MAX);
    let next = match step {
        Step::Before => REFRESHES.iter().rev().find(|refresh| **refresh < millis),
        Step::After => REFRESHES.iter().find(|refresh| **refresh > millis),
    };
    let Some(next) = next else { return Vec::new() };
    state.settings.refresh = Duration::from_millis(*next);
    vec![Effect::Ask(Request::Interval(state.settings.refresh))]
}

/// In the charts the first step leads from all metrics of a device to one metric of all devices, and the last one back.
fn next_metric(state: &mut State) {
    if state.view == View::Charts && state.is_by_device {
        state.is_by_device = false;
        state.settings.metric = 0;
        return;
    }
    let is_known = |index: usize| {
        let Some(snapshot) = state.shown() else { return true };
        snapshot.devices.iter().any(|device| (METRICS[index].get)(device).is_ok())
    };
    let next = (state.settings.metric + 1..METRICS.len()).find(|index| is_known(*index));
    if next.is_none() && state.view == View::Charts {
        state.is_by_device = true;
    }
    state.settings.metric = next.unwrap_or(0);
}

/// Tells the user something for a while.
pub(crate) fn say(state: &mut State, text: impl Into<String>) {
    let until = state.live.as_ref().map(|snapshot| end_of_message(snapshot.time));
    state.message = Some(Message { text: text.into(), until });
}

fn end_of_message(now: UnixTime) -> UnixTime {
    UnixTime(now.0.saturating_add(u64::try_from(MESSAGE_TIME.as_nanos()).unwrap_or(u64::MAX)))
}
