//! Tags of allocations: each thread has a stack of numbers in the ledger's tag table.
//!
//! The stacks have no destructors, so that static destructors of the program may still report. They use cells that a signal handler may
//! find in any state. Every push needs its pop, even if it failed: a push without a text or lock is on the stack as "no tag".

use std::cell::Cell;
use std::ffi::c_char;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

use ttmon_ledger::layout::TAG_BYTES_MAX;
use ttmon_ledger::writer::Session;

use crate::record::in_session;
use crate::report::Outcome;

/// Maximum depth. Deeper pushes are counted, so that pops match. Their allocations get the deepest stored tag.
const DEPTH_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 4 * TAG_BYTES_MAX;

/// Whether any thread ever pushed a tag. In a library that was loaded late, accessing thread-local cells needs a call.
static ARE_USED: AtomicBool = AtomicBool::new(false);

/// A number in the table of one ledger. A child after fork has its own ledger and tag table. Numbers that were pushed before are invalid
/// there and count as no tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag {
    ledger: u64,
    id: u32,
}

const NO_TAG: Tag = Tag { ledger: 0, id: 0 };

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static TAGS: [Cell<Tag>; DEPTH_MAX] = const { [const { Cell::new(NO_TAG) }; DEPTH_MAX] };
}

pub(crate) fn push(text: *const c_char) -> Outcome {
    ARE_USED.store(true, Ordering::Relaxed);
    let (tag, outcome) = number(text);
    let depth = DEPTH.get();
    TAGS.with(|tags| {
        if let Some(place) = tags.get(depth) {
            place.set(tag);
        }
    });
    DEPTH.set(depth + 1);
    outcome
}

pub(crate) fn pop() -> Outcome {
    match DEPTH.get().checked_sub(1) {
        Some(depth) => {
            DEPTH.set(depth);
            Outcome::Recorded
        }
        None => Outcome::BadArgument,
    }
}

/// Returns the tag for allocations of this thread in a session; 0 for none.
#[inline]
pub fn top(session: &Session<'_>) -> u32 {
    // Relaxed: a thread sees its own push.
    if ARE_USED.load(Ordering::Relaxed) { top_of_thread(session.ledger()) } else { 0 }
}

fn top_of_thread(ledger: u64) -> u32 {
    let Some(top) = DEPTH.get().checked_sub(1) else { return 0 };
    let tag = TAGS.with(|tags| tags.get(top).or(tags.last()).map_or(NO_TAG, Cell::get));
    if tag.ledger == ledger { tag.id } else { 0 }
}

/// Reads a text of the program; `None` for a null pointer.
pub(crate) fn text(text: *const c_char) -> Option<Text> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller of the C function guarantees a NUL-terminated string that stays unchanged until the call returns. `strnlen` stops
    // at the NUL or earlier, so these bytes are readable and not written meanwhile.
    let bytes = unsafe { slice::from_raw_parts(text.cast::<u8>(), libc::strnlen(text, TEXT_BYTES_MAX)) };
    Some(Text::lossy(bytes))
}

fn number(given: *const c_char) -> (Tag, Outcome) {
    let Some(text) = text(given) else { return (NO_TAG, Outcome::BadArgument) };
    let mut tag = NO_TAG;
    let outcome = in_session(|session| {
        tag = Tag { ledger: session.ledger(), id: session.tag(text.as_str()) };
        Outcome::Recorded
    });
    (tag, outcome)
}

/// A text, truncated to the length of a tag at a character boundary, and followed by a NUL.
pub(crate) struct Text {
    bytes: [u8; TAG_BYTES_MAX + 1],
    length: usize,
}

impl Text {
    /// Converts bytes without the heap. Invalid UTF-8 becomes U+FFFD.
    pub(crate) fn lossy(bytes: &[u8]) -> Self {
        let mut text = Self { bytes: [0; TAG_BYTES_MAX + 1], length: 0 };
        for chunk in bytes.utf8_chunks() {
            let mark = if chunk.invalid().is_empty() { "" } else { "\u{FFFD}" };
            if !chunk.valid().chars().chain(mark.chars()).all(|character| text.add(character)) {
                break;
            }
        }
        text
    }

    /// As a C string, which ends at the first NUL.
    pub(crate) fn as_c(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }

    pub(crate) fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.length).unwrap_or_default();
        str::from_utf8(bytes).unwrap_or_default()
    }

    /// Adds a character. Returns false if there is no room.
    fn add(&mut self, character: char) -> bool {
        let end = self.length + character.len_utf8();
        let place = if end > TAG_BYTES_MAX { None } else { self.bytes.get_mut(self.length..end) };
        let Some(place) = place else { return false };
        character.encode_utf8(place);
        self.length = end;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: &str) {
        assert_eq!(Text::lossy(bytes).as_str(), expected);
    }

    #[test]
    fn texts_are_made_valid_and_cut_between_characters() {
        check(b"", "");
        check("Schicht 7 \u{1F9E0}".as_bytes(), "Schicht 7 \u{1F9E0}");
        check(b"a\xFFb\xC3", "a\u{FFFD}b\u{FFFD}");
        check(&[b'x'; 200], &"x".repeat(62));
        check("\u{1F9E0}".repeat(40).as_bytes(), &"\u{1F9E0}".repeat(15));
        check(&[0xFF; 248], &"\u{FFFD}".repeat(20));
    }

    #[test]
    fn a_text_ends_with_nul_for_c() {
        let text = Text::lossy(&[b'x'; 200]);
        assert_eq!(text.bytes[62], 0);
    }

    #[test]
    fn pops_match_pushes_beyond_the_deepest() {
        assert_eq!(pop(), Outcome::BadArgument);
        for _ in 0..DEPTH_MAX + 3 {
            assert_eq!(push(std::ptr::null()), Outcome::BadArgument);
        }
        for _ in 0..DEPTH_MAX + 3 {
            assert_eq!(top_of_thread(7), 0);
            assert_eq!(pop(), Outcome::Recorded);
        }
        assert_eq!(pop(), Outcome::BadArgument);
    }
}
