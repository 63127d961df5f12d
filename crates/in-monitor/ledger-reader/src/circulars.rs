//! Circular and dataflow buffers of programs.

use super::bytes::{u8_at, u16_at, u32_at, u64_at};
use super::totals::Totals;
use super::{Exactness, ReadError, Region};
use ttmon_ledger::layout::{circular, entry, kind};

/// A circular or dataflow buffer of a program on a range of cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circular {
    /// Number of the creation event.
    pub event: u64,
    /// The allocator's slot.
    pub allocator: u16,
    /// Index of the chip in the allocator's list; `None` for all chips.
    pub chip: Option<u8>,
    /// The program, by the writer's number.
    pub program: u32,
    /// Address in L1.
    pub address: u32,
    /// Bytes on each core.
    pub size: u32,
    /// First column and row, last column and row, inclusive.
    pub cores: [u8; 4],
    /// Whether it is a dataflow buffer.
    pub is_dataflow: bool,
    /// Whether it is part of an L1 buffer, which is counted already.
    pub is_global: bool,
}

/// Upper limit for columns and rows of cores.
const CORES_END: u8 = 64;
/// Attempts to read all records at one point in time.
const TRIES: u32 = 8;

pub(super) fn read(region: &Region, totals: &Totals) -> Result<Vec<Circular>, ReadError> {
    if totals.circulars_used == 0 {
        return Ok(Vec::new());
    }
    // Allocators are sorted by slot.
    let epoch_of = |slot: u16| {
        let index = totals.allocators.binary_search_by_key(&slot, |allocator| allocator.slot).ok()?;
        totals.allocators[index].rows.iter().find(|row| row.kind == kind::CB).map(|row| row.epoch)
    };
    let is_live = |circular: &Circular| epoch_of(circular.allocator).is_some_and(|epoch| circular.event > epoch);
    // Exact figures belong to a known number of events. If it is unchanged, the records belong to it, too.
    let before = if totals.exactness == Exactness::Exact { totals.events * 2 } else { region.source.seq()? };
    Ok(settled(region, totals.circulars_used, before)?.into_iter().filter(is_live).collect())
}

/// Returns complete records, all of the same time if possible.
fn settled(region: &Region, used: u32, mut before: u64) -> Result<Vec<Circular>, ReadError> {
    let mut found = copy(region, used)?;
    for _ in 0..TRIES {
        let after = region.source.seq()?;
        if before == after {
            return Ok(found);
        }
        before = after;
        let again = copy(region, used)?;
        // A record with the same creation event in both copies was not written in between. Event numbers are unique.
        found.retain(|circular| again.binary_search_by_key(&circular.event, |other| other.event).is_ok());
        let is_known = |circular: &Circular| found.binary_search_by_key(&circular.event, |other| other.event).is_ok();
        if again.iter().all(is_known) {
            return Ok(found);
        }
        found = again;
    }
    let last = copy(region, used)?;
    found.retain(|circular| last.binary_search_by_key(&circular.event, |other| other.event).is_ok());
    Ok(found)
}

/// Copies all records that are marked as live, sorted by creation event. They may be torn.
fn copy(region: &Region, used: u32) -> Result<Vec<Circular>, ReadError> {
    let mut found = region.source.decoded(region.header.tables.circulars, used, Circular::decode)?;
    found.sort_unstable_by_key(|circular| circular.event);
    found.dedup_by_key(|circular| circular.event);
    Ok(found)
}

impl Circular {
    fn decode(record: &[u8]) -> Option<Self> {
        let state = u64_at(record, circular::STATE);
        let cores = u32_at(record, circular::CORES).to_le_bytes();
        let [first_column, first_row, last_column, last_row] = cores;
        let is_range = first_column <= last_column && first_row <= last_row && last_column < CORES_END && last_row < CORES_END;
        let flags = u8_at(record, circular::FLAGS);
        (state.to_le_bytes()[0] == entry::LIVE && state >> 8 != 0 && is_range).then(|| Self {
            event: state >> 8,
            allocator: u16_at(record, circular::ALLOCATOR),
            chip: Some(u8_at(record, circular::CHIP)).filter(|&chip| chip != circular::ALL_CHIPS),
            program: u32_at(record, circular::PROGRAM),
            address: u32_at(record, circular::ADDRESS),
            size: u32_at(record, circular::SIZE),
            cores,
            is_dataflow: flags & circular::FLAG_DATAFLOW != 0,
            is_global: flags & circular::FLAG_GLOBAL != 0,
        })
    }
}
