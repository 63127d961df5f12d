//! Counters without the writer's lock: launched programs, and calls of each hooked function.

use ttmon_ledger::layout::{Coverage, coverage, launches};
use ttmon_model::ledger::{FeatureState, HookFeature, LedgerLaunches};

use super::bytes::{text_at, u64_at};
use super::clock::Converter;
use super::{ReadError, Region};

/// Number of attempts before a record that changes each time is omitted.
const TRIES: u32 = 4;

pub(super) fn features(region: &Region, used: u32) -> Result<Vec<HookFeature>, ReadError> {
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
    let whole = records.filter(|(record, after)| state(record) == state(after));
    Ok(whole.filter_map(|(record, _)| feature(record)).collect())
}

fn state(record: &[u8]) -> u64 {
    u64_at(record, coverage::STATE)
}

fn feature(record: &[u8]) -> Option<HookFeature> {
    Some(HookFeature {
        name: text_at(record, coverage::NAME, coverage::NAME_BYTES),
        hits: u64_at(record, coverage::HITS),
        state: match Coverage::from_number(state(record).to_le_bytes()[0])? {
            Coverage::Found => FeatureState::Found,
            Coverage::SteppedAside => FeatureState::SteppedAside,
            Coverage::Missing => FeatureState::Missing,
        },
        reason: Some(text_at(record, coverage::REASON, coverage::REASON_BYTES)).filter(|reason| !reason.is_empty()),
    })
}

pub(super) fn launches(region: &Region, used: u32, converter: &Converter) -> Result<Vec<LedgerLaunches>, ReadError> {
    let decode = |record: &[u8]| {
        let metal_id = u32::try_from(u64_at(record, launches::CHIP).checked_sub(1)?).ok()?;
        let last = converter.unix(u64_at(record, launches::LAST_TIME));
        Some(LedgerLaunches { metal_id, programs: u64_at(record, launches::PROGRAMS), last })
    };
    let mut found = region.source.decoded(region.header.tables.launches, used, decode)?;
    found.sort_unstable_by_key(|launches| launches.metal_id);
    Ok(found)
}
