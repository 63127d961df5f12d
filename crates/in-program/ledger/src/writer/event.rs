//! One event: make `seq` odd, change the data, write the record, make `seq` even. docs/ledger.md sections 3 and 5 explain this order.

use crate::layout::{EVENTS, Op, entry, event as layout, header, row, status};

use super::Buffer;
use super::lookup::EntryRef;
use super::memory::{Record, high, low, pair};
use super::protocol::{self, Word};
use super::state::WriterState;

/// The fields of an event's record besides number, time and op.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventBody {
    pub(super) row: usize,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) slot: u32,
    pub(super) tag: u32,
    /// Word 4: bytes per bank and page size, or the number of references.
    pub(super) detail: u64,
    /// Word 5: stack and operation.
    pub(super) origin: u64,
}

/// An event that has begun: its number and its time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) n: u64,
    pub(super) time: u64,
}

impl WriterState {
    /// Begins an event. Until [`WriterState::end`] a reader does not use the totals.
    #[inline]
    pub(super) fn begin(&self, time: u64) -> Event {
        Event { n: protocol::begin(self.region.header(header::SEQ)), time }
    }

    /// Writes the record and makes the sequence number even.
    #[inline]
    pub(super) fn end(&self, event: Event, op: Op, fact: &EventBody) {
        self.record(event, op, fact);
        self.region.header(header::LAST_TIME).set(event.time);
        protocol::end(self.region.header(header::SEQ), event.n);
    }

    #[inline]
    fn record(&self, event: Event, op: Op, fact: &EventBody) {
        let [time, address, what, whole, detail, origin] = self.region.event(event.n);
        // The old record becomes invalid before it changes, and the new one becomes valid at the end. The reader checks this word.
        protocol::withdraw(whole, 0);
        time.set(event.time);
        address.set(fact.address);
        what.set(fact.size.min(layout::SIZE_MASK) | (fact.row as u64 & 0xFFFF) << layout::ROW_SHIFT | (op as u64) << layout::OP_SHIFT);
        detail.set(fact.detail);
        origin.set(fact.origin);
        let place = u64::from(fact.slot) & layout::SLOT_MASK | (u64::from(fact.tag) & layout::TAG_MASK) << layout::TAG_SHIFT;
        whole.publish(place | event.n << layout::NUMBER_SHIFT);
    }

    /// Creates an entry for a key that has none.
    #[inline]
    pub(super) fn create(&self, event: Event, slot: u32, new: &NewEntry<'_>) {
        let NewEntry { row: number, kind, address, hash, buffer, allocated } = *new;
        let is_listed = self.is_listed(slot);
        let record = self.record_in(slot);
        record.withdraw(entry::STATE, u64::from(entry::WRITING));
        record.set(entry::ADDRESS, address);
        record.set(entry::SIZE, buffer.size);
        record.set(entry::TIME, event.time);
        let detail = pair(buffer.per_bank, buffer.page);
        record.set(entry::PER_BANK, detail);
        let shape = (number as u64 & 0xFFFF) | u64::from(kind) << 16 | u64::from(buffer.layout) << 24;
        record.set(entry::ROW, shape | u64::from(buffer.cores) << 32 | u64::from(buffer.flags) << 48);
        record.set(entry::TAG, pair(names(buffer.tag, buffer.operation), 1));
        record.set(entry::THREAD, pair(self.lock.holder(), buffer.stack));
        record.publish(entry::STATE, event.n << 8 | u64::from(entry::LIVE));

        let row = self.region.row(number);
        if !is_listed {
            row.add(row::UNLISTED_COUNT, 1);
            row.add(row::UNLISTED_BYTES, buffer.size);
            row.add(row::UNLISTED_ALLOCATED, allocated);
            self.mark_status(status::OVERFLOW);
        }
        row.add(row::ALLOCS, 1);
        let live = row.add(row::LIVE_BYTES, buffer.size);
        let all = row.add(row::ALLOCATED_BYTES, allocated);
        self.add_to_header(header::LIVE_ENTRIES, 1);
        self.add_to_header(header::LIVE_BYTES, buffer.size);
        self.raise_peaks(event, row, live, all);
        if self.shares(number) {
            self.raise_shared(event, number);
        }
        self.index.put(hash, slot);
        let op = if is_listed { Op::Alloc } else { Op::UnlistedAlloc };
        let slot = if is_listed { slot } else { 0 };
        let origin = pair(buffer.stack, buffer.operation);
        let fact = EventBody { row: number, address, size: buffer.size, slot, tag: buffer.tag, detail, origin };
        self.sweep_some();
        self.end(event, op, &fact);
    }

    /// Frees the live entry at `place`. Returns its size.
    #[inline]
    pub(super) fn destroy(&self, time: u64, place: EntryRef) -> u64 {
        let event = self.begin(time);
        let EntryRef { slot, hash } = place;
        let is_listed = self.is_listed(slot);
        let record = self.record_in(slot);
        let fact = body_of(record, if is_listed { slot } else { 0 }, record.get(entry::PER_BANK));
        let EventBody { row: number, size, detail, .. } = fact;
        let allocated = self.allocated(number, size, low(detail));
        self.index.remove(hash, slot);
        self.clear_slot(slot, record);

        let row = self.region.row(number);
        if !is_listed {
            row.subtract(row::UNLISTED_COUNT, 1);
            row.subtract(row::UNLISTED_BYTES, size);
            row.subtract(row::UNLISTED_ALLOCATED, allocated);
        }
        row.add(row::FREES, 1);
        row.subtract(row::LIVE_BYTES, size);
        row.subtract(row::ALLOCATED_BYTES, allocated);
        self.subtract_from_header(header::LIVE_ENTRIES, 1);
        self.subtract_from_header(header::LIVE_BYTES, size);
        self.end(event, if is_listed { Op::Free } else { Op::UnlistedFree }, &fact);
        size
    }

    /// Clears a slot that is no longer in the index: copies its entry if a peak needs it, then frees it.
    #[inline]
    pub(super) fn clear_slot(&self, slot: u32, record: Record<'_>) {
        if self.is_listed(slot) {
            self.copy_for_peak(record);
        }
        record.publish(entry::STATE, u64::from(entry::FREE));
        self.give_slot(slot);
    }

    /// Sets the references of a live entry. An unlisted entry has no slot for the record, so it makes no event.
    pub(super) fn set_references(&self, time: u64, op: Op, slot: u32, references: u32) {
        let record = self.record_in(slot);
        let names = low(record.get(entry::TAG));
        if !self.is_listed(slot) {
            record.set(entry::TAG, pair(names, references));
            return;
        }
        let event = self.begin(time);
        record.set(entry::TAG, pair(names, references));
        self.end(event, op, &body_of(record, slot, u64::from(references)));
    }
}

/// The arguments of [`WriterState::create`].
#[derive(Clone, Copy)]
pub(super) struct NewEntry<'a> {
    pub(super) row: usize,
    pub(super) kind: u8,
    pub(super) address: u64,
    pub(super) hash: u32,
    pub(super) buffer: &'a Buffer,
    pub(super) allocated: u64,
}

#[inline]
fn body_of(record: Record<'_>, slot: u32, detail: u64) -> EventBody {
    EventBody {
        row: row_of(record),
        address: record.get(entry::ADDRESS),
        size: record.get(entry::SIZE),
        slot,
        tag: tag_of(record),
        detail,
        origin: pair(stack_of(record), operation_of(record)),
    }
}

pub(super) fn row_of(record: Record<'_>) -> usize {
    (record.get(entry::ROW) & 0xFFFF) as usize
}

/// Combines tag and operation for an entry.
const fn names(tag: u32, operation: u32) -> u32 {
    tag & 0xFFFF | operation << 16
}

pub(super) fn tag_of(record: Record<'_>) -> u32 {
    low(record.get(entry::TAG)) & 0xFFFF
}

/// The tag with the name of an entry's operation.
pub(super) fn operation_of(record: Record<'_>) -> u32 {
    low(record.get(entry::TAG)) >> 16
}

pub(super) fn stack_of(record: Record<'_>) -> u32 {
    high(record.get(entry::THREAD))
}

pub(super) fn references_of(record: Record<'_>) -> u32 {
    high(record.get(entry::TAG))
}

pub(super) fn flags_of(record: Record<'_>) -> u16 {
    (record.get(entry::ROW) >> 48) as u16
}

/// The creation event of an entry, if its state is LIVE.
pub(super) fn creation_of(record: Record<'_>) -> Option<u64> {
    let state = record.get(entry::STATE);
    (state & 0xFF == u64::from(entry::LIVE)).then_some(state >> 8)
}

const _: () = assert!(EVENTS.stride == 48 && layout::WHOLE == 3 * 8 && layout::PER_BANK == 4 * 8 && layout::PAGE == layout::PER_BANK + 4);
const _: () = assert!(entry::PAGE == entry::PER_BANK + 4 && entry::REFS == entry::TAG + 4);
const _: () = assert!(entry::KIND == entry::ROW + 2 && entry::CORES == entry::ROW + 4 && entry::STACK == entry::THREAD + 4);
const _: () = assert!(entry::OPERATION == entry::TAG + 2 && layout::STACK == 5 * 8 && layout::OPERATION == layout::STACK + 4);
const _: () = assert!(crate::layout::TAGS.records <= 1 << 16);
