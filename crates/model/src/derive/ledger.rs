//! Ledgers: which chip each allocator's chips are, and what a process has there.

use super::process::{Target, row_of};
use super::rows::Row;
use crate::identity::{DeviceId, ProcessKey};
use crate::ledger::{BufferKind, Ledger, LedgerAllocator, LedgerChip, LedgerRow, VisibleDevices};
use crate::memory::{Figure, PerKind, Source};
use crate::missing::{Missing, Reading};
use crate::sample::{Problem, Sample};
use crate::snapshot::{Allocator, AllocatorKind, Buffer};

/// What all ledgers say.
pub(super) struct Tracked {
    processes: Vec<(ProcessKey, Reading<OfProcess>)>,
    pub(super) allocators: Vec<Allocator>,
    pub(super) buffers: Vec<Buffer>,
    /// The unique id under which a row was found, by row.
    pub(super) confirmed: Vec<Option<u64>>,
}

/// One process's memory by place.
pub(super) struct OfProcess(Vec<(Target, PerKind<Option<Figure>>)>);

impl Tracked {
    /// A process's ledger, if it has one.
    pub(super) fn of(&self, process: ProcessKey) -> Option<Result<&OfProcess, Missing>> {
        let (_, content) = self.processes.iter().find(|(key, _)| *key == process)?;
        Some(content.as_ref().map_err(|reason| *reason))
    }
}

impl OfProcess {
    /// Its figures at a place.
    pub(super) fn on(&self, target: Target) -> Option<&PerKind<Option<Figure>>> {
        self.0.iter().find(|(at, _)| *at == target).map(|(_, kinds)| kinds)
    }

    /// The places it has to do with.
    pub(super) fn targets(&self) -> impl Iterator<Item = Target> {
        self.0.iter().map(|(target, _)| *target)
    }

    fn entry(&mut self, target: Target) -> &mut PerKind<Option<Figure>> {
        let index = self.0.iter().position(|(at, _)| *at == target).unwrap_or_else(|| {
            self.0.push((target, PerKind::default()));
            self.0.len() - 1
        });
        &mut self.0[index].1
    }
}

pub(super) fn attribute(sample: &Sample, rows: &[Row<'_>], problems: &mut Vec<Problem>) -> Tracked {
    let mut tracked = Tracked { processes: Vec::new(), allocators: Vec::new(), buffers: Vec::new(), confirmed: vec![None; rows.len()] };
    for sample in &sample.ledgers {
        let content = match &sample.content {
            Ok(ledger) => {
                let flaws = [
                    (!ledger.is_exact, "some of its events were lost, so its figures may be off"),
                    (ledger.is_changing, "its buffers change faster than they can be listed; its totals are exact, the list is not"),
                ];
                problems.extend(flaws.into_iter().filter(|(is_so, _)| *is_so).map(|(_, detail)| Problem {
                    part: format!("ledger of process {}", sample.owner.pid),
                    reason: Missing::NotTracked,
                    detail: detail.to_owned(),
                }));
                Ok(take(sample.owner, ledger, rows, &mut tracked))
            }
            Err(reason) => Err(*reason),
        };
        tracked.processes.push((sample.owner, content));
    }
    tracked
}

fn take(owner: ProcessKey, ledger: &Ledger, rows: &[Row<'_>], tracked: &mut Tracked) -> OfProcess {
    let mut process = OfProcess(Vec::new());
    let mut names = Vec::with_capacity(ledger.allocators.len());
    for allocator in &ledger.allocators {
        let targets: Vec<Target> = allocator.chips.iter().map(|chip| target_of(*chip, allocator, ledger, rows)).collect();
        for (chip, target) in allocator.chips.iter().zip(&targets) {
            if let (Target::Row(row), Some(id)) = (target, chip.unique_id) {
                tracked.confirmed[*row] = Some(id);
            }
            add(process.entry(*target), allocator);
        }
        let name = format!("{}.{}.{}", owner.pid, allocator.slot, allocator.generation);
        let devices: Vec<DeviceId> = targets.iter().filter_map(|target| device_of(*target, rows)).collect();
        let unmapped = targets.iter().filter_map(|target| match target {
            Target::Unmapped(id) => Some(*id),
            Target::Row(_) => None,
        });
        tracked.allocators.push(Allocator {
            id: name.clone(),
            process: owner,
            slot: allocator.slot,
            is_open: allocator.is_open,
            mesh: allocator.mesh,
            devices: devices.clone(),
            unmapped: unmapped.collect(),
            kinds: PerKind::from_fn(|kind| row_of_kind(allocator, BufferKind::Of(kind)).map(of_allocator)),
            others: [BufferKind::Host, BufferKind::Other]
                .into_iter()
                .filter_map(|kind| Some((kind, of_allocator(row_of_kind(allocator, kind)?))))
                .collect(),
        });
        names.push((name, devices));
    }
    for buffer in &ledger.buffers {
        if let Some((allocator, devices)) = names.get(buffer.allocator) {
            let (allocator, devices) = (allocator.clone(), devices.clone());
            tracked.buffers.push(Buffer { process: owner, allocator, devices, entry: buffer.clone() });
        }
    }
    process
}

fn device_of(target: Target, rows: &[Row<'_>]) -> Option<DeviceId> {
    match target {
        Target::Row(index) => rows.get(index).map(|row| row.id),
        Target::Unmapped(_) => None,
    }
}

fn row_of_kind(allocator: &LedgerAllocator, kind: BufferKind) -> Option<&LedgerRow> {
    allocator.rows.iter().find(|row| row.kind == kind)
}

fn of_allocator(row: &LedgerRow) -> AllocatorKind {
    AllocatorKind {
        figure: figure(row),
        free: row.capacity.zip(row.allocated).map(|(capacity, allocated)| capacity.saturating_sub(allocated)).ok_or(Missing::NotTracked),
        unlisted: (row.unlisted_count, row.unlisted_bytes),
    }
}

fn figure(row: &LedgerRow) -> Figure {
    Figure {
        used: Ok(row.used),
        allocated: row.allocated.ok_or(Missing::NotTracked),
        peak: Ok(row.peak),
        peak_time: if row.peak > 0 && row.peak_time.0 > 0 { Ok(row.peak_time) } else { Err(Missing::NoSource) },
        count: Ok(row.count),
        source: Ok(Source::Ledger),
    }
}

/// Adds an allocator's figures to those of its chip. Closed ones hold nothing, but had their peaks.
fn add(kinds: &mut PerKind<Option<Figure>>, allocator: &LedgerAllocator) {
    for row in &allocator.rows {
        let BufferKind::Of(kind) = row.kind else { continue };
        let new = figure(row);
        let figure = kinds[kind].get_or_insert_with(|| Figure { peak: Ok(0), used: Ok(0), allocated: Ok(0), count: Ok(0), ..new.clone() });
        let plus = |sum: Reading<u64>, more: Reading<u64>| sum.and_then(|sum| more.map(|more| sum.saturating_add(more)));
        figure.used = plus(figure.used, new.used);
        figure.allocated = plus(figure.allocated, new.allocated);
        figure.count = plus(figure.count, new.count);
        if figure.peak < new.peak {
            (figure.peak, figure.peak_time) = (new.peak, new.peak_time);
        }
    }
}

/// The row a chip is on: by its unique id, else by its number in a process that sees these devices.
fn target_of(chip: LedgerChip, allocator: &LedgerAllocator, ledger: &Ledger, rows: &[Row<'_>]) -> Target {
    let given = chip.unique_id.or(chip.metal_id.map(u64::from)).unwrap_or(u64::from(allocator.given_id));
    if ledger.is_mock {
        return Target::Unmapped(given);
    }
    let row = match (chip.unique_id, chip.metal_id) {
        (Some(id), _) => row_of(rows, id),
        (None, Some(metal_id)) => row_of_metal_id(rows, &ledger.visible_devices, metal_id),
        (None, None) => None,
    };
    row.map_or(Target::Unmapped(given), Target::Row)
}

/// TT-Metal numbers the devices a process sees: local ones in the order of their PCI addresses, then remote ones.
fn row_of_metal_id(rows: &[Row<'_>], visible: &VisibleDevices, metal_id: u32) -> Option<usize> {
    let visible = match visible {
        VisibleDevices::All => return rows.iter().position(|row| row.metal_id == Ok(u64::from(metal_id))),
        VisibleDevices::Cut => return None,
        VisibleDevices::Only(visible) => visible,
    };
    let mut seen: Vec<usize> = Vec::new();
    for word in visible.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        seen.extend(visible_rows(rows, word)?);
    }
    // Inside the process they are numbered anew, in the order of their addresses.
    seen.sort_by_key(|row| rows[*row].metal_id.unwrap_or(u64::MAX));
    seen.dedup();
    seen.get(usize::try_from(metal_id).ok()?).copied()
}

/// The local rows a word of TT_VISIBLE_DEVICES names. UMD took integers for /dev numbers before 0.9.3 and takes them for
/// positions in the order of addresses since: where the two differ nothing is certain.
fn visible_rows(rows: &[Row<'_>], word: &str) -> Option<Vec<usize>> {
    if word.contains([':', '.']) {
        let fits = |row: &Row<'_>| row.local.and_then(|local| local.bdf.ok()).is_some_and(|bdf| bdf.to_string().contains(word));
        return Some((0..rows.len()).filter(|index| fits(&rows[*index])).collect());
    }
    let number: u64 = word.parse().ok()?;
    let by_position = rows.iter().position(|row| row.local.is_some() && row.metal_id == Ok(number))?;
    let by_device = rows.iter().position(|row| row.local.is_some() && u64::from(row.id.0) == number)?;
    (by_position == by_device).then(|| vec![by_position])
}
