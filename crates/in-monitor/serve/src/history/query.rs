//! Queries of the history. The response is an even time grid, with gaps where there were no samples.

use std::time::Duration;

use ttmon_model::DeviceId;
use ttmon_model::fields::DeviceField;

use super::ring::Ring;
use super::{History, scale};

#[derive(Clone)]
pub(crate) struct Query {
    /// Start time, on the monotonic clock.
    pub(crate) since: Duration,
    /// Time between two points; `None` means the finest stored step.
    pub(crate) step: Option<Duration>,
    pub(crate) fields: Vec<DeviceField>,
    /// Devices of the response; empty means all.
    pub(crate) devices: Vec<DeviceId>,
}

/// The grid and its values.
pub(crate) struct HistoryResponse {
    /// Time of the first point.
    pub(crate) start: Duration,
    pub(crate) step: Duration,
    pub(crate) points: u64,
    /// Values by device, then by field, in the order of the query.
    pub(crate) series: Vec<Series>,
}

/// The columns of one device.
pub(crate) struct Series {
    pub(crate) device: DeviceId,
    /// For each field, a value or `None` for each point. A field without a history has only `None`.
    pub(crate) columns: Vec<Vec<Option<f64>>>,
}

impl History {
    /// Returns the size of a response before it is computed: points, and cells in total.
    pub(crate) fn size(&self, query: &Query) -> (u64, u64) {
        let Some(grid) = self.grid(query) else { return (0, 0) };
        let devices = self.chosen(query).count() as u64;
        (grid.points, grid.points.saturating_mul(devices).saturating_mul(query.fields.len() as u64))
    }

    /// Computes a response. The caller must check the size before.
    pub(crate) fn read(&self, query: &Query) -> HistoryResponse {
        let Some(grid) = self.grid(query) else {
            return HistoryResponse { start: query.since, step: query.step.unwrap_or(self.fine.step), points: 0, series: Vec::new() };
        };
        let field = |wanted: &DeviceField| self.fields.iter().position(|field| field.name() == wanted.name());
        let columns: Vec<(Option<usize>, f64)> = query.fields.iter().map(|wanted| (field(wanted), scale(wanted.unit))).collect();
        let series = self.chosen(query).map(|(index, device)| {
            let column = |(field, scale): &(Option<usize>, f64)| -> Vec<Option<f64>> {
                let cell = |point| grid.cell(index, (*field)?, point).map(|value| value / scale);
                (0..grid.points).map(cell).collect()
            };
            Series { device, columns: columns.iter().map(column).collect() }
        });
        HistoryResponse { start: grid.time(0), step: grid.step(), points: grid.points, series: series.collect() }
    }

    fn chosen<'a>(&'a self, query: &'a Query) -> impl Iterator<Item = (usize, DeviceId)> + 'a {
        let known = self.devices.iter().map(|(id, _)| *id).enumerate();
        known.filter(|(_, id)| query.devices.is_empty() || query.devices.contains(id))
    }

    /// Returns the fine ring if it reaches back far enough, has all data, or a fine step is requested; otherwise the coarse ring.
    fn grid(&self, query: &Query) -> Option<Grid<'_>> {
        let (oldest, _) = self.fine.range()?;
        let reaches = self.fine.time(oldest) <= query.since || self.fine.is_whole();
        let is_fine = query.step.map_or(reaches, |step| step < self.coarse.step || reaches);
        let ring = if is_fine { &self.fine } else { &self.coarse };
        let (oldest, newest) = ring.range()?;
        // A step consists of whole slots and begins at a multiple of its length, so that two responses agree.
        let slots = query.step.map_or(1, |step| u64::try_from(step.as_nanos().div_ceil(ring.step.as_nanos())).unwrap_or(u64::MAX).max(1));
        let first = ring.slot(query.since).max(oldest) / slots * slots;
        Some(Grid { ring, first, slots, points: (newest + 1).saturating_sub(first).div_ceil(slots) })
    }
}

/// Points that consist of slots of a ring.
struct Grid<'a> {
    ring: &'a Ring,
    first: u64,
    slots: u64,
    points: u64,
}

impl Grid<'_> {
    fn time(&self, point: u64) -> Duration {
        self.ring.time(self.first + point * self.slots)
    }

    fn step(&self) -> Duration {
        self.ring.step.saturating_mul(u32::try_from(self.slots).unwrap_or(u32::MAX))
    }

    /// Returns the mean of the slots that have a value.
    fn cell(&self, device: usize, field: usize, point: u64) -> Option<f64> {
        let begin = self.first + point * self.slots;
        let values = (begin..begin + self.slots).filter_map(|slot| self.ring.get(device, field, slot));
        let (sum, count) = values.fold((0i128, 0u32), |(sum, count), value| (sum + i128::from(value), count + 1));
        (count > 0).then(|| sum as f64 / f64::from(count))
    }
}
