//! Allocators and rows, decoded from their bytes.

use super::bytes::{position, u16_at, u32_at, u64_at};
use super::clock::Converter;
use super::peak::Span;
use ttmon_ledger::layout::{Geometry, KINDS, allocator, check, row};

/// An allocator of memory on one or several chips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocator {
    /// Its number in entries and events.
    pub slot: u16,
    /// How often the slot was used.
    pub generation: u32,
    /// Whether the allocator is still open.
    pub is_open: bool,
    /// The id used by the program.
    pub given_id: u32,
    /// A constant of [`layout::origin`](ttmon_ledger::layout::origin).
    pub origin: u32,
    /// Rows and columns of a mesh.
    pub mesh: Option<(u16, u16)>,
    /// The chips.
    pub chips: Vec<Chip>,
    /// When it was opened, in nanoseconds since 1970.
    pub opened: u64,
    /// When it was closed, if it was.
    pub closed: Option<u64>,
    /// The geometry of each kind of memory, used or not, if the writer knows it.
    pub geometry: [Option<Geometry>; allocator::KINDS_MAX],
    /// The writer's comparison with the allocator's own statistics.
    pub self_check: SelfCheck,
    /// The kinds of memory that were ever used.
    pub rows: Vec<Row>,
}

/// How exact an allocator's figures are, as found by its writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SelfCheck {
    /// The figures differ from the allocator's own.
    pub is_inexact: bool,
    /// The allocator's state was overridden, so there are blocks without buffers.
    pub is_restored: bool,
    /// The allocator has buffers with a separate address on each core.
    pub is_per_core: bool,
    /// Start of L1, if it is not the base.
    pub l1_lower_end: Option<u64>,
    /// Number of comparisons.
    pub checks: u64,
    /// Number of differences.
    pub differences: u64,
}

/// The figures of a row at the program's last mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// Requested bytes of live buffers.
    pub used: u64,
    /// Occupied bytes of live buffers.
    pub allocated: u64,
    /// Live buffers.
    pub count: u64,
}

/// A chip as seen by the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    /// TT-Metal's number.
    pub metal_id: Option<u32>,
    /// The unique id of the chip.
    pub unique_id: Option<u64>,
    /// Flags set by the writer.
    pub flags: u32,
}

/// The figures of one kind of memory of one allocator. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The kind of memory.
    pub kind: u8,
    /// The geometry, if the writer knows it.
    pub geometry: Option<Geometry>,
    /// Requested bytes of live buffers.
    pub used: u64,
    /// Occupied bytes of live buffers: blocks x banks.
    pub allocated: u64,
    /// Live buffers.
    pub count: u64,
    /// Peak of `used`.
    pub peak: u64,
    /// Time of this peak.
    pub peak_time: u64,
    /// Event of this peak.
    pub peak_event: u64,
    /// Peak of `allocated`.
    pub peak_allocated: u64,
    /// Time of this peak.
    pub peak_allocated_time: u64,
    /// Number of allocations so far.
    pub allocs: u64,
    /// Number of frees so far.
    pub frees: u64,
    /// Number of failed allocations.
    pub failed: u64,
    /// Live buffers that do not fit in the ledger's list. The figures above include them.
    pub unlisted_count: u64,
    /// Requested bytes of these buffers.
    pub unlisted_bytes: u64,
    /// Occupied bytes of these buffers.
    pub unlisted_allocated: u64,
    /// Count and bytes of live buffers at the last free-all with live buffers.
    pub left_last: (u64, u64),
    /// Time of this free-all.
    pub left_time: u64,
    /// Count and bytes of live buffers at all free-alls so far.
    pub left: (u64, u64),
    /// The figures at the last mark; `None` if there was no mark.
    pub marked: Option<Marked>,
    /// Entries up to this event are dead.
    pub(super) epoch: u64,
    /// Count and bytes at the peak that could not be listed, and that were listed but could not be stored.
    pub(super) peak_unlisted: (u64, u64),
    pub(super) peak_lost: (u64, u64),
    /// The event of the mark in `marked`.
    pub(super) mark_event: u64,
}

/// The fields of a row that the list needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowRecord {
    pub(super) is_used: bool,
    pub(super) epoch: u64,
    /// Entries up to this event belong to an earlier allocator.
    pub(super) begun: u64,
    pub(super) peak_span: Span,
    /// Count and bytes of the peak's entries that are still live, summed by the list.
    pub(super) peak_live: (u64, u64),
}

impl Allocator {
    pub(super) fn decode(slot: u16, record: &[u8], converter: &Converter) -> Option<Self> {
        let state = u64_at(record, allocator::STATE);
        let is_open = match state.to_le_bytes()[0] {
            allocator::OPEN => true,
            allocator::SHUT => false,
            _ => return None,
        };
        let mesh = (u16_at(record, allocator::MESH_ROWS), u16_at(record, allocator::MESH_COLUMNS));
        let chips = u32_at(record, allocator::CHIPS).min(allocator::CHIPS_MAX);
        Some(Self {
            slot,
            generation: u32::try_from(state >> 8).unwrap_or(u32::MAX),
            is_open,
            given_id: u32_at(record, allocator::GIVEN_ID),
            origin: u32_at(record, allocator::ORIGIN),
            mesh: Some(mesh).filter(|&(rows, columns)| rows != 0 && columns != 0),
            chips: (0..chips).map(|chip| Chip::decode(record, chip)).collect(),
            opened: converter.unix_ns(u64_at(record, allocator::OPENED)),
            closed: (!is_open).then(|| converter.unix_ns(u64_at(record, allocator::CLOSED))),
            geometry: std::array::from_fn(|kind| geometry(record, kind)),
            self_check: SelfCheck::decode(record),
            rows: Vec::with_capacity(KINDS as usize),
        })
    }
}

impl SelfCheck {
    fn decode(record: &[u8]) -> Self {
        let has = |bit| u64_at(record, allocator::CHECK) & bit != 0;
        Self {
            is_inexact: has(check::INEXACT),
            is_restored: has(check::RESTORED),
            is_per_core: has(check::PER_CORE),
            l1_lower_end: has(check::SHRUNK).then(|| u64_at(record, allocator::L1_LOWER_END)),
            checks: u64_at(record, allocator::CHECKS),
            differences: u64_at(record, allocator::DIFFERENCES),
        }
    }
}

impl Chip {
    fn decode(record: &[u8], chip: u32) -> Self {
        let at = allocator::chip(chip.into());
        Self {
            metal_id: Some(u32_at(record, at)).filter(|&id| id != allocator::METAL_ID_UNKNOWN),
            unique_id: Some(u64_at(record, at + 8)).filter(|&id| id != 0),
            flags: u32_at(record, at + 4),
        }
    }
}

/// Returns the geometry of a kind, if the writer knows it.
fn geometry(record: &[u8], kind: usize) -> Option<Geometry> {
    let at = allocator::geometry(kind);
    let geometry = Geometry {
        banks: u32_at(record, at),
        alignment: u32_at(record, at + 4),
        bank_bytes: u64_at(record, at + 8),
        base: u64_at(record, at + 16),
    };
    (kind < allocator::KINDS_MAX && geometry != Geometry::default()).then_some(geometry)
}

impl Row {
    pub(super) fn decode(kind: u8, bytes: &[u8], allocator: &[u8], converter: &Converter) -> Self {
        let field = |offset| u64_at(bytes, offset);
        Self {
            kind,
            geometry: geometry(allocator, kind.into()),
            used: field(row::LIVE_BYTES),
            allocated: field(row::ALLOCATED_BYTES),
            count: field(row::ALLOCS).saturating_sub(field(row::FREES)),
            peak: field(row::PEAK),
            peak_time: converter.unix_ns(field(row::PEAK_TIME)),
            peak_event: field(row::PEAK_EVENT),
            peak_allocated: field(row::PEAK_ALLOCATED),
            peak_allocated_time: converter.unix_ns(field(row::PEAK_ALLOCATED_TIME)),
            allocs: field(row::ALLOCS),
            frees: field(row::FREES),
            failed: field(row::FAILED),
            unlisted_count: field(row::UNLISTED_COUNT),
            unlisted_bytes: field(row::UNLISTED_BYTES),
            unlisted_allocated: field(row::UNLISTED_ALLOCATED),
            epoch: field(row::EPOCH),
            peak_unlisted: (field(row::PEAK_UNLISTED_COUNT), field(row::PEAK_UNLISTED_BYTES)),
            peak_lost: (field(row::PEAK_LOST_COUNT), field(row::PEAK_LOST_BYTES)),
            left_last: (field(row::LEFT_COUNT), field(row::LEFT_BYTES)),
            left_time: converter.unix_ns(field(row::LEFT_TIME)),
            left: (field(row::LEFT_ALL_COUNT), field(row::LEFT_ALL_BYTES)),
            marked: (field(row::MARK_EVENT) != 0).then(|| Marked {
                used: field(row::MARK_BYTES),
                allocated: field(row::MARK_ALLOCATED),
                count: field(row::MARK_COUNT),
            }),
            mark_event: field(row::MARK_EVENT),
        }
    }

    /// Sets the figures at the mark `event`. The row may not have been in use then, or the writer may not have reached it yet.
    pub(super) fn settle_mark(&mut self, event: u64, is_half_done: bool) {
        if event == 0 {
            self.marked = None;
        } else if self.mark_event != event {
            let now = Marked { used: self.used, allocated: self.allocated, count: self.count };
            self.marked = Some(if is_half_done { now } else { Marked::default() });
        }
    }
}

impl RowRecord {
    pub(super) fn decode(bytes: &[u8], is_used: bool) -> Self {
        Self {
            is_used,
            epoch: u64_at(bytes, row::EPOCH),
            begun: u64_at(bytes, row::BEGUN),
            peak_span: Span { epoch: u64_at(bytes, row::PEAK_EPOCH), event: u64_at(bytes, row::PEAK_EVENT) },
            peak_live: (0, 0),
        }
    }
}

/// Returns the allocator and the kind of a row.
pub(super) fn place_of(row: u16) -> (u16, u8) {
    const _: () = assert!(KINDS == 8);
    (row / 8, row.to_le_bytes()[0] % 8)
}

/// Returns the number of a row.
pub(super) fn row_index(allocator: u16, kind: u8) -> usize {
    position(u64::from(allocator) * u64::from(KINDS) + u64::from(kind))
}
