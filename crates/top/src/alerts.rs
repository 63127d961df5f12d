//! What changed for the worse, or back: told in the status line with its time, from the health rules alone.

use std::collections::{BTreeMap, VecDeque};

use ttmon_model::snapshot::{Device, Health, State};
use ttmon_model::units::UnixTime;
use ttmon_model::{DeviceId, Snapshot};
use ttmon_print::quantity::age;

/// The oldest go when there are more.
const ALERTS_MAX: usize = 100;
/// Memory is nearly full from here on, and no longer so below the second: no flicker at the edge.
const FULL_RATIO: (f64, f64) = (0.95, 0.90);

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Grade {
    Good,
    Warning,
    Critical,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Alert {
    pub(crate) time: UnixTime,
    pub(crate) grade: Grade,
    pub(crate) text: String,
}

/// What happened so far, and how things stood last.
#[derive(Debug, Default)]
pub(crate) struct Alerts {
    list: VecDeque<Alert>,
    last: BTreeMap<DeviceId, Standing>,
}

#[derive(Clone, Debug)]
struct Standing {
    state: State,
    health: Health,
    is_full: bool,
    /// Since when it is not ok.
    since: UnixTime,
}

impl Alerts {
    /// Newest last.
    pub(crate) fn list(&self) -> &VecDeque<Alert> {
        &self.list
    }

    /// Something that no snapshot tells.
    pub(crate) fn note(&mut self, time: UnixTime, grade: Grade, text: String) {
        if self.list.len() == ALERTS_MAX {
            self.list.pop_front();
        }
        self.list.push_back(Alert { time, grade, text });
    }

    /// Compares with how things stood. Returns whether something got worse.
    pub(crate) fn watch(&mut self, snapshot: &Snapshot) -> bool {
        let mut new: Vec<(Grade, String)> = Vec::new();
        let mut add = |grade: Grade, text: String| new.push((grade, text));
        let gone: Vec<DeviceId> = self.last.keys().copied().filter(|id| snapshot.device(*id).is_none()).collect();
        for id in gone {
            add(Grade::Critical, format!("device {id} is no longer there"));
            self.last.remove(&id);
        }
        for device in &snapshot.devices {
            let before = self.last.get(&device.id);
            let ratio = device.memory.dram.ratio().unwrap_or(0.0);
            let was_full = before.is_some_and(|before| before.is_full);
            let is_full = ratio >= if was_full { FULL_RATIO.1 } else { FULL_RATIO.0 };
            compare_state(device, before, snapshot.time, &mut add);
            compare_health(device, before, &mut add);
            if is_full && !was_full {
                add(Grade::Warning, format!("device {} DRAM nearly full: {:.0}%", device.id, ratio * 100.0));
            }
            let is_same = before.is_some_and(|before| before.state == device.state);
            let since = before.filter(|_| is_same).map_or(snapshot.time, |before| before.since);
            self.last.insert(device.id, Standing { state: device.state, health: device.health, is_full, since });
        }
        // The list is read from its end: of one moment the worst comes first there, then the first device.
        new.reverse();
        new.sort_by_key(|(grade, _)| *grade);
        let is_worse = new.iter().any(|(grade, _)| *grade > Grade::Good);
        for (grade, text) in new {
            self.note(snapshot.time, grade, text);
        }
        is_worse
    }
}

fn compare_state(device: &Device, before: Option<&Standing>, now: UnixTime, add: &mut impl FnMut(Grade, String)) {
    let was = before.map_or(State::Ok, |before| before.state);
    if was == device.state {
        return;
    }
    // A chip that is reached through another one has its state.
    if device.via.is_ok() {
        return;
    }
    let id = device.id;
    let why = device.reasons().unwrap_or_else(|| device.state.name().to_owned());
    match device.state {
        State::Resetting | State::Starting => add(Grade::Warning, format!("device {id}: {why}")),
        State::Gone | State::Unreadable => add(Grade::Critical, format!("device {id}: {why}")),
        State::Ok if matches!(was, State::Starting | State::Resetting | State::Gone | State::Unreadable) => {
            let after = before.map_or_else(String::new, |before| format!(" after {}", age(before.since, now)));
            add(Grade::Good, format!("device {id} is back{after}"));
        }
        State::Ok | State::Unknown => {}
    }
}

fn compare_health(device: &Device, before: Option<&Standing>, add: &mut impl FnMut(Grade, String)) {
    let was = before.map_or(Health::Ok, |before| before.health);
    if device.health <= was && device.health != Health::Ok || device.health == was {
        return;
    }
    let why = device.reasons().map_or_else(String::new, |reasons| format!(": {reasons}"));
    match device.health {
        Health::Critical => add(Grade::Critical, format!("device {} critical{why}", device.id)),
        Health::Warning => add(Grade::Warning, format!("device {} warning{why}", device.id)),
        Health::Ok if was > Health::Ok => add(Grade::Good, format!("device {} is well again", device.id)),
        Health::Ok | Health::Unknown => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::machine;

    fn texts(alerts: &Alerts) -> Vec<String> {
        alerts.list().iter().map(|alert| alert.text.clone()).collect()
    }

    #[test]
    fn a_machine_in_trouble_is_told_once() {
        let mut alerts = Alerts::default();
        assert!(alerts.watch(&machine::troubled()));
        let first = texts(&alerts);
        assert!(first.iter().any(|text| text == "device 0: the chip is being reset"), "{first:?}");
        assert!(first.iter().any(|text| text == "device 1: unplugged, unbound, or the driver was unloaded"), "{first:?}");
        assert!(first.iter().any(|text| text.starts_with("device 4 critical: temperature 105")), "{first:?}");
        assert!(!alerts.watch(&machine::troubled()));
        assert_eq!(texts(&alerts), first);
    }

    #[test]
    fn what_comes_back_says_after_how_long() {
        let mut alerts = Alerts::default();
        let mut snapshot = machine::n300();
        let mut step = |state, seconds: u64| {
            snapshot.devices[0].state = state;
            snapshot.time = UnixTime(snapshot.time.0 + seconds * 1_000_000_000);
            alerts.watch(&snapshot);
        };
        step(State::Ok, 1);
        step(State::Resetting, 1);
        step(State::Resetting, 1);
        step(State::Ok, 3);
        step(State::Starting, 1);
        step(State::Ok, 2);
        assert_eq!(
            texts(&alerts),
            ["device 0: resetting", "device 0 is back after 4s", "device 0: starting", "device 0 is back after 2s"],
            "the state's name where there is no reason"
        );
    }

    /// Its gateway has the alert, and the return.
    #[test]
    fn a_remote_chip_has_no_alert_of_its_gateway() {
        let mut alerts = Alerts::default();
        let mut snapshot = machine::n300();
        alerts.watch(&snapshot);
        snapshot.devices[0].state = State::Gone;
        snapshot.devices[1].state = State::Gone;
        alerts.watch(&snapshot);
        assert_eq!(texts(&alerts), ["device 0: gone"]);
    }
}
