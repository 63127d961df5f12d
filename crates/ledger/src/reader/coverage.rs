//! What is counted without the writer's lock: programs launched, and how often each hooked function was called.

use super::bytes::{text_at, u64_at};
use super::{Refusal, Region};
use crate::layout::{Coverage, coverage, launches};

/// A feature of the hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its number.
    pub feature: u8,
    /// Its name.
    pub name: String,
    /// How often its function was called. None means that the program never came by, not that there is nothing.
    pub hits: u64,
    /// Whether it works.
    pub state: Coverage,
    /// Why not, or what else there is to say.
    pub reason: String,
}

/// Programs launched on a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launches {
    /// TT-Metal's number of the chip.
    pub metal_id: u32,
    /// How many.
    pub programs: u64,
    /// When the last one was, in nanoseconds since 1970.
    pub last_time: u64,
}

/// Tries before a record that changes each time is left out.
const TRIES: u32 = 4;

pub(super) fn features(region: &Region, used: u32) -> Result<Vec<Feature>, Refusal> {
    let table = region.header.tables.coverage;
    let mut found = Vec::new();
    if used == 0 {
        return Ok(found);
    }
    let stride = table.stride as usize;
    let (mut bytes, mut scratch) = (Vec::new(), Vec::new());
    region.source.chunks(table, 0, used, &mut scratch, |_, chunk| bytes.extend_from_slice(chunk))?;
    for _ in 0..TRIES {
        let before: Vec<u64> = bytes.chunks_exact(stride).map(|record| u64_at(record, coverage::STATE)).collect();
        bytes.clear();
        region.source.chunks(table, 0, used, &mut scratch, |_, chunk| bytes.extend_from_slice(chunk))?;
        if bytes.chunks_exact(stride).map(|record| u64_at(record, coverage::STATE)).eq(before) {
            break;
        }
    }
    for (feature, record) in (0..).zip(bytes.chunks_exact(stride)) {
        if let Some(state) = Coverage::from_byte(u64_at(record, coverage::STATE).to_le_bytes()[0]) {
            found.push(Feature {
                feature,
                name: text_at(record, coverage::NAME, coverage::NAME_BYTES),
                hits: u64_at(record, coverage::HITS),
                state,
                reason: text_at(record, coverage::REASON, coverage::REASON_BYTES),
            });
        }
    }
    Ok(found)
}

pub(super) fn launches(region: &Region, used: u32) -> Result<Vec<Launches>, Refusal> {
    let table = region.header.tables.launches;
    let converter = region.header.creation.converter();
    let mut found = Vec::new();
    region.source.chunks(table, 0, used, &mut Vec::new(), |_, chunk| {
        for record in chunk.chunks_exact(table.stride as usize) {
            let name = u64_at(record, launches::CHIP);
            if let Some(metal_id) = name.checked_sub(1).and_then(|id| u32::try_from(id).ok()) {
                let last_time = converter.unix_ns(u64_at(record, launches::LAST_TIME));
                found.push(Launches { metal_id, programs: u64_at(record, launches::PROGRAMS), last_time });
            }
        }
    })?;
    found.sort_unstable_by_key(|launches| launches.metal_id);
    Ok(found)
}
