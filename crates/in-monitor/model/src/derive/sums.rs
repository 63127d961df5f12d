//! Sums over several devices.

use crate::identity::DeviceId;
use crate::memory::{Bar, sum};
use crate::snapshot::{Device, Severity};
use crate::units::{Celsius, Watts};

/// Sums of several devices, for one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceSums {
    /// The number of devices with a warning or worse.
    pub unhealthy: usize,
    /// The hottest device of those with a temperature.
    pub hottest: Option<(Celsius, DeviceId)>,
    /// The sum of the published powers.
    pub power: Option<Watts>,
    /// The sum of the known DRAM bars.
    pub dram: Bar,
    /// Whether some device uses more than the known amount.
    pub is_lower_bound: bool,
}

impl DeviceSums {
    /// Computes the sums of these devices.
    pub fn of(devices: &[&Device]) -> Self {
        let each = || devices.iter().copied();
        let temperatures = each().filter_map(|device| Some((device.temperature.ok()?, device.id)));
        let powers = each().filter_map(|device| device.power.ok());
        let bars = || each().map(|device| device.memory.dram);
        Self {
            unhealthy: each().filter(|device| device.severity() >= Severity::Warning).count(),
            hottest: temperatures.max_by(|(one, _), (other, _)| one.0.total_cmp(&other.0)),
            power: powers.reduce(|sum, power| Watts(sum.0 + power.0)),
            dram: Bar { total: sum(bars().map(|bar| bar.total)), used: sum(bars().map(|bar| bar.used)) },
            is_lower_bound: each().any(|device| device.memory.dram.used.is_err() || device.is_lower_bound()),
        }
    }
}
