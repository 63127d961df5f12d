//! A text of limited length that does not use the program's heap.

/// At most `N` bytes of UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self { bytes: [0; N], length: 0 }
    }
}

impl<const N: usize> Text<N> {
    /// The text as a string slice.
    pub fn as_str(&self) -> &str {
        // Only whole characters are added. Code in a user's program never panics.
        self.bytes.get(..self.length).and_then(|bytes| str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// Adds a character. Returns false if it does not fit.
    pub fn push(&mut self, character: char) -> bool {
        let mut encoded = [0; 4];
        let encoded = character.encode_utf8(&mut encoded).as_bytes();
        let Some(place) = self.bytes.get_mut(self.length..self.length + encoded.len()) else { return false };
        place.copy_from_slice(encoded);
        self.length += encoded.len();
        true
    }

    /// Adds as many characters of a text as fit.
    pub fn append(&mut self, text: &str) {
        let room = text.len().min(N - self.length);
        // The start of a text is always a boundary.
        let end = (0..=room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        if let (Some(fits), Some(place)) = (text.as_bytes().get(..end), self.bytes.get_mut(self.length..self.length + end)) {
            place.copy_from_slice(fits);
            self.length += end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_text_takes_no_more() {
        let mut text = Text::<4>::default();
        assert!(text.push('a') && text.push('é') && !text.push('é') && text.push('b') && !text.push('c'));
        assert_eq!(text.as_str(), "aéb");
        let mut text = Text::<4>::default();
        text.append("aé");
        text.append("éb");
        assert_eq!(text.as_str(), "aé");
        text.append("bc");
        assert_eq!(text.as_str(), "aéb");
    }
}
