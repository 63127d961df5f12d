//! Counters without the writer's lock: launched programs, and calls of each hooked function.

use super::bytes::{text_at, u64_at};
use super::clock::Converter;
use super::{ReadError, Region};
use ttmon_ledger::layout::{Coverage, coverage, launches};

/// A feature of the hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The number of the feature.
    pub feature: u8,
    /// The name of the feature.
    pub name: String,
    /// Number of calls of its function. 0 means that the program never called it, not that there is no memory.
    pub hits: u64,
    /// Whether it works.
    pub state: Coverage,
    /// The reason if it does not work, or additional information.
    pub reason: String,
}

/// Programs launched on a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launches {
    /// TT-Metal's number of the chip.
    pub metal_id: u32,
    /// Number of launches.
    pub programs: u64,
    /// Time of the last launch, in nanoseconds since 1970.
    pub last_time: u64,
}

/// Number of attempts before a record that changes each time is omitted.
const TRIES: u32 = 4;

pub(super) fn features(region: &Region, used: u32) -> Result<Vec<Feature>, ReadError> {
    if used == 0 {
        return Ok(Vec::new());
    }
    let table = region.header.tables.coverage;
    let stride = table.stride as usize;
    let (mut bytes, mut after) = (Vec::new(), Vec::new());
    region.source.records(table, used, &mut after)?;
    for _ in 0..TRIES {
        std::mem::swap(&mut bytes, &mut after);
        region.source.records(table, used, &mut after)?;
        if bytes.chunks_exact(stride).map(state).eq(after.chunks_exact(stride).map(state)) {
            break;
        }
    }
    // A text is complete if the state is unchanged after the read, because the state counts changes.
    let records = bytes.chunks_exact(stride).zip(after.chunks_exact(stride));
    let whole = (0..).zip(records).filter(|(_, (record, after))| state(record) == state(after));
    Ok(whole.filter_map(|(feature, (record, _))| Feature::decode(feature, record)).collect())
}

fn state(record: &[u8]) -> u64 {
    u64_at(record, coverage::STATE)
}

impl Feature {
    fn decode(feature: u8, record: &[u8]) -> Option<Self> {
        Some(Self {
            feature,
            name: text_at(record, coverage::NAME, coverage::NAME_BYTES),
            hits: u64_at(record, coverage::HITS),
            state: Coverage::from_number(state(record).to_le_bytes()[0])?,
            reason: text_at(record, coverage::REASON, coverage::REASON_BYTES),
        })
    }
}

pub(super) fn launches(region: &Region, used: u32, converter: &Converter) -> Result<Vec<Launches>, ReadError> {
    let decode = |record: &[u8]| {
        let metal_id = u32::try_from(u64_at(record, launches::CHIP).checked_sub(1)?).ok()?;
        let last_time = converter.unix_ns(u64_at(record, launches::LAST_TIME));
        Some(Launches { metal_id, programs: u64_at(record, launches::PROGRAMS), last_time })
    };
    let mut found = region.source.decoded(region.header.tables.launches, used, decode)?;
    found.sort_unstable_by_key(|launches| launches.metal_id);
    Ok(found)
}
