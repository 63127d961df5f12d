//! The highest use of each device over a series of snapshots.

use std::collections::BTreeMap;

use super::ChipIdentity;
use crate::identity::DeviceId;
use crate::memory::{Kind, PerKind};
use crate::snapshot::Snapshot;
use crate::units::UnixTime;

/// Bytes, and the time of the peak.
type Peak = (u64, UnixTime);

/// The highest use of each device since creation, over a series of snapshots.
#[derive(Debug, Default)]
pub struct Peaks(BTreeMap<DeviceId, Highest>);

#[derive(Debug)]
struct Highest {
    /// The identity of the chip.
    identity: ChipIdentity,
    kinds: PerKind<Option<Peak>>,
}

impl Peaks {
    /// Adds a snapshot, and sets the peaks of its devices.
    pub fn apply(&mut self, snapshot: &mut Snapshot) {
        for device in &snapshot.devices {
            let new = || Highest { identity: ChipIdentity::of(device), kinds: PerKind::default() };
            let highest = self.0.entry(device.id).or_insert_with(new);
            if !highest.identity.meet(device) {
                highest.kinds = PerKind::default();
            }
            for (kind, memory) in device.memory.kinds.iter().filter(|(kind, _)| has_peak(*kind)) {
                // An unknown figure raises no peak.
                raise(&mut highest.kinds[kind], memory.figure.used.ok().map(|used| (used, snapshot.time)));
            }
        }
        // The peak of a process is a lower bound for the peak of the device. Each figure is read only once, because there may be thousands.
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

/// Returns whether a kind has a peak. Kernels and circular buffers appear and vanish with programs between samples, so their highest sample
/// has little meaning.
fn has_peak(kind: Kind) -> bool {
    !matches!(kind, Kind::Cb | Kind::Kernel)
}

fn raise(highest: &mut Option<Peak>, seen: Option<Peak>) {
    if seen.is_some_and(|seen| highest.is_none_or(|highest| seen.0 > highest.0)) {
        *highest = seen;
    }
}
