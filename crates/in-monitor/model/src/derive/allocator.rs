//! Memory of an allocator by kind, and the use of its banks.

use std::collections::BTreeMap;

use super::blocks::{largest_free, table};
use super::circulars::{Occupancy, Work, by_allocator};
use crate::ledger::{BufferKind, FeatureState, Ledger, LedgerAllocator, LedgerCircular, LedgerRow, LedgerWriter};
use crate::memory::{Figure, Kind, PerKind, Source};
use crate::missing::Missing;
use crate::snapshot::{AllocatorKind, Banks, NoBlocks, Programs};

/// Live blocks of a ledger, by allocator and kind.
#[derive(Debug, Default)]
pub(super) struct Lists<'a> {
    /// Addresses and numbers of bytes in each bank.
    live: BTreeMap<(usize, Kind), Vec<(u64, u64)>>,
    circulars: BTreeMap<usize, Vec<&'a LedgerCircular>>,
}

impl<'a> Lists<'a> {
    pub(super) fn of(ledger: &'a Ledger) -> Self {
        let mut lists = Self { circulars: by_allocator(ledger), ..Self::default() };
        for buffer in &ledger.buffers {
            if let (BufferKind::Of(kind), Some(per_bank), false) = (buffer.kind, buffer.per_bank, buffer.is_per_core) {
                let live = lists.live.entry((usize::from(buffer.allocator), kind)).or_default();
                live.push((buffer.address, per_bank.get().into()));
            }
        }
        lists
    }

    /// Returns the circular buffers of an allocator's programs.
    pub(super) fn circulars(&self, allocator: usize) -> &[&'a LedgerCircular] {
        self.circulars.get(&allocator).map_or(&[], Vec::as_slice)
    }

    /// Returns the address and the bytes per bank of each live block.
    pub(super) fn live(&self, allocator: usize, kind: Kind) -> &[(u64, u64)] {
        self.live.get(&(allocator, kind)).map_or(&[], Vec::as_slice)
    }
}

impl Ledger {
    /// Returns the largest free block of a bank by allocator (index) and kind. Empty kinds and unknown blocks are omitted.
    pub fn largest_free_blocks(&self) -> Vec<(usize, Kind, u64)> {
        let lists = Lists::of(self);
        let mut found = Vec::new();
        for (index, allocator) in self.allocators.iter().enumerate() {
            for row in allocator.rows.iter().filter(|row| row.count > 0) {
                let BufferKind::Of(kind) = row.kind else { continue };
                let banks = banks(self, index, kind, row, &lists);
                found.extend(banks.and_then(|banks| Some((index, kind, banks.largest_free_per_bank.ok()?))));
            }
        }
        found
    }
}

/// Returns all kinds of one allocator.
pub(super) fn kinds(ledger: &Ledger, index: usize, lists: &Lists<'_>, work: &mut Work<'_>) -> PerKind<Option<AllocatorKind>> {
    let Some(allocator) = ledger.allocators.get(index) else { return PerKind::default() };
    PerKind::from_fn(|kind| match kind {
        Kind::Cb if allocator.origin == LedgerWriter::Hook => of_programs(ledger, index, lists, work),
        _ => of_buffers(ledger, index, kind, lists),
    })
}

fn of_buffers(ledger: &Ledger, index: usize, kind: Kind, lists: &Lists<'_>) -> Option<AllocatorKind> {
    let allocator = ledger.allocators.get(index)?;
    let row = allocator.rows.iter().find(|row| row.kind == BufferKind::Of(kind));
    // If the banks are known and there was never a buffer, 0 bytes are in use. That differs from an unknown value.
    let row = row
        .cloned()
        .or_else(|| knows_banks(allocator, kind).then(|| LedgerRow { allocated: Some(0), ..LedgerRow::empty(BufferKind::Of(kind)) }))?;
    let mut item = of_row(&row);
    if let Some(banks) = banks(ledger, index, kind, &row, lists) {
        item.free = banks.free_per_bank.map(|free| free.saturating_mul(banks.banks));
        item.banks = Ok(banks);
    }
    Some(item)
}

/// Returns whether the banks of a kind are known, including a count of zero. Small L1 buffers have banks only if a program configures them.
/// A writer that reported the banks of one kind has reported those of all kinds.
fn knows_banks(allocator: &LedgerAllocator, kind: Kind) -> bool {
    Kind::BANKED.contains(&kind) && Kind::BANKED.iter().any(|kind| allocator.geometry[*kind].is_some())
}

/// Returns the figures of a row, without its banks.
pub(super) fn of_row(row: &LedgerRow) -> AllocatorKind {
    // Circular buffers and kernels have no peak in any ledger. Cores share bytes, so their sizes cannot be added.
    let has_peak = !matches!(row.kind, BufferKind::Of(Kind::Cb | Kind::Kernel));
    AllocatorKind {
        figure: Figure {
            used: Ok(row.used),
            allocated: row.allocated.ok_or(Missing::NotTracked),
            peak: if has_peak { Ok(row.peak) } else { Err(Missing::NoSource) },
            peak_time: if has_peak && row.peak > 0 && row.peak_time.0 > 0 { Ok(row.peak_time) } else { Err(Missing::NoSource) },
            count: Ok(row.count),
            source: Ok(Source::Ledger),
            kernel_types: row.kernel_types.clone(),
        },
        free: row.capacity.zip(row.allocated).map(|(capacity, allocated)| capacity.saturating_sub(allocated)).ok_or(Missing::NotTracked),
        unlisted: (row.unlisted_count, row.unlisted_bytes),
        banks: Err(Missing::NotTracked),
        programs: None,
    }
}

fn banks(ledger: &Ledger, index: usize, kind: Kind, row: &LedgerRow, lists: &Lists<'_>) -> Option<Banks> {
    let allocator = ledger.allocators.get(index)?;
    let Some(geometry) = allocator.geometry[kind].filter(|geometry| geometry.banks > 0 && Kind::BANKED.contains(&kind)) else {
        return (row.count == 0 && knows_banks(allocator, kind)).then(Banks::none);
    };
    let lower_end = allocator.self_check.l1_lower_end.filter(|_| kind == Kind::L1).unwrap_or(geometry.base);
    let end = geometry.base.saturating_add(geometry.bank_bytes);
    let start = geometry.base.max(lower_end).min(end);
    let no_blocks = no_blocks(allocator, ledger, kind, row);
    let bank_bytes = end - start;
    let is_taken_known = !matches!(no_blocks, Some(NoBlocks::Restored | NoBlocks::PerCore | NoBlocks::SizeUnknown));
    let allocated = row.allocated.filter(|allocated| is_taken_known && allocated % geometry.banks == 0).map(|bytes| bytes / geometry.banks);
    let free = allocated.map(|allocated| bank_bytes.saturating_sub(allocated));
    let has_table = no_blocks.is_none() && (ledger.has_blocks || row.count == 0);
    let table = has_table.then(|| table(start, end, lists.live(index, kind).to_vec()));
    let unlisted = row.largest_free_per_bank.filter(|_| no_blocks.is_none());
    let largest = table.as_deref().map(largest_free).or(unlisted).zip(free).map(|(largest, free)| largest.min(free));
    let fragmentation = largest.zip(free).filter(|(_, free)| *free > 0).map(|(largest, free)| 1.0 - largest as f64 / free as f64);
    let known = |value: Option<u64>| value.ok_or(Missing::NotTracked);
    Some(Banks {
        banks: geometry.banks,
        bank_bytes,
        allocated_per_bank: known(allocated),
        free_per_bank: known(free),
        largest_free_per_bank: known(largest),
        // Without free bytes there is no fragmentation.
        fragmentation: fragmentation.ok_or(if largest.is_some() { Missing::NoSource } else { Missing::NotTracked }),
        blocks: known(table.as_ref().map(|blocks| blocks.len() as u64)),
        // `blocks` tells that the table is not known.
        table: table.unwrap_or_default(),
        no_blocks,
    })
}

fn no_blocks(allocator: &LedgerAllocator, ledger: &Ledger, kind: Kind, row: &LedgerRow) -> Option<NoBlocks> {
    let is_l1 = matches!(kind, Kind::L1 | Kind::L1Small);
    match () {
        () if allocator.self_check.is_restored => Some(NoBlocks::Restored),
        () if (allocator.self_check.is_per_core && is_l1) || row.has_per_core => Some(NoBlocks::PerCore),
        () if row.count == 0 => None,
        () if row.has_unknown_blocks => Some(NoBlocks::SizeUnknown),
        () if row.unlisted_count > 0 => Some(NoBlocks::Unlisted),
        () if ledger.is_listed && ledger.is_changing() => Some(NoBlocks::Changing),
        () => None,
    }
}

/// Returns the circular buffers of the programs on an allocator, for the chip with the most bytes.
fn of_programs(ledger: &Ledger, index: usize, lists: &Lists<'_>, work: &mut Work<'_>) -> Option<AllocatorKind> {
    let allocator = ledger.allocators.get(index)?;
    let differ = lists.circulars(index).iter().any(|circular| circular.chip.is_some());
    let mut most = Occupancy::default();
    for chip in 0..if differ { allocator.chips.len() } else { 1 } {
        let on_chip = work.occupancy(lists, index, chip)?;
        if on_chip.bytes >= most.bytes {
            most = on_chip;
        }
    }
    reports_programs(ledger, allocator).then(|| AllocatorKind {
        figure: of_occupancy(&most),
        free: Err(Missing::NoSource),
        unlisted: (0, 0),
        banks: Err(Missing::NoSource),
        programs: Some(Programs { count: most.programs, per_core: most.per_core }),
    })
}

/// Returns the memory of circular buffers as a figure without a peak.
pub(super) fn of_occupancy(occupancy: &Occupancy) -> Figure {
    Figure {
        used: Ok(occupancy.bytes),
        allocated: Ok(occupancy.bytes),
        count: Ok(occupancy.count),
        source: Ok(Source::Ledger),
        ..Figure::missing(Missing::NoSource)
    }
}

/// Returns whether an empty list means that there are no circular buffers. This is so if the hook has seen a circular buffer here, or one
/// of any program.
pub(super) fn reports_programs(ledger: &Ledger, allocator: &LedgerAllocator) -> bool {
    let had_one = allocator.rows.iter().any(|row| row.kind == BufferKind::Of(Kind::Cb));
    let is_of_programs = |name: &str| name.contains("circular") || name.contains("dataflow");
    let was_hit =
        || ledger.coverage.iter().any(|feature| feature.state == FeatureState::Found && feature.hits > 0 && is_of_programs(&feature.name));
    had_one || was_hit()
}
