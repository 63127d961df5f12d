//! Events of the machine between two snapshots: states, health, added and removed devices, clock jumps.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;
use ttmon_model::Snapshot;
use ttmon_model::units::UnixTime;

use crate::limits::EVENTS_MAX;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ServiceEvent {
    /// Numbers increase, also over restarts of the service.
    pub(crate) id: u64,
    /// Time on the monotonic clock.
    #[serde(skip)]
    pub(crate) at: Duration,
    /// Time on the wall clock.
    #[serde(serialize_with = "rfc3339")]
    pub(crate) time: UnixTime,
    #[serde(flatten)]
    pub(crate) what: EventKind,
}

/// What happened. The variants and their members are those of documents.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
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
    Clock { jump_s: f64 },
    /// The sampler was late and left out samples.
    Gap { missed: u64 },
    /// The machine could not be read at all.
    Unreadable { reason: String },
    /// The machine can be read again.
    Readable,
    /// An alert fired (`firing`) or ended (`resolved`).
    Alert { device: u32, rule: String, severity: &'static str, state: &'static str, summary: String },
    /// A receiver of alerts began to fail (`failing`), or works again (`ok`).
    Receiver { receiver: String, state: &'static str, reason: Option<String> },
}

#[cfg(test)]
impl EventKind {
    /// All names, for the description of the API.
    pub(crate) const NAMES: [&str; 11] =
        ["started", "appeared", "left", "state", "health", "clock", "gap", "unreadable", "readable", "alert", "receiver"];
}

impl ServiceEvent {
    /// Returns the event as in streams and documents.
    pub(crate) fn json(&self) -> Value {
        serde_json::to_value(self).expect("an event is an object of texts and numbers")
    }
}

fn rfc3339<S: Serializer>(time: &UnixTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time.rfc3339())
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
    pub(crate) fn add(&mut self, at: Duration, time: UnixTime, what: EventKind) {
        self.count += 1;
        if self.last.len() >= EVENTS_MAX {
            self.last.pop_front();
        }
        self.last.push_back(ServiceEvent { id: self.last_id(), at, time, what });
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
    use serde_json::json;

    use super::*;

    fn document(what: EventKind) -> Value {
        ServiceEvent { id: 7, at: Duration::ZERO, time: UnixTime(0), what }.json()
    }

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
            (0..events).for_each(|second| journal.add(Duration::from_secs(second), UnixTime(0), EventKind::Readable));
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
            EventKind::Clock { jump_s: 0.0 },
            EventKind::Gap { missed: 0 },
            EventKind::Unreadable { reason: text() },
            EventKind::Readable,
            EventKind::Alert { device, rule: text(), severity: "", state: "", summary: text() },
            EventKind::Receiver { receiver: text(), state: "", reason: None },
        ];
        assert_eq!(kinds.map(|kind| document(kind)["event"].clone()), EventKind::NAMES);
    }

    #[test]
    fn event_documents_name_their_kind() {
        let clock = document(EventKind::Clock { jump_s: -90.5 });
        assert_eq!(clock, json!({"id": 7, "time": "1970-01-01T00:00:00.000Z", "event": "clock", "jump_s": -90.5}));
        let readable = document(EventKind::Readable);
        assert_eq!(readable, json!({"id": 7, "time": "1970-01-01T00:00:00.000Z", "event": "readable"}));
    }
}
