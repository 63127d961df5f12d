//! The identity of a chip. It is stored, because a chip that is being reset or is unplugged does not publish it.

use crate::fields::{DEVICE, Field, Value};
use crate::missing::Reading;
use crate::snapshot::Device;

/// The fields that identify a chip.
const FIELDS: [&str; 6] = ["asic_id", "bdf", "board", "arch", "chip", "serial"];

/// How many of the [`FIELDS`] tell one chip from another. Several chips may have the same board.
const DISTINCT: usize = 2;

/// The identity of a chip, with every value that was ever published, in the order of `FIELDS`.
#[derive(Clone, Debug)]
pub struct ChipIdentity([Reading<Value>; FIELDS.len()]);

fn rows() -> [&'static Field<Device>; FIELDS.len()] {
    FIELDS.map(|name| DEVICE.iter().find(|row| row.name == name).expect("a field of devices"))
}

impl ChipIdentity {
    /// Returns the identity that a device publishes now.
    pub fn of(device: &Device) -> Self {
        Self(rows().map(|row| (row.get)(device)))
    }

    /// Returns whether a device may be this chip.
    pub fn is(&self, device: &Device) -> bool {
        self.agrees(&Self::of(device))
    }

    /// Adds the values that a device publishes. Returns false if the device is another chip, and then replaces the identity by that chip's.
    pub fn meet(&mut self, device: &Device) -> bool {
        let now = Self::of(device);
        let is_same = self.agrees(&now);
        for (known, now) in self.0.iter_mut().zip(now.0) {
            if now.is_ok() || !is_same {
                *known = now;
            }
        }
        is_same
    }

    /// Fills in the values that a device does not publish.
    pub fn complete(&self, device: &mut Device) {
        for (row, known) in rows().into_iter().zip(&self.0) {
            if (row.get)(device).is_err() {
                (row.set)(device, known.clone());
            }
        }
    }

    /// Returns whether two identities do not contradict each other. A missing reading contradicts nothing.
    fn agrees(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).take(DISTINCT).all(|(one, other)| one.is_err() || other.is_err() || one == other)
    }
}

impl Device {
    /// Returns whether two devices with the same id may be the same chip.
    pub fn may_be(&self, other: &Self) -> bool {
        ChipIdentity::of(self).is(other)
    }
}
