//! The unique id of a chip. It is part of the names of TT-Metal's statistics, and identifies a chip on any machine.
//!
//! TT-Metal creates a statistics object for each chip that it opens, with both ids. If that call was not seen, its shared memory regions
//! among our mappings have both ids, too.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::regions;

/// Metal ids of a process are small.
const CHIPS: usize = 256;

/// Unique ids by metal id; 0 if not known.
static UNIQUE: [AtomicU64; CHIPS] = [const { AtomicU64::new(0) }; CHIPS];

/// Records the ids of an opened chip.
pub(crate) fn opened(metal_id: i32, unique_id: u64) {
    if let Some(place) = usize::try_from(metal_id).ok().and_then(|id| UNIQUE.get(id)) {
        // For a chip without a unique id, TT-Metal passes the metal id instead, which identifies no chip.
        let is_made_up = i64::try_from(unique_id) == Ok(i64::from(metal_id));
        place.store(if is_made_up { 0 } else { unique_id }, Relaxed);
    }
}

/// Returns the unique id, 0 if not known.
pub(crate) fn unique_id(metal_id: u32) -> u64 {
    usize::try_from(metal_id).ok().and_then(|id| UNIQUE.get(id)).map_or(0, |unique| unique.load(Relaxed))
}

/// Searches TT-Metal's regions, if some of these chips have no unique id yet.
pub(crate) fn find_unique_ids(metal_ids: &[u32]) {
    if metal_ids.iter().all(|id| unique_id(*id) != 0) {
        return;
    }
    regions::each(|metal_id, unique_id| {
        if let Ok(metal_id) = i32::try_from(metal_id) {
            opened(metal_id, unique_id);
        }
    });
}
