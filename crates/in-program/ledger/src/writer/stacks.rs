//! Stacks of allocations. Entries refer to them by number. They are append-only in the region, and a private index finds them.
//!
//! The caller computes a hash that identifies a stack; a lookup by hash needs no lock. A new stack is written under the lock in pieces,
//! functions first, so that no thread waits while the caller reads the program's memory.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::layout::{CODES, FRAMES, STACKS, code, header, stack};

use super::contents::Cells;
use super::memory::{self, Lazy, beginning, low, pair, words_of};
use super::state::WriterState;
use super::{Session, Writer};

/// Cells of two words: the hash, and the number of the stack, which is stored last.
const STACK_WORDS: usize = STACKS.records as usize * 4;
const CODE_WORDS: usize = CODES.records as usize * 2;

/// A frame of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// A number returned by [`Session::code`].
    pub code: u32,
    /// The line; 0 if unknown.
    pub line: u32,
}

/// The indexes of one ledger.
#[derive(Debug)]
pub(super) struct Stacks {
    stacks: Cells<STACK_WORDS>,
    codes: Cells<CODE_WORDS>,
    /// Set once a stack did not fit.
    is_full: AtomicU32,
}

impl Stacks {
    pub(super) const fn new() -> Self {
        Self { stacks: Lazy::new(), codes: Lazy::new(), is_full: AtomicU32::new(0) }
    }

    /// Returns the number of a hash, and the first free cell after its home position. Needs no lock, because a cell is filled only once.
    #[inline]
    fn find(&self, hash: u64) -> (Option<u32>, usize) {
        let home = memory::position(hash & (STACK_WORDS as u64 / 2 - 1));
        for step in 0..STACK_WORDS / 2 {
            let at = (home + step) * 2;
            let (Some(key), Some(number)) = (self.stacks.get(at), self.stacks.get(at + 1)) else { return (None, at) };
            // Acquire: the hash was stored before the number.
            let number = low(number.load(Acquire));
            if number == 0 {
                return (None, at);
            }
            if key.load(Relaxed) == hash {
                return (Some(number), at);
            }
        }
        (None, home * 2)
    }
}

impl Writer {
    /// Returns the number of the stack with this hash, if it was added. Needs no lock. If the table is full, it is [`stack::TABLE_FULL`]
    /// for every other hash.
    #[inline]
    pub fn stack(&self, hash: u64) -> Option<u32> {
        let state = self.state().filter(|state| state.is_ours())?;
        match state.stacks.find(hash).0 {
            None if state.stacks.is_full.load(Relaxed) != 0 => Some(state.refuse_stack()),
            found => found,
        }
    }
}

impl Session<'_> {
    /// Returns the number of a function, for [`Frame::code`]. The same texts always have the same number. `None` if the table is full. For
    /// a long file name only the end is stored.
    pub fn code(&mut self, file: &str, function: &str, first_line: u32) -> Option<u32> {
        self.add_code(file, function, first_line, 0)
    }

    /// Returns the number of a program or library of machine code, like [`Session::code`]. The line of its frames is an address in the
    /// file.
    pub fn native_code(&mut self, object: &str, build_id: &str) -> Option<u32> {
        self.add_code(object, build_id, 0, code::NATIVE)
    }

    fn add_code(&mut self, file: &str, function: &str, first_line: u32, flags: u64) -> Option<u32> {
        let state = self.state;
        let (file, is_cut) = ending(file, code::FILE_BYTES - 1);
        let head = pair(first_line, low(flags | if is_cut { code::FILE_CUT } else { 0 }));
        let file = words_of(file.as_bytes(), code::FILE_BYTES).map(|(at, word)| (code::FILE + at, word));
        let function = words_of(beginning(function, code::FUNCTION_BYTES - 1), code::FUNCTION_BYTES);
        let mut words = [0_u64; CODES.stride as usize / 8];
        let fields = [(code::FIRST_LINE, head)].into_iter().chain(file).chain(function.map(|(at, word)| (code::FUNCTION + at, word)));
        words.iter_mut().zip(fields).for_each(|(to, (_, word))| *to = word);
        if state.is_hosted() {
            return None;
        }
        state.number_of(&state.stacks.codes, CODES, &words, || state.append_record(CODES, 0, header::CODES_USED, &words))
    }

    /// Adds a stack with this hash, innermost frame first. Returns its number, or [`stack::TABLE_FULL`]. `is_cut` means that there were
    /// more frames.
    pub fn add_stack(&mut self, hash: u64, frames: &[Frame], is_cut: bool) -> u32 {
        let state = self.state;
        if state.is_hosted() {
            return 0;
        }
        state.try_add(hash, frames, is_cut).unwrap_or_else(|| self.refuse_stack())
    }

    /// Marks the table as full, because a function of a stack did not fit.
    pub fn refuse_stack(&mut self) -> u32 {
        self.state.stacks.is_full.store(1, Relaxed);
        self.state.refuse_stack()
    }
}

impl WriterState {
    #[cold]
    fn refuse_stack(&self) -> u32 {
        self.region.count(header::STACKS_REFUSED);
        stack::TABLE_FULL
    }

    fn try_add(&self, hash: u64, frames: &[Frame], is_cut: bool) -> Option<u32> {
        self.stacks.stacks.reserve()?;
        let (found, at) = self.stacks.find(hash);
        if found.is_some() {
            return found;
        }
        let frames = frames.get(..stack::FRAMES_MAX).unwrap_or(frames);
        let used = |field| low(self.region.header(field).load(Relaxed));
        let (first, stacks) = (used(header::FRAMES_USED), used(header::STACKS_USED));
        let count = u32::try_from(frames.len()).ok()?;
        if first.checked_add(count)? > FRAMES.records || stacks >= STACKS.records {
            return None;
        }
        for frame in frames {
            self.append_record(FRAMES, 0, header::FRAMES_USED, &[pair(frame.code, frame.line)])?;
        }
        let flags = if is_cut { stack::CUT } else { 0 };
        let record = u64::from(first) | u64::from(count) << stack::COUNT_SHIFT | flags << stack::FLAGS_SHIFT;
        let number = self.append_record(STACKS, 0, header::STACKS_USED, &[record])? + 1;
        self.stacks.stacks.get(at)?.store(hash, Relaxed);
        self.stacks.stacks.get(at + 1)?.store(number.into(), Release);
        Some(number)
    }
}

/// Returns the last bytes of a text, from a character boundary, and whether the text was longer.
fn ending(text: &str, bytes_max: usize) -> (&str, bool) {
    let mut start = text.len().saturating_sub(bytes_max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    // `start` is within the text. The user's program must not panic anyway.
    (text.get(start..).unwrap_or_default(), start > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_text_is_kept() {
        assert_eq!(ending("abc", 3), ("abc", false));
        assert_eq!(ending("abcd", 3), ("bcd", true));
        assert_eq!(ending("aéb", 2), ("b", true));
        assert_eq!(ending("", 2), ("", false));
    }
}
