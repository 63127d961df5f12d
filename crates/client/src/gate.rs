//! The one gate between a foreign program and this library.
//!
//! While tracking is off a call costs one load and one branch. Otherwise it keeps `errno`, cannot be cancelled half way,
//! and no panic leaves it.

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

/// A frame without landing pads, since a thread that was cancelled meanwhile ends when its cancel type is given back, and
/// that unwinding must find nothing here to stop at: everything it calls is `extern "C"` and stays a call.
#[inline(never)]
extern "C" fn guarded(report: &Report) -> i32 {
    let mut cancel_type = 0;
    // SAFETY: errno's address is this thread's and valid as long as the thread, which reads and writes an int there. The
    // other calls get the address of a local int, and change nothing but how this thread takes a cancellation: at once
    // is postponed, not lost. `errno` comes back before, because the last call may be the one that does not return.
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

/// Only a start has calls at which a deferred cancellation would act: open, read, close, sendmsg.
#[cold]
#[inline(never)]
extern "C" fn uncancelled(report: &Report) -> i32 {
    let mut cancel_state = 0;
    // SAFETY: as in `guarded`. The thread's type is deferred, so that giving its state back does not end it here.
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
        State::Forward => match forward::forward(report) {
            forward::Answer::Code(code) => code,
            forward::Answer::Echo => {
                switch::record_here();
                record::record(report).code()
            }
        },
    }
}

// The libc crate does not declare them for Linux; glibc and musl agree on the values.
const PTHREAD_CANCEL_DEFERRED: c_int = 0;
const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int;
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}
