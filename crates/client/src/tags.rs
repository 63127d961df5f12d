//! The words a thread has put over what it allocates: a stack a thread, of numbers in the ledger's table of tags.
//!
//! Without destructors, so that static destructors of the program may still report, and in cells that a signal handler
//! may find in any state. Every push needs its pop, even if it failed: one without a text or lock is on the
//! stack as "no tag".

use std::cell::Cell;
use std::ffi::c_char;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

use ttmon_ledger::layout::TAG_BYTES_MAX;
use ttmon_ledger::writer::Session;

use crate::record::in_session;
use crate::report::Outcome;

/// Deeper ones are counted, so that pops match; what they would cover keeps the tag of the deepest that has a place.
const DEPTH_MAX: usize = 64;
/// Longest text that is read.
const TEXT_BYTES_MAX: usize = 4 * TAG_BYTES_MAX;

/// Whether any thread ever pushed one: the thread's own cells take a call to find in a library that was loaded late.
static ARE_USED: AtomicBool = AtomicBool::new(false);

/// A number in the table of one ledger. A child after fork has a ledger, and so a table of tags, of its own: numbers that were
/// pushed before mean nothing there, and count as none.
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

/// The tag of what is allocated in this session; 0 is none.
#[inline]
pub(crate) fn top(session: &Session<'_>) -> u32 {
    // Relaxed: a thread sees its own push.
    if ARE_USED.load(Ordering::Relaxed) { top_of_thread(session.ledger()) } else { 0 }
}

fn top_of_thread(ledger: u64) -> u32 {
    let Some(top) = DEPTH.get().checked_sub(1) else { return 0 };
    let tag = TAGS.with(|tags| tags.get(top).or(tags.last()).map_or(NO_TAG, Cell::get));
    if tag.ledger == ledger { tag.id } else { 0 }
}

/// A text of the program; `None` for a null pointer.
pub(crate) fn text(text: *const c_char) -> Option<Text> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller of the C function promises a string that ends with NUL and stays until the call returns, and
    // `strnlen` stops there or earlier; so that many bytes can be read, and nobody writes them meanwhile.
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

/// As much of a text as the table keeps, cut between two characters, and a NUL behind it.
pub(crate) struct Text {
    bytes: [u8; TAG_BYTES_MAX + 1],
    length: usize,
}

impl Text {
    /// Without the heap. What is not UTF-8 becomes U+FFFD.
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

    /// For C it ends at its first NUL.
    pub(crate) fn as_c(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }

    pub(crate) fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.length).unwrap_or_default();
        str::from_utf8(bytes).unwrap_or_default()
    }

    /// Whether there was room.
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
