//! Derives a snapshot from samples: checks values, computes rates and merges sources. This code is pure.

mod allocator;
mod blocks;
mod chip;
mod circulars;
mod deep;
mod device;
mod device_rows;
mod launches;
mod ledger;
mod names;
mod numbers;
mod overlap;
mod peaks;
mod places;
mod process;
mod refusals;
mod steps;
mod sums;

use std::collections::{BTreeMap, HashMap};

use crate::health;
use crate::identity::{DeviceId, UniqueId, ranges};
use crate::kernels::KernelTypes;
use crate::memory::{Bar, Figure, Kind, KindMemory, Memory, PerKind, Source, sum};
use crate::missing::{Missing, Reading};
use crate::problems::Problems;
use crate::sample::{Problem, Sample};
use crate::snapshot::{Allocator, Device, DeviceUse, Process, Snapshot, State, Status};

pub use chip::ChipIdentity;
use device_rows::DeviceRow;
use ledger::Tracked;
pub use ledger::numbering;
pub use numbers::{describes, lacks_numbers, proven};
pub use peaks::Peaks;
pub use refusals::Refusals;
use steps::Steps;
pub use sums::DeviceSums;

impl Snapshot {
    /// Derives a snapshot. Rates of processes need a previous sample with an earlier scan. Without one, they are `first_sample`.
    pub fn derive(sample: &Sample, previous: Option<&Sample>) -> Self {
        Self::derive_counted(sample, previous).0
    }

    /// Derives a snapshot like [`Self::derive`]. Also returns the number of figures that were not computed because a user reached the
    /// limit.
    pub fn derive_counted(sample: &Sample, previous: Option<&Sample>) -> (Self, u64) {
        let mut steps = Steps::default();
        let rows = device_rows::list(sample);
        let ids = device_rows::Ids::of(&rows);
        let mut problems = Problems::new(sample.problems.clone());
        device_rows::report_strangers(sample, &rows, &mut problems.list);
        device_rows::report_boards(&rows, &mut problems.list);
        device_rows::report_missing(&rows, &mut problems.list);
        numbers::report_contradictions(&rows, sample, &mut problems.list);
        let attribution = process::attribute(sample, &rows, &ids, &mut steps, &mut problems);
        let tracked = ledger::attribute(sample, previous, &rows, &ids, &mut steps, &mut problems);
        let processes = process::list(sample, previous, &rows, &attribution, &tracked);
        let by_device = by_device(&processes);
        let refusals = tracked.refusals();
        let mut devices: Vec<Device> = Vec::with_capacity(rows.len());
        let mut not_held = BTreeMap::new();
        for (index, row) in rows.iter().enumerate() {
            // A local chip has no gateway.
            let gateway = || row.via.ok().and_then(|via| devices.iter().find(|device| device.id == via));
            let (mut device, slot_width_max) = match row.local {
                Some(local) => device::local(local, row, &mut problems.list),
                None => (device::remote(row, gateway()), Err(Missing::RemoteChip)),
            };
            let unique_id = row.unique_id.or(attribution.confirmed[index]).or(tracked.confirmed[index]);
            device.unique_id = unique_id.map(UniqueId).ok_or(Missing::NoSource);
            let holders = device_rows::holders(&rows, row);
            let uses = uses_of(&device, holders, by_device.get(&device.id).map_or(&[], Vec::as_slice), &mut not_held);
            device.memory = memory(&device, row, holders, &processes, &uses, &tracked, attribution.stale_bytes[index]);
            device.memory.refusals = refusals.get(&device.id).map_or(device.memory.refusals, |count| Ok(*count));
            device.memory.stale_processes = by_device.get(&device.id).map_or(0, |uses| dead(uses));
            device.pcie_degraded = health::is_link_degraded(&device, row.product, slot_width_max);
            (device.health, device.health_reasons) = health::assess(&device, slot_width_max);
            devices.push(device);
        }
        for (pid, devices) in not_held {
            let kind = "ledgers with memory on devices that their processes do not hold";
            problems.push_of(user_of(sample, pid), kind, not_held_problem(pid, &devices));
        }
        let mut problems = problems.into_list();
        problems.extend(steps.problems(sample));
        let snapshot = Self {
            host: sample.host.clone(),
            time: sample.time,
            lists_time: sample.time,
            driver: sample.driver.clone(),
            origin: sample.origin,
            devices,
            processes,
            allocators: tracked.allocators,
            buffers: tracked.buffers,
            circulars: tracked.circulars,
            denied_processes: sample.denied_processes,
            scan_age: sample.scan_age,
            problems,
        };
        (snapshot, steps.cuts())
    }
}

/// Returns the user of a process; `None` if the process is not known, or cannot be read.
fn user_of(sample: &Sample, pid: u32) -> Option<u32> {
    // The processes are sorted by pid.
    let place = sample.processes.binary_search_by_key(&pid, |process| process.key.pid).ok()?;
    sample.processes[place].facts.as_ref().ok().map(|facts| facts.uid)
}

type Holders<'a> = Reading<&'a crate::sample::Users>;

type Use<'p> = (&'p Process, &'p DeviceUse);

/// Groups the memory of processes by device. There may be hundreds of processes, on a few devices each.
fn by_device(processes: &[Process]) -> HashMap<DeviceId, Vec<Use<'_>>> {
    let mut uses: HashMap<DeviceId, Vec<Use<'_>>> = HashMap::new();
    for (process, use_of) in processes.iter().flat_map(|process| process.devices.iter().map(move |use_of| (process, use_of))) {
        uses.entry(use_of.device).or_default().push((process, use_of));
    }
    uses
}

/// Devices on which a process reports memory without holding them, by pid.
type NotHeld = BTreeMap<u32, Vec<DeviceId>>;

fn not_held_problem(pid: u32, devices: &[DeviceId]) -> Problem {
    let devices = match devices {
        [only] => format!("device {only}"),
        devices => format!("devices {}", ranges(devices.iter().copied())),
    };
    let detail = format!("it has memory on {devices}, which it does not hold; it is not counted there");
    Problem::new(format!("ledger of process {pid}"), Missing::OutOfRange, detail)
}

/// Selects the memory that counts for a device. If the driver does not list a process as a holder, its own ledger does not count, because
/// any user may write anything into their own ledger. Memory that the service received still counts.
fn uses_of<'p>(device: &Device, holders: Holders<'_>, uses: &[Use<'p>], not_held: &mut NotHeld) -> Vec<&'p DeviceUse> {
    let may_hold =
        |process: &Process| holders.map_or(true, |users| !users.is_complete || users.hidden > 0 || users.pids.contains(&process.key.pid));
    let mut counted = Vec::new();
    for (process, use_of) in uses.iter().copied() {
        let is_own_word = Kind::ALL.into_iter().any(|kind| use_of.kinds[kind].source == Ok(Source::Ledger));
        if is_own_word && !may_hold(process) {
            not_held.entry(process.key.pid).or_default().push(device.id);
        } else {
            counted.push(use_of);
        }
    }
    counted
}

fn memory(
    device: &Device,
    row: &DeviceRow<'_>,
    holders: Holders<'_>,
    processes: &[Process],
    uses: &[&DeviceUse],
    tracked: &Tracked,
    stale_bytes: u64,
) -> Memory {
    let (dram_total, l1_total) = totals(device, row);
    let (pids, hidden, is_complete) = match holders {
        Ok(users) => (users.pids.as_slice(), users.hidden, users.is_complete),
        Err(_) => (&[][..], 0, false),
    };
    // A process with memory on chips without a row may have memory here.
    let is_tracked = |process: &&Process| {
        let is_here = process.on(device.id).is_some_and(|use_of| use_of.source().is_ok());
        is_here || (process.source().is_ok() && process.unmapped.is_empty())
    };
    // The processes are sorted by pid.
    let of_pid = |pid: &u32| processes.binary_search_by_key(pid, |process| process.key.pid).ok().map(|index| &processes[index]);
    let reporting = pids.iter().filter_map(of_pid).filter(is_tracked).count();
    let untracked = (pids.len() - reporting.min(pids.len())) as u64 + hidden;
    // The chip number of a report may be that of this chip, even if the process does not hold this chip.
    let may_be_reported = tracked.may_be_on(row);
    let open = match holders {
        Ok(users) if users.pids.is_empty() && hidden == 0 && !is_complete => Err(Missing::NoPermission),
        Ok(users) => Ok(users.pids.len() as u64 + hidden),
        Err(reason) => Err(reason),
    };
    let absent_reason = match device.state {
        State::Gone => Some(Missing::Gone),
        State::Resetting => Some(Missing::Resetting),
        _ => None,
    };
    // The reading for kinds without a figure: nothing is in use, or the use is unknown.
    let otherwise = match (absent_reason, holders) {
        (Some(reason), _) | (None, Err(reason)) => Err(reason),
        _ if untracked > 0 || may_be_reported => Err(Missing::NotTracked),
        _ if !is_complete => Err(Missing::NoPermission),
        _ => Ok(0),
    };
    let here: Vec<&Allocator> = tracked.open_on(device.id).collect();
    let kinds = PerKind::from_fn(|kind| {
        let total = match kind {
            Kind::Dram => dram_total,
            Kind::L1 => l1_total,
            _ => Err(Missing::NoSource),
        };
        let add = |get: fn(&Figure) -> Reading<u64>| match uses {
            [] => otherwise,
            uses => sum(uses.iter().map(|use_of| get(&use_of.kinds[kind]))).map_err(|reason| absent_reason.unwrap_or(reason)),
        };
        let figure = Figure {
            used: add(|figure| figure.used),
            allocated: add(|figure| figure.allocated),
            count: add(|figure| figure.count),
            source: match uses {
                [] => Err(otherwise.err().unwrap_or(Missing::NoSource)),
                [first, ..] => uses.iter().find_map(|use_of| use_of.kinds[kind].source.ok()).map_or(first.kinds[kind].source, Ok),
            },
            kernel_types: KernelTypes::sum(uses.iter().map(|use_of| &use_of.kinds[kind])),
            ..Figure::missing(Missing::NoSource)
        };
        let capacity = capacity(&here, kind);
        let of_capacity = capacity.and_then(|capacity| figure.allocated.map(|allocated| capacity.saturating_sub(allocated)));
        let free = of_capacity.or_else(|_| total.and_then(|total| figure.used.map(|used| total.saturating_sub(used))));
        KindMemory { total, capacity, free, largest_free_per_bank: largest_free(&here, kind), figure }
    });
    let used = |bar: &[Kind]| sum(bar.iter().map(|kind| kinds[*kind].figure.used));
    let dram = Bar { total: dram_total, used: used(&Kind::DRAM_BAR) };
    let l1 = Bar { total: l1_total, used: used(&Kind::L1_BAR) };
    // The caller adds the refused allocations of each tracked program.
    let refusals = if untracked > 0 || may_be_reported { Err(Missing::NotTracked) } else { open.map(|_| 0) };
    Memory {
        kinds,
        dram,
        l1,
        untracked_processes: untracked,
        holders: open,
        hidden_processes: hidden,
        stale_bytes,
        stale_processes: 0,
        refusals,
    }
}

/// Counts the processes that have exited while their device file is still open.
fn dead(uses: &[Use<'_>]) -> u64 {
    uses.iter().filter(|(process, _)| process.status == Status::Dead).count() as u64
}

/// Returns the largest free block of a bank. If there are several allocators, the smallest of their values is returned, because a program
/// allocates from only one of them. Allocators without a known block do not count.
fn largest_free(here: &[&Allocator], kind: Kind) -> Reading<u64> {
    let of = |allocator: &&Allocator| allocator.kinds[kind].as_ref()?.banks.as_ref().ok()?.largest_free_per_bank.ok();
    here.iter().filter_map(of).min().ok_or(Missing::NotTracked)
}

/// Returns the largest known capacity of the chip's allocators. A mesh and its submesh share the same bytes.
fn capacity(here: &[&Allocator], kind: Kind) -> Reading<u64> {
    let of = |allocator: &&Allocator| {
        let banks = allocator.kinds[kind].as_ref()?.banks.as_ref().ok()?;
        Some(banks.banks.saturating_mul(banks.bank_bytes))
    };
    here.iter().filter_map(of).max().ok_or(Missing::NotTracked)
}

/// Returns the DRAM and L1 of the chip from the product table. L1 is exact if the chip reported its number of cores.
fn totals(device: &Device, row: &DeviceRow<'_>) -> (Reading<u64>, Reading<u64>) {
    match row.product {
        Some(product) => {
            let firmware = device.firmware.as_deref().ok().and_then(crate::units::Version::parse);
            let cores = device.tensix_cores.unwrap_or_else(|_| product.cores_with(firmware));
            (Ok(product.dram_bytes()), Ok(cores * product.arch.l1_bytes_per_core()))
        }
        None => (Err(Missing::NoSource), Err(Missing::NoSource)),
    }
}
