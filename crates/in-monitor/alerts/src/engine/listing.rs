//! Alerts and their changes.

use std::sync::Arc;

use ttmon_model::fields::{DEVICE, Value};
use ttmon_model::units::UnixTime;
use ttmon_model::{Device, DeviceId};

use crate::rule::Rule;

ttmon_model::named! {
    /// The phase of an alert.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Phase {
        /// The alert has fired and not ended.
        Firing = "firing",
        /// The condition is true, but not yet long enough.
        Pending = "pending",
        /// The alert ended recently.
        Resolved = "resolved",
    }
}

/// An alert of a rule for a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Alert {
    /// The rule.
    pub rule: Arc<Rule>,
    /// The device.
    pub device: DeviceId,
    /// Labels that identify its chip, if known: `bdf`, `board`, `asic_id`.
    pub chip: Vec<(&'static str, String)>,
    /// The phase.
    pub phase: Phase,
    /// Since when the condition is true.
    pub since: UnixTime,
    /// When the alert fired.
    pub fired: Option<UnixTime>,
    /// When the alert ended.
    pub resolved: Option<UnixTime>,
    /// Description with the values of the newest snapshot in which the condition was true.
    pub summary: String,
}

/// Labels of a chip, as in the service's metrics.
const CHIP: [&str; 3] = ["bdf", "board", "asic_id"];

impl Alert {
    /// Creates a new alert.
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

/// All alerts at one time: firing first, then pending, then those that ended within the last 15 minutes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// The alerts.
    pub alerts: Vec<Alert>,
}

impl Listing {
    /// Returns the firing alerts.
    pub fn firing(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.iter().filter(|alert| alert.phase == Phase::Firing)
    }

    /// Returns the alerts that the next run of the service restores.
    pub fn saved(&self) -> Vec<Saved> {
        let saved =
            |alert: &Alert| Some(Saved { rule: alert.rule.name.clone(), device: alert.device, since: alert.since, fired: alert.fired? });
        self.firing().filter_map(saved).collect()
    }
}

/// A firing alert in the form that the next run of the service restores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The rule's name.
    pub rule: String,
    /// The device.
    pub device: DeviceId,
    /// Since when the condition is true.
    pub since: UnixTime,
    /// When the alert fired.
    pub fired: UnixTime,
}
