//! Messages for webhooks and commands: one when an alert fires and one when it ends, except for silenced alerts.

use std::collections::BTreeSet;

use ttmon_model::DeviceId;
use ttmon_model::units::UnixTime;

use crate::engine::{Change, Event, Listing, Phase};
use crate::silence::Silence;

/// Records which alerts were sent.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    announced: BTreeSet<(String, DeviceId)>,
}

impl Outbox {
    /// Creates an outbox with alerts that an earlier run of the service sent.
    pub fn restored(announced: impl IntoIterator<Item = (String, DeviceId)>) -> Self {
        Self { announced: announced.into_iter().collect() }
    }

    /// Returns the events to send now. When a silence ends, its firing alert is sent. If an alert was sent before it was silenced, its end
    /// is sent too.
    pub fn take(&mut self, events: &[Event], listing: &Listing, silences: &[Silence], now: UnixTime) -> Vec<Event> {
        let mut told = Vec::new();
        for event in events.iter().filter(|event| event.change == Change::Resolved) {
            if self.announced.remove(&(event.alert.rule.name.clone(), event.alert.device)) {
                told.push(event.clone());
            }
        }
        for alert in listing.alerts.iter().filter(|alert| alert.phase == Phase::Firing) {
            let is_silenced = silences.iter().any(|silence| silence.covers(alert, now));
            if !is_silenced && self.announced.insert((alert.rule.name.clone(), alert.device)) {
                told.push(Event { change: Change::Fired, alert: alert.clone() });
            }
        }
        told
    }
}
