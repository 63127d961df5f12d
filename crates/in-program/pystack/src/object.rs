//! Reads `str` and `bytes` objects of the interpreter, only by copies.

use crate::layout::Layout;
use crate::memory::{self, Bytes};
use crate::symbols::Symbols;
use crate::text::Text;

/// Maximum number of characters of a valid name.
const LENGTH_MAX: usize = 1 << 16;
/// Maximum number of bytes of a line table.
const TABLE_MAX: usize = 1 << 22;

/// Reads the characters of a `str`, or only the last `N` bytes if it is longer. `None` if it is no `str`.
pub(crate) fn text<const N: usize>(layout: &Layout, symbols: &Symbols, at: usize) -> Option<Text<N>> {
    if memory::word(at.checked_add(layout.object_type)?)? != symbols.text_type {
        return None;
    }
    let length = memory::word(at.checked_add(layout.text_length)?)?;
    // Two bits of interning, three of the width, compact, ASCII.
    let state = memory::half(at.checked_add(layout.text_state)?)?;
    let (width, is_compact, is_ascii) = ((state >> 2 & 7) as usize, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
    if length > LENGTH_MAX || !is_compact || !matches!(width, 1 | 2 | 4) {
        return None;
    }
    let data = at.checked_add(if is_ascii { layout.text_ascii } else { layout.text_wide })?;
    // The end of a long name is more useful. In UTF-8 a character has at most one byte more than here.
    let skipped = length.saturating_sub(N);
    let mut bytes = Bytes::new(data.checked_add(skipped * width)?, (length - skipped) * width);
    let mut text = Text::default();
    for _ in skipped..length {
        let mut number = [0; 4];
        for byte in number.iter_mut().take(width) {
            *byte = bytes.next()?;
        }
        let character = char::from_u32(u32::from_le_bytes(number)).unwrap_or(char::REPLACEMENT_CHARACTER);
        if !text.push(character) {
            break;
        }
    }
    Some(text)
}

/// Reads the content of a `bytes` object. `None` if it is no `bytes`.
pub(crate) fn bytes(layout: &Layout, symbols: &Symbols, at: usize) -> Option<Bytes> {
    if memory::word(at.checked_add(layout.object_type)?)? != symbols.bytes_type {
        return None;
    }
    let size = memory::word(at.checked_add(layout.bytes_size)?)?;
    (size <= TABLE_MAX).then(|| Bytes::new(at.saturating_add(layout.bytes_data), size))
}
