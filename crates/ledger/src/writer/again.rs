//! A live key once more: another reference, or a buffer whose predecessor's free was missed.

use crate::layout::{Lost, Op, entry};

use super::{
    Buffer, Key, Session,
    event::{NewEntry, references_of},
    index::Place,
};

/// What to do about a live buffer at the key of a new one.
pub(super) type Again<S> = fn(&mut S, Place, &NewEntry<'_>) -> Result<(), Lost>;

impl Session<'_> {
    /// A new buffer, or one reference more to the one that is live at that key if it has the same size; one of another size
    /// is as in [`Session::insert`].
    pub fn insert_or_reference(&mut self, key: Key, buffer: &Buffer) -> Result<(), Lost> {
        self.put(key, buffer, Self::refer_or_replace)
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
