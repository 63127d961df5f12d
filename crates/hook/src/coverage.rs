//! The ledger's coverage table: which functions of TT-Metal were found, how often they were called, and which features are off and why.
//!
//! Zero calls of a feature mean "not tracked", not zero bytes.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use ttmon_client::hooked;
use ttmon_ledger::layout::Coverage;
use ttmon_ledger::writer::Session;

use crate::buffer::Way;
use crate::library::Library;
use crate::symbols::Symbol;

/// A row of the table, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Feature {
    Allocations,
    Frees,
    FreeAll,
    AllocatorEnd,
    DeviceOpen,
    UniqueIds,
    ProgramCache,
    Launches,
    Circulars,
    Dataflow,
    ProgramEnd,
    Clashes,
    Resizes,
    Restores,
    SelfCheck,
    PerCore,
    Operations,
    Stacks,
    Traces,
}

struct Row {
    feature: Feature,
    name: &'static str,
    /// The feature needs all of these symbols.
    needs: &'static [Symbol],
}

const ROWS: &[Row] = &[
    Row { feature: Feature::Allocations, name: "allocations", needs: &[Symbol::Allocate] },
    Row { feature: Feature::Frees, name: "frees", needs: &[Symbol::Deallocate, Symbol::BufferAddress] },
    Row { feature: Feature::FreeAll, name: "free-all", needs: &[Symbol::DeallocateAll] },
    Row { feature: Feature::AllocatorEnd, name: "allocator end", needs: &[Symbol::AllocatorD2] },
    Row { feature: Feature::DeviceOpen, name: "device open", needs: &[Symbol::OpenMesh, Symbol::MeshAllocator, Symbol::MeshTable] },
    Row { feature: Feature::UniqueIds, name: "unique ids", needs: &[Symbol::StatsProvider] },
    Row { feature: Feature::ProgramCache, name: "program cache", needs: &[Symbol::LoadBinaries] },
    Row { feature: Feature::Launches, name: "launches", needs: &[Symbol::TrackProgram] },
    Row {
        feature: Feature::Circulars,
        name: "circular buffers",
        needs: &[Symbol::TrackCircular, Symbol::AllocateCirculars, Symbol::CoreRanges],
    },
    Row { feature: Feature::Dataflow, name: "dataflow buffers", needs: &[Symbol::MarkAddress, Symbol::AllocateDataflow] },
    Row { feature: Feature::ProgramEnd, name: "program end", needs: &[Symbol::ProgramD1] },
    Row { feature: Feature::Clashes, name: "clashes", needs: &[Symbol::ValidateCirculars] },
    Row { feature: Feature::Resizes, name: "allocator resize", needs: &[Symbol::Shrink, Symbol::ResetSize] },
    Row { feature: Feature::Restores, name: "allocator restore", needs: &[Symbol::OverrideState] },
    Row { feature: Feature::SelfCheck, name: "self-check", needs: &[Symbol::Statistics] },
    Row { feature: Feature::PerCore, name: "per-core buffers", needs: &[Symbol::IsPerCore] },
    Row { feature: Feature::Operations, name: "operations", needs: &[] },
    Row { feature: Feature::Stacks, name: "stacks", needs: &[] },
    Row {
        feature: Feature::Traces,
        name: "traces",
        needs: &[Symbol::BeginTrace, Symbol::EndTrace, Symbol::ReplayTrace, Symbol::ReleaseTrace],
    },
];

/// Calls before the ledger exists: chips are identified before their device is open.
static EARLY: [AtomicU32; ROWS.len()] = [const { AtomicU32::new(0) }; ROWS.len()];

/// Counts a call of a feature's function.
#[inline]
pub(crate) fn hit(feature: Feature) {
    if !hooked::writer().hit(feature as u8)
        && let Some(count) = EARLY.get(feature as usize)
    {
        count.fetch_add(1, Relaxed);
    }
}

/// Records which features this library supports.
pub(crate) fn cover(session: &mut Session<'_>, library: &Library) {
    for row in ROWS {
        let (state, reason) = match row.needs.iter().find(|symbol| !library.has_symbol(**symbol)) {
            Some(_) => (Coverage::Missing, "this version of TT-Metal does not export it"),
            None => aside(row.feature, library).map_or((Coverage::Found, ""), |reason| (Coverage::SteppedAside, reason)),
        };
        session.cover(row.feature as u8, row.name, state, reason);
        for _ in 0..EARLY.get(row.feature as usize).map_or(0, |count| count.swap(0, Relaxed)) {
            hooked::writer().hit(row.feature as u8);
        }
    }
}

/// Why a feature is not used although its functions exist.
fn aside(feature: Feature, library: &Library) -> Option<&'static str> {
    match feature {
        Feature::Allocations | Feature::Frees if library.way() == Way::Aside => {
            Some("neither Buffer's functions nor its old layout are known")
        }
        Feature::Operations if !crate::operation::is_wanted() => Some("not asked for (ttmon run --ops)"),
        Feature::Stacks if !crate::stack::is_wanted() => Some("not asked for (ttmon run --stacks)"),
        Feature::Stacks => crate::stack::aside(),
        _ => None,
    }
}

/// Turns off a feature that does not work as expected.
#[cold]
pub(crate) fn step_aside(session: &mut Session<'_>, feature: Feature, reason: &str) {
    if let Some(row) = ROWS.iter().find(|row| row.feature == feature) {
        session.cover(feature as u8, row.name, Coverage::SteppedAside, reason);
    }
}

/// Marks a feature as working.
#[cold]
pub(crate) fn found(session: &mut Session<'_>, feature: Feature) {
    if let Some(row) = ROWS.iter().find(|row| row.feature == feature) {
        session.cover(feature as u8, row.name, Coverage::Found, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_its_row() {
        for (number, row) in ROWS.iter().enumerate() {
            assert_eq!(row.feature as usize, number, "{}", row.name);
            assert!(row.name.len() < 40);
        }
        assert_eq!(ROWS.len(), Feature::Traces as usize + 1);
    }
}
