//! The identity of a chip. It is stored, because a chip that is being reset or is unplugged does not publish it.

use crate::identity::{Bdf, ChipPosition};
use crate::missing::Reading;
use crate::product::Arch;
use crate::snapshot::Device;

/// The identity of a chip, with every value that was ever published.
#[derive(Clone, Debug)]
pub struct ChipIdentity {
    bdf: Reading<Bdf>,
    board: Reading<String>,
    arch: Reading<Arch>,
    chip: Reading<ChipPosition>,
    asic_id: Reading<String>,
    serial: Reading<String>,
}

impl ChipIdentity {
    /// Returns the identity that a device publishes now.
    pub fn of(device: &Device) -> Self {
        Self {
            bdf: device.bdf,
            board: device.board.clone(),
            arch: device.arch,
            chip: device.chip,
            asic_id: device.asic_id.clone(),
            serial: device.serial.clone(),
        }
    }

    /// Returns whether a device may be this chip.
    pub fn is(&self, device: &Device) -> bool {
        agree(&self.asic_id, &device.asic_id) && agree(&self.bdf, &device.bdf)
    }

    /// Adds the values that a device publishes. Returns false if the device is another chip, and then replaces the identity by that chip's.
    pub fn meet(&mut self, device: &Device) -> bool {
        if !self.is(device) {
            *self = Self::of(device);
            return false;
        }
        learn(&mut self.bdf, &device.bdf);
        learn(&mut self.board, &device.board);
        learn(&mut self.arch, &device.arch);
        learn(&mut self.chip, &device.chip);
        learn(&mut self.asic_id, &device.asic_id);
        learn(&mut self.serial, &device.serial);
        true
    }

    /// Fills in the values that a device does not publish.
    pub fn complete(&self, device: &mut Device) {
        complete(&mut device.bdf, &self.bdf);
        complete(&mut device.board, &self.board);
        complete(&mut device.arch, &self.arch);
        complete(&mut device.chip, &self.chip);
        complete(&mut device.asic_id, &self.asic_id);
        complete(&mut device.serial, &self.serial);
    }
}

impl Device {
    /// Returns whether two devices with the same id may be the same chip.
    pub fn may_be(&self, other: &Self) -> bool {
        agree(&self.asic_id, &other.asic_id) && agree(&self.bdf, &other.bdf)
    }
}

/// Returns whether two readings do not contradict each other. A missing reading contradicts nothing.
fn agree<T: PartialEq>(before: &Reading<T>, now: &Reading<T>) -> bool {
    before.is_err() || now.is_err() || before == now
}

/// Stores a new value. Values rarely change, so the copy is rare.
fn learn<T: Clone + PartialEq>(known: &mut Reading<T>, said: &Reading<T>) {
    if said.is_ok() && known != said {
        known.clone_from(said);
    }
}

fn complete<T: Clone>(said: &mut Reading<T>, known: &Reading<T>) {
    if said.is_err() {
        said.clone_from(known);
    }
}
