//! An entry: one buffer, from the entry table, the graveyard or its allocation event.

use super::bytes::{u8_at, u16_at, u32_at, u64_at};
use super::clock::Converter;
use super::header::Counters;
use super::replay::Record;
use super::rows::place_of;
use super::{stacks, tags};
use ttmon_ledger::layout::{Geometry, SIZE_END, entry};

/// A buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Index in the entry table; `u32::MAX` for a member of a peak that is no longer in the table.
    pub slot: u32,
    /// Number of the allocation event.
    pub event: u64,
    /// The allocator's slot.
    pub allocator: u16,
    /// The kind of memory.
    pub kind: u8,
    /// The address.
    pub address: u64,
    /// Requested bytes.
    pub size: u64,
    /// Time of the allocation, in nanoseconds since 1970.
    pub time: u64,
    /// Bytes in each bank; 0 if unknown.
    pub per_bank: u32,
    /// Bytes of a page.
    pub page: u32,
    /// 0 unknown, 1 interleaved, 2 height, 3 width, 4 block, 5 nd sharded.
    pub layout: u8,
    /// Number of cores that hold the buffer.
    pub cores: u16,
    /// Bits of [`layout::flag`](ttmon_ledger::layout::flag).
    pub flags: u16,
    /// The tag.
    pub tag: u32,
    /// Number of references.
    pub refs: u32,
    /// The thread that allocated the buffer; 0 if unknown.
    pub thread: u32,
    /// The tag with the name of the operation that allocated the buffer; 0 if unknown.
    pub operation: u32,
    /// The stack of the allocation: a number in [`Region::stacks`](super::Region::stacks), or a constant of
    /// [`layout::stack`](ttmon_ledger::layout::stack); 0 if unknown.
    pub stack: u32,
}

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
            thread: u32_at(record, entry::THREAD),
            operation: u16_at(record, entry::OPERATION).into(),
            stack: u32_at(record, entry::STACK),
        };
        let is_sane = kind == u8_at(record, entry::KIND) && entry.size < SIZE_END && entry.event != Self::NO_EVENT;
        is_sane.then_some(entry)
    }

    /// Occupied bytes: those in each bank times the banks, or the size if that is not known.
    pub(super) fn allocated(&self, geometry: Option<Geometry>) -> u64 {
        match geometry {
            Some(geometry) if geometry.banks != 0 && self.per_bank != 0 => u64::from(self.per_bank) * u64::from(geometry.banks),
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
            thread: 0,
            operation: record.operation,
            stack: record.stack,
        }
    }

    /// Clears tags without text and stacks without a record.
    #[inline]
    pub(super) fn drop_unknown_names(&mut self, counters: &Counters) {
        self.tag = tags::known(self.tag, counters.tags_used);
        self.operation = tags::known(self.operation, counters.tags_used);
        self.stack = stacks::known(self.stack, counters.stacks_used);
    }

    /// Sets the fields that the event does not have from the entry's record.
    pub(super) fn complete(&mut self, record: &[u8]) {
        self.layout = u8_at(record, entry::LAYOUT);
        self.cores = u16_at(record, entry::CORES);
        self.flags = u16_at(record, entry::FLAGS);
        self.thread = u32_at(record, entry::THREAD);
    }
}
