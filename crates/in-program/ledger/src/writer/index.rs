//! Finds the entry of a key: chains of links in private memory, small enough that most of them stay in the CPU's cache.
//!
//! A link of four bytes is `tag << 22 | slot + 1`; 0 ends a chain. Each bucket has the first link of its chain, and each slot has the next
//! one. Buckets are added one at a time, as entries are added (linear hashing): those before `split` have already been divided between
//! themselves and the bucket `mask + 1` further on. So no event pays for a whole table. The tag has the hash's bits that decide the
//! division. It also excludes most other entries of a chain, so that usually only the wanted entry is accessed. The links of free slots
//! form a chain, too.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::memory::{Mapped, high, low};
use super::prefetch;

/// Initial number of buckets, from the bits of the hash that are not in the tag.
const BUCKETS_FIRST: u32 = 1 << FIRST_BITS;
const FIRST_BITS: u32 = 12;
const SLOT_BITS: u32 = 22;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;
/// Maximum number of slots; a link has no room for more.
pub(super) const SLOTS_MAX: u32 = SLOT_MASK;
/// Maximum number of links that a guess follows. Without the lock, a chain may change meanwhile.
const GUESSES: u32 = 4;

/// The hash of a key: both halves of a 128-bit product.
#[inline]
pub(super) fn hash(row: usize, address: u64) -> u32 {
    let mixed = (address ^ (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_add(0xD6E8_FEB8_6659_FD93);
    let product = u128::from(mixed) * 0xA076_1D64_78BD_642F;
    let folded = low64(product) ^ low64(product >> 64);
    high(folded) ^ low(folded)
}

const fn low64(wide: u128) -> u64 {
    (wide & 0xFFFF_FFFF_FFFF_FFFF) as u64
}

const fn link_to(hash: u32, slot: u32) -> u32 {
    tag_of(hash) | (slot + 1) & SLOT_MASK
}

const fn tag_of(hash: u32) -> u32 {
    hash >> FIRST_BITS << SLOT_BITS
}

/// The slot of a link that is not 0.
const fn slot_of(link: u32) -> u32 {
    (link & SLOT_MASK).wrapping_sub(1)
}

const fn has_tag(link: u32, hash: u32) -> bool {
    (link ^ tag_of(hash)) & !SLOT_MASK == 0
}

#[derive(Debug)]
pub(super) struct Index {
    first: Mapped<AtomicU32>,
    next: Mapped<AtomicU32>,
    mask: AtomicU32,
    /// The buckets before this one are divided.
    split: AtomicU32,
    count: AtomicU32,
    /// First free slot + 1; 0 for none.
    free: AtomicU32,
}

impl Index {
    /// Reserves memory for `capacity` listed slots and three times as many unlisted ones. Returns `None` if there is no memory.
    pub(super) fn reserve(capacity: u32) -> Option<Self> {
        let (first, next) = (Mapped::reserve(capacity.max(BUCKETS_FIRST) * 2)?, Mapped::reserve(Self::slots(capacity))?);
        let (mask, none) = (AtomicU32::new(BUCKETS_FIRST - 1), || AtomicU32::new(0));
        Some(Self { first, next, mask, split: none(), count: none(), free: none() })
    }

    /// Number of slots for a capacity, including unlisted ones.
    pub(super) const fn slots(capacity: u32) -> u32 {
        let slots = capacity.saturating_mul(4);
        if slots < 1 << 16 { 1 << 16 } else { slots }
    }

    #[inline]
    fn bucket(&self, hash: u32) -> u32 {
        let mask = self.mask.load(Relaxed);
        let bucket = hash & mask;
        if bucket < self.split.load(Relaxed) { hash & (mask << 1 | 1) } else { bucket }
    }

    /// Prefetches the bucket of a hash. Needs no lock.
    #[inline]
    pub(super) fn fetch_ahead(&self, hash: u32) {
        prefetch::fetch(self.first.link(self.bucket(hash)));
    }

    /// Returns the slot that most likely has the key of this hash. Without the lock, it may be any slot.
    #[inline]
    pub(super) fn guess(&self, hash: u32) -> Option<u32> {
        let mut link = self.first.get(self.bucket(hash));
        for _ in 0..GUESSES {
            if link == 0 || has_tag(link, hash) {
                break;
            }
            link = self.next.get(slot_of(link));
        }
        (link != 0).then(|| slot_of(link))
    }

    /// Returns the slot of this hash that `matches` accepts.
    #[inline]
    pub(super) fn find(&self, hash: u32, mut matches: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut link = self.first.get(self.bucket(hash));
        while link != 0 {
            let slot = slot_of(link);
            if has_tag(link, hash) && matches(slot) {
                return Some(slot);
            }
            link = self.next.get(slot);
        }
        None
    }

    /// Adds a key that is not in the index.
    #[inline]
    pub(super) fn put(&self, hash: u32, slot: u32) {
        let first = self.first.link(self.bucket(hash));
        self.next.set(slot, first.load(Relaxed));
        first.store(link_to(hash, slot), Relaxed);
        let count = self.count.load(Relaxed) + 1;
        self.count.store(count, Relaxed);
        if count > self.buckets() / 2 {
            self.add_bucket();
        }
    }

    /// Removes a slot that is in the index.
    #[inline]
    pub(super) fn remove(&self, hash: u32, slot: u32) {
        let mut place = self.first.link(self.bucket(hash));
        loop {
            let link = place.load(Relaxed);
            if link == 0 {
                return;
            }
            if slot_of(link) == slot {
                break;
            }
            place = self.next.link(slot_of(link));
        }
        place.store(self.next.get(slot), Relaxed);
        self.count.store(self.count.load(Relaxed).saturating_sub(1), Relaxed);
    }

    fn buckets(&self) -> u32 {
        self.mask.load(Relaxed) + 1 + self.split.load(Relaxed)
    }

    /// Divides the next bucket by the next bit of the hash.
    fn add_bucket(&self) {
        let (mask, from) = (self.mask.load(Relaxed), self.split.load(Relaxed));
        let bit = mask + 1;
        if from + bit >= self.first.count() {
            return;
        }
        let mut link = self.first.get(from);
        let mut halves = [0; 2];
        while link != 0 {
            let slot = slot_of(link);
            let behind = self.next.get(slot);
            let is_far = link >> SLOT_BITS << FIRST_BITS & bit != 0;
            self.next.set(slot, halves[usize::from(is_far)]);
            halves[usize::from(is_far)] = link;
            link = behind;
        }
        self.first.set(from, halves[0]);
        self.first.set(from + bit, halves[1]);
        if from == mask {
            self.mask.store(mask << 1 | 1, Relaxed);
            self.split.store(0, Relaxed);
        } else {
            self.split.store(from + 1, Relaxed);
        }
    }

    /// Takes the free slot that was returned last.
    #[inline]
    pub(super) fn take_free(&self) -> Option<u32> {
        let slot = self.first_free()?;
        self.free.store(self.next.get(slot), Relaxed);
        Some(slot)
    }

    /// Returns the free slot that is taken next.
    #[inline]
    pub(super) fn first_free(&self) -> Option<u32> {
        self.free.load(Relaxed).checked_sub(1)
    }

    #[inline]
    pub(super) fn give_free(&self, slot: u32) {
        self.next.set(slot, self.free.load(Relaxed));
        self.free.store(slot + 1, Relaxed);
    }

    /// Removes everything, including free slots. The index may be in the middle of a change.
    pub(super) fn clear(&self) {
        for bucket in 0..=self.buckets().min(self.first.count() - 1) {
            self.first.set(bucket, 0);
        }
        self.mask.store(BUCKETS_FIRST - 1, Relaxed);
        for word in [&self.split, &self.count, &self.free] {
            word.store(0, Relaxed);
        }
    }
}

impl Mapped<AtomicU32> {
    #[inline]
    fn link(&self, index: u32) -> &AtomicU32 {
        self.at(index as usize)
    }

    #[inline]
    fn get(&self, index: u32) -> u32 {
        self.link(index).load(Relaxed)
    }

    #[inline]
    fn set(&self, index: u32, value: u32) {
        self.link(index).store(value, Relaxed);
    }
}

/// Every bit that divides a bucket is in the tag, and every slot fits in a link.
const _: () =
    assert!(crate::layout::ENTRIES_MAX <= 1 << (FIRST_BITS + 32 - SLOT_BITS) && Index::slots(crate::layout::ENTRIES_MAX) == 1 << SLOT_BITS);

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// A hash with few values, so that chains are long.
    fn crowded(key: u32) -> u32 {
        (key % 7).wrapping_mul(0x1234_5677).wrapping_sub(3)
    }

    fn check(steps: &[(bool, u32)], hash: fn(u32) -> u32) {
        let index = Index::reserve(1 << 16).expect("memory");
        let mut model = HashMap::new();
        for &(is_put, key) in steps {
            let found = index.find(hash(key), |slot| slot == key);
            assert_eq!(found, model.get(&key).copied());
            match (is_put, found) {
                (true, None) => {
                    index.put(hash(key), key);
                    model.insert(key, key);
                }
                (false, Some(slot)) => {
                    index.remove(hash(key), slot);
                    model.remove(&key);
                }
                (true, Some(_)) | (false, None) => {}
            }
        }
        assert_eq!(index.count.load(Relaxed) as usize, model.len());
        for key in model.keys() {
            assert!(index.find(hash(*key), |slot| slot == *key).is_some());
        }
        index.clear();
        assert!(model.keys().all(|key| index.find(hash(*key), |_| true).is_none()));
    }

    proptest! {
        #[test]
        fn the_index_is_a_map_in_long_chains(steps in prop::collection::vec((any::<bool>(), 0_u32..300), 0..2000)) {
            check(&steps, crowded);
        }
    }

    #[test]
    fn the_index_is_a_map_while_it_grows() {
        let mut random = 1_u64;
        let mut steps = Vec::new();
        for round in 0..300_000_u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = high(random) % 60_000;
            steps.push((!round.is_multiple_of(3), key));
        }
        check(&steps, |key| hash(1, u64::from(key) * 4096));
    }

    /// More entries than the buckets have room for.
    #[test]
    fn chains_grow_where_buckets_cannot() {
        let index = Index::reserve(1024).expect("memory");
        for key in 0..20_000 {
            index.put(hash(0, u64::from(key)), key);
        }
        assert_eq!(index.buckets(), index.first.count());
        assert!((0..20_000).all(|key| index.find(hash(0, u64::from(key)), |slot| slot == key) == Some(key)));
    }

    #[test]
    fn a_guess_is_right_where_nothing_changes() {
        let index = Index::reserve(1 << 16).expect("memory");
        let keys = 0..50_000;
        for key in keys.clone() {
            index.put(hash(2, u64::from(key) << 12), key);
        }
        let right = keys.filter(|key| index.guess(hash(2, u64::from(*key) << 12)) == Some(*key)).count();
        assert!(right > 45_000, "{right} of 50,000");
    }

    #[test]
    fn the_newest_free_slot_comes_first() {
        let index = Index::reserve(1024).expect("memory");
        for slot in [5, 9, 1023] {
            index.give_free(slot);
        }
        assert_eq!(index.take_free(), Some(1023));
        index.give_free(7);
        assert_eq!([(); 4].map(|()| index.take_free()), [Some(7), Some(9), Some(5), None]);
    }
}
