//! A live key once more: another reference, a buffer whose predecessor's free was missed, or one whose free did not happen.

use crate::layout::{Lost, Op, entry, row};

use super::{
    Buffer, Key, Session,
    event::{Fact, NewEntry, references_of},
    look::Place,
};

/// What to do about a live buffer at the key of a new one.
pub(super) type Again<S> = fn(&mut S, Place, &NewEntry<'_>) -> Result<(), Lost>;

impl Session<'_> {
    /// A new buffer, or one reference more to the one that is live at that key if it has the same size; one of another size
    /// is as in [`Session::insert`].
    pub fn insert_or_reference(&mut self, key: Key, buffer: &Buffer) -> Result<(), Lost> {
        self.put(key, buffer, Self::refer_or_replace)
    }

    /// Puts back what a free had removed that then did not happen: no allocation more, a free less. A buffer that has the key
    /// since stays.
    pub fn restore(&mut self, key: Key, buffer: &Buffer) {
        let books = self.books;
        let Some(number) = books.row_for(key).filter(|_| self.live(key).is_none()) else { return };
        let event = books.begin(self.time);
        let row = books.region.row(number);
        let counts = [row::ALLOCS, row::FREES].map(|field| (field, row.get(field)));
        counts.iter().for_each(|(field, _)| row.subtract(*field, 1));
        // The same event number: what `insert` begins is what was begun.
        if self.insert(key, buffer).is_err() && books.is_half_done() {
            counts.iter().for_each(|(field, count)| row.set(*field, *count));
            books.end(event, Op::Nothing, &Fact::default());
        }
    }

    fn refer_or_replace(&mut self, place: Place, new: &NewEntry<'_>) -> Result<(), Lost> {
        let record = self.books.record_in(place.slot);
        if record.get(entry::SIZE) != new.buffer.size {
            return self.replace(place, new);
        }
        let references = references_of(record).saturating_add(1);
        self.books.set_references(self.time, Op::Ref, place.slot, references);
        Ok(())
    }
}
