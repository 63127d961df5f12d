//! The history of a service, requested once, so that charts begin with the last hour instead of empty.

use std::collections::BTreeMap;
use std::time::Duration;

use ttmon_hosts::{Past, Service};
use ttmon_model::DeviceId;
use ttmon_model::units::UnixTime;

use crate::history::{GAP, SAMPLES_MAX, narrow};
use crate::metric::METRICS;

const SPAN: Duration = Duration::from_secs(3600);

/// Metrics of devices on an even grid of time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HistoryGrid {
    pub(crate) start: UnixTime,
    pub(crate) step: u64,
    pub(crate) points: usize,
    /// One column per metric, as in the history.
    pub(crate) devices: BTreeMap<DeviceId, Vec<Vec<f32>>>,
}

/// Requests the history of one device at a time, because an answer for all devices would be large. Without the whole history, the charts
/// begin now.
pub(super) fn past(service: &Service, devices: &[u32], timeout: Duration) -> Option<HistoryGrid> {
    let names: Vec<String> = METRICS.iter().map(|metric| metric.field.name()).collect();
    let fields: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut grid: Option<HistoryGrid> = None;
    for device in devices {
        // A service that stopped answering is reported with the next snapshot.
        let past = service.past(SPAN, &fields, &[*device], timeout).ok()?;
        let step = u64::try_from(past.step.as_nanos()).ok()?;
        let grid = grid.get_or_insert_with(|| HistoryGrid {
            start: past.start,
            step,
            points: past.points.min(SAMPLES_MAX),
            devices: BTreeMap::new(),
        });
        grid.add(&past);
    }
    grid
}

impl HistoryGrid {
    /// Adds the points that are on this grid. Later answers cover a slightly later time.
    fn add(&mut self, past: &Past) {
        for series in &past.devices {
            let column = |field: &str| {
                let values = series.fields.iter().find(|(name, _)| name == field).map(|(_, values)| values);
                let mut column = vec![GAP; self.points];
                for (point, value) in values.into_iter().flatten().enumerate() {
                    if let Some(place) = self.place(past.time(point)) {
                        column[place] = narrow(*value);
                    }
                }
                column
            };
            let mut columns: Vec<Vec<f32>> = METRICS.iter().map(|metric| column(&metric.field.name())).collect();
            // Words are charted only for chips that do not report bytes.
            for (index, metric) in METRICS.iter().enumerate() {
                if metric.stand_in().is_some_and(|other| columns[other].iter().any(|value| !value.is_nan())) {
                    columns[index].fill(GAP);
                }
            }
            self.devices.insert(series.device, columns);
        }
    }

    /// Returns the index of the point nearest to a time. While the clock is slewed, the same time differs slightly between two answers.
    fn place(&self, time: UnixTime) -> Option<usize> {
        let after = time.0.saturating_add(self.step / 2).checked_sub(self.start.0)?;
        usize::try_from(after / self.step).ok().filter(|place| *place < self.points)
    }

    pub(crate) fn time(&self, point: usize) -> UnixTime {
        UnixTime(self.start.0.saturating_add(self.step.saturating_mul(point as u64)))
    }
}
