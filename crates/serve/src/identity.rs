//! Who a chip is: while it is away it does not say so, and is remembered.

use ttmon_model::identity::{Bdf, ChipPosition};
use ttmon_model::{Arch, Device, Reading};

/// Who a chip is, as far as it ever said.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    bdf: Reading<Bdf>,
    board: Reading<String>,
    arch: Reading<Arch>,
    chip: Reading<ChipPosition>,
    asic_id: Reading<String>,
    serial: Reading<String>,
}

impl Identity {
    /// As it says now.
    pub(crate) fn of(device: &Device) -> Self {
        Self {
            bdf: device.bdf,
            board: device.board.clone(),
            arch: device.arch,
            chip: device.chip,
            asic_id: device.asic_id.clone(),
            serial: device.serial.clone(),
        }
    }

    /// Whether a device may be this chip.
    pub(crate) fn is(&self, device: &Device) -> bool {
        agree(&self.asic_id, &device.asic_id) && agree(&self.bdf, &device.bdf)
    }

    /// Learns what a device says of itself. False when it is another chip, whose identity this is from now on.
    pub(crate) fn meet(&mut self, device: &Device) -> bool {
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

    /// Says of a device what it does not say itself.
    pub(crate) fn complete(&self, device: &mut Device) {
        complete(&mut device.bdf, &self.bdf);
        complete(&mut device.board, &self.board);
        complete(&mut device.arch, &self.arch);
        complete(&mut device.chip, &self.chip);
        complete(&mut device.asic_id, &self.asic_id);
        complete(&mut device.serial, &self.serial);
    }
}

/// Whether two devices of one id may be the same chip.
pub(crate) fn is_same(before: &Device, now: &Device) -> bool {
    agree(&before.asic_id, &now.asic_id) && agree(&before.bdf, &now.bdf)
}

/// One that is away publishes nothing: that alone makes it no other.
fn agree<T: PartialEq>(before: &Reading<T>, now: &Reading<T>) -> bool {
    before.is_err() || now.is_err() || before == now
}

/// Copied only where it is new: it hardly ever is.
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
