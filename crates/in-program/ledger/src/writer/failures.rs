//! Failed allocations of the program, with the largest live buffers, in a ring.

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::layout::{FAILURES, Op, Refused, entry, failure, header, row};

use super::event::{EventBody, row_of, stack_of};
use super::memory::{Record, beginning, low, pair};
use super::state::WriterState;
use super::{AllocatorId, Key, Session};

/// A failed allocation, or a clash of circular buffers.
#[derive(Clone, Copy, Debug)]
pub struct Failure<'a> {
    /// The type of failure.
    pub what: Refused,
    /// The allocator.
    pub allocator: AllocatorId,
    /// A constant of `layout::kind`.
    pub kind: u8,
    /// Requested bytes.
    pub size: u64,
    /// Bytes in each bank; 0 if unknown.
    pub per_bank: u64,
    /// Number of banks; 0 if unknown.
    pub banks: u32,
    /// Free bytes in a bank.
    pub free_per_bank: u64,
    /// The largest free block in a bank.
    pub largest_free_per_bank: u64,
    /// The tag of the thread.
    pub tag: u32,
    /// The tag with the name of the operation.
    pub operation: u32,
    /// The stack of the allocation.
    pub stack: u32,
    /// The error message that the program receives. The first 383 bytes are stored.
    pub message: &'a str,
}

/// The largest live buffers of a row, largest first: slot and size.
type Largest = [(u32, u64); failure::LARGEST_MAX];

impl Session<'_> {
    /// Records a failed allocation. Searches all live buffers for the largest of the row.
    pub fn failed(&mut self, failed: &Failure<'_>) {
        let state = self.state;
        let row = state.row_for(Key { allocator: failed.allocator, kind: failed.kind, address: 0 });
        let Some(number) = row.filter(|_| !state.is_hosted()) else { return };
        let (largest, found) = state.largest(number);
        let event = state.begin(self.time);
        state.use_row(number, failed.allocator);
        state.region.row(number).add(row::FAILED, 1);
        let count = state.region.header(header::FAILURES).load(Relaxed).wrapping_add(1);
        let at = low(count.wrapping_sub(1)) as usize % FAILURES.records as usize;
        let word = |field| state.region.word(FAILURES, at, field);
        let set = |field, value| word(field).store(value, Relaxed);
        super::protocol::withdraw(word(failure::NUMBER), 0);
        set(failure::TIME, event.time);
        set(failure::EVENT, event.n);
        let what = u64::from(failed.what as u8) | u64::from(failed.kind) << 8 | (failed.allocator.slot() as u64 & 0xFFFF) << 16;
        set(failure::WHAT, what | u64::from(failed.allocator.generation) << 32);
        set(failure::SIZE, failed.size);
        set(failure::PER_BANK, failed.per_bank);
        set(failure::BANKS, pair(failed.banks, found));
        set(failure::FREE_PER_BANK, failed.free_per_bank);
        set(failure::LARGEST_FREE_PER_BANK, failed.largest_free_per_bank);
        set(failure::TAG, pair(failed.tag, failed.operation));
        set(failure::MESSAGE_LENGTH, failed.message.len() as u64);
        set(failure::STACK, failed.stack.into());
        for ((slot, _), at) in largest.iter().take(found as usize).zip((failure::LARGEST..).step_by(32)) {
            let record = state.record_in(*slot);
            set(at, record.get(entry::ADDRESS));
            set(at + 8, record.get(entry::SIZE));
            set(at + 16, pair(low(record.get(entry::PER_BANK)), low(record.get(entry::TAG))));
            set(at + 24, pair(stack_of(record), low(record.get(entry::ROW) >> 48)));
        }
        let message = beginning(failed.message, failure::MESSAGE_BYTES - 1);
        state.region.set_text(FAILURES, at, failure::MESSAGE, failure::MESSAGE_BYTES, message);
        word(failure::NUMBER).store(count, Release);
        state.region.header(header::FAILURES).store(count, Release);
        let per_bank = failed.per_bank.min(u64::from(u32::MAX));
        let slot = u32::from(failed.what as u8);
        let origin = pair(failed.stack, failed.operation);
        let fact = EventBody { row: number, size: failed.size, slot, tag: failed.tag, detail: per_bank, origin, ..EventBody::default() };
        state.end(event, Op::Failed, &fact);
    }
}

impl WriterState {
    /// Returns the largest live buffers of a row, and their number. Reads every entry; the cost does not matter, because an exception
    /// follows.
    fn largest(&self, number: usize) -> (Largest, u32) {
        let mut largest: Largest = [(0, 0); failure::LARGEST_MAX];
        let mut found = 0;
        let listed = low(self.region.header(header::ENTRIES_USED).load(Relaxed)).min(self.region.capacity);
        let unlisted = self.overflow.used.load(Relaxed);
        let capacity = self.region.capacity;
        for slot in (0..listed).chain(capacity..capacity.saturating_add(unlisted)) {
            let record = self.record_in(slot);
            if row_of(record) == number && self.is_live(record) {
                insert(&mut largest, &mut found, slot, record);
            }
        }
        (largest, u32::try_from(found).unwrap_or(0))
    }
}

/// Inserts a buffer into the list of the largest, if it is large enough.
fn insert(largest: &mut Largest, found: &mut usize, slot: u32, record: Record<'_>) {
    let size = record.get(entry::SIZE);
    let place = largest.iter().take(*found).position(|other| size > other.1).unwrap_or(*found);
    if let Some(rest) = largest.get_mut(place..)
        && !rest.is_empty()
    {
        rest.rotate_right(1);
        if let Some(first) = rest.first_mut() {
            *first = (slot, size);
        }
        *found = (*found + 1).min(failure::LARGEST_MAX);
    }
}

const _: () = assert!(failure::LARGEST + failure::LARGEST_BYTES * failure::LARGEST_MAX as u64 <= failure::MESSAGE);
const _: () =
    assert!(failure::KIND == failure::WHAT + 1 && failure::ALLOCATOR == failure::WHAT + 2 && failure::GENERATION == failure::WHAT + 4);
