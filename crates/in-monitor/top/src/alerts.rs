//! Alerts of a machine, shown in the status line with their time: alerts of the rules, and events that are not in a snapshot.

use std::collections::VecDeque;
use std::time::Duration;

use ttmon_alerts::{Engine, Phase, Rule, builtin};
use ttmon_model::Snapshot;
use ttmon_model::snapshot::Severity;
use ttmon_model::units::UnixTime;
use ttmon_print::quantity::age;

const ALERTS_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Alert {
    pub(crate) time: UnixTime,
    pub(crate) severity: Severity,
    pub(crate) text: String,
}

#[derive(Debug)]
pub(crate) struct Alerts {
    list: VecDeque<Alert>,
    engine: Engine,
}

impl Default for Alerts {
    fn default() -> Self {
        Self::new(builtin())
    }
}

impl Alerts {
    /// Creates an empty list with these rules. There is no grace period at the start, so that users see problems at once.
    pub(crate) fn new(rules: Vec<Rule>) -> Self {
        Self { list: VecDeque::new(), engine: Engine::new(rules, Duration::ZERO) }
    }

    pub(crate) fn emptied(&self) -> Self {
        Self::new(self.engine.rules().iter().map(|rule| rule.as_ref().clone()).collect())
    }

    /// The alerts, newest last.
    pub(crate) fn list(&self) -> &VecDeque<Alert> {
        &self.list
    }

    pub(crate) fn note(&mut self, time: UnixTime, severity: Severity, text: String) {
        if self.list.len() == ALERTS_MAX {
            self.list.pop_front();
        }
        self.list.push_back(Alert { time, severity, text });
    }

    /// Evaluates the rules on a snapshot. Returns whether an alert fired.
    pub(crate) fn watch(&mut self, snapshot: &Snapshot) -> bool {
        let mut changed = self.engine.observe(Duration::from_nanos(snapshot.time.0), snapshot);
        // The list is shown from its end. Among alerts of the same time, the most severe is shown first, then the first device.
        changed.sort_by_key(|alert| (severity(alert), std::cmp::Reverse(alert.device)));
        for alert in &changed {
            self.note(snapshot.time, severity(alert), message(alert));
        }
        changed.iter().any(|alert| alert.phase == Phase::Firing)
    }
}

fn severity(alert: &ttmon_alerts::Alert) -> Severity {
    match (alert.phase, alert.rule.severity) {
        (Phase::Resolved, _) | (_, ttmon_alerts::Severity::Info) => Severity::Fine,
        (_, ttmon_alerts::Severity::Warning) => Severity::Warning,
        (_, ttmon_alerts::Severity::Critical) => Severity::Critical,
    }
}

fn message(alert: &ttmon_alerts::Alert) -> String {
    match alert.resolved {
        Some(end) => format!("device {} {} resolved after {}", alert.device, alert.rule.name, age(alert.since, end)),
        None => {
            // The name of the rule already says it.
            let summary = alert.summary.strip_prefix("cannot be read: ").unwrap_or(&alert.summary);
            format!("device {} {}: {summary}", alert.device, alert.rule.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::machine;
    use ttmon_model::snapshot::State;

    fn texts(alerts: &Alerts) -> Vec<String> {
        alerts.list().iter().map(|alert| alert.text.clone()).collect()
    }

    #[test]
    fn a_machine_in_trouble_is_reported_once() {
        let mut alerts = Alerts::default();
        assert!(alerts.watch(&machine::troubled()));
        let first = texts(&alerts);
        assert!(first.iter().any(|text| text == "device 0 reset: the chip is being reset"), "{first:?}");
        assert!(first.iter().any(|text| text == "device 1 gone: unplugged, unbound, or the driver was unloaded"), "{first:?}");
        assert!(first.iter().any(|text| text == "device 4 hot: temperature 105 °C of 95 °C"), "{first:?}");
        assert!(!alerts.watch(&machine::troubled()));
        assert_eq!(texts(&alerts), first);
        assert_eq!((texts(&alerts.emptied()).len(), alerts.emptied().engine.rules().len()), (0, builtin().len()));
    }

    #[test]
    fn a_resolved_alert_has_its_duration() {
        let mut alerts = Alerts::default();
        let mut snapshot = machine::n300();
        let mut step = |state, seconds: u64| {
            for _ in 0..seconds {
                snapshot.devices[0].state = state;
                snapshot.time = UnixTime(snapshot.time.0 + 1_000_000_000);
                alerts.watch(&snapshot);
            }
        };
        step(State::Ok, 1);
        step(State::Resetting, 4);
        step(State::Ok, 12);
        assert_eq!(texts(&alerts), ["device 0 reset: the chip is being reset", "device 0 reset resolved after 4s"]);
    }

    /// The alert and its end belong to the gateway.
    #[test]
    fn a_remote_chip_has_no_alert_of_its_gateway() {
        let mut alerts = Alerts::default();
        let mut snapshot = machine::n300();
        alerts.watch(&snapshot);
        snapshot.devices[0].state = State::Gone;
        snapshot.devices[1].state = State::Gone;
        alerts.watch(&snapshot);
        assert_eq!(texts(&alerts), ["device 0 gone: unplugged, unbound, or the driver was unloaded"]);
    }
}
