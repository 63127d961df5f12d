//! Functions for the hook, the library that is preloaded into TT-Metal programs and contains this crate. The hook writes to the same ledger
//! as reports. So a process has one ledger, and tags apply to buffers that the hook sees.

use std::ffi::CStr;

use ttmon_ledger::layout::Lost;
use ttmon_ledger::writer::{Key, Session, Writer};

use crate::switch::State;
use crate::{switch, tags};

/// Makes this copy the writer of the hook. Called once, when the library is loaded.
pub fn be_the_writer() {
    switch::is_the_hook();
}

/// Whether an environment variable begins with `1`, like those that turn tracking on.
pub fn is_set(variable: &CStr) -> bool {
    switch::is_set(variable)
}

/// Whether tracking is known to be off. Costs one load.
#[inline(always)]
pub fn is_off() -> bool {
    switch::is_off()
}

/// Calls `work` under the ledger's lock. The first call starts the ledger. Returns `None` if tracking is off, or if the lock is not
/// available, which the ledger counts.
#[inline]
pub fn with<T>(work: impl FnOnce(&mut Session<'_>) -> T) -> Option<T> {
    if switch::state() == State::On { done(switch::writer().session(), work) } else { None }
}

/// Like [`with`], for a new buffer that is likely at this key. Prefetches its memory meanwhile.
#[inline]
pub fn to_add<T>(key: Key, work: impl FnOnce(&mut Session<'_>) -> T) -> Option<T> {
    if switch::state() == State::On { done(switch::writer().session_to_add(key), work) } else { None }
}

/// Like [`to_add`], for an existing buffer.
#[inline]
pub fn at<T>(key: Key, work: impl FnOnce(&mut Session<'_>) -> T) -> Option<T> {
    if switch::state() == State::On { done(switch::writer().session_at(key), work) } else { None }
}

/// The session is passed by reference to `work`, because moving it costs as much as the clock.
#[inline]
fn done<T>(mut session: Result<Session<'static>, Lost>, work: impl FnOnce(&mut Session<'_>) -> T) -> Option<T> {
    match &mut session {
        Ok(session) => Some(work(session)),
        Err(Lost::NoMemory) => {
            switch::step_aside();
            None
        }
        Err(_) => None,
    }
}

/// Prefetches the data for work under the lock that starts soon.
#[inline]
pub fn expect() {
    switch::writer().fetch_start();
}

/// The writer, for operations without the lock.
#[inline]
pub fn writer() -> &'static Writer {
    switch::writer()
}

/// The tag for allocations of this thread in a session, 0 for none.
#[inline]
pub fn tag(session: &Session<'_>) -> u32 {
    tags::top(session)
}

/// Stops and resumes recording, for measurements. Events in between are not in the ledger. Has no effect if tracking was never on.
pub fn set_recording(is_on: bool) {
    switch::set_recording(is_on);
}
