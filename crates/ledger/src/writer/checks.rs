//! What the hook found when it compared the ledger with the allocator's own statistics.

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::layout::{allocator, check};

use super::{AllocatorId, Session, books::Books};

/// Something about an allocator that decides how far its figures may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfCheck {
    /// Compared with the allocator's own statistics: equal.
    Same,
    /// Compared: different.
    Different,
    /// So often different that it is not exact. Stays, also when the same device is opened again.
    Inexact,
    /// Its state was overridden: there are blocks without buffers.
    Restored,
    /// It has buffers with an address of their own on each core: no block map.
    PerCore,
    /// Its L1 now begins at this address.
    Shrunk {
        /// The lower end.
        l1_lower_end: u64,
    },
    /// It begins at its base again.
    Unshrunk,
}

impl Session<'_> {
    /// Notes it. Single words: no event.
    pub fn check(&mut self, allocator: AllocatorId, outcome: SelfCheck) {
        if !self.books.is_open(allocator) {
            return;
        }
        let word = |field| self.books.region.allocator(allocator.slot(), field);
        let add = |field| word(field).store(word(field).load(Relaxed).wrapping_add(1), Relaxed);
        let set = |bit| word(allocator::CHECK).store(word(allocator::CHECK).load(Relaxed) | bit, Release);
        match outcome {
            SelfCheck::Same => add(allocator::CHECKS),
            SelfCheck::Different => {
                add(allocator::CHECKS);
                add(allocator::DIFFERENCES);
            }
            SelfCheck::Inexact => set(check::INEXACT),
            SelfCheck::Restored => set(check::RESTORED),
            SelfCheck::PerCore => set(check::PER_CORE),
            SelfCheck::Shrunk { l1_lower_end } => {
                word(allocator::L1_LOWER_END).store(l1_lower_end, Relaxed);
                set(check::SHRUNK);
            }
            SelfCheck::Unshrunk => {
                word(allocator::CHECK).store(word(allocator::CHECK).load(Relaxed) & !check::SHRUNK, Release);
                word(allocator::L1_LOWER_END).store(0, Relaxed);
            }
        }
    }
}

impl Books {
    /// The same device again: what was only true of its former allocator is not of this one; counts go on.
    pub(super) fn begin_checks(&self, slot: usize) {
        let bits = self.region.allocator(slot, allocator::CHECK);
        bits.store(bits.load(Relaxed) & check::INEXACT, Relaxed);
        self.region.allocator(slot, allocator::L1_LOWER_END).store(0, Relaxed);
    }
}
