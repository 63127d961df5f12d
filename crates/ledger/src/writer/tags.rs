//! Texts that entries refer to by number. They are append-only in the region, and a private index finds them.

use std::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::layout::{TAG_BYTES_MAX, TAG_OTHER, TAGS, header};

use super::{
    books::Books,
    memory::{self, Backing, Record, beginning, low},
};

const CELLS: usize = TAGS.records as usize * 2;
const CELLS_BYTES: usize = CELLS * 8;
const OTHER: &str = "(other)";

/// Cells with `hash << 32 | tag`, 0 if empty; mapped with the first tag.
#[derive(Debug)]
pub(super) struct Tags {
    cells: AtomicPtr<AtomicU64>,
}

impl Tags {
    pub(super) const fn new() -> Self {
        Self { cells: AtomicPtr::new(std::ptr::null_mut()) }
    }

    fn cell(&self, at: usize) -> Option<&AtomicU64> {
        let cells = self.cells.load(Acquire);
        if cells.is_null() {
            let start = memory::map(CELLS_BYTES, Backing::Private)?;
            self.cells.store(start.as_ptr().cast(), Release);
        }
        // SAFETY: CELLS aligned words were mapped and stay mapped while their writer lives; the index is below CELLS. Any bits are valid.
        // Only the holder of the lock accesses them, and a thread that dies leaves complete words.
        Some(unsafe { &*self.cells.load(Acquire).add(at % CELLS) })
    }

    /// Unmaps the index.
    ///
    /// # Safety
    /// The index is no longer used.
    pub(super) unsafe fn release(&self) {
        if let Some(start) = std::ptr::NonNull::new(self.cells.swap(std::ptr::null_mut(), Relaxed)) {
            // SAFETY: the length mapped; the caller guarantees this.
            unsafe { memory::unmap(start.cast(), CELLS_BYTES) };
        }
    }
}

/// The text of a tag in the region's format: length, bytes, zeros.
fn packed(text: &str) -> [u64; 8] {
    let text = beginning(text, TAG_BYTES_MAX);
    let mut bytes = [0_u8; 64];
    bytes[0] = u8::try_from(text.len()).unwrap_or(0);
    bytes.iter_mut().skip(1).zip(text).for_each(|(to, from)| *to = *from);
    let mut words = [0; 8];
    for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*chunk);
    }
    words
}

fn hash(words: &[u64; 8]) -> u32 {
    let mixed =
        words.iter().fold(0x9E37_79B9_7F4A_7C15_u64, |hash, word| (hash ^ word).wrapping_mul(0xA076_1D64_78BD_642F).rotate_left(29));
    low(mixed >> 32) ^ low(mixed)
}

fn holds(record: Record<'_>, words: &[u64; 8]) -> bool {
    (0..8_u64).zip(words).all(|(number, word)| record.get(number * 8) == *word)
}

fn write(record: Record<'_>, words: &[u64; 8]) {
    for (number, word) in (0..8_u64).zip(words) {
        record.set(number * 8, *word);
    }
}

impl Books {
    /// Returns the number of a text; 0 for an empty one, [`TAG_OTHER`] if the table is full.
    pub(super) fn intern(&self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let words = packed(text);
        let hash = hash(&words);
        for step in 0..CELLS {
            let Some(cell) = self.tags.cell((hash as usize).wrapping_add(step)) else { return TAG_OTHER };
            let value = cell.load(Relaxed);
            let tag = low(value);
            if value == 0 {
                let tag = self.append(&words);
                if tag != TAG_OTHER {
                    cell.store(u64::from(hash) << 32 | u64::from(tag), Relaxed);
                }
                return tag;
            }
            if low(value >> 32) == hash && holds(self.region.tag(tag as usize), &words) {
                return tag;
            }
        }
        TAG_OTHER
    }

    /// Rebuilds the index from the texts that an earlier writer left in the region.
    pub(super) fn take_over_tags(&self) {
        let used = low(self.region.header(header::TAGS_USED).load(Relaxed));
        for tag in 1..used.min(TAG_OTHER) {
            let record = self.region.tag(tag as usize);
            let hash = hash(&std::array::from_fn(|number| record.get(number as u64 * 8)));
            let mut cells = (0..CELLS).map_while(|step| self.tags.cell((hash as usize).wrapping_add(step)));
            if let Some(cell) = cells.find(|cell| cell.load(Relaxed) == 0) {
                cell.store(u64::from(hash) << 32 | u64::from(tag), Relaxed);
            }
        }
    }

    fn append(&self, words: &[u64; 8]) -> u32 {
        let used = self.region.header(header::TAGS_USED);
        let tag = low(used.load(Relaxed)).max(1);
        if tag > TAG_OTHER {
            return TAG_OTHER;
        }
        let record = self.region.tag(tag as usize);
        if tag == TAG_OTHER {
            write(record, &packed(OTHER));
        } else {
            write(record, words);
        }
        // The count publishes the text; the reader reads the count first.
        used.store(u64::from(tag) + 1, Release);
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = format!("{}é", "a".repeat(61));
        assert_eq!(packed(&text)[0].to_le_bytes()[0], 61);
        assert_eq!(packed(&text), packed(&"a".repeat(61)));
        assert_eq!(packed("b")[0], u64::from_le_bytes([1, b'b', 0, 0, 0, 0, 0, 0]));
    }
}
