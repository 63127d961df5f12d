//! Events of the machine between two snapshots: states, health, added and removed devices, clock jumps.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use ttmon_model::Snapshot;
use ttmon_model::units::UnixTime;

use crate::limits::EVENTS_MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceEvent {
    /// Numbers increase, also over restarts of the service.
    pub(crate) id: u64,
    /// Time on the monotonic clock.
    pub(crate) at: Duration,
    /// Time on the wall clock.
    pub(crate) time: UnixTime,
    pub(crate) what: EventKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// The service started to sample; earlier events are unknown.
    Started,
    /// A device was seen for the first time, or replaced another one.
    Appeared { device: u32, board: String },
    /// A device is no longer listed.
    Left { device: u32 },
    /// A device's state changed: a reset is `ok`, `resetting`, `ok`.
    State { device: u32, from: &'static str, to: &'static str },
    /// A device's health changed, for these reasons.
    Health { device: u32, from: &'static str, to: &'static str, reasons: Vec<String> },
    /// The wall clock was set; back if the change is negative.
    Clock { millis: i64 },
    /// The sampler was late and left out samples.
    Gap { missed: u64 },
    /// The machine could not be read at all.
    Unreadable { why: String },
    /// The machine can be read again.
    Readable,
    /// An alert fired, or ended.
    Alert { device: u32, rule: String, severity: &'static str, is_firing: bool, summary: String },
    /// A receiver of alerts began to fail, or works again.
    Receiver { receiver: String, error: Option<String> },
}

impl EventKind {
    /// All names, for the description of the API.
    #[cfg(test)]
    pub(crate) const NAMES: [&str; 11] =
        ["started", "appeared", "left", "state", "health", "clock", "gap", "unreadable", "readable", "alert", "receiver"];

    /// Returns the name of the kind, as in streams and documents.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Appeared { .. } => "appeared",
            Self::Left { .. } => "left",
            Self::State { .. } => "state",
            Self::Health { .. } => "health",
            Self::Clock { .. } => "clock",
            Self::Gap { .. } => "gap",
            Self::Unreadable { .. } => "unreadable",
            Self::Readable => "readable",
            Self::Alert { .. } => "alert",
            Self::Receiver { .. } => "receiver",
        }
    }
}

impl ServiceEvent {
    pub(crate) fn json(&self) -> Value {
        let mut document = match &self.what {
            EventKind::Started | EventKind::Readable => json!({}),
            EventKind::Appeared { device, board } => json!({"device": device, "board": board}),
            EventKind::Left { device } => json!({"device": device}),
            EventKind::State { device, from, to } => json!({"device": device, "from": from, "to": to}),
            EventKind::Health { device, from, to, reasons } => json!({"device": device, "from": from, "to": to, "reasons": reasons}),
            EventKind::Clock { millis } => json!({"jump_s": *millis as f64 / 1000.0}),
            EventKind::Gap { missed } => json!({"missed": missed}),
            EventKind::Unreadable { why } => json!({"reason": why}),
            EventKind::Alert { device, rule, severity, is_firing, summary } => {
                let state = if *is_firing { "firing" } else { "resolved" };
                json!({"device": device, "rule": rule, "severity": severity, "state": state, "summary": summary})
            }
            EventKind::Receiver { receiver, error } => {
                let state = if error.is_some() { "failing" } else { "ok" };
                json!({"receiver": receiver, "state": state, "reason": error})
            }
        };
        document["id"] = json!(self.id);
        document["time"] = json!(self.time.rfc3339());
        document["event"] = json!(self.what.name());
        document
    }
}

/// The last events, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    last: VecDeque<ServiceEvent>,
    /// The number before the first event.
    begin: u64,
    count: u64,
}

impl Journal {
    /// Creates the journal of a service that starts now. Its numbers continue after those of earlier runs, because no run has more than one
    /// event per millisecond for long.
    pub(crate) fn starting(now: UnixTime) -> Self {
        Self { begin: now.0 / 1_000_000, ..Self::default() }
    }

    /// Adds an event. Drops the oldest if there are too many.
    pub(crate) fn add(&mut self, at: Duration, time: UnixTime, what: EventKind) -> ServiceEvent {
        self.count += 1;
        let event = ServiceEvent { id: self.last_id(), at, time, what };
        if self.last.len() >= EVENTS_MAX {
            self.last.pop_front();
        }
        self.last.push_back(event.clone());
        event
    }

    /// Returns the events after number `id`, oldest first. A number that is too high is from a run with a wrong clock; then all events are
    /// returned.
    pub(crate) fn after(&self, id: u64) -> impl Iterator<Item = &ServiceEvent> {
        let id = if id > self.last_id() { 0 } else { id };
        self.last.iter().filter(move |event| event.id > id)
    }

    pub(crate) fn since(&self, at: Duration) -> impl Iterator<Item = &ServiceEvent> {
        self.last.iter().filter(move |event| event.at >= at)
    }

    pub(crate) fn last_id(&self) -> u64 {
        self.begin + self.count
    }

    /// Returns the number of all events so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

pub(crate) fn differences(before: &Snapshot, now: &Snapshot) -> Vec<EventKind> {
    let mut found = Vec::new();
    for device in &now.devices {
        let id = device.id.0;
        match before.device(device.id).filter(|before| before.may_be(device)) {
            None => found.push(EventKind::Appeared { device: id, board: device.label() }),
            Some(before) => {
                if before.state != device.state {
                    found.push(EventKind::State { device: id, from: before.state.name(), to: device.state.name() });
                }
                if before.health != device.health {
                    let reasons = device.health_reasons.clone();
                    found.push(EventKind::Health { device: id, from: before.health.name(), to: device.health.name(), reasons });
                }
            }
        }
    }
    let left = before.devices.iter().filter(|device| now.device(device.id).is_none());
    found.extend(left.map(|device| EventKind::Left { device: device.id.0 }));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_is_bounded_and_continues_counting() {
        let mut journal = Journal::default();
        for second in 0..(EVENTS_MAX as u64 + 10) {
            journal.add(Duration::from_secs(second), UnixTime(second), EventKind::Readable);
        }
        assert_eq!(journal.after(0).count(), EVENTS_MAX);
        assert_eq!(journal.after(0).next().map(|first| first.id), Some(11));
        assert_eq!(journal.last_id(), EVENTS_MAX as u64 + 10);
        assert_eq!(journal.after(journal.last_id() - 1).count(), 1);
        assert_eq!(journal.since(Duration::from_secs(EVENTS_MAX as u64 + 5)).count(), 5);
    }

    /// A reader that reconnects after a restart gets all events since then, even if the clock was set back meanwhile.
    #[test]
    fn event_numbers_increase_over_a_restart() {
        let start = |second: u64, events: u64| {
            let mut journal = Journal::starting(UnixTime(second * 1_000_000_000));
            (0..events).for_each(|second| drop(journal.add(Duration::from_secs(second), UnixTime(0), EventKind::Readable)));
            journal
        };
        let seen = start(1_700_000_000, 500).last_id();
        let after = start(1_700_000_060, 3);
        assert_eq!((after.after(seen).count(), after.count()), (3, 3));
        assert!(after.last_id() > seen);
        assert_eq!(start(1_600_000_000, 2).after(seen).count(), 2);
    }

    #[test]
    fn every_kind_is_described() {
        let (text, device) = (String::new, 0);
        let kinds = [
            EventKind::Started,
            EventKind::Appeared { device, board: text() },
            EventKind::Left { device },
            EventKind::State { device, from: "", to: "" },
            EventKind::Health { device, from: "", to: "", reasons: Vec::new() },
            EventKind::Clock { millis: 0 },
            EventKind::Gap { missed: 0 },
            EventKind::Unreadable { why: text() },
            EventKind::Readable,
            EventKind::Alert { device, rule: text(), severity: "", is_firing: true, summary: text() },
            EventKind::Receiver { receiver: text(), error: None },
        ];
        assert_eq!(kinds.map(|kind| kind.name()), EventKind::NAMES);
    }

    #[test]
    fn event_documents_name_their_kind() {
        let what = EventKind::Clock { millis: -90_500 };
        let document = ServiceEvent { id: 7, at: Duration::ZERO, time: UnixTime(0), what }.json();
        assert_eq!(document, json!({"id": 7, "time": "1970-01-01T00:00:00.000Z", "event": "clock", "jump_s": -90.5}));
    }
}
