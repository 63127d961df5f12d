//! Prefetches the memory that an event will access, while the clock is read and the lock is taken. These two take as long as fetching a
//! cache line from memory. All values here are hints: without the lock they may be outdated, and they are not used for anything else.

use std::sync::atomic::Ordering::Relaxed;

use crate::layout::{ALLOCATORS, Lost, header};

use super::{Key, Session, Writer, index, state::WriterState};

impl Writer {
    /// Prefetches the data that every session uses, for a session that starts soon.
    #[inline]
    pub fn fetch_start(&self) {
        if let Some(state) = self.state() {
            fetch(state.detector());
            fetch(&raw const state.index);
            fetch(state.region.header(header::SEQ));
        }
    }

    /// Like [`Writer::session`], for a new buffer at this key. Prefetches its position while the lock is taken.
    #[inline]
    pub fn session_to_add(&self, key: Key) -> Result<Session<'_>, Lost> {
        self.session_after(|state| {
            state.index.fetch_ahead(state.fetch_row(key));
            state.fetch_entry(state.index.first_free());
            state.fetch_event();
            None
        })
    }

    /// Like [`Writer::session_to_add`], for an existing buffer.
    #[inline]
    pub fn session_at(&self, key: Key) -> Result<Session<'_>, Lost> {
        self.session_after(|state| {
            let guess = state.index.guess(state.fetch_row(key));
            state.fetch_entry(guess);
            state.fetch_event();
            guess
        })
    }

    /// Like [`Writer::session`], if only the allocator's given number and the address are known.
    #[inline]
    pub fn session_near(&self, given_id: u32, address: u64) -> Result<Session<'_>, Lost> {
        self.session_after(|state| {
            for number in state.rows_known(given_id as usize % ALLOCATORS.records as usize) {
                state.index.fetch_ahead(index::hash(number, address));
            }
            state.fetch_event();
            None
        })
    }
}

impl WriterState {
    /// Prefetches the record of the next event. Its 48 bytes may span two cache lines.
    #[inline]
    fn fetch_event(&self) {
        let next = self.region.header(header::SEQ).load(Relaxed) / 2 + 1;
        let [.., last] = self.region.event(next + 4);
        fetch(last);
    }

    #[inline]
    fn fetch_entry(&self, slot: Option<u32>) {
        if let Some(slot) = slot {
            fetch(self.region.entry(slot).0);
        }
    }

    /// Prefetches the row of a key. Returns the key's hash.
    #[inline]
    fn fetch_row(&self, key: Key) -> u32 {
        let row = key.allocator.row(key.kind);
        fetch(self.region.row(row).0);
        fetch(self.figures_of(key.allocator.slot()));
        index::hash(row, key.address)
    }
}

/// Prefetches a cache line. Has no effect on an unmapped address.
#[inline]
pub(super) fn fetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that every x86-64 supports. It neither faults nor changes anything, for any address.
    // JUSTIFICATION: std has no safe call for this.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    // Otherwise the argument is not used.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
