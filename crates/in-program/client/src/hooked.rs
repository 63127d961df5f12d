//! Functions for the hook, the library that is preloaded into TT-Metal programs and contains this crate. The hook writes to the same ledger
//! as reports. So a process has one ledger, and tags apply to buffers that the hook sees.

use ttmon_ledger::layout::Lost;
use ttmon_ledger::writer::{Key, Session, Writer};

use crate::switch::{self, State};

pub use crate::switch::{be_the_writer, is_off, is_set, set_recording, writer};
pub use crate::tags::top as tag;

/// Calls `work` under the ledger's lock. The first call starts the ledger. Returns `None` if tracking is off, or if the lock is not
/// available, which the ledger counts.
#[inline]
pub fn with<T>(work: impl FnOnce(&mut Session<'_>) -> T) -> Option<T> {
    done(Writer::session, work)
}

/// Like [`with`], for a new buffer that is likely at this key. Prefetches its memory meanwhile.
#[inline]
pub fn to_add<T>(key: Key, work: impl FnOnce(&mut Session<'_>) -> T) -> Option<T> {
    done(|writer| writer.session_to_add(key), work)
}

/// Like [`to_add`], for an existing buffer.
#[inline]
pub fn at<T>(key: Key, work: impl FnOnce(&mut Session<'_>) -> T) -> Option<T> {
    done(|writer| writer.session_at(key), work)
}

/// The session is passed by reference to `work`, because moving it costs as much as the clock.
#[inline]
fn done<T>(begin: impl FnOnce(&'static Writer) -> Result<Session<'static>, Lost>, work: impl FnOnce(&mut Session<'_>) -> T) -> Option<T> {
    if switch::state() != State::On {
        return None;
    }
    match &mut begin(writer()) {
        Ok(session) => Some(work(session)),
        Err(Lost::NoMemory) => {
            switch::turn_off_second_copy();
            None
        }
        Err(_) => None,
    }
}

/// Prefetches the data for work under the lock that starts soon.
#[inline]
pub fn expect() {
    writer().fetch_start();
}
