//! L1 in use by circular and dataflow buffers. On each core, it is the union of the ranges of live programs, because programs use the same
//! bytes one after another.

use std::collections::BTreeMap;

use super::allocator::Lists;
use super::steps::Steps;
use crate::ledger::{Ledger, LedgerCircular};

/// Memory in use by circular and dataflow buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Occupancy {
    /// Bytes on all cores.
    pub(super) bytes: u64,
    /// Bytes on the core with the most.
    pub(super) per_core: u64,
    /// Number of buffers, including those inside L1 buffers.
    pub(super) count: u64,
    pub(super) programs: u64,
}

/// The computation for one ledger, charged to its user.
#[derive(Debug)]
pub(super) struct Work<'s> {
    steps: &'s mut Steps,
    user: Option<u32>,
    /// Whether the limit was reached. Nothing more is then computed for this ledger.
    is_cut: bool,
    /// Whether the buffers were read.
    can_know: bool,
    /// The results so far, by allocator and chip.
    known: BTreeMap<(usize, usize), Option<Occupancy>>,
}

impl<'s> Work<'s> {
    /// Starts the computation for a ledger of this user.
    pub(super) fn of(ledger: &Ledger, user: Option<u32>, steps: &'s mut Steps) -> Self {
        Self { steps, user, is_cut: false, can_know: ledger.has_circulars, known: BTreeMap::new() }
    }

    /// Charges the steps, if the limit allows them.
    pub(super) fn take(&mut self, steps: usize) -> bool {
        self.is_cut = self.is_cut || !self.steps.take(self.user, steps as u64);
        !self.is_cut
    }

    /// Returns the memory that the programs of an allocator use on one of its chips. The result is cached for the figures of both the
    /// allocator and the chip.
    pub(super) fn occupancy(&mut self, lists: &Lists<'_>, allocator: usize, chip: usize) -> Option<Occupancy> {
        let circulars = lists.circulars(allocator);
        // Chips differ only if a buffer names one.
        let chip = if circulars.iter().any(|circular| circular.chip.is_some()) { chip } else { 0 };
        if let Some(known) = self.known.get(&(allocator, chip)) {
            return *known;
        }
        let found = occupancy(circulars.iter().copied().filter(|circular| circular.chip.is_none_or(|at| at == chip)), self);
        self.known.insert((allocator, chip), found);
        found
    }
}

/// Steps to sort one circular buffer by its program, address, columns and rows.
const STEPS_PER_CIRCULAR: usize = 64;

pub(super) fn by_allocator(ledger: &Ledger) -> BTreeMap<usize, Vec<&LedgerCircular>> {
    let mut found: BTreeMap<usize, Vec<&LedgerCircular>> = BTreeMap::new();
    for circular in &ledger.circulars {
        found.entry(circular.allocator).or_default().push(circular);
    }
    found
}

/// Returns the memory that these buffers use on one chip, or `None` if the limit is reached.
pub(super) fn occupancy<'a>(circulars: impl Iterator<Item = &'a LedgerCircular>, work: &mut Work<'_>) -> Option<Occupancy> {
    if !work.can_know || work.is_cut {
        return None;
    }
    let (mut count, mut programs, mut ranges) = (0, Vec::new(), Vec::new());
    for circular in circulars {
        count += 1;
        programs.push(circular.program);
        if !circular.is_global && circular.size > 0 {
            ranges.push((circular.address, circular.address.saturating_add(circular.size), circular.cores));
        }
    }
    if !work.take(programs.len().saturating_mul(STEPS_PER_CIRCULAR)) {
        return None;
    }
    let (programs, ranges) = (distinct(programs), distinct(ranges));
    // The memory in use differs only between cores on both sides of an edge of a range.
    let edges = |first: usize, last: usize| -> Vec<u64> {
        distinct(ranges.iter().flat_map(|(_, _, cores)| [u64::from(cores[first]), u64::from(cores[last]) + 1]).collect())
    };
    let (columns, rows) = (edges(0, 2), edges(1, 3));
    if !work.take(columns.len().saturating_mul(rows.len()).saturating_mul(ranges.len()).saturating_add(ranges.len())) {
        return None;
    }
    let mut sum = Occupancy { count, programs: programs.len() as u64, ..Occupancy::default() };
    for column in columns.windows(2) {
        let is_here = |cores: &[u8; 4]| (u64::from(cores[0])..=u64::from(cores[2])).contains(&column[0]);
        let here: Vec<_> = ranges.iter().copied().filter(|(_, _, cores)| is_here(cores)).collect();
        for row in rows.windows(2) {
            let (mut bytes, mut next) = (0_u64, 0_u64);
            // This is the innermost loop. The ranges are sorted by address.
            for (start, end, cores) in &here {
                if u64::from(cores[1]) <= row[0] && row[0] <= u64::from(cores[3]) {
                    bytes = bytes.saturating_add(end.saturating_sub(next.max(*start)));
                    next = next.max(*end);
                }
            }
            let cores = (column[1] - column[0]) * (row[1] - row[0]);
            sum.bytes = sum.bytes.saturating_add(bytes.saturating_mul(cores));
            sum.per_core = sum.per_core.max(bytes);
        }
    }
    Some(sum)
}

/// Returns each value once, sorted.
fn distinct<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort_unstable();
    values.dedup();
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn occupancy<'a>(circulars: impl Iterator<Item = &'a LedgerCircular>) -> Option<Occupancy> {
        super::occupancy(circulars, &mut work(&mut Steps::default()))
    }

    fn work(steps: &mut Steps) -> Work<'_> {
        Work { steps, user: Some(7), is_cut: false, can_know: true, known: BTreeMap::new() }
    }

    fn circular(program: u32, address: u64, size: u64, cores: [u8; 4]) -> LedgerCircular {
        LedgerCircular { allocator: 0, chip: None, program, address, size, cores, is_global: false }
    }

    #[test]
    fn buffers_that_were_not_read_are_not_zero() {
        let mut steps = Steps::default();
        let mut work = Work { can_know: false, ..work(&mut steps) };
        assert_eq!(super::occupancy([].iter(), &mut work), None);
    }

    #[test]
    fn programs_share_their_bytes() {
        let all = [0, 0, 7, 7];
        let two = [circular(1, 100, 50, all), circular(2, 100, 80, all)];
        assert_eq!(occupancy(two.iter()), Some(Occupancy { bytes: 80 * 64, per_core: 80, count: 2, programs: 2 }));
        assert_eq!(occupancy([].iter()), Some(Occupancy::default()));
    }

    #[test]
    fn cores_are_counted_one_by_one() {
        let some = [circular(1, 0, 10, [0, 0, 1, 1]), circular(1, 10, 10, [1, 1, 2, 2]), circular(1, 15, 10, [1, 1, 1, 1])];
        // Four cores have 10 bytes, but one of them has 25. Three more have 10.
        assert_eq!(occupancy(some.iter()), Some(Occupancy { bytes: 3 * 10 + 25 + 3 * 10, per_core: 25, count: 3, programs: 1 }));
    }

    #[test]
    fn circular_buffers_in_an_l1_buffer_are_counted_there() {
        let global = LedgerCircular { is_global: true, ..circular(1, 0, 1000, [0, 0, 7, 7]) };
        assert_eq!(occupancy([global].iter()), Some(Occupancy { bytes: 0, per_core: 0, count: 1, programs: 1 }));
    }

    #[test]
    fn too_much_is_given_up() {
        let many: Vec<LedgerCircular> =
            (0..65_536).map(|n: u32| circular(n, n.into(), 8, [(n % 60) as u8, (n % 61) as u8, 63, 63])).collect();
        assert_eq!(occupancy(many.iter()), None);
        let mut steps = Steps::default();
        assert!(steps.take(Some(7), 4_000_000));
        let mut work = work(&mut steps);
        let one = [circular(1, 0, 10, [0, 0, 1, 1])];
        while super::occupancy(one.iter(), &mut work).is_some() {}
        assert_eq!(super::occupancy(one.iter(), &mut work), None, "many little ones are much too");
    }

    proptest! {
        #[test]
        fn as_counted_byte_by_byte(
            ranges in prop::collection::vec((0..4_u32, 0..40_u64, 0..20_u64, 0..5_u8, 0..5_u8, 0..3_u8, 0..3_u8, any::<bool>()), 0..10),
        ) {
            let circulars: Vec<LedgerCircular> = ranges
                .iter()
                .map(|&(program, address, size, x, y, width, height, is_global)| LedgerCircular {
                    is_global,
                    ..circular(program, address, size, [x, y, x + width, y + height])
                })
                .collect();
            let (mut bytes, mut per_core) = (0, 0);
            for (x, y) in (0..8_u8).flat_map(|x| (0..8_u8).map(move |y| (x, y))) {
                let takes = |byte: u64| {
                    circulars.iter().any(|one| {
                        let is_here = (one.cores[0]..=one.cores[2]).contains(&x) && (one.cores[1]..=one.cores[3]).contains(&y);
                        !one.is_global && is_here && (one.address..one.address + one.size).contains(&byte)
                    })
                };
                let on_core = (0..80).filter(|byte| takes(*byte)).count() as u64;
                bytes += on_core;
                per_core = on_core.max(per_core);
            }
            let found = occupancy(circulars.iter()).expect("few");
            prop_assert_eq!((found.bytes, found.per_core), (bytes, per_core));
        }
    }
}
