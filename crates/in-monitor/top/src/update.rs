//! Applies an event to the state, and returns the effects that the caller must perform.

mod dialog;
mod memory;
mod messages;
mod mouse;
mod reasons;

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyEvent, MouseEvent};
use ttmon_model::ProcessKey;
use ttmon_model::sample::Origin;
use ttmon_model::units::UnixTime;

use crate::feed::{FeedError, FeedMessage, JUMP_NANOS, Request};
use crate::history::History;
use crate::host::Frozen;
use crate::keys::{self, Action, Chord, Motion, Step};
use crate::layout;
use crate::metric::METRICS;
use crate::settings::{REFRESHES, ZOOMS};
use crate::state::{DeviceLine, Dialog, Focus, Message, Owner, Page, ProcessRow, SignalDialog, TopState, View};
use crate::theme::Background;
use crate::view::{extent, process_rows};

pub(crate) use dialog::setup_rows;

const NO_CHOICE: &str = "the process has ended, or is not in the list; choose one with Up and Down";
const MESSAGE_TIME: Duration = Duration::from_secs(6);

/// An event of the program. All events go through one queue.
#[derive(Debug)]
pub(crate) enum Event {
    Key(KeyEvent),
    Mouse(MouseEvent),
    Resized(u16, u16),
    Feed(usize, FeedMessage),
    /// A machine has sent no message for this long.
    Silence(usize, Duration),
    Background(Background),
    Signal(i32),
    InputError(String),
    /// A feed's thread panicked, restored the terminal and printed the panic.
    Broken,
}

/// An action that the caller of [`update`] must perform.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect {
    Quit,
    /// Exit as if this signal had killed the program.
    Die(i32),
    Suspend,
    /// Send a request to the feed of the host with this index.
    Send(usize, Request),
    SendAll(Request),
    /// Send a signal: the process, the name of its user, and the index of the signal.
    Signal(ProcessKey, String, usize),
    Save,
    /// Redraw everything: another program may have written to the terminal.
    Redraw,
    Ring,
    Fail(FeedError),
}

/// Applies an event. Also starts or stops the reading of buffers if the shown view requires it.
pub(crate) fn update(state: &mut TopState, event: Event) -> Vec<Effect> {
    change(state, event);
    let now = wants_buffers(state);
    let before = std::mem::replace(&mut state.buffers_of, now);
    if now != before {
        state.effects.extend(before.map(|host| Effect::Send(host, Request::Buffers(false))));
        state.effects.extend(now.map(|host| Effect::Send(host, Request::Buffers(true))));
    }
    std::mem::take(&mut state.effects)
}

fn change(state: &mut TopState, event: Event) {
    match event {
        Event::Key(key) => press(state, Chord::of(key)),
        Event::Mouse(event) => mouse::update(state, event),
        Event::Resized(width, height) => state.size = (width, height),
        Event::Feed(host, message) => messages::receive(state, host, message),
        Event::Silence(host, silence) => state.hosts[host].silent_for = silence,
        Event::Background(background) => {
            state.detected.background = background;
            state.theme = state.detected.chosen(state.settings.theme);
        }
        Event::Signal(signal_hook::consts::SIGTSTP) => state.effects.push(Effect::Suspend),
        Event::Signal(signal) => state.effects.push(Effect::Die(signal)),
        Event::Broken => failed(state, "the sampling thread panicked (see above); please report this defect".to_owned()),
        Event::InputError(why) => failed(state, format!("the keyboard is gone: {why}; start it again in a terminal")),
    }
}

fn failed(state: &mut TopState, message: String) {
    let since = state.host().now();
    state.effects.push(Effect::Fail(FeedError { message, is_no_device: false, since }));
}

fn press(state: &mut TopState, chord: Chord) {
    // Remove the message at the next key. Its time limit does not work in a paused recording, where the clock stands still.
    (state.message, state.hint) = (None, None);
    // In every dialog, Ctrl-C quits and Ctrl-Z suspends.
    match chord {
        Chord::Ctrl('c') => return state.effects.push(Effect::Quit),
        Chord::Ctrl('z') => return state.effects.push(Effect::Suspend),
        _ => {}
    }
    if state.dialog.is_some() {
        return dialog::press(state, chord);
    }
    let Some(action) = keys::action(chord) else { return };
    let before = reasons::trace(state);
    act(state, action);
    // If a key changed nothing, show why.
    if state.effects.is_empty() && state.message.is_none() && reasons::trace(state) == before {
        show_message(state, reasons::why_nothing(action));
    }
}

pub(super) fn act(state: &mut TopState, action: Action) {
    if state.view == View::Memory && memory::act(state, action) {
        return;
    }
    if let Some(why) = reasons::refusal(state, action) {
        return show_message(state, why);
    }
    match action {
        Action::Quit => state.effects.push(Effect::Quit),
        Action::Show(view) => show(state, view),
        Action::Device(step) => choose_device(state, step),
        Action::Move(motion) => go(state, motion),
        Action::Focus => {
            state.focus = if state.focus == Focus::Devices { Focus::Processes } else { Focus::Devices };
        }
        Action::Filter => state.dialog = Some(Dialog::filter(&state.filter_text)),
        Action::SortMenu => {
            let at = state.columns().iter().position(|column| *column == state.settings.sort).unwrap_or(0);
            state.dialog = Some(Dialog::Sort { at });
        }
        Action::SortBy(step) => sort_by_neighbour(state, step),
        Action::Reverse => state.settings.descending = !state.settings.descending,
        Action::Tree => state.settings.tree = !state.settings.tree,
        Action::Details => details(state),
        Action::Signal => signal(state, None),
        Action::Freeze if state.replay.is_some() => state.effects.push(Effect::SendAll(Request::Pause)),
        Action::Back(step) if state.replay.is_some() => state.effects.push(Effect::SendAll(Request::Step(step))),
        Action::Jump(step) if state.replay.is_some() => state.effects.push(Effect::SendAll(Request::Jump(step))),
        Action::Speed(step) if state.replay.is_some() => state.effects.push(Effect::SendAll(Request::Speed(step))),
        Action::Freeze => freeze(state),
        Action::Back(step) => step_in_time(state, step, one_sample),
        Action::Jump(step) => step_in_time(state, step, a_minute),
        Action::Speed(step) => change_refresh(state, step),
        Action::Group => memory::group(state),
        Action::Mark => memory::mark(state),
        Action::Zoom(step) => state.settings.zoom = bounded(state.settings.zoom, step, ZOOMS.len()),
        Action::Metric => next_metric(state),
        Action::Fold if state.has_groups() => state.host_mut().is_folded ^= true,
        Action::Fold => {}
        Action::Overlay => state.settings.overlay = !state.settings.overlay,
        Action::WorstFirst => {
            state.settings.worst_first = !state.settings.worst_first;
            show_message(state, if state.settings.worst_first { "devices: the worst first" } else { "devices by id" });
        }
        Action::Setup => state.dialog = Some(Dialog::Setup { at: 0 }),
        Action::Save => state.effects.push(Effect::Save),
        Action::Refresh => state.effects.extend([Effect::SendAll(Request::Now), Effect::Redraw]),
        Action::Deep => deep(state),
        Action::Alerts => state.dialog = Some(Dialog::page(Page::Alerts)),
        Action::Help => state.dialog = Some(Dialog::page(Page::Help)),
        Action::Escape => escape(state),
    }
}

/// Sorts by a column, numbers in descending order. If the column is already selected, reverses the order.
pub(super) fn sort_by(state: &mut TopState, column: usize) {
    let settings = &mut state.settings;
    settings.descending = if settings.sort == column { !settings.descending } else { crate::columns::COLUMNS[column].is_number };
    settings.sort = column;
}

/// Sorts by the next or previous visible column, or by the first visible one if the current sort column is hidden.
fn sort_by_neighbour(state: &mut TopState, step: Step) {
    let shown = layout::columns_shown(state);
    let at = shown.iter().position(|column| *column == state.settings.sort);
    let next = at.map_or(shown.first(), |at| shown.get(stepped(at, step, shown.len())));
    if let Some(next) = next.copied().filter(|next| *next != state.settings.sort) {
        sort_by(state, next);
    }
}

fn show(state: &mut TopState, view: View) {
    (state.view, state.previous_view) = (view, View::Main);
    state.scroll = 0;
}

/// Returns the host whose buffers are shown, if any. Live buffers are read only for that host.
fn wants_buffers(state: &TopState) -> Option<usize> {
    match state.dialog {
        Some(Dialog::Page { page: Page::Process((host, _)), .. }) => Some(host),
        _ => (state.view == View::Memory).then_some(state.host_index),
    }
}

fn escape(state: &mut TopState) {
    if state.is_frozen() {
        state.hosts.iter_mut().for_each(|host| host.frozen = None);
    } else if !state.filter_text.is_empty() {
        _ = state.set_filter("");
    } else if state.view != View::Main {
        show(state, state.previous_view);
    }
}

/// Selects the next or previous device. After the last device of a host, continues on the next host.
fn choose_device(state: &mut TopState, step: Step) {
    choose(state, |at, count| stepped(at, step, count));
}

/// Selects another line of the device list. `next` returns its index from the index of the selected one and the number of lines.
fn choose(state: &mut TopState, next: impl Fn(usize, usize) -> usize) {
    let (choices, chosen) = (state.choices(), state.chosen_line());
    let at = choices.iter().position(|line| *line == chosen).unwrap_or(0);
    if let Some(line) = choices.get(next(at, choices.len())) {
        choose_line(state, *line);
    }
}

pub(super) fn choose_line(state: &mut TopState, line: DeviceLine) {
    state.host_index = line.host;
    if line.device.is_some() {
        state.host_mut().device = line.device;
    }
}

/// Moves the selection in the focused list (devices or processes), or scrolls the page of a view.
fn go(state: &mut TopState, motion: Motion) {
    let Some(frame) = layout::frame(state.size) else { return };
    match (state.view, state.focus) {
        (View::Main, Focus::Devices) => choose(state, |at, count| moved(at, motion, count, 8)),
        (View::Main, Focus::Processes) => {
            let page = process_rows(layout::main_of(state, frame.body).processes);
            let processes = state.processes();
            let from = state.process_row(&processes);
            let at = match motion {
                // If the selected process is gone, the next one is already at this row.
                Motion::Down if state.chosen_process(&processes).is_none() => from,
                _ => moved(from, motion, processes.len(), page),
            };
            let (chosen, count) = (processes.get(at).map(ProcessRow::owner), processes.len());
            state.scroll = layout::scrolled(state.scroll, at, page, count);
            (state.process, state.last_process_row) = (chosen, 0);
        }
        (View::Memory, _) => memory::go(state, motion),
        (View::Charts | View::Detail, _) => {
            let Some(extent) = extent(state) else { return };
            // After a resize, the old scroll position may be beyond the end.
            let from = state.scroll.min(extent.last());
            state.scroll = moved(from, motion, extent.last() + 1, extent.page);
        }
        (View::Mesh, _) => match motion {
            Motion::Up | Motion::PageUp => choose_device(state, Step::Before),
            Motion::Down | Motion::PageDown => choose_device(state, Step::After),
            Motion::Home => state.host_mut().device = state.shown().and_then(|snapshot| snapshot.devices.first()).map(|device| device.id),
            Motion::End => state.host_mut().device = state.shown().and_then(|snapshot| snapshot.devices.last()).map(|device| device.id),
        },
    }
}

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

/// Returns the next or previous index, and wraps around at the ends.
fn stepped(at: usize, step: Step, count: usize) -> usize {
    match step {
        Step::Before => (at + count.max(1) - 1) % count.max(1),
        Step::After => (at + 1) % count.max(1),
    }
}

pub(crate) fn bounded(at: usize, step: Step, count: usize) -> usize {
    match step {
        Step::Before => at.saturating_sub(1),
        Step::After => (at + 1).min(count.saturating_sub(1)),
    }
}

fn details(state: &mut TopState) {
    if state.view != View::Main || state.focus == Focus::Devices {
        // In the detail view, this would only reset the scroll position.
        if state.view != View::Detail {
            let left = state.view;
            show(state, View::Detail);
            state.previous_view = left;
        }
        return;
    }
    let processes = state.processes();
    let Some(of) = state.chosen_process(&processes).map(ProcessRow::owner) else {
        return show_message(state, NO_CHOICE);
    };
    state.process = Some(of);
    state.environment = None;
    state.dialog = Some(Dialog::page(Page::Process(of)));
    state.effects.push(Effect::Send(of.0, Request::Environment(of.1)));
}

/// Opens the signal dialog for `of`, or for the selected process. The dialog keeps the process key, so that the signal never goes to
/// another process.
pub(super) fn signal(state: &mut TopState, of: Option<Owner>) {
    if state.is_read_only {
        return show_message(state, "signals are off: this is --read-only");
    }
    if state.replay.is_some() {
        return show_message(state, "these are processes of a recording: they get no signals");
    }
    let processes = state.processes();
    let row = match of {
        Some(owner) => processes.iter().find(|row| row.owner() == owner),
        None => state.chosen_process(&processes),
    };
    let Some(row) = row else {
        return show_message(state, NO_CHOICE);
    };
    if state.hosts[row.host].address.is_some() {
        let text = format!("process {} is seen through a service, which sends no signals; try on {}", row.key.pid, row.host_name);
        return show_message(state, text);
    }
    let text = |reading: &ttmon_model::Reading<String>| reading.clone().unwrap_or_else(|_| "?".to_owned());
    let dialog = SignalDialog { key: row.key, command: text(&row.command), user: text(&row.user), at: 0, is_confirming: false };
    state.dialog = Some(Dialog::Signal(dialog));
}

fn freeze(state: &mut TopState) {
    let is_frozen = state.is_frozen();
    for host in &mut state.hosts {
        let snapshot = host.live.as_ref().filter(|_| !is_frozen);
        host.frozen = snapshot.map(|snapshot| Frozen { back: 0, snapshot: Arc::clone(snapshot), until: snapshot.time });
    }
}

/// Returns how many samples before the newest the next or previous sample is.
fn one_sample(history: &History, back: usize, step: Step) -> usize {
    match step {
        Step::Before => (back + 1).min(history.times().len().saturating_sub(1)),
        Step::After => back.saturating_sub(1),
    }
}

/// Like [`one_sample`], for the sample one minute earlier or later. A longer gap is skipped.
fn a_minute(history: &History, back: usize, step: Step) -> usize {
    let Some(now) = history.time(back) else { return back };
    match step {
        Step::Before => history.back_at(UnixTime(now.0.saturating_sub(JUMP_NANOS))),
        Step::After => history.back_at(UnixTime(now.0.saturating_add(JUMP_NANOS))).min(back.saturating_sub(1)),
    }
}

/// Steps through the samples of the selected host. Other hosts show the same time.
fn step_in_time(state: &mut TopState, step: Step, other: fn(&History, usize, Step) -> usize) {
    if step == Step::After && !state.is_frozen() {
        return;
    }
    let back = other(&state.host().history, state.host().back(), step);
    let Some(time) = state.host().history.snapshot(back).map(|snapshot| snapshot.time) else { return };
    for (index, host) in state.hosts.iter_mut().enumerate() {
        let back = if index == state.host_index { back } else { host.history.back_at(time) };
        let until = host.frozen.as_ref().map_or(host.now(), |frozen| frozen.until);
        host.frozen = host.history.snapshot(back).map(|snapshot| Frozen { back, until: until.max(snapshot.time), snapshot });
    }
}

fn change_refresh(state: &mut TopState, step: Step) {
    let before = state.settings.refresh;
    // A faster refresh is a shorter interval.
    state.settings.refresh = next_refresh(before, if step == Step::After { Step::Before } else { Step::After });
    send_refresh(state, before);
}

/// Returns the next shorter or longer interval of [`REFRESHES`], or the same one at the ends.
pub(super) fn next_refresh(refresh: Duration, step: Step) -> Duration {
    let next = match step {
        Step::Before => REFRESHES.iter().rev().find(|other| **other < refresh),
        Step::After => REFRESHES.iter().find(|other| **other > refresh),
    };
    next.copied().unwrap_or(refresh)
}

/// Sends the refresh interval to the feeds if it is not the one from before.
pub(super) fn send_refresh(state: &mut TopState, before: Duration) {
    let now = state.settings.refresh;
    state.effects.extend((now != before).then_some(Effect::SendAll(Request::Interval(now))));
}

/// Turns `--deep` on or off for this machine. For other machines, their services decide.
fn deep(state: &mut TopState) {
    if state.replay.is_some() {
        return show_message(state, "this is a recording: it has what was recorded");
    }
    if state.host().address.is_some() {
        return show_message(state, "the service decides what is read: ttmon serve --deep");
    }
    let is_served = state.shown().is_some_and(|snapshot| snapshot.origin == Origin::Server && snapshot.is_deep());
    state.set_deep(!state.wants_deep);
    let text = match (state.wants_deep, is_served) {
        (true, _) => "chips are read themselves, each opened for a millisecond per sample; d stops it",
        (false, true) => "the service goes on reading the chips: it was started with --deep",
        (false, false) => "chips are no longer read themselves",
    };
    show_message(state, text);
    state.effects.push(Effect::Send(state.host_index, Request::Deep(state.wants_deep)));
}

/// Selects the next metric. In the charts, the first press switches from all metrics of one device to one metric of all devices, and
/// after the last metric it switches back.
fn next_metric(state: &mut TopState) {
    if state.view == View::Charts && state.settings.by_device {
        state.settings.by_device = false;
        state.settings.metric = 0;
        return;
    }
    let is_known = |index: usize| {
        let Some(snapshot) = state.shown() else { return true };
        snapshot.devices.iter().any(|device| METRICS[index].get(device).is_ok())
    };
    let next = (state.settings.metric + 1..METRICS.len()).find(|index| is_known(*index));
    if next.is_none() && state.view == View::Charts {
        state.settings.by_device = true;
    }
    state.settings.metric = next.unwrap_or(0);
}

pub(crate) fn show_message(state: &mut TopState, text: impl Into<String>) {
    let until = state.host().live.as_ref().map(|snapshot| end_of_message(snapshot.time));
    state.message = Some(Message { text: text.into(), until });
}

fn end_of_message(now: UnixTime) -> UnixTime {
    UnixTime(now.0.saturating_add(u64::try_from(MESSAGE_TIME.as_nanos()).unwrap_or(u64::MAX)))
}
