//! Allocators, rows and shared chips, decoded from their bytes.

use ttmon_ledger::layout::{KINDS, allocator, check, row, shared};
use ttmon_model::PerKind;
use ttmon_model::ledger::{
    AtClose, BufferKind, LedgerAllocator, LedgerChip, LedgerGeometry, LedgerRow, LedgerSelfCheck, LedgerShared, LedgerSharedPeak, Marked,
};

use super::bytes::{u16_at, u32_at, u64_at};
use super::clock::Converter;
use super::numbers::{buffer_kind, kind_number, origin_writer};
use super::peak::Span;

/// The fields of a row that only the reader needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowRecord {
    pub(super) is_used: bool,
    /// Entries up to this event are dead.
    pub(super) epoch: u64,
    /// Entries up to this event belong to an earlier allocator.
    pub(super) begun: u64,
    pub(super) peak_span: Span,
    /// Count and bytes of the peak's entries that are still live, summed by the list.
    pub(super) peak_live: (u64, u64),
    /// Count and bytes at the peak that could not be listed, and that were listed but could not be stored.
    pub(super) peak_unlisted: (u64, u64),
    pub(super) peak_lost: (u64, u64),
    /// Occupied bytes of live buffers that do not fit in the ledger's list.
    pub(super) unlisted_allocated: u64,
    /// The event of the mark in the row's figures.
    pub(super) mark_event: u64,
}

/// Decodes an allocator without its rows; `None` for a slot that is not in use.
pub(super) fn allocator(slot: u16, record: &[u8], converter: &Converter) -> Option<LedgerAllocator> {
    let state = u64_at(record, allocator::STATE);
    let is_open = match state.to_le_bytes()[0] {
        allocator::OPEN => true,
        allocator::CLOSED => false,
        _ => return None,
    };
    let mesh = (u16_at(record, allocator::MESH_ROWS), u16_at(record, allocator::MESH_COLUMNS));
    let chips = u32_at(record, allocator::CHIPS).min(allocator::CHIPS_MAX);
    Some(LedgerAllocator {
        slot,
        generation: u32::try_from(state >> 8).unwrap_or(u32::MAX),
        opened: converter.unix(u64_at(record, allocator::OPENED_AT)),
        closed: (!is_open).then(|| converter.unix(u64_at(record, allocator::CLOSED_AT))),
        mesh: Some(mesh).filter(|&(rows, columns)| rows != 0 && columns != 0),
        given_id: u32_at(record, allocator::GIVEN_ID),
        origin: origin_writer(u32_at(record, allocator::ORIGIN)),
        chips: (0..chips).map(|chip| ledger_chip(record, chip)).collect(),
        geometry: PerKind::from_fn(|kind| geometry(record, BufferKind::Of(kind))),
        self_check: self_check(record),
        rows: Vec::with_capacity(KINDS as usize),
        buffers_left_out: 0,
    })
}

fn self_check(record: &[u8]) -> LedgerSelfCheck {
    let has = |bit| u64_at(record, allocator::CHECK) & bit != 0;
    LedgerSelfCheck {
        is_inexact: has(check::INEXACT),
        is_restored: has(check::RESTORED),
        is_per_core: has(check::PER_CORE),
        l1_lower_end: has(check::SHRUNK).then(|| u64_at(record, allocator::L1_LOWER_END)),
        checks: u64_at(record, allocator::CHECKS),
        differences: u64_at(record, allocator::DIFFERENCES),
    }
}

fn ledger_chip(record: &[u8], chip: u32) -> LedgerChip {
    let at = allocator::chip(chip.into());
    LedgerChip {
        metal_id: Some(u32_at(record, at)).filter(|&id| id != allocator::METAL_ID_UNKNOWN),
        unique_id: Some(u64_at(record, at + 8)).filter(|&id| id != 0),
    }
}

/// Returns the geometry of a kind. If all its fields are 0, the writer does not know it.
fn geometry(record: &[u8], kind: BufferKind) -> Option<LedgerGeometry> {
    let kind = usize::from(kind_number(kind));
    let at = allocator::geometry(kind);
    let is_known = kind < allocator::KINDS_MAX && (0..3).any(|word| u64_at(record, at + 8 * word) != 0);
    is_known.then(|| LedgerGeometry { banks: u32_at(record, at).into(), bank_bytes: u64_at(record, at + 8), base: u64_at(record, at + 16) })
}

/// Decodes the figures of a row of an allocator.
pub(super) fn ledger_row(kind: u8, bytes: &[u8], allocator: &LedgerAllocator, converter: &Converter) -> LedgerRow {
    let field = |offset| u64_at(bytes, offset);
    let kind = buffer_kind(kind);
    let geometry = allocator.geometry_of(kind);
    let at_close = AtClose {
        last: (field(row::LEFT_COUNT), field(row::LEFT_BYTES)),
        time: converter.unix(field(row::LEFT_TIME)),
        all: (field(row::LEFT_ALL_COUNT), field(row::LEFT_ALL_BYTES)),
    };
    let marked = Marked { used: field(row::MARK_BYTES), allocated: field(row::MARK_ALLOCATED), count: field(row::MARK_COUNT) };
    LedgerRow {
        used: field(row::LIVE_BYTES),
        allocated: geometry.map(|_| field(row::ALLOCATED_BYTES)),
        count: field(row::ALLOCS).saturating_sub(field(row::FREES)),
        refused: field(row::FAILED),
        peak: field(row::PEAK),
        peak_time: converter.unix(field(row::PEAK_TIME)),
        peak_allocated: field(row::PEAK_ALLOCATED),
        allocations: field(row::ALLOCS),
        at_close: Some(at_close).filter(|close| *close != AtClose::default()),
        marked: Some(marked),
        unlisted_count: field(row::UNLISTED_COUNT),
        unlisted_bytes: field(row::UNLISTED_BYTES),
        capacity: geometry.map(|geometry| geometry.banks.saturating_mul(geometry.bank_bytes)),
        ..LedgerRow::empty(kind)
    }
}

/// Decodes the peaks of a chip since a second allocator was opened, of all allocators on the chip.
pub(super) fn shared_chip(record: &[u8], converter: &Converter) -> Option<LedgerShared> {
    let peaks = PerKind::from_fn(|kind| {
        let at = shared::peaks(kind_number(BufferKind::Of(kind)).into());
        LedgerSharedPeak {
            used: u64_at(record, at),
            time: converter.unix(u64_at(record, at + shared::TIME)),
            allocated: u64_at(record, at + shared::ALLOCATED),
        }
    });
    let metal_id = u32_at(record, shared::KEY).checked_sub(1)?;
    Some(LedgerShared { metal_id, origin: origin_writer(u32_at(record, shared::KEY + 4)), peaks })
}

impl RowRecord {
    pub(super) fn decode(bytes: &[u8], is_used: bool) -> Self {
        let field = |offset| u64_at(bytes, offset);
        Self {
            is_used,
            epoch: field(row::EPOCH),
            begun: field(row::BEGUN),
            peak_span: Span { epoch: field(row::PEAK_EPOCH), event: field(row::PEAK_EVENT) },
            peak_live: (0, 0),
            peak_unlisted: (field(row::PEAK_UNLISTED_COUNT), field(row::PEAK_UNLISTED_BYTES)),
            peak_lost: (field(row::PEAK_LOST_COUNT), field(row::PEAK_LOST_BYTES)),
            unlisted_allocated: field(row::UNLISTED_ALLOCATED),
            mark_event: field(row::MARK_EVENT),
        }
    }

    /// Sets the figures of the row at the mark `event`. The row may not have been in use then, or the writer may not have reached it yet.
    pub(super) fn settle_mark(&self, row: &mut LedgerRow, event: u64, is_half_done: bool) {
        if event == 0 {
            row.marked = None;
        } else if self.mark_event != event {
            let now = Marked { used: row.used, allocated: row.allocated.unwrap_or(row.used), count: row.count };
            row.marked = Some(if is_half_done { now } else { Marked::default() });
        }
    }
}
