//! What is remembered of each chip: who it is, while it does not say so, and when it last answered.

use std::collections::BTreeMap;
use std::time::Duration;

use ttmon_model::{ChipIdentity, Device, DeviceId, Snapshot};

/// All chips that were ever listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chips(BTreeMap<DeviceId, LastAnswer>);

#[derive(Clone, Debug)]
struct LastAnswer {
    identity: ChipIdentity,
    answered: Duration,
}

impl Chips {
    /// Takes in a look at a moment.
    pub(crate) fn take_in(&mut self, at: Duration, snapshot: &Snapshot) {
        for device in &snapshot.devices {
            let known = self.0.entry(device.id).or_insert_with(|| LastAnswer { identity: ChipIdentity::of(device), answered: at });
            if !known.identity.meet(device) || !device.is_silent() {
                known.answered = at;
            }
        }
    }

    /// The device, with its identity as it was known last where it does not say it itself: in a reset, or while its files hang.
    pub(crate) fn identified(&self, device: &Device) -> Device {
        let mut device = device.clone();
        if let Some(known) = self.0.get(&device.id).filter(|known| known.identity.is(&device)) {
            known.identity.complete(&mut device);
        }
        device
    }

    /// A listed chip that has not answered for longer than this, and for how long.
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
    fn a_chip_that_hangs_is_told_after_a_while() {
        let mut chips = Chips::default();
        let (well, ill) = (machine(), hanging(machine(), 1));
        let silent = |chips: &Chips, at, snapshot| chips.silent(seconds(at), snapshot, seconds(5));
        chips.take_in(seconds(100), &well);
        for at in 101..106 {
            chips.take_in(seconds(at), &ill);
        }
        assert_eq!(silent(&chips, 105, &ill), None);
        assert_eq!(silent(&chips, 106, &ill), Some((ill.devices[1].id, seconds(6))));
        chips.take_in(seconds(107), &well);
        assert_eq!(silent(&chips, 107, &well), None);
        // What only was not published is no silence.
        let mut mute = well.clone();
        (mute.devices[0].temperature, mute.devices[0].power) = (Err(Missing::NotExposed), Err(Missing::NotExposed));
        (mute.devices[0].aiclk_mhz, mute.devices[0].heartbeat) = (Err(Missing::NotExposed), Err(Missing::NotExposed));
        chips.take_in(seconds(120), &mute);
        assert_eq!(silent(&chips, 200, &mute), None);
    }

    #[test]
    fn who_a_chip_is_stays_until_another_takes_its_place() {
        let mut chips = Chips::default();
        let snapshot = machine();
        chips.take_in(seconds(1), &snapshot);
        let mut away = snapshot.clone();
        let device = &mut away.devices[0];
        (device.asic_id, device.serial, device.board) = (Err(Missing::Resetting), Err(Missing::Resetting), Err(Missing::Timeout));
        (device.arch, device.chip) = (Err(Missing::Timeout), Err(Missing::Timeout));
        let who = |device: &Device| (device.asic_id.clone(), device.serial.clone(), device.board.clone(), device.arch, device.chip);
        for at in 2..4 {
            assert_eq!(who(&chips.identified(&away.devices[0])), who(&snapshot.devices[0]));
            chips.take_in(seconds(at), &away);
        }
        let mut other = away.clone();
        other.devices[0].asic_id = Ok("00000000DEADBEEF".to_owned());
        chips.take_in(seconds(4), &other);
        assert_eq!(chips.identified(&other.devices[0]).serial, Err(Missing::Resetting));
    }
}
