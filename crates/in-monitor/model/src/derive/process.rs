//! Processes, and their memory per chip.

use std::collections::BTreeMap;

use super::device_rows::{self, DeviceRow, Ids};
use super::ledger::{ProcessMemory, Tracked};
use super::steps::Steps;
use super::user_of;
use crate::identity::DeviceId;
use crate::limits::START_TIME_SLACK;
use crate::memory::{Figure, Kind, PerKind, Source};
use crate::missing::{Missing, Reading};
use crate::problems::Problems;
use crate::region;
use crate::sample::{Problem, ProcessSample, RegionSample, Sample};
use crate::snapshot::{DeviceUse, Process, Status, Unmapped};

/// TT-Metal's statistics, sorted by process and chip.
pub(super) struct Attribution {
    /// The bytes of live processes, by the index of the process.
    live: Vec<Vec<Slot>>,
    /// Slots with impossible sizes: the index of the process, and the target.
    nonsense: Vec<(usize, Target)>,
    /// Rows whose statistics this user may not read.
    denied: Vec<bool>,
    /// The bytes of dead slots, by row.
    pub(super) stale_bytes: Vec<u64>,
    /// The unique id by which a row was found, by row.
    pub(super) confirmed: Vec<Option<u64>>,
}

type Slot = (Target, PerKind<u64>);

/// Where memory is: on a row, or on a chip that cannot be mapped to a row with certainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Device(usize),
    Unmapped(u64),
}

impl Target {
    pub(super) fn row(self) -> Option<usize> {
        if let Self::Device(row) = self { Some(row) } else { None }
    }

    pub(super) fn unmapped(self) -> Option<u64> {
        if let Self::Unmapped(id) = self { Some(id) } else { None }
    }
}

pub(super) fn attribute(sample: &Sample, rows: &[DeviceRow<'_>], ids: &Ids, steps: &mut Steps, problems: &mut Problems) -> Attribution {
    let mut attribution = Attribution {
        live: vec![Vec::new(); sample.processes.len()],
        nonsense: Vec::new(),
        denied: vec![false; rows.len()],
        stale_bytes: vec![0; rows.len()],
        confirmed: vec![None; rows.len()],
    };
    let numbered = Numbered::of(sample);
    for region in &sample.regions {
        let row = ids.row(region.unique_id);
        let content = match &region.content {
            Ok(content) => content,
            Err(reason) => {
                if let (Some(row), Missing::NoPermission) = (row, reason) {
                    attribution.denied[row] = true;
                }
                continue;
            }
        };
        if let Some(row) = row {
            attribution.confirmed[row] = Some(region.unique_id);
        }
        let target = row.map_or(Target::Unmapped(region.unique_id), Target::Device);
        // Unknown holders are not searched.
        let holders = row.and_then(|row| device_rows::holders(rows, &rows[row]).ok()).map_or(0, |users| users.pids.len());
        for slot in &content.slots {
            // Each process with this pid is searched among the holders. One step covers eight pids.
            let cost = numbered.with(slot.pid).len() * (1 + holders / 8);
            if !steps.take(region.writer, cost as u64) {
                continue;
            }
            match owner(&numbered, rows, region, slot, row) {
                Some(process) if row.is_some_and(|row| !fits_chip(&slot.used, &rows[row])) => {
                    attribution.nonsense.push((process, target));
                    let pid = sample.processes[process].key.pid;
                    let part = format!("statistics of process {pid}");
                    let problem = Problem::new(part, Missing::OutOfRange, "it says it uses more memory than the chip has");
                    problems.push_of(user_of(sample, pid), "statistics with more memory than the chip has", problem);
                }
                Some(process) => attribution.live[process].push((target, slot.used.clone())),
                None => {
                    if let Some(row) = row {
                        let bytes = slot.used.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
                        attribution.stale_bytes[row] = attribution.stale_bytes[row].saturating_add(bytes);
                    }
                }
            }
        }
    }
    attribution
}

/// Returns whether the use is within the capacity of the chip.
fn fits_chip(used: &PerKind<u64>, row: &DeviceRow<'_>) -> bool {
    row.product.is_none_or(|product| {
        // The maximum number of cores of any such chip. Harvesting is not published.
        let l1 = 140 * product.arch.l1_bytes_per_core();
        used.iter().all(|(kind, bytes)| *bytes <= if Kind::DRAM_BAR.contains(&kind) { product.dram_bytes() } else { l1 })
    })
}

/// Processes sorted by their pids inside their namespaces. There may be thousands of slots and hundreds of processes.
struct Numbered<'a>(Vec<(usize, &'a ProcessSample)>);

impl<'a> Numbered<'a> {
    fn of(sample: &'a Sample) -> Self {
        let mut processes: Vec<_> = sample.processes.iter().enumerate().collect();
        processes.sort_by_key(|(_, process)| process.namespace_pid);
        Self(processes)
    }

    /// Returns the processes with a pid, with their indices.
    fn with(&self, pid: u32) -> &[(usize, &'a ProcessSample)] {
        let first = self.0.partition_point(|(_, process)| process.namespace_pid < pid);
        let count = self.0[first..].partition_point(|(_, process)| process.namespace_pid == pid);
        &self.0[first..first + count]
    }
}

/// Returns the live process that owns a slot. A slot has the pid in the writer's own namespace and is never removed after a crash, so the
/// process must have started before the slot was last written. Every user may create a file that names any process. Therefore a process
/// that does not hold the chip must have the slot's name, and its user must be allowed to write to the file.
fn owner(numbered: &Numbered<'_>, rows: &[DeviceRow<'_>], region: &RegionSample, slot: &region::Slot, row: Option<usize>) -> Option<usize> {
    // A holder of the chip without readable facts is accepted.
    let is_older = |process: &ProcessSample| match &process.facts {
        Ok(facts) => {
            let slack = u64::try_from(START_TIME_SLACK.as_nanos()).unwrap_or(u64::MAX);
            facts.start_time.0 <= slot.updated.0.saturating_add(slack)
        }
        Err(reason) => *reason != Missing::Gone,
    };
    // If the holders are unknown, the slot's name decides.
    let holders: &[u32] = row.and_then(|row| device_rows::holders(rows, &rows[row]).ok()).map_or(&[], |users| &users.pids);
    let is_holder = |process: &ProcessSample| holders.contains(&process.key.pid);
    let of_host = |process: &ProcessSample| process.key.pid == slot.pid;
    let may_have_written = |process: &ProcessSample| {
        let is_its_own = |uid: u32| region.writer.is_none_or(|writer| writer == uid);
        is_holder(process) || process.facts.as_ref().is_ok_and(|facts| facts.name == slot.name && is_its_own(facts.uid))
    };
    let find = |fits: &dyn Fn(&ProcessSample) -> bool| {
        let mut found = numbered.with(slot.pid).iter().filter(|(_, process)| fits(process) && is_older(process));
        let first = found.next().map(|(index, _)| *index);
        first.filter(|_| found.next().is_none())
    };
    match region.through {
        Some(through) => find(&|process| process.key == through && may_have_written(process))
            .or_else(|| find(&is_holder))
            .or_else(|| find(&may_have_written)),
        None => find(&|process| is_holder(process) && of_host(process))
            .or_else(|| find(&is_holder))
            .or_else(|| find(&|process| of_host(process) && may_have_written(process))),
    }
}

pub(super) fn list(
    sample: &Sample,
    previous: Option<&Sample>,
    rows: &[DeviceRow<'_>],
    attribution: &Attribution,
    tracked: &Tracked,
) -> Vec<Process> {
    let reports = Reports { rows, attribution, tracked, held: held(rows) };
    let mut processes: Vec<Process> = sample
        .processes
        .iter()
        .enumerate()
        .map(|(index, process)| reports.process(sample, previous, index, process))
        // A process without a device and without memory was read only to check a slot.
        .filter(|process| !process.devices.is_empty() || !process.unmapped.is_empty())
        .collect();
    processes.sort_by_key(|process| process.key);
    processes
}

/// All sources of information about processes.
struct Reports<'a> {
    rows: &'a [DeviceRow<'a>],
    attribution: &'a Attribution,
    tracked: &'a Tracked,
    /// Pids and the rows that they hold, sorted.
    held: Vec<(u32, usize)>,
}

impl Reports<'_> {
    fn process(&self, sample: &Sample, previous: Option<&Sample>, index: usize, process: &ProcessSample) -> Process {
        let ledger = self.tracked.of(process.key);
        let mut mine = self.attribution.live[index].clone();
        if let Some(Ok(ledger)) = ledger {
            // TT-Metal's statistics have only unique ids.
            mine.iter_mut().for_each(|(target, _)| *target = ledger.named(*target));
        }
        let facts = process.facts.as_ref().map_err(|reason| *reason);
        let tracked = ledger.unwrap_or(Err(Missing::NotTracked));
        let status = match (facts, ledger) {
            (Err(Missing::Gone), _) => Status::Dead,
            (_, Some(Ok(_))) if self.tracked.is_served(process.key) => Status::Connected,
            (_, Some(Ok(_))) => Status::Tracked,
            _ if !mine.is_empty() || !process.fdinfo.is_empty() => Status::Reported,
            (Err(Missing::NoPermission), _) | (_, Some(Err(Missing::NoPermission))) => Status::NoPermission,
            _ if self.is_denied(process) => Status::NoPermission,
            _ => Status::Open,
        };
        Process {
            key: process.key,
            name: facts.map(|facts| facts.name.clone()),
            user: facts.map(|facts| facts.user.clone().unwrap_or_else(|| facts.uid.to_string())),
            uid: facts.map(|facts| u64::from(facts.uid)),
            command: process.command.clone(),
            parent: facts.map(|facts| u64::from(facts.parent)),
            start_time: facts.map(|facts| facts.start_time),
            cpu: cpu(sample, previous, process),
            rss: facts.map(|facts| facts.rss),
            container: known(&process.workload.container),
            pod: known(&process.workload.pod),
            job: known(&process.workload.job),
            pod_name: known(&process.workload.pod_name),
            namespace: known(&process.workload.namespace),
            container_name: known(&process.workload.container_name),
            job_name: known(&process.workload.job_name),
            job_step: known(&process.workload.job_step),
            status,
            overlap_bytes: tracked.and_then(|tracked| tracked.overlap_bytes),
            launches: tracked.and_then(|tracked| tracked.launches.programs),
            launches_per_s: tracked.and_then(|tracked| tracked.launches.per_s),
            last_launch: tracked.and_then(|tracked| tracked.launches.last),
            // `status` tells that a ledger cannot be read.
            devices: self.devices(index, process, &mine, ledger.and_then(Result::ok)),
            unmapped: unmapped(&mine, ledger.and_then(Result::ok)),
        }
    }

    fn held_by(&self, process: &ProcessSample) -> impl Iterator<Item = usize> {
        let pid = process.key.pid;
        let first = self.held.partition_point(|(holder, _)| *holder < pid);
        self.held[first..].iter().take_while(move |(holder, _)| *holder == pid).map(|(_, row)| *row)
    }

    fn is_denied(&self, process: &ProcessSample) -> bool {
        self.held_by(process).any(|row| self.attribution.denied[row])
    }

    /// Returns the rows that a process holds or has memory on, sorted. There are few.
    fn rows_of(&self, process: &ProcessSample, mine: &[Slot], ledger: Option<&ProcessMemory>) -> Vec<usize> {
        let targets = mine.iter().map(|(target, _)| *target).chain(ledger.into_iter().flat_map(ProcessMemory::targets));
        let mut rows: Vec<usize> = self.held_by(process).chain(targets.filter_map(Target::row)).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    fn devices(&self, number: usize, process: &ProcessSample, mine: &[Slot], ledger: Option<&ProcessMemory>) -> Vec<DeviceUse> {
        let denied = matches!(self.tracked.of(process.key), Some(Err(Missing::NoPermission)));
        let mut devices = Vec::new();
        for index in self.rows_of(process, mine, ledger) {
            let row = &self.rows[index];
            let target = Target::Device(index);
            let reported = used_on(mine, target);
            let tracked = ledger.and_then(|ledger| ledger.on(target));
            let is_nonsense = self.attribution.nonsense.contains(&(number, target));
            let absent = match () {
                () if is_nonsense => Missing::OutOfRange,
                () if denied || self.attribution.denied[index] => Missing::NoPermission,
                () => Missing::NotTracked,
            };
            // A process that reports memory on other rows has none here, unless it also reports memory on a chip without a row.
            let is_elsewhere = !mine.is_empty() && !is_nonsense && mine.iter().all(|(target, _)| target.row().is_some());
            let reported = reported.or_else(|| is_elsewhere.then(PerKind::default));
            let kinds = figures(tracked, reported.as_ref(), fdinfo_on(process, row.id).as_ref(), absent);
            let metal_ids = ledger.map_or(Err(absent), |ledger| ledger.metal_ids(target));
            devices.push(DeviceUse { device: row.id, metal_ids, kinds });
        }
        devices
    }
}

/// Returns the pids and rows of all known holders. If those of a row are unknown, its memory has the reason.
fn held(rows: &[DeviceRow<'_>]) -> Vec<(u32, usize)> {
    let users = rows.iter().enumerate().filter_map(|(index, row)| Some((index, row.local?.users.as_ref().ok()?)));
    let mut held: Vec<(u32, usize)> = users.flat_map(|(index, users)| users.pids.iter().map(move |pid| (*pid, index))).collect();
    held.sort_unstable();
    held
}

fn unmapped(mine: &[Slot], ledger: Option<&ProcessMemory>) -> Vec<Unmapped> {
    let reported = mine.iter().map(|(target, _)| *target);
    let tracked = ledger.into_iter().flat_map(|ledger| ledger.targets());
    let mut ids: Vec<u64> = reported.chain(tracked).filter_map(Target::unmapped).collect();
    ids.sort_unstable();
    ids.dedup();
    let unique_ids = ledger.filter(|_| !ids.is_empty()).map_or_else(BTreeMap::new, ProcessMemory::unique_ids);
    let of = |id| {
        let target = Target::Unmapped(id);
        let kinds = figures(ledger.and_then(|ledger| ledger.on(target)), used_on(mine, target).as_ref(), None, Missing::NotTracked);
        let is_reported = mine.iter().any(|(at, _)| *at == target);
        // A target that occurs only in the statistics is itself the unique id.
        let unique_id = unique_ids.get(&id).copied().or(is_reported.then_some(id));
        Unmapped { id, unique_id: unique_id.ok_or(Missing::NoSource), kinds }
    };
    ids.into_iter().map(of).collect()
}

fn used_on(mine: &[Slot], target: Target) -> Option<PerKind<u64>> {
    let mut slots = mine.iter().filter(|(at, _)| *at == target).map(|(_, used)| used);
    let first = slots.next()?.clone();
    Some(slots.fold(first, |sum, used| PerKind::from_fn(|kind| sum[kind].saturating_add(used[kind]))))
}

fn fdinfo_on(process: &ProcessSample, device: DeviceId) -> Option<PerKind<Option<u64>>> {
    let mut files = process.fdinfo.iter().filter(|file| file.device == device).map(|file| &file.used);
    let first = files.next()?.clone();
    Some(files.fold(first, |sum, used| {
        PerKind::from_fn(|kind| match (sum[kind], used[kind]) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (a, b) => a.or(b),
        })
    }))
}

/// Selects the best source for each kind.
fn figures(
    tracked: Option<&PerKind<Option<Figure>>>,
    reported: Option<&PerKind<u64>>,
    fdinfo: Option<&PerKind<Option<u64>>>,
    absent: Missing,
) -> PerKind<Figure> {
    PerKind::from_fn(|kind| {
        let ledger = tracked.and_then(|kinds| kinds[kind].clone());
        // TT-Metal's statistics do not include kernels.
        let shm = || reported.filter(|_| kind != Kind::Kernel).map(|used| Figure::used_only(used[kind], Source::Shm));
        let kernel_driver = || fdinfo.and_then(|used| used[kind]).map(|used| Figure::used_only(used, Source::Fdinfo));
        ledger.or_else(shm).or_else(kernel_driver).unwrap_or_else(|| Figure::missing(absent))
    })
}

fn cpu(sample: &Sample, previous: Option<&Sample>, process: &ProcessSample) -> Reading<f64> {
    let now = process.facts.as_ref().map_err(|reason| *reason)?.cpu_time;
    let before = previous.ok_or(Missing::FirstSample)?;
    let place = before.processes.binary_search_by_key(&process.key, |process| process.key).map_err(|_| Missing::FirstSample)?;
    let then = before.processes[place].facts.as_ref().map_err(|_| Missing::FirstSample)?.cpu_time;
    let elapsed = sample.scanned_at().saturating_sub(before.scanned_at());
    if elapsed.is_zero() {
        return Err(Missing::FirstSample);
    }
    Ok(now.saturating_sub(then).as_secs_f64() / elapsed.as_secs_f64())
}

fn known(text: &Option<String>) -> Reading<String> {
    text.clone().ok_or(Missing::NoSource)
}
