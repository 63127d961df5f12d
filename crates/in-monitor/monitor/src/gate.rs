//! The boundary between a calling program and this library.
//!
//! A call preserves `errno`, cannot be cancelled, and never unwinds. A failure is returned as a code. Its text is stored in the calling
//! thread.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::exports::{
    TTMON_MONITOR_BAD_ARGUMENT, TTMON_MONITOR_FORKED, TTMON_MONITOR_INTERNAL, TTMON_MONITOR_NOT_FOUND, TTMON_MONITOR_OK,
    TTMON_MONITOR_UNREADABLE,
};
use crate::monitor::Error;

#[derive(Debug)]
pub(crate) enum Failure {
    /// An argument is invalid.
    BadArgument(&'static str),
    /// The requested object does not exist.
    NotFound(String),
    /// The monitor failed.
    Monitor(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Monitor(error)
    }
}

impl Failure {
    fn code(&self) -> i32 {
        match self {
            Self::BadArgument(_) => TTMON_MONITOR_BAD_ARGUMENT,
            Self::NotFound(_) => TTMON_MONITOR_NOT_FOUND,
            Self::Monitor(Error::Forked) => TTMON_MONITOR_FORKED,
            Self::Monitor(Error::Root { .. } | Error::Machine(_)) => TTMON_MONITOR_UNREADABLE,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::BadArgument(text) => (*text).to_owned(),
            Self::NotFound(text) => text.clone(),
            Self::Monitor(error) => error.to_string(),
        }
    }
}

pub(crate) fn pass(run: impl FnOnce() -> Result<(), Failure>) -> i32 {
    let _kept = ThreadState::new();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        run().map_or_else(
            |failure| {
                note(&failure.text());
                failure.code()
            },
            |()| TTMON_MONITOR_OK,
        )
    }));
    outcome.unwrap_or_else(|payload| {
        // Dropping the payload of a panic may panic.
        mem::forget(payload);
        note("a mistake of libttmon_monitor: it panicked");
        TTMON_MONITOR_INTERNAL
    })
}

/// The `errno` and the cancellation state of the thread before the call.
struct ThreadState {
    errno: c_int,
    cancel_state: c_int,
}

impl ThreadState {
    fn new() -> Self {
        let mut cancel_state = 0;
        // SAFETY: the address of errno belongs to this thread and is valid as long as the thread. `pthread_setcancelstate` gets the address
        // of a local int, and changes only whether this thread accepts a cancellation. A cancellation is postponed, not lost.
        unsafe {
            let errno = *libc::__errno_location();
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut cancel_state);
            Self { errno, cancel_state }
        }
    }
}

impl Drop for ThreadState {
    fn drop(&mut self) {
        let mut ours = 0;
        // SAFETY: as above. If the cancellation type is deferred, which is the default, this call does not end the thread. A thread with
        // asynchronous cancellation may not call functions that are not async-cancel-safe, so it may not call this library.
        unsafe {
            pthread_setcancelstate(self.cancel_state, &raw mut ours);
            *libc::__errno_location() = self.errno;
        }
    }
}

// The libc crate does not declare this constant for Linux. glibc and musl use the same value.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Longer texts are truncated. The longest text of this library contains a path.
const TEXT_BYTES: usize = 512;

thread_local! {
    /// The text of this thread's last failure. It is a byte array, so that no destructor runs when a thread ends.
    static TEXT: UnsafeCell<[u8; TEXT_BYTES]> = const { UnsafeCell::new([0; TEXT_BYTES]) };
}

/// Returns the text of the last failure, or an empty text. It is valid until the next call in this thread, or until the thread ends.
pub(crate) fn last_error() -> *const c_char {
    TEXT.with(|text| text.get().cast::<c_char>().cast_const())
}

fn note(message: &str) {
    let bytes = copied(message);
    // SAFETY: the cell belongs to this thread, and no reference to its bytes exists. Callers have a raw pointer, which they do not read
    // during a call. The written array has the length of the cell.
    TEXT.with(|text| unsafe { text.get().write(bytes) });
}

/// Copies as many whole characters of a text as fit before a NUL. A NUL in the text ends it.
pub(crate) fn copied<const N: usize>(text: &str) -> [u8; N] {
    // Every text has a first part.
    let text = text.split('\0').next().unwrap_or_default();
    let length = (0..=text.len().min(N - 1)).rev().find(|length| text.is_char_boundary(*length)).unwrap_or(0);
    let mut bytes = [0; N];
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    bytes
}

/// Returns a path or text of the caller, or `None` for null.
///
/// # Safety
/// `text` is null, or ends with NUL and is not modified as long as the result is used.
pub(crate) unsafe fn text_at<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: `text` is not null, and the caller guarantees the rest.
    if text.is_null() { None } else { Some(unsafe { CStr::from_ptr(text) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_text() -> String {
        // SAFETY: the text belongs to this thread, and is read before the next call.
        unsafe { CStr::from_ptr(last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_is_a_code_and_errno_is_kept() {
        let set = |errno| {
            // SAFETY: the errno of this thread.
            unsafe { *libc::__errno_location() = errno }
        };
        assert_eq!(error_text(), "");
        set(77);
        let code = pass(|| {
            set(5);
            std::panic::resume_unwind(Box::new("on purpose"))
        });
        assert_eq!(code, TTMON_MONITOR_INTERNAL);
        // SAFETY: the errno of this thread.
        assert_eq!(unsafe { *libc::__errno_location() }, 77);
        assert!(error_text().contains("panicked"));
        assert_eq!(pass(|| Err(Failure::NotFound("é".repeat(300)))), TTMON_MONITOR_NOT_FOUND);
        assert_eq!(error_text(), "é".repeat(255));
        assert_eq!(std::thread::spawn(error_text).join().unwrap(), "", "another thread has its own");
    }

    #[test]
    fn texts_are_cut_at_characters() {
        assert_eq!(copied("ab"), *b"ab\0\0");
        assert_eq!(copied("abcd"), *b"abc\0");
        assert_eq!(copied("abé"), *b"ab\0\0");
        assert_eq!(copied("a\0b"), *b"a\0\0\0");
    }
}
