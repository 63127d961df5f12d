//! The history of each device in memory: one hour in seconds, one day in minutes.
//!
//! A ring has a slot for every step of time, and a column of integers for every field of a device that ever had a value. A slot without a
//! sample is a gap: a value is never carried over. Slots are counted on the monotonic clock, so that setting the wall clock changes only
//! the displayed times.

mod column;
mod query;
mod ring;

use std::time::Duration;

use ttmon_model::fields::{DeviceField, Value};
use ttmon_model::units::Unit;
use ttmon_model::{ChipIdentity, Device, DeviceId, Snapshot};

use column::Column;
pub(crate) use query::Query;
use ring::Ring;

/// Time span of the fine ring.
const FINE_SPAN: Duration = Duration::from_secs(3600);
/// Its shortest step.
const FINE_STEP_MIN: Duration = Duration::from_secs(1);
/// Time span of the coarse ring.
const COARSE_SPAN: Duration = Duration::from_secs(24 * 3600);
/// Its shortest step.
const COARSE_STEP_MIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct History {
    fields: Vec<DeviceField>,
    fine: Ring,
    coarse: Ring,
    /// The devices, in the order of the rings.
    devices: Vec<(DeviceId, ChipIdentity)>,
    /// The current slots and their values so far, because several samples may be in one slot.
    filling_fine: Filling,
    filling_coarse: Filling,
}

/// A slot of a ring and its values so far, by device and field.
#[derive(Debug, Default)]
struct Filling {
    slot: Option<u64>,
    sums: Vec<Vec<Sum>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    total: i128,
    count: i128,
}

impl History {
    pub(crate) fn new(interval: Duration) -> Self {
        let fine = Ring::new(interval.max(FINE_STEP_MIN), FINE_SPAN);
        let coarse = Ring::new(interval.max(COARSE_STEP_MIN), COARSE_SPAN);
        let fields = DeviceField::all().filter(|field| field.is_kept).collect();
        Self { fields, fine, coarse, devices: Vec::new(), filling_fine: Filling::default(), filling_coarse: Filling::default() }
    }

    /// Adds a sample at its planned time, so that a slightly late sampler leaves no gap.
    pub(crate) fn add(&mut self, at: Duration, snapshot: &Snapshot) {
        let coarse_slot = self.coarse.slot(at);
        if let Some(over) = self.filling_coarse.slot.replace(coarse_slot).filter(|filling| *filling != coarse_slot) {
            self.close_coarse(over);
        }
        let slot = self.fine.slot(at);
        if self.filling_fine.slot.replace(slot) != Some(slot) {
            self.filling_fine.clear();
        }
        self.fine.advance(slot);
        for device in &snapshot.devices {
            let index = self.index_of(device);
            for field in 0..self.fields.len() {
                let value = scaled(&self.fields[field], device);
                if let Some(value) = value {
                    self.filling_coarse.sums[index][field].add(value);
                    let sum = &mut self.filling_fine.sums[index][field];
                    sum.add(value);
                    if let Some(mean) = sum.mean() {
                        self.fine.store(index, field, slot, mean);
                    }
                }
            }
        }
    }

    /// Returns the index of a device's columns. If another chip has the same id, its history begins again.
    fn index_of(&mut self, device: &Device) -> usize {
        if let Some(index) = self.devices.iter().position(|(id, _)| *id == device.id) {
            if !self.devices[index].1.meet(device) {
                self.fine.forget(index);
                self.coarse.forget(index);
                self.filling_fine.sums[index].fill(Sum::default());
                self.filling_coarse.sums[index].fill(Sum::default());
            }
            return index;
        }
        self.devices.push((device.id, ChipIdentity::of(device)));
        self.filling_fine.sums.push(vec![Sum::default(); self.fields.len()]);
        self.filling_coarse.sums.push(vec![Sum::default(); self.fields.len()]);
        self.fine.grow(self.devices.len(), self.fields.len());
        self.coarse.grow(self.devices.len(), self.fields.len());
        self.devices.len() - 1
    }

    /// Writes the means of a completed slot.
    fn close_coarse(&mut self, slot: u64) {
        self.coarse.advance(slot);
        for (device, sums) in self.filling_coarse.sums.iter().enumerate() {
            for (field, sum) in sums.iter().enumerate() {
                if let Some(mean) = sum.mean() {
                    self.coarse.store(device, field, slot, mean);
                }
            }
        }
        self.filling_coarse.clear();
    }

    /// Returns the memory of the columns, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.fine.bytes() + self.coarse.bytes()
    }
}

impl Filling {
    fn clear(&mut self) {
        self.sums.iter_mut().for_each(|sums| sums.fill(Sum::default()));
    }
}

impl Sum {
    fn add(&mut self, value: i64) {
        *self = Self { total: self.total + i128::from(value), count: self.count + 1 };
    }

    fn mean(self) -> Option<i64> {
        if self.count == 0 {
            return None;
        }
        // Rounds half up, so that the mean of 0 and 1 becomes 1. The mean of 64-bit values has 64 bits.
        i64::try_from((self.total + self.count / 2).div_euclid(self.count)).ok()
    }
}

/// Returns the factor for storing a value as an integer. Fractions have three decimals and ratios four, as in documents.
fn scale(unit: Unit) -> f64 {
    match unit {
        Unit::Celsius | Unit::Watts | Unit::Volts | Unit::Amperes => 1000.0,
        Unit::Ratio => 10_000.0,
        _ => 1.0,
    }
}

fn scaled(field: &DeviceField, device: &Device) -> Option<i64> {
    #[allow(clippy::cast_possible_truncation, reason = "`as` saturates, and no reading comes near")]
    match field.get(device).ok()? {
        // A float would lose the last bytes of a large number. No reading comes near 2^63.
        Value::Integer(value) => i64::try_from(value).ok(),
        value => value.number().filter(|number| number.is_finite()).map(|number| (number * scale(field.unit)).round() as i64),
    }
}

#[cfg(test)]
mod tests;
