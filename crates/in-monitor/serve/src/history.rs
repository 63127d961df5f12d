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
}

impl History {
    pub(crate) fn new(interval: Duration) -> Self {
        let fine = Ring::new(interval.max(FINE_STEP_MIN), FINE_SPAN);
        let coarse = Ring::new(interval.max(COARSE_STEP_MIN), COARSE_SPAN);
        let fields = DeviceField::all().filter(|field| field.is_kept).collect();
        Self { fields, fine, coarse, devices: Vec::new() }
    }

    /// Adds a sample at its planned time, so that a slightly late sampler leaves no gap.
    pub(crate) fn add(&mut self, at: Duration, snapshot: &Snapshot) {
        self.coarse.begin(at);
        self.fine.begin(at);
        for device in &snapshot.devices {
            let index = self.index_of(device);
            for (field, row) in self.fields.iter().enumerate() {
                if let Some(value) = scaled(row, device) {
                    self.coarse.add(index, field, value);
                    self.fine.add(index, field, value);
                }
            }
        }
        // The coarse ring has only slots that have ended.
        self.fine.store_means();
    }

    /// Returns the index of a device's columns. If another chip has the same id, its history begins again.
    fn index_of(&mut self, device: &Device) -> usize {
        if let Some(index) = self.devices.iter().position(|(id, _)| *id == device.id) {
            if !self.devices[index].1.meet(device) {
                self.fine.forget(index);
                self.coarse.forget(index);
            }
            return index;
        }
        self.devices.push((device.id, ChipIdentity::of(device)));
        self.fine.add_device(self.fields.len());
        self.coarse.add_device(self.fields.len());
        self.devices.len() - 1
    }

    /// Returns the memory of the columns, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.fine.bytes() + self.coarse.bytes()
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
