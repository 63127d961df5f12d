//! Stacks: three tables that describe where a program allocated memory.

/// Stack numbers. 0 is none, and N from 1 to 65,536 is record N - 1. The two constants below give the reason for a missing stack.
pub mod stack {
    #![allow(missing_docs, reason = "the tables in docs/ledger.md say what each is")]
    /// The allocating thread does not run Python.
    pub const NO_PYTHON: u32 = u32::MAX - 1;
    /// The table is full.
    pub const TABLE_FULL: u32 = u32::MAX;
    /// Maximum number of frames of a stack; the innermost ones are stored.
    pub const FRAMES_MAX: usize = 64;
    /// A stack's record: index of its first frame u32, number of frames u16, flags u16.
    pub const COUNT_SHIFT: u32 = 32;
    pub const FLAGS_SHIFT: u32 = 48;
    /// Flag: the stack had more frames.
    pub const CUT: u64 = 1;
}

/// Offsets in the record of a function. A frame is the function's index u32 and the line u32, 0 if not known.
pub mod code {
    #![allow(missing_docs, reason = "the table in docs/ledger.md says what each is")]
    pub const FIRST_LINE: u64 = 0x00;
    pub const FLAGS: u64 = 0x04;
    pub const FILE: u64 = 0x08;
    pub const FILE_BYTES: usize = 376;
    pub const FUNCTION: u64 = 0x180;
    pub const FUNCTION_BYTES: usize = 128;
    /// Flag: only the end of the file name is stored.
    pub const FILE_CUT: u64 = 1;
    /// Flag: machine code. The file is a program or library, the function is its build id, and the line of a frame is an address in the
    /// file.
    pub const NATIVE: u64 = 2;

    const _: () = assert!(FILE + FILE_BYTES as u64 == FUNCTION && FUNCTION + FUNCTION_BYTES as u64 == super::super::CODES.stride as u64);
}
