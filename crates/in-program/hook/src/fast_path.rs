//! The data that every event uses, in one cache line: between two events the program usually evicts the L1 cache.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::calls::Owner;

/// One cache line. The comment on each field names the module that owns it.
#[repr(C, align(64))]
pub(crate) struct Hot {
    /// `calls`: the only thread that calls allocators, and whether it is in a call.
    pub(crate) owner: Owner,
    /// `tables`: the allocator that was used last; a hint for threads that do not hold the lock.
    pub(crate) last: AtomicU64,
    /// `cost`: number of calls until the next measured one.
    pub(crate) until_measured: AtomicU32,
    /// `thread`: number of threads that load binaries.
    pub(crate) loaders: AtomicU32,
    /// `thread`: whether allocators run in hybrid mode, cached by [`is_set`].
    pub(crate) hybrid: AtomicU8,
    /// `operation`: whether operations are recorded, cached by [`is_set`].
    pub(crate) operations: AtomicU8,
    /// `stack`: whether stacks are recorded, cached by [`is_set`].
    pub(crate) stacks: AtomicU8,
}

const _: () = assert!(size_of::<Hot>() == 64);

pub(crate) static HOT: Hot = Hot {
    owner: Owner::none(),
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

/// Whether an environment variable starts with 1. The first call stores the result in `answer`.
#[inline]
pub(crate) fn is_set(variable: &CStr, answer: &AtomicU8) -> bool {
    match answer.load(Relaxed) {
        NO => false,
        YES => true,
        _ => update(variable, answer),
    }
}

/// Reads the variable again and updates `answer`.
#[cold]
pub(crate) fn update(variable: &CStr, answer: &AtomicU8) -> bool {
    let is_set = ttmon_client::hooked::is_set(variable);
    answer.store(if is_set { YES } else { NO }, Relaxed);
    is_set
}
