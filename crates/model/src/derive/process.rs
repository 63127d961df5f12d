//! Processes, and whose memory lies on which chip.

use super::rows::{self, Row};
use crate::identity::DeviceId;
use crate::limits::START_TIME_SLACK;
use crate::memory::{Figure, Kind, PerKind, Source};
use crate::missing::{Missing, Reading};
use crate::region::Slot;
use crate::sample::{ProcessSample, RegionSample, Sample};
use crate::snapshot::{DeviceUse, Process, Status, Unmapped};

/// What TT-Metal's statistics say, sorted out: by process and chip.
pub(super) struct Attribution {
    /// Bytes of live processes: index of the process, where, how much.
    live: Vec<(usize, Target, PerKind<u64>)>,
    /// Rows whose statistics this user may not read.
    denied: Vec<bool>,
    /// Bytes of dead slots, by row.
    pub(super) stale_bytes: Vec<u64>,
    /// The unique id under which a row was found, by row.
    pub(super) confirmed: Vec<Option<u64>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Target {
    Row(usize),
    Unmapped(u64),
}

pub(super) fn attribute(sample: &Sample, rows: &[Row<'_>]) -> Attribution {
    let mut attribution = Attribution {
        live: Vec::new(),
        denied: vec![false; rows.len()],
        stale_bytes: vec![0; rows.len()],
        confirmed: vec![None; rows.len()],
    };
    for region in &sample.regions {
        let row = row_of(rows, region.unique_id);
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
        let target = row.map_or(Target::Unmapped(region.unique_id), Target::Row);
        for slot in &content.slots {
            match owner(sample, rows, region, slot, row) {
                Some(process) => attribution.live.push((process, target, slot.used.clone())),
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

/// The one row a unique id belongs to; none where it fits several.
fn row_of(rows: &[Row<'_>], unique_id: u64) -> Option<usize> {
    let fits = |row: &Row<'_>| row.unique_id.map_or_else(|| row.candidates.contains(&unique_id), |known| known == unique_id);
    let mut matching = rows.iter().enumerate().filter(|(_, row)| fits(row)).map(|(index, _)| index);
    let first = matching.next();
    first.filter(|_| matching.next().is_none())
}

/// The living process a slot belongs to. A slot carries the pid of the writer's own namespace and is never removed
/// after a crash, so the process must have started before the slot was last written.
fn owner(sample: &Sample, rows: &[Row<'_>], region: &RegionSample, slot: &Slot, row: Option<usize>) -> Option<usize> {
    let is_older = |process: &ProcessSample| {
        process.facts.as_ref().is_ok_and(|facts| {
            let slack = u64::try_from(START_TIME_SLACK.as_nanos()).unwrap_or(u64::MAX);
            facts.start_time.0 <= slot.updated.0.saturating_add(slack)
        })
    };
    let holders: &[u32] = row.and_then(|row| rows::holders(rows, &rows[row]).ok()).map_or(&[], |users| &users.pids);
    let is_holder = |process: &ProcessSample| holders.contains(&process.key.pid);
    let of_host = |process: &ProcessSample| process.key.pid == slot.pid && process.namespace_pid == slot.pid;
    let of_namespace = |process: &ProcessSample| process.namespace_pid == slot.pid;
    let is_named = |process: &ProcessSample| process.facts.as_ref().is_ok_and(|facts| facts.name == slot.name);
    let find = |fits: &dyn Fn(&ProcessSample) -> bool| {
        let mut found = sample.processes.iter().enumerate().filter(|(_, process)| is_older(process) && fits(process));
        let first = found.next().map(|(index, _)| index);
        first.filter(|_| found.next().is_none())
    };
    match region.through {
        Some(_) => find(&|process| is_holder(process) && of_namespace(process)).or_else(|| find(&of_namespace)),
        None => find(&|process| is_holder(process) && of_host(process))
            .or_else(|| find(&|process| is_holder(process) && of_namespace(process)))
            .or_else(|| find(&|process| of_host(process) && is_named(process))),
    }
}

pub(super) fn list(sample: &Sample, previous: Option<&Sample>, rows: &[Row<'_>], attribution: &Attribution) -> Vec<Process> {
    let mut processes: Vec<Process> = sample
        .processes
        .iter()
        .enumerate()
        .map(|(index, process)| one(sample, previous, rows, attribution, index, process))
        // A process that neither holds a device nor has memory was looked at only to judge a slot.
        .filter(|process| !process.devices.is_empty() || !process.unmapped.is_empty())
        .collect();
    processes.sort_by_key(|process| process.key);
    processes
}

fn one(
    sample: &Sample,
    previous: Option<&Sample>,
    rows: &[Row<'_>],
    attribution: &Attribution,
    index: usize,
    process: &ProcessSample,
) -> Process {
    let mine: Vec<_> = attribution.live.iter().filter(|(owner, ..)| *owner == index).collect();
    let is_reported = !mine.is_empty();
    let mut is_denied = false;
    let mut devices = Vec::new();
    for (row_index, row) in rows.iter().enumerate() {
        let is_open = row.local.is_some_and(|local| local.users.as_ref().is_ok_and(|users| users.pids.contains(&process.key.pid)));
        let reported = used_on(&mine, Target::Row(row_index));
        if !is_open && reported.is_none() {
            continue;
        }
        is_denied |= is_open && attribution.denied[row_index];
        let absent = if attribution.denied[row_index] { Missing::NoPermission } else { Missing::NotTracked };
        // One that reports elsewhere and not here has nothing here.
        let reported = reported.or_else(|| is_reported.then(PerKind::default));
        devices.push(DeviceUse { device: row.id, kinds: figures(reported.as_ref(), fdinfo_on(process, row.id).as_ref(), absent) });
    }
    let unmapped = mine.iter().filter_map(|(_, target, _)| match target {
        Target::Unmapped(id) => Some(*id),
        Target::Row(_) => None,
    });
    let mut ids: Vec<u64> = unmapped.collect();
    ids.sort_unstable();
    ids.dedup();
    let unmapped = ids
        .into_iter()
        .map(|id| Unmapped { id, kinds: figures(used_on(&mine, Target::Unmapped(id)).as_ref(), None, Missing::NotTracked) })
        .collect();
    let facts = process.facts.as_ref().map_err(|reason| *reason);
    let status = match facts {
        Err(Missing::Gone) => Status::Dead,
        _ if is_reported => Status::Reported,
        Err(Missing::NoPermission) => Status::NoPermission,
        _ if is_denied => Status::NoPermission,
        _ => Status::Open,
    };
    Process {
        key: process.key,
        name: facts.map(|facts| facts.name.clone()),
        user: facts.map(|facts| facts.user.clone().unwrap_or_else(|| facts.uid.to_string())),
        uid: facts.map(|facts| u64::from(facts.uid)),
        command: process.command.clone(),
        start_time: facts.map(|facts| facts.start_time),
        cpu: cpu(sample, previous, process),
        rss: facts.map(|facts| facts.rss),
        workload: process.workload.clone(),
        status,
        devices,
        unmapped,
    }
}

fn used_on(mine: &[&(usize, Target, PerKind<u64>)], target: Target) -> Option<PerKind<u64>> {
    let mut slots = mine.iter().filter(|(_, at, _)| *at == target).map(|(.., used)| used);
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

/// The best source for each kind.
fn figures(reported: Option<&PerKind<u64>>, fdinfo: Option<&PerKind<Option<u64>>>, absent: Missing) -> PerKind<Figure> {
    PerKind::from_fn(|kind| {
        // TT-Metal's statistics leave kernels out.
        let shm = reported.filter(|_| kind != Kind::Kernel).map(|used| Figure::used_only(used[kind], Source::Shm));
        let kernel_driver = || fdinfo.and_then(|used| used[kind]).map(|used| Figure::used_only(used, Source::Fdinfo));
        shm.or_else(kernel_driver).unwrap_or_else(|| Figure::missing(absent))
    })
}

fn cpu(sample: &Sample, previous: Option<&Sample>, process: &ProcessSample) -> Reading<f64> {
    let now = process.facts.as_ref().map_err(|reason| *reason)?.cpu_time;
    let before = previous.ok_or(Missing::FirstSample)?;
    let same = before.processes.iter().find(|other| other.key == process.key).ok_or(Missing::FirstSample)?;
    let then = same.facts.as_ref().map_err(|_| Missing::FirstSample)?.cpu_time;
    let elapsed = sample.at.saturating_sub(before.at);
    if elapsed.is_zero() {
        return Err(Missing::FirstSample);
    }
    Ok(now.saturating_sub(then).as_secs_f64() / elapsed.as_secs_f64())
}
