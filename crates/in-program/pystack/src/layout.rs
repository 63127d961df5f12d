//! Offsets of the fields in an interpreter's structures.

use std::fmt;

use crate::line_table::Format;
use crate::memory;

/// Offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// In the thread state: the frame, or a structure that has it at `cframe`.
    pub(crate) thread_frame: usize,
    pub(crate) cframe: Option<usize>,
    pub(crate) previous: usize,
    pub(crate) code: usize,
    /// The address of the instruction, or with [`Format::Pairs`] its index, an `int`.
    pub(crate) instruction: usize,
    /// A byte with the kind of a frame's owner, in versions with frames that belong to no function.
    pub(crate) owner: Option<usize>,
    pub(crate) format: Format,
    pub(crate) file: usize,
    pub(crate) function: usize,
    pub(crate) line_table: usize,
    pub(crate) first_line: usize,
    /// Offset of the instructions in a code object; 0 if they are stored separately.
    pub(crate) instructions: usize,
    pub(crate) object_type: usize,
    pub(crate) bytes_size: usize,
    pub(crate) bytes_data: usize,
    pub(crate) text_length: usize,
    pub(crate) text_state: usize,
    /// Offset of the characters in an ASCII string, and in any other string.
    pub(crate) text_ascii: usize,
    pub(crate) text_wide: usize,
}

/// Why an interpreter is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// An untested version: major and minor.
    Version(u8, u8),
    /// The interpreter is built without its global lock.
    FreeThreaded,
    /// The interpreter's table of offsets does not match its version.
    NoTable,
    /// The frames do not have the layout of the version.
    Layout,
    /// The kernel refuses to copy memory of this process.
    NoCopies,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(major, minor) => write!(f, "Python {major}.{minor}"),
            Self::FreeThreaded => f.write_str("free-threaded Python"),
            Self::NoTable => f.write_str("Python without a table of offsets"),
            Self::Layout => f.write_str("Python with another layout"),
            Self::NoCopies => f.write_str("process_vm_readv is refused"),
        }
    }
}

/// Frames whose owner has this number or a higher one belong to no function, in every version with owners.
pub(crate) const OWNER_NOT_PYTHON: u8 = 3;

const V3_10: Layout = Layout {
    thread_frame: 24,
    cframe: None,
    previous: 24,
    code: 32,
    instruction: 96,
    owner: None,
    format: Format::Pairs,
    file: 104,
    function: 112,
    line_table: 120,
    first_line: 40,
    instructions: 0,
    object_type: 8,
    bytes_size: 16,
    bytes_data: 32,
    text_length: 16,
    text_state: 32,
    text_ascii: 48,
    text_wide: 72,
};

const V3_11: Layout = Layout {
    thread_frame: 56,
    cframe: Some(8),
    previous: 48,
    code: 32,
    instruction: 56,
    owner: None,
    format: Format::Locations,
    file: 112,
    function: 128,
    line_table: 136,
    first_line: 72,
    instructions: 184,
    ..V3_10
};

const V3_12: Layout = Layout {
    cframe: Some(0),
    previous: 8,
    code: 0,
    owner: Some(70),
    first_line: 68,
    instructions: 192,
    text_ascii: 40,
    text_wide: 56,
    ..V3_11
};

impl Layout {
    /// Returns the layout of a version. `runtime` is the address of `_PyRuntime`.
    pub(crate) fn of((major, minor): (u8, u8), runtime: usize) -> Result<Self, Unknown> {
        match (major, minor) {
            (3, 10) => Ok(V3_10),
            (3, 11) => Ok(V3_11),
            (3, 12) => Ok(V3_12),
            (3, 13) => Self::described(&T3_13, minor, runtime),
            (3, 14) => Self::described(&T3_14, minor, runtime),
            _ => Err(Unknown::Version(major, minor)),
        }
    }

    /// Reads the layout from the interpreter's own table.
    fn described(table: &Described, minor: u8, runtime: usize) -> Result<Self, Unknown> {
        let mut bytes = [0; WORDS * 8];
        memory::read(runtime, &mut bytes).ok_or(Unknown::NoCopies)?;
        let word = |number: usize| bytes.get(number * 8..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if word(0) != u64::from_le_bytes(*b"xdebugpy") || word(1) >> 16 != u64::from(0x0300 | u16::from(minor)) {
            return Err(Unknown::NoTable);
        }
        if word(2) != 0 {
            return Err(Unknown::FreeThreaded);
        }
        let offset = |number| usize::try_from(word(number)).ok().filter(|offset| *offset < OFFSET_END).ok_or(Unknown::NoTable);
        let ascii = offset(table.text + 3)?;
        Ok(Self {
            thread_frame: offset(table.thread + 4)?,
            cframe: None,
            previous: offset(table.frame + 1)?,
            code: offset(table.frame + 2)?,
            instruction: offset(table.frame + 3)?,
            owner: Some(offset(table.frame + 5)?),
            format: Format::Locations,
            file: offset(table.code + 1)?,
            function: offset(table.code + 3)?,
            line_table: offset(table.code + 4)?,
            first_line: offset(table.code + 5)?,
            instructions: offset(table.code + 9)?,
            object_type: offset(table.object + 1)?,
            bytes_size: offset(table.bytes + 1)?,
            bytes_data: offset(table.bytes + 2)?,
            text_length: offset(table.text + 2)?,
            text_state: offset(table.text + 1)?,
            text_ascii: ascii,
            // After the ASCII structure: the length and the address of the text in UTF-8.
            text_wide: ascii + 16,
        })
    }
}

/// Upper limit of a valid offset.
const OFFSET_END: usize = 1 << 16;
/// Number of words of the table that are read.
const WORDS: usize = 96;

/// The start of each part of the table, in words.
struct Described {
    thread: usize,
    frame: usize,
    code: usize,
    object: usize,
    bytes: usize,
    text: usize,
}

const T3_13: Described = Described { thread: 19, frame: 28, code: 34, object: 44, bytes: 64, text: 67 };
const T3_14: Described = Described { thread: 22, frame: 31, code: 39, object: 50, bytes: 74, text: 77 };

#[cfg(test)]
mod tests {
    use super::*;

    /// A table in which each word is its own index, with the header of a version.
    fn table(version: u64) -> Vec<u64> {
        let mut words: Vec<u64> = (0..WORDS as u64).collect();
        words[0] = u64::from_le_bytes(*b"xdebugpy");
        words[1] = version << 16;
        words[2] = 0;
        words
    }

    fn of(minor: u8, words: &[u64]) -> Result<Layout, Unknown> {
        Layout::of((3, minor), words.as_ptr() as usize)
    }

    #[test]
    fn an_interpreter_describes_itself() {
        let layout = of(13, &table(0x030D)).expect("3.13");
        assert_eq!((layout.thread_frame, layout.previous, layout.code, layout.instruction), (23, 29, 30, 31));
        assert_eq!((layout.file, layout.function, layout.line_table, layout.first_line, layout.instructions), (35, 37, 38, 39, 43));
        assert_eq!((layout.text_length, layout.text_ascii, layout.text_wide), (69, 70, 86));
        let layout = of(14, &table(0x030E)).expect("3.14");
        assert_eq!((layout.thread_frame, layout.previous, layout.code, layout.instruction, layout.owner), (26, 32, 33, 34, Some(36)));
        assert_eq!((layout.file, layout.instructions, layout.object_type, layout.bytes_data), (40, 48, 51, 76));
        assert_eq!((layout.text_state, layout.text_length, layout.text_ascii), (78, 79, 80));
    }

    #[test]
    fn unknown_interpreters_are_refused_with_the_reason() {
        assert_eq!(Layout::of((3, 9), 0), Err(Unknown::Version(3, 9)));
        assert_eq!(Layout::of((3, 15), 0), Err(Unknown::Version(3, 15)));
        assert_eq!(Layout::of((3, 13), 8), Err(Unknown::NoCopies));
        assert_eq!(of(13, &table(0x030E)), Err(Unknown::NoTable), "the table of another version");
        let patched = |at: usize, word: u64| {
            let mut words = table(0x030D);
            words[at] = word;
            of(13, &words)
        };
        assert_eq!(patched(0, 0), Err(Unknown::NoTable), "no cookie");
        assert_eq!(patched(2, 1), Err(Unknown::FreeThreaded));
        assert_eq!(patched(29, u64::MAX), Err(Unknown::NoTable), "an offset that cannot be");
    }
}
