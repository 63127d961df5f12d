//! Finds a live buffer by its key or only by its address.

use crate::layout::{KINDS, entry};

use super::event::{creation_of, row_of};
use super::{AllocatorId, Key, Session, index};

/// The slot of a buffer, and the hash of its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryRef {
    pub(super) slot: u32,
    pub(super) hash: u32,
}

impl Session<'_> {
    /// For frees without a kind: returns the kind of the newest live buffer at this address among the kinds in `wanted`, and the number of
    /// kinds with a live buffer there.
    pub fn newest_of(&self, allocator: AllocatorId, address: u64, wanted: &[u8]) -> Option<(u8, u32)> {
        if !self.state.is_open(allocator) {
            return None;
        }
        let (mut newest, mut kinds) = (None, 0);
        for row in self.state.rows_in_use(allocator) {
            let Some(kind) = u8::try_from(row % KINDS as usize).ok().filter(|kind| wanted.contains(kind)) else { continue };
            let Some(place) = self.live_in(row, address) else { continue };
            kinds += 1;
            newest = newest.max(creation_of(self.state.record_in(place.slot)).map(|creation| (creation, kind)));
        }
        Some((newest?.1, kinds))
    }

    pub(super) fn live(&self, key: Key) -> Option<EntryRef> {
        self.live_in(self.state.row_for(key)?, key.address)
    }

    fn live_in(&self, row: usize, address: u64) -> Option<EntryRef> {
        let hash = index::hash(row, address);
        let place = EntryRef { slot: self.slot_of(row, hash, address)?, hash };
        self.state.is_live(self.state.record_in(place.slot)).then_some(place)
    }

    /// Returns the slot of a key. Its entry may be live or dead.
    #[inline]
    pub(super) fn slot_of(&self, row: usize, hash: u32, address: u64) -> Option<u32> {
        let state = self.state;
        let has_key = |slot: u32| {
            let record = state.record_in(slot);
            record.get(entry::ADDRESS) == address && row_of(record) == row
        };
        // A guess made without the lock is right if the entry has the key, because no two entries have the same key.
        match self.guess {
            Some(slot) if state.is_listed(slot) && has_key(slot) && creation_of(state.record_in(slot)).is_some() => Some(slot),
            _ => state.index.find(hash, has_key),
        }
    }
}
