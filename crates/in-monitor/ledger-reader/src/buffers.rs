//! Ledgers with their live buffers.

use std::collections::HashMap;

use ttmon_ledger::layout::KINDS;
use ttmon_model::ledger::{BufferKind, Ledger, LedgerRow};
use ttmon_model::order::{BufferOrder, FirstBuffers};
use ttmon_model::{KernelTypes, KernelUse, Kind};

use super::entry::{Entry, Names};
use super::lines::Lines;
use super::numbers::kind_number;
use super::tags::Tags;
use super::totals::{self, Figures};
use super::{LedgerPart, MayRead, ReadError, Region, circulars, list};

/// How much of a ledger is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerDetail {
    /// Allocators and their totals.
    Totals,
    /// Totals and the types of loaded kernels.
    Kernels,
    /// Totals and every live buffer.
    Buffers,
    /// Totals, every live buffer, and the tables of blocks.
    Blocks,
    /// Totals and the first buffers of each allocator in this order, at most this many.
    First(BufferOrder, usize),
}

/// Returns the figures, counted from the entries if the writer is in the middle of an event and `may_count` accepts their number.
pub(super) fn figures(region: &Region, may_count: impl FnOnce(u64) -> bool) -> Result<Option<Figures>, ReadError> {
    let converter = region.converter();
    let figures = totals::read(region, converter)?;
    if figures.is_exact {
        Ok(Some(figures))
    } else if may_count(figures.counters.entries_used.into()) {
        list::recount(region, converter).map(Some)
    } else {
        Ok(None)
    }
}

/// Implements [`Region::ledger`].
pub(super) fn read(
    region: &Region,
    choose: impl FnOnce(&Ledger) -> LedgerDetail,
    lines: impl FnOnce() -> Lines,
    may_read: MayRead<'_>,
) -> Result<Option<Ledger>, ReadError> {
    let Some(figures) = figures(region, |entries| may_read(LedgerPart::Buffers, entries))? else { return Ok(None) };
    let allocators = &figures.ledger.allocators;
    let chips: usize = allocators.iter().map(|allocator| allocator.chips.len()).sum();
    if !may_read(LedgerPart::Allocators, allocators.len() as u64) || !may_read(LedgerPart::Chips, chips as u64) {
        return Ok(None);
    }
    let detail = choose(&figures.ledger);
    let counted = figures.ledger.live_entries();
    if detail == LedgerDetail::Totals || !may_read(LedgerPart::Buffers, counted) {
        return with_circulars(region, figures, may_read).map(Some);
    }
    let (figures, entries, tags) = match list::live(region, listed_most(counted)) {
        Err(ReadError::TooMany) => {
            // A ledger that lists more than it counts exceeds any limit.
            may_read(LedgerPart::Buffers, u64::MAX);
            return with_circulars(region, figures, may_read).map(Some);
        }
        listed => listed?,
    };
    let mut ledger = with_circulars(region, figures, may_read)?;
    add_kernel_types(&mut ledger, &entries);
    if detail != LedgerDetail::Kernels {
        add_buffers(&mut ledger, detail, entries, &tags, &lines());
    }
    Ok(Some(ledger))
}

fn with_circulars(region: &Region, mut figures: Figures, may_read: MayRead<'_>) -> Result<Ledger, ReadError> {
    let used = figures.counters.circulars_used;
    figures.ledger.has_circulars = used == 0 || may_read(LedgerPart::Circulars, used.into());
    if figures.ledger.has_circulars {
        figures.ledger.circulars = circulars::read(region, &figures)?;
    }
    Ok(figures.ledger)
}

/// Returns the maximum number of entries that are listed if the ledger counted `counted`. The ledger may have grown meanwhile.
fn listed_most(counted: u64) -> u64 {
    counted.saturating_add(counted / 8).saturating_add(4096)
}

/// Adds the types of live kernels. Adds nothing if some kernels are not in the list.
fn add_kernel_types(ledger: &mut Ledger, entries: &[Entry]) {
    let is_kernel = |row: &LedgerRow| row.kind == BufferKind::Of(Kind::Kernel);
    let mut rows = ledger.allocators.iter().flat_map(|allocator| &allocator.rows).filter(|row| is_kernel(row)).peekable();
    if rows.peek().is_none() || ledger.is_changing() || rows.any(|row| row.unlisted_count > 0) {
        return;
    }
    let mut types: HashMap<u16, Box<KernelTypes>> = HashMap::new();
    for entry in entries {
        if let Some(kernel_type) = entry.kernel_type() {
            types.entry(entry.allocator).or_default().add(kernel_type, KernelUse { used: entry.size, count: 1 });
        }
    }
    for allocator in &mut ledger.allocators {
        for row in allocator.rows.iter_mut().filter(|row| is_kernel(row)) {
            row.kernel_types = types.remove(&allocator.slot);
        }
    }
}

/// Adds the wanted buffers, and the figures of each row that need the list.
fn add_buffers(ledger: &mut Ledger, detail: LedgerDetail, entries: Vec<Entry>, tags: &Tags, lines: &Lines) {
    let names = Names::new(&ledger.allocators, tags, lines);
    // By allocator and kind: whether any buffer is per core, and whether the bytes per bank of any other buffer are unknown.
    let mut seen = vec![[(false, false); KINDS as usize]; ledger.allocators.len()];
    let buffers = entries.into_iter().filter_map(|entry| {
        let buffer = entry.buffer(&names)?;
        let seen = seen.get_mut(usize::from(buffer.allocator))?.get_mut(usize::from(entry.kind))?;
        seen.0 |= buffer.is_per_core;
        seen.1 |= !buffer.is_per_core && buffer.per_bank.is_none();
        Some(buffer)
    });
    if let LedgerDetail::First(order, most) = detail {
        let mut first: Vec<FirstBuffers> = ledger.allocators.iter().map(|_| FirstBuffers::new(order, most)).collect();
        buffers.for_each(|buffer| first[usize::from(buffer.allocator)].add(buffer));
        for (allocator, first) in ledger.allocators.iter_mut().zip(first) {
            let (kept, left_out) = first.finish();
            ledger.buffers.extend(kept);
            allocator.buffers_left_out = left_out;
        }
    } else {
        ledger.buffers = buffers.collect();
        ledger.is_listed = true;
        ledger.has_blocks = detail == LedgerDetail::Blocks;
    }
    for (allocator, seen) in ledger.allocators.iter_mut().zip(seen) {
        for row in &mut allocator.rows {
            (row.has_per_core, row.has_unknown_blocks) = seen[usize::from(kind_number(row.kind))];
        }
    }
}
