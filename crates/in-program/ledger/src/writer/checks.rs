//! Results of the hook's comparison of the ledger with the allocator's own statistics.

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::layout::{allocator, check};

use super::{AllocatorId, Session, state::WriterState};

/// A property of an allocator that affects how exact its figures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfCheck {
    /// The figures equal the allocator's own statistics.
    Same,
    /// The figures differ from the allocator's own statistics.
    Different,
    /// The figures differed repeatedly and are not exact. This persists, also when the same device is opened again.
    Inexact,
    /// The state was overridden, so there are blocks without buffers.
    Restored,
    /// The allocator has buffers with a separate address on each core, so there is no block map.
    PerCore,
    /// L1 now starts at this address.
    Shrunk {
        /// The lower end.
        l1_lower_end: u64,
    },
    /// L1 starts at its base again.
    Unshrunk,
}

impl Session<'_> {
    /// Records a result. It writes single words, so it needs no event.
    pub fn check(&mut self, allocator: AllocatorId, outcome: SelfCheck) {
        if !self.state.is_open(allocator) {
            return;
        }
        let word = |field| self.state.region.allocator(allocator.slot(), field);
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

impl WriterState {
    /// Resets the properties of the former allocator when a device is opened again. Counts continue.
    pub(super) fn begin_checks(&self, slot: usize) {
        let bits = self.region.allocator(slot, allocator::CHECK);
        bits.store(bits.load(Relaxed) & check::INEXACT, Relaxed);
        self.region.allocator(slot, allocator::L1_LOWER_END).store(0, Relaxed);
    }
}
