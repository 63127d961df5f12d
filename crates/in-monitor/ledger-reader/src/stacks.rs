//! The stacks of allocations, as recorded by the writer.

use super::bytes::{text_at, u32_at, u64_at};
use super::header::Counters;
use super::{ReadError, Region};
use ttmon_ledger::layout::{code, stack};

/// All stacks of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stacks {
    stacks: Vec<Stack>,
    frames: Vec<(u32, u32)>,
    codes: Vec<Code>,
    /// Number of allocations whose stack did not fit.
    pub refused: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stack {
    first: u32,
    count: u32,
    is_cut: bool,
}

/// A function of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The file name, as reported by the interpreter.
    pub file: String,
    /// Whether only the end of the file name is stored.
    pub is_file_cut: bool,
    /// The qualified name, possibly truncated.
    pub function: String,
    /// The first line; 0 if unknown.
    pub first_line: u32,
    /// Machine code: the file is a program or library, the function is its build id, and lines are addresses in the file.
    pub is_native: bool,
}

impl Stacks {
    /// Returns the frames of a stack, innermost first: the function, and the line or 0. Empty for an invalid number.
    pub fn frames(&self, number: u32) -> impl Iterator<Item = (&Code, u32)> {
        let stack = self.stack(number).copied().unwrap_or(Stack { first: 0, count: 0, is_cut: false });
        let frames = self.frames.iter().skip(stack.first as usize).take(stack.count as usize);
        frames.filter_map(|&(code, line)| Some((self.codes.get(code as usize)?, line)))
    }

    /// Whether the stack had more frames than are stored.
    pub fn is_cut(&self, number: u32) -> bool {
        self.stack(number).is_some_and(|stack| stack.is_cut)
    }

    /// Number of stacks. Valid numbers are 1 to this.
    pub fn len(&self) -> u32 {
        u32::try_from(self.stacks.len()).unwrap_or(u32::MAX)
    }

    /// Whether there are no stacks.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    fn stack(&self, number: u32) -> Option<&Stack> {
        self.stacks.get(number.checked_sub(1)? as usize)
    }
}

/// Reads all stacks: at most some MiB, and nothing for a process without stacks.
pub(super) fn read(region: &Region) -> Result<Stacks, ReadError> {
    let tables = &region.header.tables;
    // The counts are read first: everything that they count was written before.
    let counters = Counters::read(&region.source, tables)?;
    if counters.stacks_used == 0 {
        return Ok(Stacks { refused: counters.stacks_refused, ..Stacks::default() });
    }
    Ok(Stacks {
        codes: region.source.decoded(tables.codes, counters.codes_used, |record| Some(Code::decode(record)))?,
        frames: region.source.decoded(tables.frames, counters.frames_used, |frame| Some((u32_at(frame, 0), u32_at(frame, 4))))?,
        stacks: region.source.decoded(tables.stacks, counters.stacks_used, |record| Some(Stack::decode(u64_at(record, 0))))?,
        refused: counters.stacks_refused,
    })
}

impl Stack {
    #[allow(clippy::cast_possible_truncation, reason = "fields of fewer bits")]
    fn decode(record: u64) -> Self {
        let count = (record >> stack::COUNT_SHIFT) as u32 & 0xFFFF;
        let count = count.min(stack::FRAMES_MAX as u32);
        Self { first: record as u32, count, is_cut: record >> stack::FLAGS_SHIFT & stack::CUT != 0 }
    }
}

impl Code {
    fn decode(record: &[u8]) -> Self {
        Self {
            file: text_at(record, code::FILE, code::FILE_BYTES),
            is_file_cut: u64::from(u32_at(record, code::FLAGS)) & code::FILE_CUT != 0,
            is_native: u64::from(u32_at(record, code::FLAGS)) & code::NATIVE != 0,
            function: text_at(record, code::FUNCTION, code::FUNCTION_BYTES),
            first_line: u32_at(record, code::FIRST_LINE),
        }
    }
}

/// Returns a stack number, or 0 if it is not among the `used` records.
#[inline]
pub(super) fn known(number: u32, used: u32) -> u32 {
    if number <= used || matches!(number, stack::NO_PYTHON | stack::TABLE_FULL) { number } else { 0 }
}
