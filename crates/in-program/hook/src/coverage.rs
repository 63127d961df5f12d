//! The ledger's coverage table: which functions of TT-Metal were found, how often they were called, and which features are off and why.
//!
//! Zero calls of a feature mean "not tracked", not zero bytes.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use ttmon_client::hooked;
use ttmon_ledger::layout::Coverage;
use ttmon_ledger::writer::Session;

use crate::buffer::ReadMethod;
use crate::library::Library;
use crate::symbols::Symbol;

struct Row {
    feature: Feature,
    name: &'static str,
    /// The feature needs all of these symbols.
    needs: &'static [Symbol],
}

macro_rules! features {
    ($($feature:ident = $name:literal, [$($symbol:ident),*];)*) => {
        /// A row of the table, by its index.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Feature { $($feature),* }

        const ROWS: &[Row] = &[$(Row { feature: Feature::$feature, name: $name, needs: &[$(Symbol::$symbol),*] }),*];
    };
}

features! {
    Allocations = "allocations", [Allocate];
    Frees = "frees", [Deallocate, BufferAddress];
    FreeAll = "free-all", [DeallocateAll];
    AllocatorEnd = "allocator end", [AllocatorD2];
    DeviceOpen = "device open", [OpenMesh, MeshAllocator, MeshTable];
    UniqueIds = "unique ids", [StatsProvider];
    ProgramCache = "program cache", [LoadBinaries];
    Launches = "launches", [TrackProgram];
    Circulars = "circular buffers", [TrackCircular, AllocateCirculars, CoreRanges];
    Dataflow = "dataflow buffers", [MarkAddress, AllocateDataflow];
    ProgramEnd = "program end", [ProgramD1];
    Clashes = "clashes", [ValidateCirculars];
    Resizes = "allocator resize", [Shrink, ResetSize];
    Restores = "allocator restore", [OverrideState];
    SelfCheck = "self-check", [Statistics];
    PerCore = "per-core buffers", [IsPerCore];
    Operations = "operations", [];
    Stacks = "stacks", [];
    Traces = "traces", [BeginTrace, EndTrace, ReplayTrace, ReleaseTrace];
}

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
            None => unsupported_reason(row.feature, library).map_or((Coverage::Found, ""), |reason| (Coverage::SteppedAside, reason)),
        };
        set(session, row.feature, state, reason);
        for _ in 0..EARLY.get(row.feature as usize).map_or(0, |count| count.swap(0, Relaxed)) {
            hooked::writer().hit(row.feature as u8);
        }
    }
}

/// Why a feature is not used although its functions exist.
fn unsupported_reason(feature: Feature, library: &Library) -> Option<&'static str> {
    match feature {
        Feature::Allocations | Feature::Frees if library.read_method() == ReadMethod::Unsupported => {
            Some("neither Buffer's functions nor its old layout are known")
        }
        Feature::Operations if !crate::operation::is_wanted() => Some("not asked for (ttmon run --ops)"),
        Feature::Stacks if !crate::stack::is_wanted() => Some("not asked for (ttmon run --stacks)"),
        Feature::Stacks => crate::stack::unsupported_reason(),
        _ => None,
    }
}

/// Turns off a feature that does not work as expected.
#[cold]
pub(crate) fn turn_off(session: &mut Session<'_>, feature: Feature, reason: &str) {
    set(session, feature, Coverage::SteppedAside, reason);
}

/// Marks a feature as working.
#[cold]
pub(crate) fn found(session: &mut Session<'_>, feature: Feature) {
    set(session, feature, Coverage::Found, "");
}

fn set(session: &mut Session<'_>, feature: Feature, state: Coverage, reason: &str) {
    let name = ROWS.get(feature as usize).map_or("", |row| row.name);
    session.cover(feature as u8, name, state, reason);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_their_field() {
        for row in ROWS {
            assert!(row.name.len() < 40, "{}", row.name);
        }
    }
}
