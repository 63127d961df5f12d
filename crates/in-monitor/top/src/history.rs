//! History: the metrics of the last hour, and the last whole snapshots within a memory budget.
//!
//! All devices share one column of times. Each device has one column of 32-bit floats per metric. A missing value is a
//! gap, as is the time without samples.

use std::collections::{BTreeMap, VecDeque};
use std::mem::size_of;
use std::sync::Arc;

use ttmon_model::snapshot::{Device, Process};
use ttmon_model::units::UnixTime;
use ttmon_model::{DeviceId, Kind, ProcessKey, Snapshot};

use crate::feed::HistoryGrid;
use crate::metric::METRICS;

/// An hour at one sample per second.
pub(crate) const SAMPLES_MAX: usize = 3600;
/// Memory budget of the whole snapshots, which are kept for stepping back.
const SNAPSHOT_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Maximum number of processes with a history: the selected one, the largest ones, and ended ones while there is room.
const PROCESSES_MAX: usize = 64;
const PROCESS_SAMPLES_MAX: usize = 600;
const SECOND: u64 = 1_000_000_000;
/// Kinds of memory with a history of fragmentation. Their columns follow those of the metrics.
const FRAGMENTED: [Kind; 2] = [Kind::Dram, Kind::L1];

/// Two samples are not joined if they are further apart than this many times the neighbouring distances: samples are missing there.
const JOINED_MAX: u64 = 3;

pub(crate) const GAP: f32 = f32::NAN;

#[derive(Debug, Default)]
pub(crate) struct History {
    times: VecDeque<UnixTime>,
    devices: BTreeMap<DeviceId, Vec<VecDeque<f32>>>,
    processes: BTreeMap<ProcessKey, VecDeque<f32>>,
    snapshots: VecDeque<Arc<Snapshot>>,
    snapshot_bytes: usize,
}

impl History {
    /// Adds a snapshot. The selected process always gets a history.
    pub(crate) fn push(&mut self, snapshot: &Arc<Snapshot>, chosen: Option<ProcessKey>) {
        // If the clock was set back, move the times of earlier samples back too, so that times stay in order.
        if let Some(last) = self.times.back().copied().filter(|last| *last >= snapshot.time) {
            let back = last.0 - snapshot.time.0 + SECOND;
            self.times.iter_mut().for_each(|time| time.0 = time.0.saturating_sub(back));
        }
        self.times.push_back(snapshot.time);
        let length = self.times.len();
        for device in &snapshot.devices {
            let columns = self.devices.entry(device.id).or_insert_with(no_columns);
            let metrics = METRICS.iter().map(|metric| metric.get(device).ok());
            let fragmentation = FRAGMENTED.iter().map(|kind| fragmentation(snapshot, device.id, *kind));
            for (value, column) in metrics.chain(fragmentation).map(narrow).zip(columns) {
                // A metric without any value needs no memory: a chip counts its traffic in bytes or in words, not in both.
                if !value.is_nan() || !column.is_empty() {
                    fill(column, length - 1);
                    push(column, value);
                }
            }
        }
        // A device that disappeared gets a gap. When no value is left, it is removed.
        self.devices.retain(|_, columns| {
            columns.iter_mut().filter(|column| !column.is_empty()).for_each(|column| fill(column, length));
            columns.iter().flatten().any(|value| !value.is_nan())
        });
        if self.times.len() > SAMPLES_MAX {
            self.times.pop_front();
            self.devices.values_mut().flatten().for_each(|column| _ = column.pop_front());
        }
        self.push_processes(snapshot, chosen);
        self.snapshots.push_back(Arc::clone(snapshot));
        self.snapshot_bytes += weight(snapshot);
        self.forget(|history| history.snapshot_bytes > SNAPSHOT_BYTES_MAX && history.snapshots.len() > 1);
    }

    fn push_processes(&mut self, snapshot: &Snapshot, chosen: Option<ProcessKey>) {
        let used = |process: &Process| narrow(process.total_of(&Kind::DRAM_BAR).ok().map(|bytes| bytes as f64));
        let mut kept: Vec<(ProcessKey, f32)> = snapshot.processes.iter().map(|process| (process.key, used(process))).collect();
        if kept.len() > PROCESSES_MAX {
            // Unknown values sort below 0.
            kept.sort_by(|one, other| other.1.max(-1.0).total_cmp(&one.1.max(-1.0)));
            if let Some(place) = kept.iter().position(|(key, _)| Some(*key) == chosen) {
                kept[..=place].rotate_right(1);
            }
            kept.truncate(PROCESSES_MAX);
        }
        for (key, used) in &kept {
            let column = self.processes.entry(*key).or_default();
            column.push_back(*used);
            if column.len() > PROCESS_SAMPLES_MAX {
                column.pop_front();
            }
        }
        if self.processes.len() > PROCESSES_MAX {
            self.processes.retain(|key, _| kept.iter().any(|(there, _)| there == key));
        }
    }

    fn forget(&mut self, has_excess: impl Fn(&Self) -> bool) {
        while has_excess(self)
            && let Some(oldest) = self.snapshots.pop_front()
        {
            self.snapshot_bytes -= weight(&oldest);
        }
    }

    /// Adds a service's history where there are no local samples: before the first sample, and while the service was missing.
    pub(crate) fn fill(&mut self, grid: &HistoryGrid) {
        let Some(newest) = self.times.back().copied() else { return };
        let is_empty = |time: UnixTime| {
            let next = self.times.partition_point(|own| *own < time);
            let is_far = |index: usize| self.times.get(index).is_none_or(|own| own.0.abs_diff(time.0) >= grid.step);
            is_far(next) && next.checked_sub(1).is_none_or(is_far)
        };
        let points: Vec<usize> = (0..grid.points).filter(|point| grid.time(*point) < newest && is_empty(grid.time(*point))).collect();
        let Some(last_filled) = points.last().map(|point| grid.time(*point)) else { return };
        // Each time belongs to a local sample or to the service's history.
        let mut samples: Vec<(UnixTime, Option<usize>, Option<usize>)> =
            self.times.iter().enumerate().map(|(index, time)| (*time, Some(index), None)).collect();
        samples.extend(points.iter().map(|point| (grid.time(*point), None, Some(*point))));
        samples.sort_unstable();
        samples.drain(..samples.len().saturating_sub(SAMPLES_MAX));
        for (device, theirs) in &grid.devices {
            self.devices.entry(*device).or_insert_with(no_columns);
            debug_assert_eq!(theirs.len(), METRICS.len());
        }
        for (device, columns) in &mut self.devices {
            for (metric, column) in columns.iter_mut().enumerate() {
                let theirs = grid.devices.get(device).and_then(|theirs| theirs.get(metric));
                // A metric without any value, in both histories, needs no memory.
                if column.is_empty() && theirs.is_none_or(|theirs| theirs.iter().all(|value| value.is_nan())) {
                    continue;
                }
                let value = |(_, own, point): &(UnixTime, Option<usize>, Option<usize>)| match own {
                    Some(own) => column.get(*own).copied().unwrap_or(GAP),
                    None => theirs.zip(*point).map_or(GAP, |(theirs, point)| theirs[point]),
                };
                *column = samples.iter().map(value).collect();
            }
        }
        self.times = samples.iter().map(|(time, ..)| *time).collect();
        // Whole snapshots are counted back from the newest sample, so those before a filled gap cannot be used any more.
        let whole = self.times.iter().rev().take_while(|time| **time > last_filled).count();
        self.forget(|history| history.snapshots.len() > whole);
    }

    /// Finds the last sample at or before a time. Returns how many samples before the newest one it is.
    pub(crate) fn back_at(&self, time: UnixTime) -> usize {
        let later = self.times.len() - self.times.partition_point(|own| *own <= time);
        later.min(self.times.len().saturating_sub(1))
    }

    pub(crate) fn time(&self, back: usize) -> Option<UnixTime> {
        self.times.len().checked_sub(back + 1).map(|index| self.times[index])
    }

    pub(crate) fn times(&self) -> &VecDeque<UnixTime> {
        &self.times
    }

    /// A device's values of a metric, oldest first, one per time; `None` if it never had a value.
    pub(crate) fn column(&self, device: DeviceId, metric: usize) -> Option<&VecDeque<f32>> {
        self.devices.get(&device)?.get(metric).filter(|column| !column.is_empty())
    }

    /// The kinds with a history of fragmentation, and the numbers of their columns.
    pub(crate) fn fragmented() -> impl Iterator<Item = (usize, Kind)> {
        (METRICS.len()..).zip(FRAGMENTED)
    }

    /// Returns the means of a number of time spans up to a time. The last span may be incomplete. Spans begin at round times, so that they
    /// do not move with each sample. A span between two joined samples has the value of the first one.
    pub(crate) fn means(&self, device: DeviceId, metric: usize, count: usize, seconds: u64, back: usize) -> Vec<Option<f32>> {
        let span = seconds * SECOND;
        let newest = self.time(back).map_or(0, |time| time.0 / span);
        let mut sums = vec![(0.0, 0.0); count];
        let Some(column) = self.column(device, metric) else { return vec![None; count] };
        // The spans from this age on have only older samples.
        let mut empty_from = 0;
        for (index, (time, value)) in self.times.iter().zip(column).enumerate().rev().skip(back) {
            let age = newest.checked_sub(time.0 / span).and_then(|age| usize::try_from(age).ok()).unwrap_or(usize::MAX);
            if !value.is_nan() {
                let first = if is_joined(&self.times, index, 0) { empty_from.min(age) } else { age };
                for age in first..age.saturating_add(1).min(count) {
                    let sum: &mut (f32, f32) = &mut sums[count - 1 - age];
                    *sum = (sum.0 + value, sum.1 + 1.0);
                }
            }
            if age >= count {
                break;
            }
            empty_from = age + 1;
        }
        sums.into_iter().map(|(sum, number)| (number > 0.0).then(|| sum / number)).collect()
    }

    /// DRAM of a process in its last samples.
    pub(crate) fn process(&self, key: ProcessKey) -> Vec<Option<f32>> {
        let column = self.processes.get(&key).into_iter().flatten();
        column.map(|value| Some(*value).filter(|value| !value.is_nan())).collect()
    }

    /// Returns the machine this many samples ago: the whole snapshot if it was kept, otherwise the values of the columns, without
    /// processes.
    pub(crate) fn snapshot(&self, back: usize) -> Option<Arc<Snapshot>> {
        if let Some(index) = self.snapshots.len().checked_sub(back + 1) {
            return self.snapshots.get(index).cloned();
        }
        let index = self.times.len().checked_sub(back + 1)?;
        let mut snapshot = Snapshot::clone(self.snapshots.back()?);
        snapshot.time = self.times[index];
        snapshot.processes.clear();
        snapshot.allocators.clear();
        snapshot.buffers.clear();
        snapshot.circulars.clear();
        snapshot.problems.clear();
        for device in &mut snapshot.devices {
            let id = device.id;
            let value = |number: usize| self.column(id, number)?.get(index).copied().filter(|value| !value.is_nan());
            let numbers = METRICS.iter().enumerate().filter_map(|(number, metric)| Some((metric.field, f64::from(value(number)?))));
            device.restore(numbers);
        }
        Some(Arc::new(snapshot))
    }

    /// Whether the whole snapshot of that time is still kept, with its processes.
    pub(crate) fn is_whole(&self, back: usize) -> bool {
        back < self.snapshots.len()
    }
}

/// Whether a sample and the next one are joined: their distance is similar to the distances before and after. `refresh` is the expected
/// distance after the newest sample, in nanoseconds.
pub(crate) fn is_joined(times: &VecDeque<UnixTime>, before: usize, refresh: u64) -> bool {
    let distance = |first: usize| Some(times.get(first + 1)?.0 - times.get(first)?.0);
    let Some(between) = distance(before) else { return false };
    let beside = [before.checked_sub(1).and_then(distance), distance(before + 1).or(Some(refresh))];
    let usual = beside.into_iter().flatten().max().unwrap_or(refresh).max(SECOND / 20);
    between <= usual * JOINED_MAX
}

/// The highest fragmentation of the open allocators on a device.
fn fragmentation(snapshot: &Snapshot, device: DeviceId, kind: Kind) -> Option<f64> {
    let allocators = snapshot.allocators.iter().filter(|allocator| allocator.is_open && allocator.devices.contains(&device));
    let shares = allocators.filter_map(|allocator| allocator.kinds[kind].as_ref()?.banks.as_ref().ok()?.fragmentation.ok());
    shares.max_by(f64::total_cmp)
}

fn no_columns() -> Vec<VecDeque<f32>> {
    (0..METRICS.len() + FRAGMENTED.len()).map(|_| VecDeque::new()).collect()
}

fn fill(column: &mut VecDeque<f32>, length: usize) {
    while column.len() < length {
        push(column, GAP);
    }
}

/// Appends a value. Doubles the capacity up to half an hour of samples, then grows to one hour; another doubling would waste a seventh.
fn push(column: &mut VecDeque<f32>, value: f32) {
    if column.len() == column.capacity() && column.len() * 2 > SAMPLES_MAX {
        column.reserve_exact(SAMPLES_MAX + 1 - column.len().min(SAMPLES_MAX));
    }
    column.push_back(value);
}

/// Charts have a few hundred steps, so 32 bits are precise enough.
#[allow(clippy::cast_possible_truncation, reason = "precision is not needed")]
pub(crate) fn narrow(value: Option<f64>) -> f32 {
    value.map_or(GAP, |value| value as f32)
}

/// The approximate memory of a snapshot, in bytes.
fn weight(snapshot: &Snapshot) -> usize {
    let processes: usize = snapshot.processes.iter().map(|process| size_of::<Process>() + 256 + process.devices.len() * 512).sum();
    let devices = snapshot.devices.len() * (size_of::<Device>() + 256);
    devices + processes + snapshot.allocators.len() * 1024 + snapshot.buffers.len() * 160 + 512
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::machine;

    fn at(seconds: u64) -> Arc<Snapshot> {
        let mut snapshot = machine::n300();
        snapshot.time = UnixTime(seconds * SECOND);
        Arc::new(snapshot)
    }

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let mut history = History::default();
        for second in 0..4000 {
            history.push(&at(second), None);
        }
        assert_eq!(history.times().len(), SAMPLES_MAX);
        assert_eq!(history.column(DeviceId(0), 0).unwrap().len(), SAMPLES_MAX);
        assert!(history.snapshot_bytes <= SNAPSHOT_BYTES_MAX);
        assert!(history.is_whole(0) && !history.is_whole(3000));
        let old = history.snapshot(3000).unwrap();
        assert_eq!(old.time, UnixTime(999 * SECOND));
        assert!(old.processes.is_empty() && old.devices[0].temperature.is_ok());
        assert_eq!(old.is_deep(), history.snapshot(0).unwrap().is_deep());
        assert!(history.snapshot(SAMPLES_MAX).is_none());
        // The columns use no more memory than needed, and none for metrics without values.
        let columns = &history.devices[&DeviceId(0)];
        assert!(columns.iter().all(|column| column.capacity() <= SAMPLES_MAX + 1));
        let words = crate::metric::by_name("pcie_words_to").unwrap();
        assert!(columns[words].capacity() == 0 && history.column(DeviceId(0), words).is_none());
    }

    #[test]
    fn a_clock_set_back_tears_nothing() {
        let mut history = History::default();
        for second in [100, 101, 50, 51] {
            history.push(&at(second), None);
        }
        let seconds: Vec<u64> = history.times().iter().map(|time| time.0 / SECOND).collect();
        assert_eq!(seconds, [48, 49, 50, 51]);
        assert_eq!(history.column(DeviceId(0), 0).unwrap().len(), 4);
        assert!(history.is_whole(3));
    }

    /// Whole snapshots keep the time of their own clock. The current clock decides which of them are before a gap.
    #[test]
    fn a_gap_is_filled_after_a_clock_was_set_back() {
        let mut history = History::default();
        for second in [100, 101, 50, 60] {
            history.push(&at(second), None);
        }
        let columns: Vec<Vec<f32>> = METRICS.iter().map(|_| vec![1.0; 5]).collect();
        history.fill(&HistoryGrid { start: UnixTime(53 * SECOND), step: SECOND, points: 5, devices: [(DeviceId(0), columns)].into() });
        assert_eq!(history.times().len(), 9);
        assert!(history.is_whole(0) && !history.is_whole(1));
        assert_eq!(history.snapshot(1).unwrap().time, UnixTime(57 * SECOND));
    }

    /// The highest fragmentation of the open allocators is kept. Without an open allocator there is a gap, and a device without allocators
    /// has no column.
    #[test]
    fn fragmentation_is_kept() {
        let mut history = History::default();
        let hooked = machine::hooked();
        let device = hooked.allocators.iter().find(|allocator| allocator.is_open).unwrap().devices[0];
        for (second, shares) in [Some([0.25, 0.5]), None, Some([0.75, 0.1])].into_iter().enumerate() {
            let mut snapshot = hooked.clone();
            snapshot.time = UnixTime(second as u64 * SECOND);
            let mut one = snapshot.allocators.swap_remove(0);
            snapshot.allocators.clear();
            (one.is_open, one.devices) = (true, vec![device]);
            for share in shares.into_iter().flatten() {
                one.kinds[Kind::Dram].as_mut().unwrap().banks.as_mut().unwrap().fragmentation = Ok(share);
                snapshot.allocators.push(one.clone());
            }
            history.push(&Arc::new(snapshot), None);
        }
        let shown = |column: &VecDeque<f32>| column.iter().map(|value| format!("{value}")).collect::<Vec<_>>().join(" ");
        assert_eq!(history.column(device, METRICS.len()).map(shown), Some("0.5 NaN 0.75".to_owned()));
        let mut other = History::default();
        other.push(&at(1), None);
        assert!(History::fragmented().all(|(metric, _)| other.column(DeviceId(0), metric).is_none()));
    }

    /// With many processes, the largest and the selected one have a history, for any pids.
    #[test]
    fn the_selected_and_the_largest_processes_keep_a_history() {
        let mut snapshot = machine::n300();
        let first = snapshot.processes[0].clone();
        let process = |index: u32| {
            let mut process = first.clone();
            process.key.pid = 1000 + index;
            for use_of in &mut process.devices {
                use_of.kinds[Kind::Dram].used = Ok(u64::from(index) << 20);
                use_of.kinds[Kind::Trace].used = Ok(0);
            }
            process
        };
        snapshot.processes = (0..200).map(process).collect();
        snapshot.processes[199].devices.clear();
        let key = |index: usize| snapshot.processes[index].key;
        let (chosen, largest, small, unknown) = (key(3), key(198), key(4), key(199));
        let mut history = History::default();
        for second in 1..=3 {
            snapshot.time = UnixTime(second * SECOND);
            history.push(&Arc::new(snapshot.clone()), Some(chosen));
        }
        assert_eq!([chosen, largest, small, unknown].map(|key| history.process(key).len()), [3, 3, 0, 0]);
        assert_eq!(history.processes.len(), PROCESSES_MAX);
    }

    /// A sample without a whole snapshot shows its known values and no current ones.
    #[test]
    fn a_restored_sample_has_no_values_of_the_present() {
        let mut history = History::default();
        for second in 1..=3000 {
            let mut snapshot = machine::n300();
            snapshot.time = UnixTime(second * SECOND);
            snapshot.devices[0].health = ttmon_model::snapshot::Health::Critical;
            snapshot.devices[0].health_reasons = vec!["now".to_owned()];
            history.push(&Arc::new(snapshot), None);
        }
        let old = history.snapshot(2900).unwrap();
        let device = &old.devices[0];
        assert!(device.temperature.is_ok() && device.memory.dram.used.is_ok() && device.board.is_ok() && device.temperature_limit.is_ok());
        assert_eq!((device.health, device.health_reasons.len()), (ttmon_model::snapshot::Health::Unknown, 0));
        assert!(device.voltage.is_err() && device.heartbeat.is_err() && device.memory.kinds[Kind::Dram].figure.used.is_err());
    }

    /// Before the first sample and while a host was missing, the service's history is shown; local samples stay.
    #[test]
    fn the_history_of_a_service_fills_the_gaps() {
        let mut history = History::default();
        for second in [100, 101, 102, 110, 111] {
            history.push(&at(second), None);
        }
        let seen = history.column(DeviceId(0), 0).unwrap()[0];
        let mut columns: Vec<Vec<f32>> = METRICS.iter().map(|_| (0..30).map(|point: u16| f32::from(point)).collect()).collect();
        let words = crate::metric::by_name("pcie_words_to").unwrap();
        columns[words].fill(GAP);
        let start = UnixTime(90 * SECOND + 1000);
        history.fill(&HistoryGrid { start, step: SECOND, points: 30, devices: [(DeviceId(0), columns)].into() });
        assert!(history.column(DeviceId(0), words).is_none(), "a metric without values takes no room");
        let seconds: Vec<u64> = history.times().iter().map(|time| time.0 / SECOND).collect();
        // A point close to a local sample is left out.
        assert_eq!(seconds, [90, 91, 92, 93, 94, 95, 96, 97, 98, 100, 101, 102, 103, 104, 105, 106, 107, 108, 110, 111]);
        let column = history.column(DeviceId(0), 0).unwrap();
        assert_eq!((column[0], column[9], column[12]), (0.0, seen, 13.0));
        let dram = crate::metric::by_name("dram").unwrap();
        assert!(history.column(DeviceId(1), dram).unwrap()[0].is_nan());
        assert!(history.is_whole(1) && !history.is_whole(2), "snapshots are counted from the newest");
        assert_eq!(
            (history.back_at(UnixTime(u64::MAX)), history.back_at(UnixTime(104_500_000_000)), history.back_at(UnixTime(0))),
            (0, 6, 19)
        );
        history.push(&at(112), None);
        assert_eq!(history.times().len(), 21);
    }

    #[test]
    fn a_device_that_left_has_a_gap() {
        let mut history = History::default();
        history.push(&at(1), None);
        let mut without = machine::n300();
        without.devices.truncate(1);
        without.time = UnixTime(2 * SECOND);
        history.push(&Arc::new(without), None);
        let dram = crate::metric::by_name("dram").unwrap();
        let column = history.column(DeviceId(1), dram).unwrap();
        assert!(!column[0].is_nan() && column[1].is_nan(), "{column:?}");
        let means = history.means(DeviceId(1), dram, 3, 1, 0);
        assert!(means[0].is_none() && means[1].is_some() && means[2].is_none(), "{means:?}");
    }

    /// Samples further apart than a span leave no hole. A pause does.
    #[test]
    fn only_a_pause_is_a_hole_in_the_means() {
        let spans = |seconds: &[u64]| {
            let mut history = History::default();
            seconds.iter().for_each(|second| history.push(&at(*second), None));
            let means = history.means(DeviceId(0), 0, 10, 2, 0);
            means.iter().map(|mean| if mean.is_some() { '#' } else { ' ' }).collect::<String>()
        };
        assert_eq!(spans(&[75, 80, 85, 90, 95, 100]), "##########");
        assert_eq!(spans(&[85, 90, 95, 100]), " #########");
        assert_eq!(spans(&[80, 81, 82, 83, 84, 94, 95, 96, 97, 98, 99]), "###    ###");
    }
}
