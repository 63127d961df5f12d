//! The one gate between a foreign program and this library.
//!
//! A call keeps `errno`, cannot be cancelled half way, and no panic leaves it. What went wrong is a code, and a text that
//! waits in the calling thread.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::exports::{
    TTMON_MONITOR_BAD_ARGUMENT, TTMON_MONITOR_FORKED, TTMON_MONITOR_INTERNAL, TTMON_MONITOR_NOT_FOUND, TTMON_MONITOR_OK,
    TTMON_MONITOR_UNREADABLE,
};
use crate::monitor::Error;

/// Why a call has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The caller made a mistake.
    BadArgument(&'static str),
    /// There is no such thing.
    NotFound(String),
    /// Nothing can be said.
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
        // What a panic carries may panic when it is dropped.
        mem::forget(payload);
        note("a mistake of libttmon_monitor: it panicked");
        TTMON_MONITOR_INTERNAL
    })
}

/// `errno`, and whether the thread can be cancelled, as they were before.
struct ThreadState {
    errno: c_int,
    cancel_state: c_int,
}

impl ThreadState {
    fn new() -> Self {
        let mut cancel_state = 0;
        // SAFETY: errno's address is this thread's and valid as long as the thread. The other call gets the address of a
        // local int and changes nothing but whether this thread takes a cancellation: it is postponed, not lost.
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
        // SAFETY: as above. A thread whose type is deferred, as that of all who call what is not made for anything else,
        // is not ended by this call.
        unsafe {
            pthread_setcancelstate(self.cancel_state, &raw mut ours);
            *libc::__errno_location() = self.errno;
        }
    }
}

// The libc crate does not declare it for Linux; glibc and musl agree on the value.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// Longer texts are cut; the longest of ours has a path in it.
const TEXT_BYTES: usize = 512;

thread_local! {
    /// The text of this thread's newest failure. Plain bytes, so that nothing runs when a thread ends.
    static TEXT: UnsafeCell<[u8; TEXT_BYTES]> = const { UnsafeCell::new([0; TEXT_BYTES]) };
}

/// The newest failure's text, empty where there was none. Valid until the thread's next call, or its end.
pub(crate) fn last_error() -> *const c_char {
    TEXT.with(|text| text.get().cast::<c_char>().cast_const())
}

fn note(said: &str) {
    let mut bytes = [0; TEXT_BYTES];
    copy_text(said, &mut bytes);
    // SAFETY: the cell is this thread's, no reference to its bytes exists (callers have a raw pointer, which they do not
    // read during a call), and it is as long as what is written.
    TEXT.with(|text| unsafe { text.get().write(bytes) });
}

/// As much of a text as fits before a NUL, ending with a whole character; a NUL in the text ends it.
pub(crate) fn copy_text(text: &str, place: &mut [u8]) {
    let text = text.split('\0').next().unwrap_or_default();
    let most = text.len().min(place.len().saturating_sub(1));
    let length = (0..=most).rev().find(|length| text.is_char_boundary(*length)).unwrap_or(0);
    place.fill(0);
    place[..length].copy_from_slice(&text.as_bytes()[..length]);
}

/// A path or text of the caller's; `None` for null.
///
/// # Safety
/// `text` is null, or ends with NUL and is not written to as long as the result lives.
pub(crate) unsafe fn text_at<'a>(text: *const c_char) -> Option<&'a CStr> {
    // SAFETY: not null, and the caller promises the rest.
    if text.is_null() { None } else { Some(unsafe { CStr::from_ptr(text) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> String {
        // SAFETY: this thread's text, read before its next call.
        unsafe { CStr::from_ptr(last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_is_a_code_and_errno_is_kept() {
        let set = |errno| {
            // SAFETY: this thread's errno.
            unsafe { *libc::__errno_location() = errno }
        };
        assert_eq!(said(), "");
        set(77);
        let code = pass(|| {
            set(5);
            std::panic::resume_unwind(Box::new("on purpose"))
        });
        assert_eq!(code, TTMON_MONITOR_INTERNAL);
        // SAFETY: this thread's errno.
        assert_eq!(unsafe { *libc::__errno_location() }, 77);
        assert!(said().contains("panicked"));
        assert_eq!(pass(|| Err(Failure::NotFound("é".repeat(300)))), TTMON_MONITOR_NOT_FOUND);
        assert_eq!(said(), "é".repeat(255));
        assert_eq!(std::thread::spawn(said).join().unwrap(), "", "another thread has its own");
    }

    #[test]
    fn texts_are_cut_at_characters() {
        let copied = |text: &str| {
            let mut place = [b'x'; 4];
            copy_text(text, &mut place);
            place
        };
        assert_eq!(copied("ab"), *b"ab\0\0");
        assert_eq!(copied("abcd"), *b"abc\0");
        assert_eq!(copied("abé"), *b"ab\0\0");
        assert_eq!(copied("a\0b"), *b"a\0\0\0");
        copy_text("a", &mut []);
    }
}
