//! Compares our figures with the allocator's own statistics.
//!
//! The statistics walk all blocks under the allocator's lock, so the check is rare: after a growing number of events, and before everything
//! is freed. The result counts only if no other thread was in the allocator meanwhile. After two differences in a row, the ledger marks the
//! figures as inexact.

use ttmon_ledger::writer::SelfCheck;

use crate::calls::Call;
use crate::coverage::{Feature, hit, turn_off};
use crate::geometry::{AllocatorQuery, BANKED};
use crate::library::Library;
use crate::symbols::Symbol;
use crate::tables;

/// Whether an allocator is compared. The numbers leave 0 for `None`, so that the static table of allocators takes no space in the hook's
/// file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Checking {
    On = 1,
    /// The allocator's own statistics count something else.
    Off = 2,
}

/// When an allocator is compared next, in events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckSchedule {
    events: u32,
    next: u32,
    differences: u8,
}

const FIRST: u32 = 16;
const LONGEST: u32 = 4096;
/// Delay after an attempt in which this thread was not alone.
const LATER: u32 = 64;

impl CheckSchedule {
    pub(crate) const NEW: Self = Self { events: 0, next: FIRST, differences: 0 };

    /// Counts an event. Returns whether a check is due.
    #[inline]
    pub(crate) fn tick(&mut self) -> bool {
        self.events = self.events.wrapping_add(1);
        self.events >= self.next
    }

    /// Schedules the next check after this many events.
    fn rest(&mut self, events: u32) {
        // Resets a large count, so that it does not overflow. Beyond the longest interval its value has no meaning.
        if self.events > u32::MAX / 2 {
            self.events = LONGEST;
        }
        self.next = self.events + events;
    }

    /// Records a result. Returns whether it was the second difference in a row.
    fn done(&mut self, is_same: bool) -> bool {
        self.rest(self.events.saturating_mul(3).clamp(FIRST, LONGEST));
        self.differences = if is_same { 0 } else { self.differences.saturating_add(1) };
        self.differences == 2
    }
}

/// Compares the figures. Call it within a [`Call`], without the ledger's lock, while the allocator lives and its lock is free.
#[cold]
pub(crate) fn compare(call: &Call, library: &'static Library, pointer: usize) {
    if !library.has_symbol(Symbol::Statistics) {
        return;
    }
    let before = call.alone();
    let known = tables::with(|session, tables| {
        let known = tables.find(pointer)?;
        known.schedule.rest(LATER);
        let figures = BANKED.map(|(kind, _)| session.allocated(known.id, kind).unwrap_or(0));
        (known.checking == Checking::On).then_some((figures, known.description.geometry))
    });
    let (Some(before), Some(Some((figures, geometry)))) = (before, known) else { return };
    hit(Feature::SelfCheck);
    // SAFETY: the caller guarantees that the allocator lives, and that its lock is free.
    let query = unsafe { AllocatorQuery::new(library, pointer) };
    let mut is_same = true;
    for ((kind, number), ours) in BANKED.into_iter().zip(figures) {
        let banks = geometry.kinds.get(usize::from(kind)).map_or(0, |kind| kind.banks);
        if banks == 0 {
            continue;
        }
        match query.statistics(number) {
            Some(theirs) => is_same &= theirs.allocated.wrapping_mul(u64::from(banks)) == ours,
            None => {
                tables::with(|session, _| turn_off(session, Feature::SelfCheck, "the allocator's statistics threw"));
                return;
            }
        }
    }
    if call.alone() != Some(before) {
        return;
    }
    tables::with(|session, tables| {
        let Some(known) = tables.find(pointer) else { return };
        session.check(known.id, if is_same { SelfCheck::Same } else { SelfCheck::Different });
        if known.schedule.done(is_same) {
            session.check(known.id, SelfCheck::Inexact);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_become_rare_and_two_differences_count() {
        let mut schedule = CheckSchedule::NEW;
        let mut checked = Vec::new();
        for event in 1..20_000 {
            if schedule.tick() {
                checked.push(event);
                assert!(!schedule.done(true));
            }
        }
        assert_eq!(checked, [16, 64, 256, 1024, 4096, 8192, 12_288, 16_384]);
        assert!(!schedule.done(false));
        assert!(!schedule.done(true));
        assert!(!schedule.done(false));
        assert!(schedule.done(false));
    }

    #[test]
    fn counting_never_ends_the_checks() {
        let rests: [fn(&mut CheckSchedule); 2] = [|schedule| schedule.rest(LATER), |schedule| assert!(!schedule.done(true))];
        for rest in rests {
            let mut schedule = CheckSchedule { events: u32::MAX - 2, next: u32::MAX - 1, differences: 0 };
            for _ in 0..3 {
                assert!((0..LONGEST).any(|_| schedule.tick()));
                rest(&mut schedule);
            }
        }
    }
}
