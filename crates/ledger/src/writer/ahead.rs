//! What an event will touch, asked for while the clock is read and the lock taken: the two take as long as a cache line does
//! on its way from memory. Only hints: whatever is read here without the lock may be out of date, and is used for nothing else.

use std::sync::atomic::Ordering::Relaxed;

use crate::layout::{ALLOCATORS, KINDS, Lost, header, row};

use super::{Key, Session, Writer, books::Books, index};

/// What the next session will be about.
#[derive(Clone, Copy, Debug)]
pub(super) enum About {
    Unknown,
    Row {
        row: usize,
        address: u64,
    },
    /// The rows in use of the allocator that most likely has this number.
    Number {
        given_id: u32,
        address: u64,
    },
}

impl From<Key> for About {
    fn from(key: Key) -> Self {
        Self::Row { row: key.allocator.row(key.kind), address: key.address }
    }
}

impl Writer {
    /// As [`Writer::session`], for an event at that key: its place is fetched from memory while the lock is taken.
    #[inline]
    pub fn session_at(&self, key: Key) -> Result<Session<'_>, Lost> {
        self.session_about(About::from(key))
    }

    /// As [`Writer::session_at`], where only the number given to the allocator and the address are known.
    #[inline]
    pub fn session_near(&self, given_id: u32, address: u64) -> Result<Session<'_>, Lost> {
        self.session_about(About::Number { given_id, address })
    }
}

impl Books {
    #[inline]
    pub(super) fn fetch_ahead(&self, about: About) {
        match about {
            About::Unknown => return,
            About::Row { row, address } => {
                self.index.fetch_ahead(index::hash(row, address));
                // The lines of a row that every event changes.
                let row = self.region.row(row).start();
                fetch(row);
                fetch(row.wrapping_add(64));
                fetch(row.wrapping_add(128));
            }
            About::Number { given_id, address } => {
                let first = given_id as usize % ALLOCATORS.records as usize * KINDS as usize;
                for number in first..first + KINDS as usize {
                    if self.region.row(number).get(row::STATE) != 0 {
                        self.index.fetch_ahead(index::hash(number, address));
                    }
                }
            }
        }
        // A record of 40 bytes may begin in one line and end in the next.
        let next = self.region.header(header::SEQ).load(Relaxed) / 2 + 1;
        fetch(self.region.event(next, 0));
        fetch(self.region.event(next, 4));
    }
}

/// Asks for a cache line; nothing happens where there is no memory.
#[inline]
pub(super) fn fetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint of every x86-64, which neither faults nor changes anything, whatever the address.
    // JUSTIFICATION: std has no safe call for it.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
