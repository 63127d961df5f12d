//! Tags: the program's names of its buffers.

use std::sync::Arc;

use super::bytes::{text_at, u8_at};
use super::{ReadError, Region};
use ttmon_ledger::layout::TAG_BYTES_MAX;

/// The texts of tags by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tags(pub(super) Vec<Arc<String>>);

impl Tags {
    /// Returns the text of a tag. There is none for id 0, which means no tag.
    #[inline]
    pub fn get(&self, id: u32) -> Option<&Arc<String>> {
        usize::try_from(id).ok().filter(|id| *id > 0).and_then(|id| self.0.get(id)).filter(|text| !text.is_empty())
    }

    /// Drops the texts of all other tags.
    pub(super) fn keep(&mut self, is_used: impl Fn(u32) -> bool) {
        let none = Arc::default();
        for (id, text) in (0..).zip(&mut self.0) {
            if !is_used(id) {
                *text = Arc::clone(&none);
            }
        }
    }
}

/// Returns the published texts by id, so that every valid id has a text. 0 is "".
pub(super) fn read(region: &Region, used: u32) -> Result<Tags, ReadError> {
    let text = |record: &[u8]| Some(Arc::new(text_at(record, 1, TAG_BYTES_MAX.min(u8_at(record, 0).into()))));
    let mut tags = region.source.decoded(region.header.tables.tags, used, text)?;
    match tags.first_mut() {
        Some(none) => *none = Arc::default(),
        None => tags.push(Arc::default()),
    }
    Ok(Tags(tags))
}

/// Returns a tag's id, or 0 if it has no text, so that no caller indexes with an unchecked number.
#[inline]
pub(super) fn known(id: u32, used: u32) -> u32 {
    if id < used { id } else { 0 }
}
