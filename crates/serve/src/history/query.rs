//! A question about the past, and its answer: an even grid of time, with nothing where nothing was seen.

use std::time::Duration;

use ttmon_model::DeviceId;
use ttmon_model::fields::DeviceField;

use super::ring::Ring;
use super::{History, scale};

/// What is asked for.
#[derive(Clone)]
pub(crate) struct Query {
    /// From this time on, on the monotonic clock.
    pub(crate) since: Duration,
    /// Between two points; `None` is as fine as it was kept.
    pub(crate) step: Option<Duration>,
    /// Which fields.
    pub(crate) fields: Vec<DeviceField>,
    /// Which devices; empty is all.
    pub(crate) devices: Vec<DeviceId>,
}

/// The grid, and what is on it.
pub(crate) struct Answer {
    /// Time of the first point.
    pub(crate) start: Duration,
    /// Between two points.
    pub(crate) step: Duration,
    /// How many there are.
    pub(crate) points: u64,
    /// By device, then by field, as asked.
    pub(crate) series: Vec<Series>,
}

/// One device's columns.
pub(crate) struct Series {
    pub(crate) device: DeviceId,
    /// A value or nothing for each point, for each field asked for; nothing throughout for a field that is not kept.
    pub(crate) columns: Vec<Vec<Option<f64>>>,
}

impl History {
    /// The size of the answer, before it is made: points, and cells in all.
    pub(crate) fn size(&self, query: &Query) -> (u64, u64) {
        let Some(grid) = self.grid(query) else { return (0, 0) };
        let devices = self.chosen(query).count() as u64;
        (grid.points, grid.points.saturating_mul(devices).saturating_mul(query.fields.len() as u64))
    }

    /// Answers. The size was checked before.
    pub(crate) fn ask(&self, query: &Query) -> Answer {
        let Some(grid) = self.grid(query) else {
            return Answer { start: query.since, step: query.step.unwrap_or(self.fine.step), points: 0, series: Vec::new() };
        };
        let field = |wanted: &DeviceField| self.fields.iter().position(|field| field.name() == wanted.name());
        let places: Vec<(Option<usize>, f64)> = query.fields.iter().map(|wanted| (field(wanted), scale(wanted.unit))).collect();
        let series = self.chosen(query).map(|(index, device)| {
            let column = |(field, scale): &(Option<usize>, f64)| -> Vec<Option<f64>> {
                let cell = |point| grid.cell(index, (*field)?, point).map(|value| value / scale);
                (0..grid.points).map(cell).collect()
            };
            Series { device, columns: places.iter().map(column).collect() }
        });
        Answer { start: grid.time(0), step: grid.step(), points: grid.points, series: series.collect() }
    }

    fn chosen<'a>(&'a self, query: &'a Query) -> impl Iterator<Item = (usize, DeviceId)> + 'a {
        let known = self.devices.iter().map(|(id, _)| *id).enumerate();
        known.filter(|(_, id)| query.devices.is_empty() || query.devices.contains(id))
    }

    /// The fine ring where it reaches back far enough, or has all there is, or a fine step is asked for, else the coarse one.
    fn grid(&self, query: &Query) -> Option<Grid<'_>> {
        let (oldest, _) = self.fine.range()?;
        let reaches = self.fine.time(oldest) <= query.since || self.fine.is_whole();
        let is_fine = query.step.map_or(reaches, |step| step < self.coarse.step || reaches);
        let ring = if is_fine { &self.fine } else { &self.coarse };
        let (oldest, newest) = ring.range()?;
        // A step is made of whole slots, and begins where a multiple of itself does, so that two answers agree.
        let slots = query.step.map_or(1, |step| u64::try_from(step.as_nanos().div_ceil(ring.step.as_nanos())).unwrap_or(u64::MAX).max(1));
        let first = ring.slot(query.since).max(oldest) / slots * slots;
        Some(Grid { ring, first, slots, points: (newest + 1).saturating_sub(first).div_ceil(slots) })
    }
}

/// Points over the slots of a ring.
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

    /// The mean of the slots that have a value.
    fn cell(&self, device: usize, field: usize, point: u64) -> Option<f64> {
        let begin = self.first + point * self.slots;
        let values = (begin..begin + self.slots).filter_map(|slot| self.ring.get(device, field, slot));
        let (sum, count) = values.fold((0i128, 0u32), |(sum, count), value| (sum + i128::from(value), count + 1));
        (count > 0).then(|| sum as f64 / f64::from(count))
    }
}
