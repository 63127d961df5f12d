//! The highest use of each device, from one snapshot to the next.

use std::collections::BTreeMap;

use super::ChipIdentity;
use crate::identity::DeviceId;
use crate::memory::{Kind, PerKind};
use crate::snapshot::Snapshot;
use crate::units::UnixTime;

/// Bytes, and when.
type Peak = (u64, UnixTime);

/// The highest use of each device since this was made, as seen from one snapshot to the next.
#[derive(Debug, Default)]
pub struct Peaks(BTreeMap<DeviceId, Highest>);

#[derive(Debug)]
struct Highest {
    /// Which chip it is of.
    identity: ChipIdentity,
    kinds: PerKind<Option<Peak>>,
}

impl Peaks {
    /// Takes in a snapshot, and gives its devices their peaks.
    pub fn apply(&mut self, snapshot: &mut Snapshot) {
        for device in &snapshot.devices {
            let new = || Highest { identity: ChipIdentity::of(device), kinds: PerKind::default() };
            let highest = self.0.entry(device.id).or_insert_with(new);
            if !highest.identity.meet(device) {
                highest.kinds = PerKind::default();
            }
            for (kind, memory) in device.memory.kinds.iter().filter(|(kind, _)| has_peak(*kind)) {
                raise(&mut highest.kinds[kind], memory.figure.used.ok().map(|used| (used, snapshot.time)));
            }
        }
        // What one process had at its own peak, the device had too. Each figure is looked at once: there may be thousands.
        for use_of in snapshot.processes.iter().flat_map(|process| &process.devices) {
            let Some(highest) = self.0.get_mut(&use_of.device) else { continue };
            for (kind, figure) in use_of.kinds.iter().filter(|(kind, _)| has_peak(*kind)) {
                raise(&mut highest.kinds[kind], figure.peak.ok().zip(figure.peak_time.ok()));
            }
        }
        for device in &mut snapshot.devices {
            let Some(highest) = self.0.get(&device.id) else { continue };
            for (kind, highest) in highest.kinds.iter() {
                if let Some((peak, at)) = highest {
                    let figure = &mut device.memory.kinds[kind].figure;
                    (figure.peak, figure.peak_time) = (Ok(*peak), Ok(*at));
                }
            }
        }
    }
}

/// What belongs to programs comes and goes with them, from one look to the next: no highest that was seen would say much.
fn has_peak(kind: Kind) -> bool {
    !matches!(kind, Kind::Cb | Kind::Kernel)
}

fn raise(highest: &mut Option<Peak>, seen: Option<Peak>) {
    if seen.is_some_and(|seen| highest.is_none_or(|highest| seen.0 > highest.0)) {
        *highest = seen;
    }
}
