//! The frames of the calling thread.

use std::mem::MaybeUninit;

use crate::layout::{Layout, OWNER_NOT_PYTHON, Unknown};
use crate::line_table::{self, Format};
use crate::memory;
use crate::object;
use crate::symbols::{self, Symbols};
use crate::text::Text;

/// Maximum number of frames of a walk; the innermost ones are stored.
pub const FRAMES_MAX: usize = 64;
/// Maximum number of links that a walk follows, including frames that belong to no function.
const STEPS_MAX: usize = 256;
/// From 3.14 on an address has tags in its low bits, which are 0 in the address of an object.
const TAGS: usize = 7;

/// A frame before it is resolved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw {
    code: usize,
    instruction: usize,
}

/// The frames of a walk, innermost first.
#[derive(Debug)]
pub struct Walk {
    /// Only the first `count` are initialised.
    frames: [MaybeUninit<Raw>; FRAMES_MAX],
    count: usize,
    /// Whether there were more frames.
    pub is_cut: bool,
    /// The same for the same frames at the same instructions; never 0.
    pub hash: u64,
}

impl Default for Walk {
    fn default() -> Self {
        Self { frames: [MaybeUninit::uninit(); FRAMES_MAX], count: 0, is_cut: false, hash: 0 }
    }
}

impl Walk {
    /// The frames.
    pub fn frames(&self) -> &[Raw] {
        // `count` is never larger than the array. Code in a user's program never panics.
        let written = self.frames.get(..self.count).unwrap_or_default();
        // SAFETY: `follow` counts the frames that it has written, and `MaybeUninit<Raw>` has the layout of `Raw`.
        unsafe { std::slice::from_raw_parts(written.as_ptr().cast(), written.len()) }
    }
}

/// The source location of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resolved {
    /// The file name of the interpreter, or its end.
    pub file: Text<1024>,
    /// The qualified name of the function; before 3.11 its plain name.
    pub function: Text<256>,
    /// The first line of the function.
    pub first_line: u32,
    /// The line; 0 if the instruction has none.
    pub line: u32,
}

/// An interpreter in this process.
#[derive(Clone, Copy, Debug)]
pub struct Python {
    symbols: Symbols,
    layout: Layout,
}

impl Python {
    /// Finds the interpreter of this process; `None` if there is none.
    pub fn find() -> Option<Result<Self, Unknown>> {
        let found = symbols::find()?;
        Some(found.and_then(|symbols| Ok(Self { symbols, layout: Layout::of(symbols.version, symbols.runtime)? })))
    }

    /// Checks whether the frames of this thread have the known layout, by resolving every frame with copies only. `None` if the thread has
    /// no frames to check. Call it until it returns a result, before [`Python::walk`].
    pub fn probe(&self) -> Option<Result<(), Unknown>> {
        if memory::word(self.symbols.code_type).is_none() {
            return Some(Err(Unknown::NoCopies));
        }
        let mut walk = Walk::default();
        let thread = self.thread()?;
        let is_known = self.follow(&Copied, thread, &mut walk).is_some_and(|()| walk.count > 0);
        if walk.count == 0 && self.first(&Copied, thread) == Some(0) {
            return None;
        }
        let is_resolved = is_known && walk.frames().iter().all(|frame| self.resolve(*frame).is_some());
        Some(if is_resolved { Ok(()) } else { Err(Unknown::Layout) })
    }

    /// Reads the frames of this thread. Returns false if the thread has no Python state or no frames.
    ///
    /// # Safety
    /// [`Python::probe`] has confirmed the layout, and this thread is inside a call from Python, or is no thread of Python.
    #[inline]
    pub unsafe fn walk(&self, walk: &mut Walk) -> bool {
        (walk.count, walk.is_cut, walk.hash) = (0, false, 0);
        let Some(thread) = self.thread() else { return false };
        self.follow(&Plain(()), thread, walk).is_some() && walk.count > 0
    }

    #[inline]
    fn thread(&self) -> Option<usize> {
        // SAFETY: the interpreter's function with this name, without arguments. It reads a cell of this thread.
        let thread = unsafe {
            let function: extern "C" fn() -> usize = std::mem::transmute(self.symbols.this_thread);
            function()
        };
        is_address(thread).then_some(thread)
    }

    /// The address of the innermost frame, 0 for none.
    #[inline]
    fn first<R: Read>(&self, read: &R, thread: usize) -> Option<usize> {
        let first = read.word(thread + self.layout.thread_frame)?;
        match self.layout.cframe {
            Some(frame) if is_address(first) => read.word(first + frame),
            Some(_) => None,
            None => Some(first),
        }
    }

    /// Follows the chain of frames; `None` if it is invalid.
    #[inline]
    fn follow<R: Read>(&self, read: &R, thread: usize, walk: &mut Walk) -> Option<()> {
        let layout = &self.layout;
        let mut frame = self.first(read, thread)?;
        let mut hash = SEED;
        for _ in 0..STEPS_MAX {
            if frame == 0 {
                break;
            }
            if !is_address(frame) {
                return None;
            }
            let code = read.word(frame + layout.code)? & !TAGS;
            let is_python = match layout.owner {
                Some(owner) => read.byte(frame + owner)? < OWNER_NOT_PYTHON,
                None => true,
            };
            if is_python {
                if !is_address(code) || read.word(code + layout.object_type)? != self.symbols.code_type {
                    return None;
                }
                let Some(place) = walk.frames.get_mut(walk.count) else {
                    walk.is_cut = true;
                    break;
                };
                let instruction = match layout.format {
                    Format::Pairs => read.half(frame + layout.instruction)? as usize,
                    Format::Locations => read.word(frame + layout.instruction)?,
                };
                place.write(Raw { code, instruction });
                walk.count += 1;
                // Includes values that distinguish another function at the same address: its file, its lines, its length.
                let names = read.word(code + layout.file)? ^ read.word(code + layout.line_table)?.rotate_left(32);
                let shape = read.half(code + layout.first_line)? as usize ^ read.word(code + SIZE)?.rotate_left(32);
                hash = mixed(mixed(hash, code ^ instruction.rotate_left(32)), names ^ shape.rotate_left(13));
            }
            frame = read.word(frame + layout.previous)?;
        }
        walk.hash = hash.max(1);
        Some(())
    }

    /// Resolves file, function and line of a frame that this thread has just walked; `None` if some value is invalid.
    pub fn resolve(&self, frame: Raw) -> Option<Resolved> {
        let (layout, symbols) = (&self.layout, &self.symbols);
        let field = |offset: usize| memory::word(frame.code + offset);
        let first_line = memory::half(frame.code + layout.first_line)?;
        let offset = match layout.format {
            // The index counts instructions of two bytes; -1 is before the first.
            Format::Pairs => u32::try_from(frame.instruction).ok().and_then(|number| number.checked_mul(2)).unwrap_or(0),
            Format::Locations => {
                let begin = frame.code.checked_add(layout.instructions)?;
                // Before the first instruction, if none was executed yet.
                u32::try_from(frame.instruction.saturating_sub(begin)).ok()?
            }
        };
        let table = object::bytes(layout, symbols, field(layout.line_table)?)?;
        Some(Resolved {
            file: object::text(layout, symbols, field(layout.file)?)?,
            function: object::text(layout, symbols, field(layout.function)?)?,
            first_line,
            line: line_table::find(layout.format, table, first_line, offset).unwrap_or(0),
        })
    }
}

/// Offset of the length in an object of variable length. A plain object has its content there.
const SIZE: usize = 16;
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;

#[inline]
fn mixed(hash: u64, word: usize) -> u64 {
    (hash ^ word as u64).wrapping_mul(0xA076_1D64_78BD_642F).rotate_left(29)
}

/// Whether a number can be the address of an aligned object.
#[inline]
fn is_address(number: usize) -> bool {
    number & 7 == 0 && (0x1000..1 << 47).contains(&number)
}

trait Read {
    fn word(&self, at: usize) -> Option<usize>;
    fn half(&self, at: usize) -> Option<u32>;
    fn byte(&self, at: usize) -> Option<u8>;
}

struct Copied;

impl Read for Copied {
    fn word(&self, at: usize) -> Option<usize> {
        memory::word(at)
    }

    fn half(&self, at: usize) -> Option<u32> {
        memory::half(at)
    }

    fn byte(&self, at: usize) -> Option<u8> {
        let mut byte = [0];
        memory::read(at, &mut byte)?;
        Some(byte[0])
    }
}

/// Plain reads. Only [`Python::walk`] creates it; its caller guarantees that the structures have the known layout.
struct Plain(());

impl Read for Plain {
    #[inline(always)]
    fn word(&self, at: usize) -> Option<usize> {
        // SAFETY: a field of a live structure of the interpreter: the thread state, a frame of this thread, which does not change while the
        // thread is inside a call, or a code object, which its frame keeps alive.
        Some(unsafe { (at as *const usize).read() })
    }

    #[inline(always)]
    fn half(&self, at: usize) -> Option<u32> {
        // SAFETY: as above.
        Some(unsafe { (at as *const u32).read() })
    }

    #[inline(always)]
    fn byte(&self, at: usize) -> Option<u8> {
        // SAFETY: as above.
        Some(unsafe { (at as *const u8).read() })
    }
}

#[cfg(test)]
mod tests;
