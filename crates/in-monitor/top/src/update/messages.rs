//! Messages of feeds: new snapshots, errors, history, and events of buffers.

use std::sync::Arc;
use std::time::Duration;

use ttmon_model::Snapshot;
use ttmon_model::snapshot::Severity;

use super::{Effect, end_of_message};
use crate::feed::FeedMessage;
use crate::history::History;
use crate::marks::Marks;
use crate::state::TopState;

/// Maximum number of buffer events kept per host; beyond that, the oldest are dropped.
const BUFFER_EVENTS_MAX: usize = 200;

pub(super) fn receive(state: &mut TopState, index: usize, message: FeedMessage) {
    let host = &mut state.hosts[index];
    match message {
        FeedMessage::Snapshot(snapshot) => {
            host.silent_for = Duration::ZERO;
            if host.error.take().is_some() && host.address.is_some() {
                host.alerts.note(snapshot.time, Severity::Fine, "answers again".to_owned());
            }
            take_snapshot(state, index, Arc::new(*snapshot));
        }
        FeedMessage::Error(error) if host.live.is_none() && host.address.is_none() && state.replay.is_none() => {
            state.effects.push(Effect::Fail(error));
        }
        FeedMessage::Error(error) => {
            host.silent_for = Duration::ZERO;
            let is_first = host.error.is_none() && host.address.is_some();
            if is_first {
                host.alerts.note(error.since, Severity::Critical, format!("no answer: {}", error.message));
            }
            host.error = Some(error);
            ring(state, is_first);
        }
        FeedMessage::Past(grid) => {
            host.history.fill(&grid);
            if let Some(frozen) = &mut host.frozen {
                frozen.back = host.history.back_at(frozen.snapshot.time);
            }
        }
        FeedMessage::Source { is_back, text } => {
            let severity = if is_back { Severity::Fine } else { Severity::Warning };
            host.alerts.note(host.now(), severity, text);
        }
        FeedMessage::BufferEvents(events) => {
            host.marks.note_refusals(&events, host.now());
            host.buffer_events.extend(events);
            let excess = host.buffer_events.len().saturating_sub(BUFFER_EVENTS_MAX);
            host.buffer_events.drain(..excess);
        }
        FeedMessage::Position(position) => state.replay = Some(position),
        FeedMessage::Environment(key, variables) => state.environment = Some(((index, key), variables)),
    }
}

fn take_snapshot(state: &mut TopState, index: usize, snapshot: Arc<Snapshot>) {
    let chosen = state.process.filter(|(host, _)| *host == index).map(|(_, key)| key);
    let has = |snapshot: &Snapshot, key| snapshot.processes.iter().any(|process| process.key == key);
    let is_live = |key| state.hosts[index].live.as_ref().is_some_and(|live| has(live, key));
    if chosen.is_some_and(|key| is_live(key) && !has(&snapshot, key)) {
        // Up and Down continue from this row.
        state.last_process_row = state.process_row(&state.processes());
    }
    let host = &mut state.hosts[index];
    let last = host.live.as_ref().map(|live| live.time);
    // When a recording is rewound, drop the history and alerts of the later time.
    if state.replay.is_some() && last.is_some_and(|last| last > snapshot.time) {
        (host.history, host.alerts) = (History::default(), host.alerts.emptied());
        host.marks = Marks::default();
        host.buffer_events.clear();
    }
    // A snapshot with the time of the last one is the same sample again, now with its buffers. It is not added twice.
    if last != Some(snapshot.time) {
        if let Some(live) = host.live.as_ref().filter(|live| live.time < snapshot.time) {
            host.marks.compare(live, &snapshot);
        }
        host.history.push(&snapshot, chosen);
        if let Some(frozen) = &mut host.frozen {
            // The screen does not change, so the newest sample is one step further from it.
            frozen.back = (frozen.back + 1).min(host.history.times().len() - 1);
        }
    }
    if let Some(message) = state.message.as_mut().filter(|_| index == state.host_index) {
        message.until.get_or_insert(end_of_message(snapshot.time));
    }
    let is_worse = host.alerts.watch(&snapshot);
    host.live = Some(snapshot);
    crate::host::make_names_unique(&mut state.hosts);
    ring(state, is_worse);
}

/// Rings the bell for an alert, if the user wants that.
fn ring(state: &mut TopState, is_alert: bool) {
    state.effects.extend((is_alert && state.settings.bell).then_some(Effect::Ring));
}
