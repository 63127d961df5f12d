//! The edge between the program and us: nothing of ours leaves it but what was asked for.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Whether tracking is off in this process: the one thing that a call costs then.
#[inline(always)]
pub(crate) fn is_off() -> bool {
    ttmon_client::hooked::is_off()
}

/// Runs our part of a call: no panic leaves it, and the program's errno stays. Nothing in it may throw a C++ exception.
#[inline(always)]
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = errno();
    let result = catch_unwind(AssertUnwindSafe(work)).ok();
    set_errno(before);
    result
}

/// As [`quietly`], for what makes no call that changes errno: an event that finds everything in its place.
#[inline(always)]
pub(crate) fn swiftly<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

#[inline(always)]
pub(crate) fn errno() -> libc::c_int {
    // SAFETY: the C library's own cell for this thread, valid while the thread is.
    unsafe { *libc::__errno_location() }
}

#[inline(always)]
pub(crate) fn set_errno(errno: libc::c_int) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = errno };
}
