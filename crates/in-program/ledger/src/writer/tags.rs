//! Texts that entries refer to by number.

use std::sync::atomic::Ordering::Relaxed;

use crate::layout::{TAG_BYTES_MAX, TAG_OTHER, TAGS, header};

use super::contents::Cells;
use super::memory::{beginning, low};
use super::state::WriterState;

const OTHER: &str = "(other)";

/// The index of the texts.
pub(super) type Tags = Cells<{ TAGS.records as usize * 2 }>;

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

impl WriterState {
    /// Returns the number of a text; 0 for an empty one, [`TAG_OTHER`] if the table is full.
    pub(super) fn intern(&self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let words = packed(text);
        self.number_of(&self.tags, TAGS, &words, || self.append_tag(&words)).unwrap_or(TAG_OTHER)
    }

    /// Rebuilds the index from the texts that an earlier writer left in the region.
    pub(super) fn take_over_tags(&self) {
        let used = low(self.region.header(header::TAGS_USED).load(Relaxed));
        for tag in 1..used.min(TAG_OTHER) {
            let words: [u64; 8] = std::array::from_fn(|number| self.region.word(TAGS, tag as usize, number as u64 * 8).load(Relaxed));
            // Nothing else has the same content.
            self.number_of(&self.tags, TAGS, &words, || Some(tag));
        }
    }

    /// Adds a text. Record 0 stays empty, and the last one is for all texts that do not fit.
    fn append_tag(&self, words: &[u64; 8]) -> Option<u32> {
        let is_last = low(self.region.header(header::TAGS_USED).load(Relaxed)) == TAG_OTHER;
        let words = if is_last { packed(OTHER) } else { *words };
        let number = self.append_record(TAGS, 1, header::TAGS_USED, &words)?;
        (!is_last).then_some(number)
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
