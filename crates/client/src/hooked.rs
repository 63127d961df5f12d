//! For the hook alone, the library that is preloaded into programs of TT-Metal and contains this crate: it writes what it sees
//! into the ledger that reports go to, so that a process has one ledger, and tags reach what the hook sees.

use std::ffi::CStr;

use ttmon_ledger::layout::Lost;
use ttmon_ledger::writer::{Key, Session, Writer};

use crate::switch::State;
use crate::{switch, tags};

/// To be said once, when the library is loaded.
pub fn be_the_writer() {
    switch::is_the_hook();
}

/// Whether a variable of the environment begins with `1`, as those that turn tracking on.
pub fn is_set(variable: &CStr) -> bool {
    switch::is_set(variable)
}

/// Whether tracking is known to be off: one load.
#[inline(always)]
pub fn is_off() -> bool {
    switch::is_off()
}

/// Does it under the ledger's lock; starts the ledger with the first one. `None` where tracking is off, or the lock cannot be had,
/// which is counted in the ledger.
#[inline]
pub fn with<T>(work: impl FnOnce(&mut Session<'_>) -> T) -> Option<T> {
    if switch::state() == State::On { done(switch::writer().session(), work) } else { None }
}

/// As [`with`], for a new buffer that most likely is at this key: what it touches is fetched meanwhile.
#[inline]
pub fn to_add<T>(key: Key, work: impl FnOnce(&mut Session<'_>) -> T) -> Option<T> {
    if switch::state() == State::On { done(switch::writer().session_to_add(key), work) } else { None }
}

/// As [`to_add`], for a buffer that is there.
#[inline]
pub fn at<T>(key: Key, work: impl FnOnce(&mut Session<'_>) -> T) -> Option<T> {
    if switch::state() == State::On { done(switch::writer().session_at(key), work) } else { None }
}

/// The session stays where it was returned: moving it here cost as much as the clock.
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

/// Work under the lock comes soon: what that begins with is fetched meanwhile.
#[inline]
pub fn expect() {
    switch::writer().fetch_start();
}

/// The writer, for what needs no lock.
#[inline]
pub fn writer() -> &'static Writer {
    switch::writer()
}

/// The tag of what this thread allocates in a session, 0 for none.
#[inline]
pub fn tag(session: &Session<'_>) -> u32 {
    tags::top(session)
}

/// For measurements: stops recording and goes on with it. What happens in between is not in the ledger. Nothing where tracking was
/// never on.
pub fn set_recording(is_on: bool) {
    switch::set_recording(is_on);
}
