//! The memory of a process per chip, computed from its allocators.

use std::collections::{BTreeMap, BTreeSet};

use super::allocator::{Lists, of_occupancy, reports_programs};
use super::circulars::{Occupancy, Work, occupancy};
use super::ledger::ProcessMemory;
use super::process::Target;
use crate::kernels::KernelTypes;
use crate::ledger::{Ledger, LedgerAllocator, LedgerSharedPeak, LedgerWriter};
use crate::memory::{Figure, Kind};
use crate::missing::{Missing, Reading};
use crate::snapshot::Allocator;

/// Adds up the allocators' buffers per chip. The hook's figures are not added to those that the program reports itself.
pub(super) fn add_buffers(process: &mut ProcessMemory, ledger: &Ledger, targets: &[Vec<Target>], allocators: &[Allocator]) {
    let mut hooked: BTreeSet<(Target, Kind)> = BTreeSet::new();
    let is_hook = |index: &usize| ledger.allocators[*index].origin == LedgerWriter::Hook;
    let (by_hook, by_program): (Vec<usize>, Vec<usize>) = (0..ledger.allocators.len()).partition(is_hook);
    // If there is only one writer, nothing needs to be separated.
    let are_both = !by_hook.is_empty() && !by_program.is_empty();
    for (index, is_hook) in by_hook.into_iter().map(|index| (index, true)).chain(by_program.into_iter().map(|index| (index, false))) {
        let kinds = &allocators[index].kinds;
        let LedgerAllocator { chips, origin, .. } = &ledger.allocators[index];
        for (at, target) in targets[index].iter().enumerate() {
            let shared = chips.get(at).and_then(|chip| ledger.shared_on(chip, *origin));
            let place = process.entry(*target);
            for (kind, item) in kinds.iter().filter_map(|(kind, item)| Some((kind, item.as_ref()?))) {
                if is_hook && are_both {
                    hooked.insert((*target, kind));
                }
                let is_counted_else = if is_hook { kind == Kind::Cb } else { hooked.contains(&(*target, kind)) };
                if !is_counted_else {
                    add(&mut place[kind], &item.figure, shared.map(|shared| shared.peaks[kind]));
                }
            }
        }
    }
}

/// Adds an allocator's figures to those of its chip. Closed allocators hold no memory, but have peaks.
fn add(sum: &mut Option<Figure>, new: &Figure, shared: Option<LedgerSharedPeak>) {
    let figure =
        sum.get_or_insert_with(|| Figure { peak: Ok(0), used: Ok(0), allocated: Ok(0), count: Ok(0), kernel_types: None, ..new.clone() });
    figure.kernel_types = KernelTypes::sum([&*figure, new]);
    let plus = |sum: Reading<u64>, more: Reading<u64>| sum.and_then(|sum| more.map(|more| sum.saturating_add(more)));
    figure.used = plus(figure.used, new.used);
    figure.allocated = plus(figure.allocated, new.allocated);
    figure.count = plus(figure.count, new.count);
    if figure.peak < new.peak {
        (figure.peak, figure.peak_time) = (new.peak, new.peak_time);
    }
    // Each allocator has its own peak. For several allocators, the ledger has a common peak per chip.
    if let Some(peak) = shared.filter(|peak| figure.peak.is_ok_and(|own| own < peak.used)) {
        (figure.peak, figure.peak_time) = (Ok(peak.used), if peak.time.0 > 0 { Ok(peak.time) } else { Err(Missing::NoSource) });
    }
    // Without a common peak, the peak is at least the current use.
    if figure.peak.is_ok() && figure.peak < figure.used {
        (figure.peak, figure.peak_time) = (figure.used, Err(Missing::NoSource));
    }
}

/// Adds the circular buffers of programs on each chip, over all allocators. Those of a closed allocator are gone.
pub(super) fn add_programs(process: &mut ProcessMemory, ledger: &Ledger, targets: &[Vec<Target>], lists: &Lists<'_>, work: &mut Work<'_>) {
    let is_counted = |allocator: &LedgerAllocator| allocator.origin == LedgerWriter::Hook && reports_programs(ledger, allocator);
    let mut here: BTreeMap<Target, Vec<(usize, usize)>> = BTreeMap::new();
    for (index, chips) in targets.iter().enumerate().filter(|(index, _)| is_counted(&ledger.allocators[*index])) {
        for (chip, target) in chips.iter().enumerate() {
            here.entry(*target).or_default().push((index, chip));
        }
    }
    let names_chips = ledger.circulars.iter().any(|circular| circular.chip.is_some());
    // Results by the chip's index in each allocator. If no buffer names a chip, all chips of a mesh have the same result.
    let mut known: BTreeMap<Vec<(usize, usize)>, Option<Occupancy>> = BTreeMap::new();
    for (target, place) in &mut process.places {
        let found = match here.get(target).map(Vec::as_slice) {
            None => continue,
            Some([(index, chip)]) => work.occupancy(lists, *index, *chip),
            Some(several) => {
                let alike = several.iter().map(|(index, chip)| (*index, if names_chips { *chip } else { 0 })).collect();
                *known.entry(alike).or_insert_with(|| {
                    let on_chip = several.iter().flat_map(|(index, chip)| {
                        let mine = lists.circulars(*index).iter().copied();
                        mine.filter(|circular| circular.chip.is_none_or(|at| at == *chip))
                    });
                    occupancy(on_chip, work)
                })
            }
        };
        if let Some(found) = found {
            place[Kind::Cb] = Some(of_occupancy(&found));
        }
    }
}
