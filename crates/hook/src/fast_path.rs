//! The data that every event uses, in one place: between two events a program uses more memory than the nearest cache holds.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::calls::Owner;

/// One line of the cache. Each field belongs to the module that its text names.
#[repr(C, align(64))]
pub(crate) struct Hot {
    /// `calls`: the one thread that comes here, and whether it is inside.
    pub(crate) owner: Owner,
    /// `tables`: the allocator that was used last, a guess for threads without the lock.
    pub(crate) last: AtomicU64,
    /// `cost`: calls until the next one that is measured.
    pub(crate) until_measured: AtomicU32,
    /// `thread`: how many threads load binaries.
    pub(crate) loaders: AtomicU32,
    /// `thread`: whether allocators work in their hybrid mode, as [`is_set`] knows it.
    pub(crate) hybrid: AtomicU8,
    /// `operation`: whether operations are named, as [`is_set`] knows it.
    pub(crate) operations: AtomicU8,
    /// `stack`: whether stacks are noted, as [`is_set`] knows it.
    pub(crate) stacks: AtomicU8,
}

const _: () = assert!(size_of::<Hot>() == 64);

pub(crate) static HOT: Hot = Hot {
    owner: Owner::nobody(),
    last: AtomicU64::new(0),
    until_measured: AtomicU32::new(ttmon_ledger::layout::COST_ONE_IN),
    loaders: AtomicU32::new(0),
    hybrid: AtomicU8::new(UNKNOWN),
    operations: AtomicU8::new(UNKNOWN),
    stacks: AtomicU8::new(UNKNOWN),
};

const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

/// Whether a variable begins with 1, asked once and known in `answer` from then on.
#[inline]
pub(crate) fn is_set(variable: &CStr, answer: &AtomicU8) -> bool {
    match answer.load(Relaxed) {
        NO => false,
        YES => true,
        _ => update(variable, answer),
    }
}

/// As [`is_set`], asked anew.
#[cold]
pub(crate) fn update(variable: &CStr, answer: &AtomicU8) -> bool {
    let is_set = ttmon_client::hooked::is_set(variable);
    answer.store(if is_set { YES } else { NO }, Relaxed);
    is_set
}
