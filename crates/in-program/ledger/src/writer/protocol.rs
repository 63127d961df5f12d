//! The order of stores that readers rely on. The module is small enough to be checked with loom (below).
//!
//! `cargo xtask ci --only loom`

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

/// A word of shared memory.
pub(super) trait Word {
    fn get(&self) -> u64;
    fn set(&self, value: u64);
    /// Stores the value after all earlier stores.
    fn publish(&self, value: u64);
    /// Prevents later stores from moving before earlier ones.
    fn order();
}

impl Word for AtomicU64 {
    #[inline]
    fn get(&self) -> u64 {
        self.load(Relaxed)
    }

    #[inline]
    fn set(&self, value: u64) {
        self.store(value, Relaxed);
    }

    #[inline]
    fn publish(&self, value: u64) {
        self.store(value, Release);
    }

    #[inline]
    fn order() {
        fence(Release);
    }
}

/// Makes `seq` odd before any change, and returns the number of the event. An event that was never ended is resumed.
#[inline]
pub(super) fn begin<W: Word>(seq: &W) -> u64 {
    let before = seq.get() & !1;
    seq.set(before | 1);
    // Pairs with the reader's fence before its second read of `seq`: a reader that sees a change also sees the odd number.
    W::order();
    before / 2 + 1
}

/// Makes `seq` even after all changes. Pairs with the reader's first, acquiring read.
#[inline]
pub(super) fn end<W: Word>(seq: &W, n: u64) {
    seq.publish(n.wrapping_mul(2));
}

/// Invalidates a record through its state word before the other words change. The caller publishes the new state afterwards.
#[inline]
pub(super) fn withdraw<W: Word>(word: &W, value: u64) {
    word.set(value);
    W::order();
}

#[cfg(all(test, loom))]
mod tests {
    //! One entry, the total of its row and a ring of two records, written by two events and read at any time in between.

    use loom::sync::Arc;
    use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
    use loom::sync::atomic::{AtomicU64, fence};
    use loom::thread;

    use super::*;

    impl Word for AtomicU64 {
        fn get(&self) -> u64 {
            self.load(Relaxed)
        }

        fn set(&self, value: u64) {
            self.store(value, Relaxed);
        }

        fn publish(&self, value: u64) {
            self.store(value, Release);
        }

        fn order() {
            fence(Release);
        }
    }

    const SIZE: u64 = 7;
    const LIVE: u64 = 2;

    #[derive(Default)]
    struct Ledger {
        seq: AtomicU64,
        state: AtomicU64,
        size: AtomicU64,
        total: AtomicU64,
        /// Size and number of the last record.
        record: [AtomicU64; 2],
    }

    impl Ledger {
        fn event(&self, change: impl FnOnce(u64), size: u64) {
            let n = begin(&self.seq);
            change(n);
            withdraw(&self.record[1], 0);
            self.record[0].set(size);
            self.record[1].publish(n);
            end(&self.seq, n);
        }

        fn write(&self) {
            self.event(
                |n| {
                    withdraw(&self.state, 1);
                    self.size.set(SIZE);
                    self.state.publish(n << 8 | LIVE);
                    self.total.set(SIZE);
                },
                SIZE,
            );
            self.event(
                |_| {
                    self.state.publish(0);
                    self.total.set(0);
                },
                0,
            );
        }
    }

    fn model(read: fn(&Ledger)) {
        loom::model(move || {
            let ledger = Arc::new(Ledger::default());
            let written = Arc::clone(&ledger);
            let writer = thread::spawn(move || written.write());
            read(&ledger);
            writer.join().expect("writer");
        });
    }

    #[test]
    fn totals_between_two_equal_even_numbers_are_exact() {
        model(|ledger| {
            let before = ledger.seq.load(Acquire);
            let (total, state, size) = (ledger.total.get(), ledger.state.get(), ledger.size.get());
            fence(Acquire);
            if before % 2 == 0 && ledger.seq.get() == before {
                assert_eq!(total, if state & 0xFF == LIVE { size } else { 0 });
                assert_eq!(total, if before == 2 { SIZE } else { 0 });
            }
        });
    }

    #[test]
    fn a_live_entry_is_never_half_written() {
        model(|ledger| {
            if ledger.state.load(Acquire) & 0xFF == LIVE {
                assert_eq!(ledger.size.get(), SIZE);
            }
        });
    }

    #[test]
    fn a_record_with_its_number_on_both_sides_is_whole() {
        model(|ledger| {
            let number = ledger.record[1].load(Acquire);
            let size = ledger.record[0].get();
            fence(Acquire);
            if number != 0 && ledger.record[1].get() == number {
                assert_eq!(size, if number == 1 { SIZE } else { 0 });
            }
        });
    }
}
