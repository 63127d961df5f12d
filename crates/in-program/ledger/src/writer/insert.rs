//! Stores a buffer: a new one, one at the key of a live one, or one whose free failed.

use crate::layout::{Lost, Op, SIZE_END, entry, row};

use super::event::{Event, EventBody, NewEntry, references_of};
use super::lookup::EntryRef;
use super::{Buffer, Key, Session, index};

/// What to do with a live buffer at the key of a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeated {
    /// Add a reference.
    Reference,
    /// Free it, and count it as replaced.
    Replace,
}

/// The result of storing a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A new entry was created.
    New,
    /// The live entry has this many references now.
    Referenced(u32),
    /// A new entry replaced the live one.
    Replaced,
}

impl Session<'_> {
    /// Stores a new buffer. A live buffer at the same key is freed first and counted as replaced.
    pub fn insert(&mut self, key: Key, buffer: &Buffer) -> Result<(), Lost> {
        self.store(key, buffer, |_| Repeated::Replace).map(|_| ())
    }

    /// Stores a new buffer. `repeated` decides what happens to a live buffer at the same key, by its size.
    #[inline]
    pub fn store(&mut self, key: Key, buffer: &Buffer, repeated: impl FnOnce(u64) -> Repeated) -> Result<Stored, Lost> {
        if buffer.size >= SIZE_END {
            return self.refuse(Lost::SizeOutOfRange);
        }
        let state = self.state;
        let Some(row) = state.row_for(key) else { return self.refuse(Lost::NoAllocator) };
        let hash = index::hash(row, key.address);
        let found = self.slot_of(row, hash, key.address);
        let allocated = state.allocated(row, buffer.size, buffer.per_bank);
        let new = NewEntry { row, kind: key.kind, address: key.address, hash, buffer, allocated };
        match found {
            Some(slot) if state.is_live(state.record_in(slot)) => match repeated(state.record_in(slot).get(entry::SIZE)) {
                Repeated::Reference => Ok(Stored::Referenced(self.add_reference(slot))),
                Repeated::Replace => self.replace(EntryRef { slot, hash }, &new),
            },
            found => {
                let event = state.begin(self.time);
                if let Some(dead) = found {
                    state.clear_dead(dead);
                }
                state.use_row(row, key.allocator);
                let Some(slot) = state.take_slot() else {
                    return self.end_unchanged(event);
                };
                state.create(event, slot, &new);
                Ok(Stored::New)
            }
        }
    }

    /// Restores a buffer whose free failed: one free less, and not one allocation more. If another buffer has the key since, it stays.
    pub fn restore(&mut self, key: Key, buffer: &Buffer) {
        let state = self.state;
        let Some(number) = state.row_for(key).filter(|_| self.live(key).is_none()) else { return };
        let event = state.begin(self.time);
        let row = state.region.row(number);
        let counts = [row::ALLOCS, row::FREES].map(|field| (field, row.get(field)));
        counts.iter().for_each(|(field, _)| row.subtract(*field, 1));
        // `insert` continues the same event, with the same number.
        if self.insert(key, buffer).is_err() && state.is_half_done() {
            counts.iter().for_each(|(field, count)| row.set(*field, *count));
            state.end(event, Op::Nothing, &EventBody::default());
        }
    }

    fn add_reference(&mut self, slot: u32) -> u32 {
        let references = references_of(self.state.record_in(slot)).saturating_add(1);
        self.state.set_references(self.time, Op::Ref, slot, references);
        references
    }

    /// Stores another buffer at a live key, because the free was missed. It gets a later slot, so that a reader that finds an entry
    /// again does not confuse the two.
    ///
    /// These are two events. After a kill between them, the ledger has neither buffer.
    #[cold]
    fn replace(&mut self, place: EntryRef, new: &NewEntry<'_>) -> Result<Stored, Lost> {
        let state = self.state;
        state.lose(Lost::Replaced);
        let event = state.begin(self.time);
        let Some(slot) = state.take_slot() else { return self.end_unchanged(event) };
        // `destroy` continues the same event, with the same number.
        state.destroy(self.time, place);
        state.create(state.begin(self.time), slot, new);
        Ok(Stored::Replaced)
    }

    /// Ends an event without a change. Its number still has a record.
    pub(super) fn end_unchanged<T>(&mut self, event: Event) -> Result<T, Lost> {
        self.state.end(event, Op::Nothing, &EventBody::default());
        self.refuse(Lost::NoMemory)
    }

    pub(super) fn refuse<T>(&mut self, reason: Lost) -> Result<T, Lost> {
        self.state.lose(reason);
        Err(reason)
    }
}
