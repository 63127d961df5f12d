//! Metrics with a history that are drawn as charts: the fields with a chart, in the order of the field table.

use std::sync::LazyLock;

use ttmon_model::fields::{Chart, DeviceField};
use ttmon_model::snapshot::Device;
use ttmon_model::{Missing, Reading};
use ttmon_print::quantity;

pub(crate) struct Metric {
    pub(crate) chart: &'static Chart,
    pub(crate) title: &'static str,
    pub(crate) field: DeviceField,
    limit: Option<DeviceField>,
    unless: Option<DeviceField>,
}

impl Metric {
    pub(crate) fn get(&self, device: &Device) -> Reading<f64> {
        match self.unless {
            Some(other) if other.get(device).is_ok() => Err(Missing::NoSource),
            _ => self.field.number(device),
        }
    }

    pub(crate) fn limit(&self, device: &Device) -> Reading<f64> {
        self.limit.map_or(Err(Missing::NoSource), |limit| limit.number(device))
    }

    /// Returns the share of the limit.
    pub(crate) fn share(&self, device: &Device) -> Option<f64> {
        Some(self.get(device).ok()? / self.limit(device).ok()?)
    }

    /// Returns the metric that replaces this one on devices that have values of the other metric.
    pub(crate) fn stand_in(&self) -> Option<usize> {
        let other = self.unless?.name();
        METRICS.iter().position(|metric| metric.field.name() == other)
    }

    pub(crate) fn show(&self, value: f64) -> String {
        quantity::short(value, self.field.unit)
    }
}

pub(crate) static METRICS: LazyLock<Vec<Metric>> = LazyLock::new(|| {
    let find = |name: Option<&str>| name.and_then(DeviceField::find);
    let metric = |field: DeviceField| {
        let (chart, title) = field.chart()?;
        Some(Metric { chart, title, field, limit: find(chart.limit), unless: find(chart.unless) })
    };
    let mut metrics: Vec<Metric> = DeviceField::all().filter_map(metric).collect();
    metrics.sort_by_key(|metric| metric.chart.order);
    metrics
});

pub(crate) fn by_name(name: &str) -> Option<usize> {
    METRICS.iter().position(|metric| metric.chart.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (index, metric) in METRICS.iter().enumerate() {
            assert_eq!(by_name(metric.chart.name), Some(index));
            assert!(metric.field.is_kept, "{}", metric.field.name());
            assert_eq!(metric.chart.limit.is_some(), metric.limit.is_some(), "{}", metric.chart.name);
            assert_eq!(metric.chart.unless.is_some(), metric.stand_in().is_some(), "{}", metric.chart.name);
        }
    }
}
