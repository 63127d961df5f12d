//! Messages for webhooks and commands: one when an alert fires and one when it ends, except for silenced alerts.

use std::collections::BTreeSet;

use ttmon_model::DeviceId;
use ttmon_model::units::UnixTime;

use crate::engine::{Alert, Listing, Phase};
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

    /// Returns the alerts to send now: those that fired or ended. When a silence ends, the alerts that it silenced and that still fire are
    /// sent. If an alert was sent before it was silenced, its end is sent too.
    pub fn take(&mut self, changed: &[Alert], listing: &Listing, silences: &[Silence], now: UnixTime) -> Vec<Alert> {
        let mut messages = Vec::new();
        for alert in changed.iter().filter(|alert| alert.phase == Phase::Resolved) {
            if self.announced.remove(&(alert.rule.name.clone(), alert.device)) {
                messages.push(alert.clone());
            }
        }
        for alert in listing.firing() {
            let is_silenced = silences.iter().any(|silence| silence.covers(alert, now));
            if !is_silenced && self.announced.insert((alert.rule.name.clone(), alert.device)) {
                messages.push(alert.clone());
            }
        }
        messages
    }
}
