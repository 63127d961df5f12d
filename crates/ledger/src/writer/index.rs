//! Where a key's entry is: open addressing over cells of eight bytes in private memory.
//!
//! A cell is `hash << 32 | slot + 1`, 0 is empty, its home is `hash & mask`: moving a cell never touches an entry.
//! Deletion shifts the rest of the run back, so there are no tombstones. Growth goes on beside the events, [`STEPS`] cells
//! each: until the old table is empty, a key is in the one or in the other. Cells of the old table before `cursor` are
//! empty, so a key whose home lies there is not in it, and that memory is given back on the way.

use std::{
    ptr::{self, NonNull},
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed},
};

use super::{
    ahead,
    memory::{self, Backing, high, low},
};

/// Cells at the start: one page more would cost every idle process.
const CELLS_FIRST: u32 = 4096;
/// Cells looked at for each event while growing.
const STEPS: u32 = 16;
/// Cells of the old table that are unmapped together: 64 KiB.
const UNMAP_CELLS: u32 = 8192;

/// A key's hash: both halves of a 128-bit product.
pub(super) fn hash(row: usize, address: u64) -> u32 {
    let mixed = (address ^ (row as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_add(0xD6E8_FEB8_6659_FD93);
    let product = u128::from(mixed) * 0xA076_1D64_78BD_642F;
    let folded = low64(product) ^ low64(product >> 64);
    high(folded) ^ low(folded)
}

const fn low64(wide: u128) -> u64 {
    (wide & 0xFFFF_FFFF_FFFF_FFFF) as u64
}

/// One run of cells.
#[derive(Debug)]
struct Table {
    cells: AtomicPtr<AtomicU64>,
    mask: AtomicU32,
}

impl Table {
    const fn none() -> Self {
        Self { cells: AtomicPtr::new(ptr::null_mut()), mask: AtomicU32::new(0) }
    }

    fn is_none(&self) -> bool {
        self.cells.load(Relaxed).is_null()
    }

    fn cell(&self, at: u32) -> &AtomicU64 {
        let index = (at & self.mask.load(Relaxed)) as usize;
        // SAFETY: aligned and in bounds, as `mask + 1` cells were mapped at `cells` and the index is masked; callers ask
        // `is_none` first and never touch cells before the cursor, the only ones unmapped; any bits are a u64; only the
        // holder of the lock comes here, and a thread that dies in between leaves whole cells, rebuilt by the repair.
        unsafe { &*self.cells.load(Relaxed).add(index) }
    }
}

/// Where a cell was found; good until the next change of the index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    is_old: bool,
    at: u32,
    pub(super) slot: u32,
}

#[derive(Debug)]
pub(super) struct Index {
    table: Table,
    old: Table,
    /// Cells of `old` before this are empty.
    cursor: AtomicU32,
    count: AtomicU32,
}

impl Index {
    pub(super) const fn new() -> Self {
        Self { table: Table::none(), old: Table::none(), cursor: AtomicU32::new(0), count: AtomicU32::new(0) }
    }

    /// Makes the first table. `false`: no memory.
    pub(super) fn start(&self, entries: u32) -> bool {
        let cells = entries.saturating_mul(2).next_power_of_two().clamp(CELLS_FIRST, 1 << 30);
        let Some(start) = memory::map(cells as usize * 8, Backing::Private) else { return false };
        self.table.cells.store(start.as_ptr().cast(), Relaxed);
        self.table.mask.store(cells - 1, Relaxed);
        self.count.store(0, Relaxed);
        true
    }

    /// Asks for the cell of that hash; also without the lock.
    #[inline]
    pub(super) fn fetch_ahead(&self, hash: u32) {
        let home = (hash & self.table.mask.load(Relaxed)) as usize;
        ahead::fetch(self.table.cells.load(Relaxed).wrapping_add(home));
    }

    /// Whether one more cell leaves the runs short.
    pub(super) fn has_room(&self) -> bool {
        let cells = self.table.mask.load(Relaxed) + 1;
        self.count.load(Relaxed) < cells - cells / 8
    }

    /// The cell with that hash whose slot `matches`.
    #[inline]
    pub(super) fn find(&self, hash: u32, mut matches: impl FnMut(u32) -> bool) -> Option<Place> {
        let mask = self.table.mask.load(Relaxed);
        let mut at = hash & mask;
        loop {
            let cell = self.table.cell(at).load(Relaxed);
            if cell == 0 {
                break;
            }
            let slot = low(cell).wrapping_sub(1);
            if high(cell) == hash && matches(slot) {
                return Some(Place { is_old: false, at, slot });
            }
            at = (at + 1) & mask;
        }
        if self.old.is_none() { None } else { self.find_old(hash, matches) }
    }

    #[cold]
    fn find_old(&self, hash: u32, mut matches: impl FnMut(u32) -> bool) -> Option<Place> {
        let mask = self.old.mask.load(Relaxed);
        let mut at = hash & mask;
        loop {
            let cell = self.old_cell(at);
            if cell == 0 {
                return None;
            }
            let slot = low(cell).wrapping_sub(1);
            if high(cell) == hash && matches(slot) {
                return Some(Place { is_old: true, at, slot });
            }
            at = (at + 1) & mask;
        }
    }

    fn old_cell(&self, at: u32) -> u64 {
        if at < self.cursor.load(Relaxed) { 0 } else { self.old.cell(at).load(Relaxed) }
    }

    /// Adds a key that is not in it. The caller asked [`Index::has_room`].
    pub(super) fn put(&self, hash: u32, slot: u32) {
        self.put_cell(u64::from(hash) << 32 | u64::from(slot.wrapping_add(1)));
        self.count.store(self.count.load(Relaxed) + 1, Relaxed);
    }

    fn put_cell(&self, cell: u64) {
        let mask = self.table.mask.load(Relaxed);
        let mut at = high(cell) & mask;
        while self.table.cell(at).load(Relaxed) != 0 {
            at = (at + 1) & mask;
        }
        self.table.cell(at).store(cell, Relaxed);
    }

    /// Takes a found cell out.
    pub(super) fn remove(&self, place: Place) {
        if place.is_old {
            self.close_gap(&self.old, place.at, self.cursor.load(Relaxed));
        } else {
            self.close_gap(&self.table, place.at, 0);
        }
        self.count.store(self.count.load(Relaxed).saturating_sub(1), Relaxed);
    }

    /// Empties the cell `hole` and moves back those behind it that may stand there. Cells before `first` are empty.
    fn close_gap(&self, table: &Table, mut hole: u32, first: u32) {
        let mask = table.mask.load(Relaxed);
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let cell = if at < first { 0 } else { table.cell(at).load(Relaxed) };
            if cell == 0 {
                break;
            }
            let home = high(cell) & mask;
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                table.cell(hole).store(cell, Relaxed);
                hole = at;
            }
        }
        table.cell(hole).store(0, Relaxed);
    }

    /// One event's share of growing.
    #[inline]
    pub(super) fn step(&self) {
        if !self.old.is_none() {
            self.migrate();
        } else if self.count.load(Relaxed) > self.table.mask.load(Relaxed) / 2 {
            self.grow();
        }
    }

    #[cold]
    fn grow(&self) {
        let mask = self.table.mask.load(Relaxed);
        if mask >= 1 << 30 {
            return;
        }
        let cells = (mask + 1) * 2;
        let Some(start) = memory::map(cells as usize * 8, Backing::Private) else { return };
        self.cursor.store(0, Relaxed);
        self.old.mask.store(mask, Relaxed);
        self.old.cells.store(self.table.cells.load(Relaxed), Relaxed);
        self.table.mask.store(cells - 1, Relaxed);
        self.table.cells.store(start.as_ptr().cast(), Relaxed);
    }

    fn migrate(&self) {
        let mask = self.old.mask.load(Relaxed);
        for _ in 0..STEPS {
            let at = self.cursor.load(Relaxed);
            if at > mask {
                return self.finish(mask);
            }
            let cell = self.old.cell(at).load(Relaxed);
            if cell == 0 {
                self.cursor.store(at + 1, Relaxed);
                if (at + 1).is_multiple_of(UNMAP_CELLS) {
                    self.unmap_old(at + 1 - UNMAP_CELLS, at + 1);
                }
            } else {
                self.close_gap(&self.old, at, at);
                self.put_cell(cell);
            }
        }
    }

    fn finish(&self, mask: u32) {
        let cells = mask + 1;
        self.unmap_old(cells - cells % UNMAP_CELLS, cells);
        self.old.cells.store(ptr::null_mut(), Relaxed);
    }

    fn unmap_old(&self, from: u32, to: u32) {
        let cells = self.old.cells.load(Relaxed);
        if let (true, Some(start)) = (from < to, NonNull::new(cells)) {
            // SAFETY: whole pages of the old table (UNMAP_CELLS, and every table's length, are multiples of a page), all
            // before the cursor, where nobody looks any more.
            unsafe { memory::unmap(start.add(from as usize).cast(), (to - from) as usize * 8) };
        }
    }

    /// Forgets everything; [`Index::start`] makes a new table. What may be in the middle of a change is left mapped.
    pub(super) fn abandon(&self) {
        self.old.cells.store(ptr::null_mut(), Relaxed);
        self.cursor.store(0, Relaxed);
        self.table.cells.store(ptr::null_mut(), Relaxed);
    }

    /// Unmaps it all.
    ///
    /// # Safety
    /// Nobody uses the index any more.
    pub(super) unsafe fn release(&self) {
        if let Some(start) = NonNull::new(self.table.cells.load(Relaxed)) {
            // SAFETY: the table's own length; the caller's promise.
            unsafe { memory::unmap(start.cast(), (self.table.mask.load(Relaxed) as usize + 1) * 8) };
        }
        let cursor = self.cursor.load(Relaxed);
        if !self.old.is_none() {
            self.unmap_old(cursor - cursor % UNMAP_CELLS, self.old.mask.load(Relaxed) + 1);
        }
    }

    /// Bytes mapped, for the bench.
    #[cfg(test)]
    fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Hashes with few values, so that runs are long and cross the table's end.
    fn crowded(key: u32) -> u32 {
        (key % 7).wrapping_mul(0x1234_5677).wrapping_sub(3)
    }

    fn check(steps: &[(bool, u32)], hash: fn(u32) -> u32) {
        let index = Index::new();
        assert!(index.start(0));
        let mut model = HashMap::new();
        for &(is_put, key) in steps {
            let found = index.find(hash(key), |slot| slot == key);
            assert_eq!(found.map(|place| place.slot), model.get(&key).copied());
            match (is_put, found) {
                (true, None) => {
                    assert!(index.has_room());
                    index.put(hash(key), key);
                    model.insert(key, key);
                }
                (false, Some(place)) => {
                    index.remove(place);
                    model.remove(&key);
                }
                (true, Some(_)) | (false, None) => {}
            }
            index.step();
        }
        assert_eq!(index.count() as usize, model.len());
        for key in model.keys() {
            assert!(index.find(hash(*key), |slot| slot == *key).is_some());
        }
        // SAFETY: the last use.
        unsafe { index.release() };
    }

    proptest! {
        #[test]
        fn is_a_map_in_long_runs(steps in prop::collection::vec((any::<bool>(), 0_u32..300), 0..2000)) {
            check(&steps, crowded);
        }
    }

    #[test]
    fn is_a_map_while_it_grows_and_shrinks() {
        let mut random = 1_u64;
        let mut steps = Vec::new();
        for round in 0..300_000_u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let key = high(random) % 60_000;
            steps.push((!round.is_multiple_of(3), key));
        }
        check(&steps, |key| hash(1, u64::from(key) * 4096));
    }
}
