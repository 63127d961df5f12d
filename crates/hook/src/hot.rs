//! What every event looks at, together: between two events a program runs through more than the nearest cache holds.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

/// One line of the cache. Each field belongs to the module that its text names.
#[repr(C, align(64))]
pub(crate) struct Hot {
    /// `check`: the one thread that comes here, by its own address; most programs have no other.
    pub(crate) owner: AtomicUsize,
    /// `tables`: the allocator that was used last, a guess for whoever has no lock yet.
    pub(crate) last: AtomicU64,
    /// `cost`: calls until the next one that is measured.
    pub(crate) until_measured: AtomicU32,
    /// `thread`: how many threads load binaries.
    pub(crate) loaders: AtomicU32,
    /// `thread`: whether allocators work in their hybrid mode, as an [`Answer`].
    pub(crate) hybrid: AtomicU8,
    /// `operation`: whether operations are named, as an [`Answer`].
    pub(crate) operations: AtomicU8,
}

const _: () = assert!(size_of::<Hot>() == 64);

pub(crate) static HOT: Hot = Hot {
    owner: AtomicUsize::new(0),
    last: AtomicU64::new(0),
    until_measured: AtomicU32::new(ttmon_ledger::layout::COST_ONE_IN),
    loaders: AtomicU32::new(0),
    hybrid: AtomicU8::new(Answer::Unknown as u8),
    operations: AtomicU8::new(Answer::Unknown as u8),
};

/// What the environment says to a question, once it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Answer {
    Unknown,
    No,
    Yes,
}

impl Answer {
    /// Asks a variable: whether it begins with 1.
    pub(crate) fn of(variable: &std::ffi::CStr) -> Self {
        // SAFETY: a text that ends with NUL; the first byte of a value is always there.
        let is_so = unsafe {
            let value = libc::getenv(variable.as_ptr());
            !value.is_null() && value.cast::<u8>().read() == b'1'
        };
        if is_so { Self::Yes } else { Self::No }
    }
}
