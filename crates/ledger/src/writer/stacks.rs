//! Stacks of allocations. Entries refer to them by number. They are append-only in the region, and a private index finds them.
//!
//! The caller computes a hash that identifies a stack; a lookup by hash needs no lock. A new stack is written under the lock in pieces,
//! functions first, so that no thread waits while the caller reads the program's memory.

use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::layout::{CODES, FRAMES, STACKS, Table, code, header, stack};

use super::{
    Session, Writer,
    books::Books,
    memory::{self, Backing, beginning, low, pair, words_of},
};

/// Cells of two words: the hash, and the number of the stack, which is stored last.
const STACK_WORDS: usize = STACKS.records as usize * 4;
/// Cells of one word: `hash << 32 | code + 1`.
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

/// Zeroed words, mapped at the first use.
#[derive(Debug)]
struct Cells<const COUNT: usize> {
    start: AtomicPtr<AtomicU64>,
}

impl<const COUNT: usize> Cells<COUNT> {
    const fn new() -> Self {
        Self { start: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Maps the words at the first use. Only under the lock.
    fn reserve(&self) -> Option<()> {
        if self.start.load(Acquire).is_null() {
            self.start.store(memory::map(COUNT * 8, Backing::Private)?.as_ptr().cast(), Release);
        }
        Some(())
    }

    /// Returns the word at an index, which wraps; `None` before the first use.
    #[inline]
    fn word(&self, index: usize) -> Option<&AtomicU64> {
        let start = self.start.load(Acquire);
        // SAFETY: null, or COUNT aligned words that stay mapped while their writer lives. The index wraps inside; any bits are valid, and
        // every access is atomic.
        if start.is_null() { None } else { Some(unsafe { &*start.add(index % COUNT) }) }
    }

    unsafe fn release(&self) {
        if let Some(start) = NonNull::new(self.start.swap(ptr::null_mut(), Relaxed)) {
            // SAFETY: the length mapped; the caller guarantees that it is no longer used.
            unsafe { memory::unmap(start.cast(), COUNT * 8) };
        }
    }
}

impl Stacks {
    pub(super) const fn new() -> Self {
        Self { stacks: Cells::new(), codes: Cells::new(), is_full: AtomicU32::new(0) }
    }

    /// Unmaps the indexes.
    ///
    /// # Safety
    /// The indexes are no longer used.
    pub(super) unsafe fn release(&self) {
        // SAFETY: the caller guarantees this.
        unsafe {
            self.stacks.release();
            self.codes.release();
        }
    }

    /// Returns the number of a hash, and the first free cell after its home position. Needs no lock, because a cell is filled only once.
    #[inline]
    fn find(&self, hash: u64) -> (Option<u32>, usize) {
        let home = memory::position(hash & (STACK_WORDS as u64 / 2 - 1));
        for step in 0..STACK_WORDS / 2 {
            let at = (home + step) * 2;
            let (Some(key), Some(number)) = (self.stacks.word(at), self.stacks.word(at + 1)) else { return (None, at) };
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
        let books = self.books().filter(|books| books.are_ours())?;
        match books.stacks.find(hash).0 {
            None if books.stacks.is_full.load(Relaxed) != 0 => Some(books.refuse_stack()),
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
        let books = self.books;
        let (file, is_cut) = ending(file, code::FILE_BYTES - 1);
        let head = pair(first_line, low(flags | if is_cut { code::FILE_CUT } else { 0 }));
        let file = words_of(file.as_bytes(), code::FILE_BYTES).map(|(at, word)| (code::FILE + at, word));
        let function = words_of(beginning(function, code::FUNCTION_BYTES - 1), code::FUNCTION_BYTES);
        let mut words = [0_u64; CODES.stride as usize / 8];
        let fields = [(code::FIRST_LINE, head)].into_iter().chain(file).chain(function.map(|(at, word)| (code::FUNCTION + at, word)));
        words.iter_mut().zip(fields).for_each(|(to, (_, word))| *to = word);
        if books.is_hosted() {
            return None;
        }
        books.stacks.codes.reserve()?;
        let hash = mix(&words);
        for step in 0..CODE_WORDS {
            let cell = books.stacks.codes.word((hash as usize).wrapping_add(step))?;
            let value = cell.load(Relaxed);
            if value == 0 {
                let number = books.append_record(CODES, header::CODES_USED, &words)?;
                cell.store(pair(number + 1, hash), Relaxed);
                return Some(number);
            }
            let number = low(value).wrapping_sub(1);
            if memory::high(value) == hash && books.holds(CODES, number, &words) {
                return Some(number);
            }
        }
        None
    }

    /// Adds a stack with this hash, innermost frame first. Returns its number, or [`stack::TABLE_FULL`]. `is_cut` means that there were
    /// more frames.
    pub fn add_stack(&mut self, hash: u64, frames: &[Frame], is_cut: bool) -> u32 {
        let books = self.books;
        if books.is_hosted() {
            return 0;
        }
        books.try_add(hash, frames, is_cut).unwrap_or_else(|| self.refuse_stack())
    }

    /// Marks the table as full, because a function of a stack did not fit.
    pub fn refuse_stack(&mut self) -> u32 {
        self.books.stacks.is_full.store(1, Relaxed);
        self.books.refuse_stack()
    }
}

impl Books {
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
            self.append_record(FRAMES, header::FRAMES_USED, &[pair(frame.code, frame.line)])?;
        }
        let flags = if is_cut { stack::CUT } else { 0 };
        let record = u64::from(first) | u64::from(count) << stack::COUNT_SHIFT | flags << stack::FLAGS_SHIFT;
        let number = self.append_record(STACKS, header::STACKS_USED, &[record])? + 1;
        self.stacks.stacks.word(at)?.store(hash, Relaxed);
        self.stacks.stacks.word(at + 1)?.store(number.into(), Release);
        Some(number)
    }

    /// Writes the next record of a table and publishes it by the count; the reader reads the count first.
    fn append_record(&self, table: Table, count: u64, words: &[u64]) -> Option<u32> {
        let used = self.region.header(count);
        let number = low(used.load(Relaxed));
        if number >= table.records {
            return None;
        }
        for (at, word) in (0..).step_by(8).zip(words) {
            self.region.more(table, number as usize, at).store(*word, Relaxed);
        }
        used.store(u64::from(number) + 1, Release);
        Some(number)
    }

    fn holds(&self, table: Table, number: u32, words: &[u64]) -> bool {
        (0..).step_by(8).zip(words).all(|(at, word)| self.region.more(table, number as usize, at).load(Relaxed) == *word)
    }
}

/// Returns the last bytes of a text, from a character boundary, and whether the text was longer.
fn ending(text: &str, bytes_max: usize) -> (&str, bool) {
    let mut start = text.len().saturating_sub(bytes_max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    (text.get(start..).unwrap_or_default(), start > 0)
}

fn mix(words: &[u64]) -> u32 {
    let mixed =
        words.iter().fold(0x9E37_79B9_7F4A_7C15_u64, |hash, word| (hash ^ word).wrapping_mul(0xA076_1D64_78BD_642F).rotate_left(29));
    low(mixed >> 32) ^ low(mixed)
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
