//! Alerts, and what happens to them.

use std::sync::Arc;

use ttmon_model::fields::{DEVICE, Value};
use ttmon_model::units::UnixTime;
use ttmon_model::{Device, DeviceId};

use crate::rule::Rule;

/// Where an alert stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// It has begun and not ended.
    Firing,
    /// Its condition holds, not yet for long enough.
    Pending,
    /// It has ended a while ago.
    Resolved,
}

impl Phase {
    /// The word in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Firing => "firing",
            Self::Pending => "pending",
            Self::Resolved => "resolved",
        }
    }
}

/// A rule that holds for a device, or did.
#[derive(Clone, Debug, PartialEq)]
pub struct Alert {
    /// The rule.
    pub rule: Arc<Rule>,
    /// The device.
    pub device: DeviceId,
    /// What identifies its chip, where it is known: `bdf`, `board`, `asic_id`.
    pub chip: Vec<(&'static str, String)>,
    /// Where it stands.
    pub phase: Phase,
    /// Since when the condition holds.
    pub since: UnixTime,
    /// When it fired.
    pub fired: Option<UnixTime>,
    /// When it ended.
    pub resolved: Option<UnixTime>,
    /// What is wrong, with the values of the newest snapshot in which it was.
    pub summary: String,
}

/// Labels of a chip; the service's metrics have the same ones.
const CHIP: [&str; 3] = ["bdf", "board", "asic_id"];

impl Alert {
    /// One that begins.
    pub fn new(rule: &Arc<Rule>, device: &Device, since: UnixTime) -> Self {
        let value = |name: &'static str| match DEVICE.iter().find(|field| field.name == name).map(|field| (field.get)(device)) {
            Some(Ok(Value::Text(text))) => Some((name, text)),
            _ => None,
        };
        Self {
            rule: Arc::clone(rule),
            device: device.id,
            chip: CHIP.into_iter().filter_map(value).collect(),
            phase: Phase::Pending,
            since,
            fired: None,
            resolved: None,
            summary: rule.summary_of(device),
        }
    }

    pub(super) fn ended(self, time: UnixTime) -> Self {
        Self { phase: Phase::Resolved, resolved: Some(time), ..self }
    }
}

/// What happened to an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It fired.
    Fired,
    /// It ended.
    Resolved,
}

/// An alert that fired or ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Which of them.
    pub change: Change,
    /// The alert.
    pub alert: Alert,
}

/// All alerts at one time: firing first, then pending, then those that ended within the last quarter of an hour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// The alerts.
    pub alerts: Vec<Alert>,
}

impl Listing {
    /// Those that fire.
    pub fn firing(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.iter().filter(|alert| alert.phase == Phase::Firing)
    }

    /// What the next run of the service takes over.
    pub fn saved(&self) -> Vec<Saved> {
        let saved =
            |alert: &Alert| Some(Saved { rule: alert.rule.name.clone(), device: alert.device, since: alert.since, fired: alert.fired? });
        self.firing().filter_map(saved).collect()
    }
}

/// A firing alert, as the next run of the service needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The rule's name.
    pub rule: String,
    /// The device.
    pub device: DeviceId,
    /// Since when the condition holds.
    pub since: UnixTime,
    /// When it fired.
    pub fired: UnixTime,
}
