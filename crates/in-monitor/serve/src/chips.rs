//! Stores facts about each chip between samples: its identity, when it last answered, and how much it was used.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ttmon_model::identity::ProcessKey;
use ttmon_model::snapshot::Status;
use ttmon_model::{ChipIdentity, Device, DeviceId, Snapshot};

/// All chips that were ever listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chips(BTreeMap<DeviceId, LastAnswer>);

#[derive(Clone, Debug)]
struct LastAnswer {
    identity: ChipIdentity,
    answered: Duration,
    usage: Usage,
}

/// How much a device was used since the service started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    /// Time in which at least one process had the device open.
    pub(crate) held: Duration,
    /// Number of processes that opened the device, without those that had it open at the start.
    pub(crate) acquisitions: u64,
    /// The time of the last sample and the holders at that time.
    last: Option<(Duration, Holders)>,
}

#[derive(Clone, Debug, Default)]
struct Holders {
    named: BTreeSet<ProcessKey>,
    hidden: u64,
}

impl Usage {
    fn record(&mut self, at: Duration, device: &Device, snapshot: &Snapshot) {
        // If the holders are unknown, nothing is added for this sample or the next.
        if device.memory.holders.is_err() {
            self.last = None;
            return;
        }
        let is_alive = |status: Status| status != Status::Dead;
        let named = snapshot.processes_on(device.id).filter(|(process, _)| is_alive(process.status)).map(|(process, _)| process.key);
        let holders = Holders { named: named.collect(), hidden: device.memory.hidden_processes };
        if let Some((before, last)) = &self.last {
            if last.hidden > 0 || !last.named.is_empty() {
                self.held += at.saturating_sub(*before);
            }
            let new = holders.named.difference(&last.named).count() as u64;
            self.acquisitions += new + holders.hidden.saturating_sub(last.hidden);
        }
        self.last = Some((at, holders));
    }
}

impl Chips {
    pub(crate) fn record(&mut self, at: Duration, snapshot: &Snapshot) {
        for device in &snapshot.devices {
            let new = || LastAnswer { identity: ChipIdentity::of(device), answered: at, usage: Usage::default() };
            let known = self.0.entry(device.id).or_insert_with(new);
            if !known.identity.meet(device) || !device.is_silent() {
                known.answered = at;
            }
            known.usage.record(at, device, snapshot);
        }
    }

    pub(crate) fn usage(&self, device: DeviceId) -> Option<&Usage> {
        self.0.get(&device).map(|known| &known.usage)
    }

    /// Returns the device. If it does not report its identity (in a reset, or while its files hang), the last known identity is added.
    pub(crate) fn identified(&self, device: &Device) -> Device {
        let mut device = device.clone();
        if let Some(known) = self.0.get(&device.id).filter(|known| known.identity.is(&device)) {
            known.identity.complete(&mut device);
        }
        device
    }

    /// Returns a listed chip that has not answered for longer than this, and for how long.
    pub(crate) fn silent(&self, at: Duration, snapshot: &Snapshot, longer_than: Duration) -> Option<(DeviceId, Duration)> {
        let silences = snapshot.devices.iter().filter(|device| device.is_silent()).filter_map(|device| {
            let known = self.0.get(&device.id)?;
            Some((device.id, at.saturating_sub(known.answered)))
        });
        silences.filter(|(_, silence)| *silence > longer_than).max_by_key(|(_, silence)| *silence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::machine;
    use ttmon_model::Missing;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn hanging(mut snapshot: Snapshot, index: usize) -> Snapshot {
        let device = &mut snapshot.devices[index];
        (device.temperature, device.power) = (Err(Missing::Timeout), Err(Missing::Timeout));
        (device.aiclk_mhz, device.heartbeat) = (Err(Missing::Timeout), Err(Missing::NotExposed));
        snapshot
    }

    #[test]
    fn a_hung_chip_is_reported_after_a_while() {
        let mut chips = Chips::default();
        let (well, ill) = (machine(), hanging(machine(), 1));
        let silent = |chips: &Chips, at, snapshot| chips.silent(seconds(at), snapshot, seconds(5));
        chips.record(seconds(100), &well);
        for at in 101..106 {
            chips.record(seconds(at), &ill);
        }
        assert_eq!(silent(&chips, 105, &ill), None);
        assert_eq!(silent(&chips, 106, &ill), Some((ill.devices[1].id, seconds(6))));
        chips.record(seconds(107), &well);
        assert_eq!(silent(&chips, 107, &well), None);
        // A value that the driver does not publish is not silence.
        let mut mute = well.clone();
        (mute.devices[0].temperature, mute.devices[0].power) = (Err(Missing::NotExposed), Err(Missing::NotExposed));
        (mute.devices[0].aiclk_mhz, mute.devices[0].heartbeat) = (Err(Missing::NotExposed), Err(Missing::NotExposed));
        chips.record(seconds(120), &mute);
        assert_eq!(silent(&chips, 200, &mute), None);
    }

    #[test]
    fn held_time_and_acquisitions_add_up() {
        let mut chips = Chips::default();
        let held = machine();
        let device = held.devices.iter().find(|device| held.processes_on(device.id).next().is_some()).expect("one in use").id;
        let mut idle = held.clone();
        idle.processes.clear();
        for of_idle in &mut idle.devices {
            (of_idle.memory.holders, of_idle.memory.hidden_processes) = (Ok(0), 0);
        }
        let mut unknown = idle.clone();
        unknown.devices.iter_mut().for_each(|device| device.memory.holders = Err(Missing::Timeout));
        let usage = |chips: &Chips| chips.usage(device).map(|usage| (usage.held, usage.acquisitions)).expect("it is known");
        let count = held.processes_on(device).filter(|(process, _)| process.status != Status::Dead).count() as u64;
        chips.record(seconds(10), &held);
        assert_eq!(usage(&chips), (seconds(0), 0), "those who were there first are not counted");
        chips.record(seconds(12), &held);
        chips.record(seconds(13), &idle);
        assert_eq!(usage(&chips), (seconds(3), 0));
        chips.record(seconds(15), &held);
        assert_eq!(usage(&chips), (seconds(3), count));
        chips.record(seconds(16), &unknown);
        chips.record(seconds(60), &held);
        assert_eq!(usage(&chips), (seconds(3), count), "a gap counts for nothing");
    }

    #[test]
    fn the_identity_of_a_chip_stays_until_another_replaces_it() {
        let mut chips = Chips::default();
        let snapshot = machine();
        chips.record(seconds(1), &snapshot);
        let mut away = snapshot.clone();
        let device = &mut away.devices[0];
        (device.asic_id, device.serial, device.board) = (Err(Missing::Resetting), Err(Missing::Resetting), Err(Missing::Timeout));
        (device.arch, device.chip) = (Err(Missing::Timeout), Err(Missing::Timeout));
        let who = |device: &Device| (device.asic_id.clone(), device.serial.clone(), device.board.clone(), device.arch, device.chip);
        for at in 2..4 {
            assert_eq!(who(&chips.identified(&away.devices[0])), who(&snapshot.devices[0]));
            chips.record(seconds(at), &away);
        }
        let mut other = away.clone();
        other.devices[0].asic_id = Ok("00000000DEADBEEF".to_owned());
        chips.record(seconds(4), &other);
        assert_eq!(chips.identified(&other.devices[0]).serial, Err(Missing::Resetting));
    }
}
