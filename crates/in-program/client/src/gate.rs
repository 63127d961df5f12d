//! The entry point of all calls from a program into this library.
//!
//! While tracking is off, a call costs one load and one branch. Otherwise the gate preserves `errno`, prevents cancellation within the
//! call, and catches all panics.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::report::{Outcome, Report};
use crate::switch::{self, State};
use crate::{forward, record};

#[inline(always)]
pub(crate) fn pass(report: impl FnOnce() -> Report) -> i32 {
    if switch::is_off() {
        return Outcome::Off.code();
    }
    guarded(&report())
}

/// A frame without landing pads. If the thread was cancelled meanwhile, it ends when its cancel type is restored, and this unwinding must
/// not stop here. So all functions that it calls are `extern "C"` and are not inlined.
#[inline(never)]
extern "C" fn guarded(report: &Report) -> i32 {
    let mut cancel_type = 0;
    // SAFETY: errno's address belongs to this thread and is valid as long as the thread. The other calls get the address of a local int,
    // and change only how this thread handles a cancellation: an immediate one is postponed, not lost. `errno` is restored before the last
    // call, because that call may not return.
    unsafe {
        let errno = libc::__errno_location();
        let errno_before = *errno;
        pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &raw mut cancel_type);
        let code = if switch::is_settled() { caught(report) } else { uncancelled(report) };
        *errno = errno_before;
        pthread_setcanceltype(cancel_type, &raw mut cancel_type);
        code
    }
}

/// Only the start of a ledger makes calls at which a deferred cancellation would act: open, read, close, sendmsg.
#[cold]
#[inline(never)]
extern "C" fn uncancelled(report: &Report) -> i32 {
    let mut cancel_state = 0;
    // SAFETY: as in `guarded`. The cancel type is deferred, so restoring the cancel state does not end the thread here.
    unsafe {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut cancel_state);
        let code = caught(report);
        pthread_setcancelstate(cancel_state, &raw mut cancel_state);
        code
    }
}

#[inline(never)]
extern "C" fn caught(report: &Report) -> i32 {
    catch_unwind(AssertUnwindSafe(|| carry_out(*report))).unwrap_or(Outcome::Internal.code())
}

fn carry_out(report: Report) -> i32 {
    match switch::state() {
        State::Off => Outcome::Off.code(),
        State::On => record::record(report).code(),
        State::Forward => forward::forward(report).unwrap_or_else(|| {
            switch::record_here();
            record::record(report).code()
        }),
    }
}

// The libc crate does not declare these for Linux; glibc and musl have the same values.
const PTHREAD_CANCEL_DEFERRED: c_int = 0;
const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}
