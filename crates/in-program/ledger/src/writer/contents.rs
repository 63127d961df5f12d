//! Append-only records of the region, and a private index that finds them by their content.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::layout::Table;

use super::memory::{Lazy, high, low, pair};
use super::state::WriterState;

/// Cells with `hash << 32 | number + 1`, 0 if empty.
pub(super) type Cells<const COUNT: usize> = Lazy<AtomicU64, COUNT>;

impl WriterState {
    /// Returns the number of the record with this content. Without one, `append` adds it.
    pub(super) fn number_of<const COUNT: usize>(
        &self,
        cells: &Cells<COUNT>,
        table: Table,
        words: &[u64],
        append: impl FnOnce() -> Option<u32>,
    ) -> Option<u32> {
        cells.reserve()?;
        let hash = hash_of(words);
        for step in 0..COUNT {
            let cell = cells.get((hash as usize).wrapping_add(step))?;
            let value = cell.load(Relaxed);
            let Some(number) = low(value).checked_sub(1) else {
                let number = append()?;
                cell.store(pair(number + 1, hash), Relaxed);
                return Some(number);
            };
            if high(value) == hash && self.holds(table, number, words) {
                return Some(number);
            }
        }
        None
    }

    /// Writes the next record of a table and publishes it by the count; the reader reads the count first.
    pub(super) fn append_record(&self, table: Table, first: u32, count: u64, words: &[u64]) -> Option<u32> {
        let used = self.region.header(count);
        let number = low(used.load(Relaxed)).max(first);
        if number >= table.records {
            return None;
        }
        for (at, word) in (0..).step_by(8).zip(words) {
            self.region.word(table, number as usize, at).store(*word, Relaxed);
        }
        used.store(u64::from(number) + 1, Release);
        Some(number)
    }

    fn holds(&self, table: Table, number: u32, words: &[u64]) -> bool {
        (0..).step_by(8).zip(words).all(|(at, word)| self.region.word(table, number as usize, at).load(Relaxed) == *word)
    }
}

fn hash_of(words: &[u64]) -> u32 {
    let mixed =
        words.iter().fold(0x9E37_79B9_7F4A_7C15_u64, |hash, word| (hash ^ word).wrapping_mul(0xA076_1D64_78BD_642F).rotate_left(29));
    high(mixed) ^ low(mixed)
}
