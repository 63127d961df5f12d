//! What an event will touch, asked for while the clock is read and the lock taken: the two take as long as a cache line does
//! on its way from memory. Only hints: values that are read here without the lock may be out of date, and are used for nothing else.

use std::sync::atomic::Ordering::Relaxed;

use crate::layout::{ALLOCATORS, Lost, header};

use super::{Key, Session, Writer, books::Books, index};

impl Writer {
    /// Asks for what every session begins with, for one that comes soon.
    #[inline]
    pub fn fetch_start(&self) {
        if let Some(books) = self.books() {
            fetch(books.detector());
            fetch(&raw const books.index);
            fetch(books.region.header(header::SEQ));
        }
    }

    /// As [`Writer::session`], for a new buffer at that key: where it will be is fetched from memory while the lock is taken.
    #[inline]
    pub fn session_to_add(&self, key: Key) -> Result<Session<'_>, Lost> {
        self.session_after(|books| {
            books.index.fetch_ahead(books.fetch_row(key));
            books.fetch_entry(books.index.first_free());
            books.fetch_event();
            None
        })
    }

    /// As [`Writer::session_to_add`], for a buffer that is there.
    #[inline]
    pub fn session_at(&self, key: Key) -> Result<Session<'_>, Lost> {
        self.session_after(|books| {
            let guess = books.index.guess(books.fetch_row(key));
            books.fetch_entry(guess);
            books.fetch_event();
            guess
        })
    }

    /// As [`Writer::session`], where only the number given to the allocator and the address are known.
    #[inline]
    pub fn session_near(&self, given_id: u32, address: u64) -> Result<Session<'_>, Lost> {
        self.session_after(|books| {
            for number in books.rows_known(given_id as usize % ALLOCATORS.records as usize) {
                books.index.fetch_ahead(index::hash(number, address));
            }
            books.fetch_event();
            None
        })
    }
}

impl Books {
    /// The record of an event that comes soon. One of 48 bytes may begin in one line and end in the next.
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

    /// What is known of a key's row; returns the key's hash.
    #[inline]
    fn fetch_row(&self, key: Key) -> u32 {
        let row = key.allocator.row(key.kind);
        fetch(self.region.row(row).start());
        fetch(self.figures_of(key.allocator.slot()));
        index::hash(row, key.address)
    }
}

/// Asks for a cache line; nothing happens where there is no memory.
#[inline]
pub(super) fn fetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint of every x86-64, which neither faults nor changes anything, for any address.
    // JUSTIFICATION: std has no safe call for it.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
