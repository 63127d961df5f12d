//! An entry: one buffer, from the entry table, a peak copy or its allocation event.
//!
//! Entries are private scratch of the reader. There may be a million, so they are turned into [`Buffer`]s in place.

use std::num::NonZeroU32;
use std::sync::Arc;

use ttmon_ledger::layout::{SIZE_END, entry, flag, kind};
use ttmon_ledger::report;
use ttmon_model::KernelType;
use ttmon_model::ledger::{Buffer, BufferLayout, LedgerAllocator, LedgerGeometry};
use ttmon_model::units::UnixTime;

use super::bytes::{u8_at, u16_at, u32_at, u64_at};
use super::clock::Converter;
use super::events::Event;
use super::header::Counters;
use super::lines::Lines;
use super::numbers::{buffer_kind, place_of};
use super::replay::Record;
use super::tags::Tags;
use super::{lines, tags};

/// A buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Index in the entry table; `u32::MAX` for a member of a peak that is no longer in the table.
    pub(super) slot: u32,
    /// Number of the allocation event.
    pub(super) event: u64,
    /// The allocator's slot.
    pub(super) allocator: u16,
    /// The kind of memory.
    pub(super) kind: u8,
    pub(super) address: u64,
    /// Requested bytes.
    pub(super) size: u64,
    /// Time of the allocation, in nanoseconds since 1970.
    pub(super) time: u64,
    /// Bytes in each bank; 0 if unknown.
    pub(super) per_bank: u32,
    /// Bytes of a page.
    pub(super) page: u32,
    /// 0 unknown, 1 interleaved, 2 height, 3 width, 4 block, 5 nd sharded.
    pub(super) layout: u8,
    /// Number of cores that hold the buffer.
    pub(super) cores: u16,
    /// Bits of [`flag`].
    pub(super) flags: u16,
    /// The tag.
    pub(super) tag: u32,
    /// Number of references.
    pub(super) refs: u32,
    /// The tag with the name of the operation that allocated the buffer; 0 if unknown.
    pub(super) operation: u32,
    /// The stack of the allocation: a number in [`Lines`], or a constant of [`stack`](ttmon_ledger::layout::stack); 0 if unknown.
    pub(super) stack: u32,
}

/// A buffer or an event fits into the memory of its entry, so a million entries are turned into them in place.
const _: () = assert!(size_of::<Buffer>() <= size_of::<Entry>() && size_of::<Event>() <= size_of::<Entry>());

impl Entry {
    /// No event has this number; events count from 1.
    pub(super) const NO_EVENT: u64 = 0;

    /// Decodes an entry; `None` if it is invalid.
    #[inline]
    pub(super) fn decode(slot: u32, record: &[u8], converter: &Converter) -> Option<Self> {
        let record: &[u8; 64] = record.first_chunk()?;
        let (allocator, kind) = place_of(u16_at(record, entry::ROW));
        let entry = Self {
            slot,
            event: u64_at(record, entry::STATE) >> 8,
            allocator,
            kind,
            address: u64_at(record, entry::ADDRESS),
            size: u64_at(record, entry::SIZE),
            time: converter.unix_ns(u64_at(record, entry::TIME)),
            per_bank: u32_at(record, entry::PER_BANK),
            page: u32_at(record, entry::PAGE),
            layout: u8_at(record, entry::LAYOUT),
            cores: u16_at(record, entry::CORES),
            flags: u16_at(record, entry::FLAGS),
            tag: u16_at(record, entry::TAG).into(),
            refs: u32_at(record, entry::REFS),
            operation: u16_at(record, entry::OPERATION).into(),
            stack: u32_at(record, entry::STACK),
        };
        let is_sane = kind == u8_at(record, entry::KIND) && entry.size < SIZE_END && entry.event != Self::NO_EVENT;
        is_sane.then_some(entry)
    }

    /// Occupied bytes: those in each bank times the banks, or the size if that is not known.
    pub(super) fn allocated(&self, geometry: Option<LedgerGeometry>) -> u64 {
        match geometry {
            Some(geometry) if geometry.banks != 0 && self.per_bank != 0 => u64::from(self.per_bank).saturating_mul(geometry.banks),
            _ => self.size,
        }
    }

    /// Creates an entry from its allocation event, with the fields that the event has.
    pub(super) fn from_record(record: &Record, converter: &Converter) -> Self {
        Self {
            slot: record.slot,
            event: record.number,
            allocator: record.allocator(),
            kind: record.kind(),
            address: record.address,
            size: record.size,
            time: converter.unix_ns(record.time),
            per_bank: record.per_bank,
            page: record.page,
            layout: 0,
            cores: 0,
            flags: 0,
            tag: record.tag,
            refs: 1,
            operation: record.operation,
            stack: record.stack,
        }
    }

    /// Clears tags without text and stacks without a record.
    #[inline]
    pub(super) fn drop_unknown_names(&mut self, counters: &Counters) {
        self.tag = tags::known(self.tag, counters.tags_used);
        self.operation = tags::known(self.operation, counters.tags_used);
        self.stack = lines::known(self.stack, counters.stacks_used);
    }

    /// Sets the fields that the event does not have from the entry's record.
    pub(super) fn complete(&mut self, record: &[u8]) {
        self.layout = u8_at(record, entry::LAYOUT);
        self.cores = u16_at(record, entry::CORES);
        self.flags = u16_at(record, entry::FLAGS);
    }

    /// Whether the buffer belongs to the program cache.
    #[inline]
    pub(super) fn is_cached(&self) -> bool {
        self.flags & flag::CACHE != 0
    }

    /// Returns the type of a kernel, or `None` for an entry of another kind.
    #[inline]
    pub(super) fn kernel_type(&self) -> Option<KernelType> {
        (self.kind == kind::KERNEL).then(|| KernelType::from_number(report::kernel_type(self.flags)))
    }

    /// Returns the buffer; `None` if its allocator is unknown.
    #[inline]
    pub(super) fn buffer(&self, names: &Names<'_>) -> Option<Buffer> {
        Some(Buffer {
            allocator: (*names.allocators.get(usize::from(self.allocator))?)?,
            kind: buffer_kind(self.kind),
            address: self.address,
            size: self.size,
            per_bank: NonZeroU32::new(self.per_bank),
            page_size: NonZeroU32::new(self.page),
            layout: BufferLayout::from_number(self.layout),
            cores: NonZeroU32::new(self.cores.into()),
            refs: self.refs,
            time: UnixTime(self.time),
            tag: names.tags.get(self.tag).map(Arc::clone),
            operation: names.tags.get(self.operation).map(Arc::clone),
            stack: names.lines.stack(self.stack).map(Arc::clone),
            is_per_core: self.flags & flag::PER_CORE != 0,
            is_cached: self.is_cached(),
            kernel_type: self.kernel_type(),
        })
    }
}

/// What the numbers of entries mean in one ledger.
pub(super) struct Names<'a> {
    /// The index of each slot among the allocators.
    allocators: [Option<u16>; 256],
    pub(super) tags: &'a Tags,
    pub(super) lines: &'a Lines,
}

impl<'a> Names<'a> {
    pub(super) fn new(allocators: &[LedgerAllocator], tags: &'a Tags, lines: &'a Lines) -> Self {
        let mut indices = [None; 256];
        for (index, allocator) in (0..).zip(allocators) {
            if let Some(place) = indices.get_mut(usize::from(allocator.slot)) {
                *place = Some(index);
            }
        }
        Self { allocators: indices, tags, lines }
    }
}
