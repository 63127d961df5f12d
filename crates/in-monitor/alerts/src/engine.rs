//! The state of every rule on every device, from one snapshot to the next.
//!
//! ```text
//!           when            for                      clear, clear_for
//!   idle ──────────► pending ────► firing ──────────────────────────────► idle
//!          ◄──────────                 ▲──── when it is not clear again ────┘
//!           not when                     (the time for clear_for begins anew)
//! ```
//!
//! A missing value never starts an alert. For a firing alert, a missing value counts as clear, because nothing is known to be wrong.

mod listing;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ttmon_model::snapshot::Location;
use ttmon_model::units::UnixTime;
use ttmon_model::{ChipIdentity, Device, DeviceId, Snapshot};

use crate::condition::vanished;
use crate::limits::{RESOLVED_MAX, RESOLVED_SPAN};
use crate::rule::Rule;
use crate::window::Window;

pub use listing::{Alert, Listing, Phase, Saved};

/// Evaluates rules on snapshots.
#[derive(Debug)]
pub struct Engine {
    rules: Vec<Arc<Rule>>,
    /// No alert fires for this time after the first snapshot.
    grace: Duration,
    started: Option<Duration>,
    chips: BTreeMap<DeviceId, ChipAlerts>,
    resolved: VecDeque<Alert>,
    /// Alerts of an earlier run, until their devices are seen.
    saved: Vec<Saved>,
}

/// A chip, and the state of each rule for it.
#[derive(Debug)]
struct ChipAlerts {
    identity: ChipIdentity,
    is_remote: bool,
    states: Vec<RuleState>,
}

#[derive(Debug, Default)]
struct RuleState {
    status: Status,
    when: Vec<Window>,
    clear: Vec<Window>,
}

#[derive(Debug, Default)]
enum Status {
    #[default]
    Idle,
    Pending {
        since: Duration,
        alert: Alert,
    },
    Firing {
        alert: Alert,
        /// Since when the rule is clear: on the monotonic clock, and on the wall clock.
        clear: Option<(Duration, UnixTime)>,
    },
}

impl Engine {
    /// Creates an engine with these rules.
    pub fn new(rules: Vec<Rule>, grace: Duration) -> Self {
        let rules = rules.into_iter().map(Arc::new).collect();
        Self { rules, grace, started: None, chips: BTreeMap::new(), resolved: VecDeque::new(), saved: Vec::new() }
    }

    /// The rules.
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// Restores firing alerts of an earlier run, so that they are neither sent again nor lost.
    pub fn restore(&mut self, saved: Vec<Saved>) {
        self.saved = saved;
    }

    /// Evaluates a snapshot at a time of a monotonic clock. Returns the alerts that fired or ended.
    pub fn observe(&mut self, at: Duration, snapshot: &Snapshot) -> Vec<Alert> {
        let started = *self.started.get_or_insert(at);
        let may_fire = at.saturating_sub(started) >= self.grace;
        let mut changed = Vec::new();
        for device in &snapshot.devices {
            self.identify_device(device, snapshot.time, &mut changed);
        }
        for (id, chip) in &mut self.chips {
            let listed = snapshot.device(*id);
            // If a remote chip disappeared with its gateway, the alert belongs to the gateway.
            if listed.is_none() && chip.is_remote {
                continue;
            }
            let mut device = listed.cloned().unwrap_or_else(|| vanished(*id));
            chip.identity.complete(&mut device);
            let sampled = SampleTime { at, time: snapshot.time, may_fire };
            for (rule, state) in self.rules.iter().zip(&mut chip.states) {
                changed.extend(state.evaluate(rule, &device, sampled));
            }
        }
        for alert in changed.iter().filter(|alert| alert.phase == Phase::Resolved) {
            if self.resolved.len() == RESOLVED_MAX {
                self.resolved.pop_front();
            }
            self.resolved.push_back(alert.clone());
        }
        let oldest = snapshot.time.0.saturating_sub(u64::try_from(RESOLVED_SPAN.as_nanos()).unwrap_or(u64::MAX));
        self.resolved.retain(|alert| alert.resolved.is_some_and(|time| time.0 >= oldest));
        changed
    }

    /// Records the identity of a device. If another chip has the same id, the alerts of the old chip end.
    fn identify_device(&mut self, device: &Device, time: UnixTime, changed: &mut Vec<Alert>) {
        let is_remote = device.location == Location::Remote;
        if self.chips.get_mut(&device.id).is_some_and(|chip| chip.identity.meet(device)) {
            return;
        }
        let mut states: Vec<RuleState> = self.rules.iter().map(|rule| RuleState::new(rule)).collect();
        for (rule, state) in self.rules.iter().zip(&mut states) {
            if let Some(saved) = self.saved.iter().find(|saved| saved.rule == rule.name && saved.device == device.id) {
                let alert = Alert { phase: Phase::Firing, fired: Some(saved.fired), ..Alert::new(rule, device, saved.since) };
                state.status = Status::Firing { alert, clear: None };
            }
        }
        self.saved.retain(|saved| saved.device != device.id);
        let chip = ChipAlerts { identity: ChipIdentity::of(device), is_remote, states };
        for state in self.chips.insert(device.id, chip).into_iter().flat_map(|old| old.states) {
            if let Status::Firing { alert, .. } = state.status {
                changed.push(alert.ended(time));
            }
        }
    }

    /// Returns all alerts: firing first, then pending, then resolved.
    pub fn listing(&self) -> Listing {
        let current = self.chips.values().flat_map(|chip| &chip.states).filter_map(|state| match &state.status {
            Status::Idle => None,
            Status::Pending { alert, .. } | Status::Firing { alert, .. } => Some(alert),
        });
        let mut alerts: Vec<Alert> = current.chain(&self.resolved).cloned().collect();
        alerts.sort_by_key(|alert| (alert.phase, std::cmp::Reverse(alert.rule.severity), alert.rule.name.clone(), alert.device));
        Listing { alerts }
    }
}

/// The time of a snapshot, and whether alerts may fire.
#[derive(Clone, Copy, Debug)]
struct SampleTime {
    at: Duration,
    time: UnixTime,
    may_fire: bool,
}

impl RuleState {
    fn new(rule: &Rule) -> Self {
        let clear = rule.clear.as_ref().map_or_else(Vec::new, |clear| clear.windows());
        Self { status: Status::Idle, when: rule.when.windows(), clear }
    }

    fn evaluate(&mut self, rule: &Arc<Rule>, device: &Device, SampleTime { at, time, may_fire }: SampleTime) -> Option<Alert> {
        let holds = rule.when.evaluate(at, device, &mut self.when);
        let is_clear = match &rule.clear {
            // A missing value counts as clear.
            Some(clear) => clear.evaluate(at, device, &mut self.clear) != Some(false) && holds != Some(true),
            None => holds != Some(true),
        };
        if matches!(self.status, Status::Idle) && holds == Some(true) {
            self.status = Status::Pending { since: at, alert: Alert::new(rule, device, time) };
        }
        match &mut self.status {
            Status::Idle => None,
            Status::Pending { .. } if holds != Some(true) => {
                self.status = Status::Idle;
                None
            }
            Status::Pending { since, alert } => {
                alert.summary = rule.summary_of(device);
                if !may_fire || at.saturating_sub(*since) < rule.for_ {
                    return None;
                }
                let alert = Alert { phase: Phase::Firing, fired: Some(time), ..alert.clone() };
                self.status = Status::Firing { alert: alert.clone(), clear: None };
                Some(alert)
            }
            Status::Firing { alert, clear } if !is_clear => {
                alert.summary = rule.summary_of(device);
                *clear = None;
                None
            }
            Status::Firing { alert, clear } => {
                let (since, ended) = *clear.get_or_insert((at, time));
                if at.saturating_sub(since) < rule.clear_for {
                    return None;
                }
                let alert = alert.clone().ended(ended);
                self.status = Status::Idle;
                Some(alert)
            }
        }
    }
}

#[cfg(test)]
mod tests;
