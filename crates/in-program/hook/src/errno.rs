//! The boundary between the program and the hook: no panic and no changed errno reaches the program.

use std::panic::{AssertUnwindSafe, catch_unwind};

// A call costs only this check while tracking is off.
pub(crate) use ttmon_client::hooked::is_off;

/// Runs our part of a call. Catches panics and restores the program's errno. `work` must not throw a C++ exception.
#[inline(always)]
pub(crate) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = errno();
    let result = catch_unwind(AssertUnwindSafe(work)).ok();
    set_errno(before);
    result
}

/// Like [`guarded`], for work that does not change errno.
#[inline(always)]
pub(crate) fn catching_panics<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

#[inline(always)]
pub(crate) fn errno() -> libc::c_int {
    // SAFETY: the C library's cell for this thread, valid as long as the thread.
    unsafe { *libc::__errno_location() }
}

#[inline(always)]
pub(crate) fn set_errno(errno: libc::c_int) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = errno };
}
