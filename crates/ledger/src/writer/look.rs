//! Where a live buffer is, by its key or by its address alone.

use crate::layout::{KINDS, entry};

use super::{
    AllocatorId, Key, Session,
    event::{creation_of, row_of},
    index::{self, Place},
};

impl Session<'_> {
    /// For frees that name no kind: the kind of the live buffer at that address that was created last, and in how many kinds
    /// there is one.
    pub fn newest_at(&self, allocator: AllocatorId, address: u64) -> Option<(u8, u32)> {
        if !self.books.is_open(allocator) {
            return None;
        }
        let (mut newest, mut kinds) = (None, 0);
        for row in self.books.rows_in_use(allocator) {
            let Some(place) = self.live_in(row, address) else { continue };
            kinds += 1;
            newest = newest.max(creation_of(self.books.record_in(place.slot)).map(|creation| (creation, row)));
        }
        let (_, row) = newest?;
        Some((u8::try_from(row % KINDS as usize).ok()?, kinds))
    }

    pub(super) fn live(&self, key: Key) -> Option<Place> {
        self.live_in(self.books.row_for(key)?, key.address)
    }

    fn live_in(&self, row: usize, address: u64) -> Option<Place> {
        let place = self.place(row, index::hash(row, address), address)?;
        self.books.is_live(self.books.record_in(place.slot)).then_some(place)
    }

    /// The key's cell, its entry live or dead.
    #[inline]
    pub(super) fn place(&self, row: usize, hash: u32, address: u64) -> Option<Place> {
        self.books.index.find(hash, |slot| {
            let record = self.books.record_in(slot);
            record.get(entry::ADDRESS) == address && row_of(record) == row
        })
    }
}
