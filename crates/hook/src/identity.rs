//! The unique id of a chip, which names TT-Metal's statistics and identifies a chip on any machine.
//!
//! TT-Metal makes an object of its own statistics for each chip it opens, with both ids. Where that was not seen, its regions
//! among our own mappings have both too.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::regions;

/// Metal ids of one process are small.
const CHIPS: usize = 256;

/// By metal id; 0 is not known.
static UNIQUE: [AtomicU64; CHIPS] = [const { AtomicU64::new(0) }; CHIPS];

/// A chip was opened.
pub(crate) fn opened(metal_id: i32, unique_id: u64) {
    if let Some(place) = usize::try_from(metal_id).ok().and_then(|id| UNIQUE.get(id)) {
        // A chip without a unique id gets its metal id in its place, which names no chip.
        let is_made_up = i64::try_from(unique_id) == Ok(i64::from(metal_id));
        place.store(if is_made_up { 0 } else { unique_id }, Relaxed);
    }
}

/// 0 where it is not known.
pub(crate) fn unique_id(metal_id: u32) -> u64 {
    usize::try_from(metal_id).ok().and_then(|id| UNIQUE.get(id)).map_or(0, |unique| unique.load(Relaxed))
}

/// Looks for TT-Metal's regions, where some of these chips have no unique id yet.
pub(crate) fn look_for(metal_ids: &[u32]) {
    if metal_ids.iter().all(|id| unique_id(*id) != 0) {
        return;
    }
    regions::each(|metal_id, unique_id| {
        if let Ok(metal_id) = i32::try_from(metal_id) {
            opened(metal_id, unique_id);
        }
    });
}
