//! Stacks: three tables that name where a program asked for memory.

/// Stack numbers: 0 is none, 1 to 65,536 lie at the record before them, and these two say why there is none.
pub mod stack {
    #![allow(missing_docs, reason = "the tables in docs/ledger.md say what each is")]
    /// The thread that allocated has no Python.
    pub const NO_PYTHON: u32 = u32::MAX - 1;
    /// There was no room for one more.
    pub const TABLE_FULL: u32 = u32::MAX;
    /// Most frames of a stack; the innermost are kept.
    pub const FRAMES_MAX: usize = 64;
    /// In a stack's record: the number of the first frame u32, frames u16, flags u16.
    pub const COUNT_SHIFT: u32 = 32;
    pub const FLAGS_SHIFT: u32 = 48;
    /// Flag: there were more frames.
    pub const CUT: u64 = 1;
}

/// Offsets in the record of a function that frames name. A frame is its number u32 and the line u32, 0 if that is not known.
pub mod code {
    #![allow(missing_docs, reason = "the table in docs/ledger.md says what each is")]
    pub const FIRST_LINE: u64 = 0x00;
    pub const FLAGS: u64 = 0x04;
    pub const FILE: u64 = 0x08;
    pub const FILE_BYTES: usize = 376;
    pub const FUNCTION: u64 = 0x180;
    pub const FUNCTION_BYTES: usize = 128;
    /// Flag: the file's name is longer, this is its end.
    pub const FILE_CUT: u64 = 1;
    /// Flag: machine code. The file is a program or library, the function is its build id, the line of a frame is an address in it.
    pub const NATIVE: u64 = 2;

    const _: () = assert!(FILE + FILE_BYTES as u64 == FUNCTION && FUNCTION + FUNCTION_BYTES as u64 == super::super::CODES.stride as u64);
}
