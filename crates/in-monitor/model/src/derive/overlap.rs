//! Finds live buffers of one process that overlap on a chip. The allocators of a mesh and of its submesh are independent, so they can
//! assign the same bytes. This is memory corruption, and no other tool shows it.

use std::collections::BTreeMap;

use super::allocator::Lists;
use super::blocks::shared;
use super::circulars::Work;
use super::process::Target;
use crate::ledger::{BufferKind, Ledger, LedgerRow};
use crate::memory::Kind;
use crate::missing::{Missing, Reading};

/// Kinds of memory that share the same bytes of a chip.
const SPACES: [[Kind; 2]; 2] = [[Kind::Dram, Kind::Trace], [Kind::L1, Kind::L1Small]];

/// The number of bytes on each chip that belong to two live buffers. Chips without such bytes are omitted.
pub(super) type Overlaps = Vec<(Target, u64)>;

/// Finds the overlaps. `targets` has the chips of each allocator.
pub(super) fn find(ledger: &Ledger, targets: &[Vec<Target>], lists: &Lists<'_>, work: &mut Work<'_>) -> Reading<Overlaps> {
    let with_banks = |index: usize| {
        let allocator = &ledger.allocators[index];
        let has = |row: &LedgerRow| matches!(row.kind, BufferKind::Of(kind) if row.count > 0 && allocator.geometry[kind].is_some());
        allocator.is_open() && allocator.rows.iter().any(has)
    };
    if !ledger.allocators.iter().any(|allocator| allocator.geometry.iter().any(|(_, geometry)| geometry.is_some())) {
        return Err(Missing::NotTracked);
    }
    // The chips are in the order of their first allocator, so that the order of problems is stable.
    let mut chips: Vec<(Target, Vec<usize>)> = Vec::new();
    let mut places: BTreeMap<Target, usize> = BTreeMap::new();
    for (index, targets) in targets.iter().enumerate().filter(|(index, _)| with_banks(*index)) {
        for target in targets {
            let place = *places.entry(*target).or_insert_with(|| {
                chips.push((*target, Vec::new()));
                chips.len() - 1
            });
            let sharing = &mut chips[place].1;
            if sharing.last() != Some(&index) {
                sharing.push(index);
            }
        }
    }
    let is_shared = chips.iter().any(|(_, sharing)| sharing.len() > 1);
    let has_unlisted = ledger.allocators.iter().flat_map(|allocator| &allocator.rows).any(|row| row.unlisted_count > 0);
    if is_shared && (!ledger.is_listed || ledger.is_changing() || has_unlisted) {
        return Err(Missing::NotTracked);
    }
    let mut known: BTreeMap<&[usize], u64> = BTreeMap::new();
    let mut overlaps = Overlaps::new();
    for (target, sharing) in &chips {
        let bytes = match known.get(sharing.as_slice()) {
            Some(bytes) => *bytes,
            None => *known.entry(sharing).or_insert(on_chip(ledger, sharing, lists, work).ok_or(Missing::NotTracked)?),
        };
        if bytes > 0 {
            overlaps.push((*target, bytes));
        }
    }
    Ok(overlaps)
}

/// Steps to sort and compare one buffer.
const STEPS_PER_BUFFER: usize = 32;

/// Returns the bytes of one chip that belong to two buffers, or `None` if the limit is reached.
fn on_chip(ledger: &Ledger, sharing: &[usize], lists: &Lists<'_>, work: &mut Work<'_>) -> Option<u64> {
    let kinds = || SPACES.iter().flatten();
    let count_of = |index: usize| kinds().map(|kind| lists.live(index, *kind).len()).sum::<usize>();
    let count: usize = sharing.iter().map(|index| count_of(*index)).sum();
    if !work.take(sharing.len().saturating_add(count.saturating_mul(STEPS_PER_BUFFER))) {
        return None;
    }
    let of_space = |space: &[Kind; 2]| {
        let (mut intervals, mut banks) = (Vec::new(), 0);
        for (index, kind) in sharing.iter().flat_map(|index| space.iter().map(move |kind| (*index, *kind))) {
            let live = lists.live(index, kind);
            if let Some(geometry) = ledger.allocators[index].geometry[kind].filter(|_| !live.is_empty()) {
                intervals.extend_from_slice(live);
                banks = geometry.banks.max(banks);
            }
        }
        shared(intervals).saturating_mul(banks)
    };
    Some(SPACES.iter().map(of_space).fold(0, u64::saturating_add))
}
