//! What is kept over time and drawn as charts: one row a metric.

use ttmon_model::snapshot::Device;
use ttmon_model::{Kind, Reading};

/// How a metric's numbers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Celsius,
    Watts,
    Megahertz,
    Bytes,
    BytesPerSecond,
    WordsPerSecond,
}

/// One row of the table.
pub(crate) struct Metric {
    /// In the configuration file.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// Its field, by which a service is asked for its past.
    pub(crate) field: &'static str,
    pub(crate) unit: Unit,
    pub(crate) get: fn(&Device) -> Reading<f64>,
    /// What it may reach: a line in the chart, and the hot end of the mesh's scale.
    pub(crate) limit: fn(&Device) -> Reading<f64>,
}

fn bytes(reading: Reading<u64>) -> Reading<f64> {
    reading.map(|bytes| bytes as f64)
}

fn no_limit(_: &Device) -> Reading<f64> {
    Err(ttmon_model::Missing::NoSource)
}

/// Every metric, in the order of the charts.
#[rustfmt::skip] // one row a line
pub(crate) const METRICS: &[Metric] = &[
    Metric { name: "temperature", title: "Temperature", field: "temperature", unit: Unit::Celsius, get: |d| d.temperature.map(|v| v.0), limit: |d| d.temperature_limit.map(|v| v.0) },
    Metric { name: "power", title: "Power", field: "power", unit: Unit::Watts, get: |d| d.power.map(|v| v.0), limit: |d| d.power_limit.map(|v| v.0) },
    Metric { name: "dram", title: "DRAM used", field: "memory.used", unit: Unit::Bytes, get: |d| bytes(d.memory.dram.used), limit: |d| bytes(d.memory.dram.total) },
    Metric { name: "l1", title: "L1 used", field: "memory.l1_used", unit: Unit::Bytes, get: |d| bytes(d.memory.l1.used), limit: |d| bytes(d.memory.l1.total) },
    Metric { name: "aiclk", title: "AI clock", field: "aiclk_mhz", unit: Unit::Megahertz, get: |d| d.aiclk.map(|v| v.0 as f64), limit: |d| d.aiclk_limit.map(|v| v.0 as f64) },
    Metric { name: "pcie_to", title: "PCIe to device", field: "pcie_to_device_bytes_per_s", unit: Unit::BytesPerSecond, get: |d| d.pcie.to_device.map(|v| v.0), limit: no_limit },
    Metric { name: "pcie_from", title: "PCIe from device", field: "pcie_from_device_bytes_per_s", unit: Unit::BytesPerSecond, get: |d| d.pcie.from_device.map(|v| v.0), limit: no_limit },
    Metric { name: "pcie_words_to", title: "PCIe words to device", field: "pcie_to_device_words_per_s", unit: Unit::WordsPerSecond, get: |d| d.pcie.to_device.err().map_or(Err(ttmon_model::Missing::NoSource), |_| d.pcie.to_device_words.map(|v| v.0)), limit: no_limit },
    Metric { name: "pcie_words_from", title: "PCIe words from device", field: "pcie_from_device_words_per_s", unit: Unit::WordsPerSecond, get: |d| d.pcie.from_device.err().map_or(Err(ttmon_model::Missing::NoSource), |_| d.pcie.from_device_words.map(|v| v.0)), limit: no_limit },
    Metric { name: "cb", title: "Circular buffers", field: "memory.kinds.cb.used", unit: Unit::Bytes, get: |d| bytes(d.memory.kinds[Kind::Cb].figure.used), limit: no_limit },
    Metric { name: "trace", title: "Traces", field: "memory.kinds.trace.used", unit: Unit::Bytes, get: |d| bytes(d.memory.kinds[Kind::Trace].figure.used), limit: no_limit },
];

/// The row of a name.
pub(crate) fn by_name(name: &str) -> Option<usize> {
    METRICS.iter().position(|metric| metric.name == name)
}

impl Unit {
    /// A number with its unit, as short as it can be.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Celsius => format!("{value:.0}°C"),
            Self::Watts => format!("{value:.0}W"),
            Self::Megahertz => format!("{value:.0}MHz"),
            Self::Bytes => size(value),
            Self::BytesPerSecond => format!("{}/s", size(value)),
            Self::WordsPerSecond => format!("{}w/s", thousands(value)),
        }
    }

    /// Whether steps of an axis are powers of 1024.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Self::Bytes | Self::BytesPerSecond)
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
fn size(value: f64) -> String {
    ttmon_print::quantity::size(value.max(0.0).round() as u64)
}

fn thousands(value: f64) -> String {
    match value {
        value if value >= 1e9 => format!("{:.1}G", value / 1e9),
        value if value >= 1e6 => format!("{:.1}M", value / 1e6),
        value if value >= 1e3 => format!("{:.1}k", value / 1e3),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (index, metric) in METRICS.iter().enumerate() {
            assert_eq!(by_name(metric.name), Some(index));
            let field = ttmon_model::fields::DeviceField::find(metric.field);
            assert!(field.is_some_and(|field| field.is_kept()), "{}", metric.field);
        }
    }
}
