//! Circular and dataflow buffers of programs.

use ttmon_ledger::layout::{circular, entry, kind};
use ttmon_model::ledger::{Exactness, LedgerCircular};

use super::bytes::{u8_at, u16_at, u32_at, u64_at};
use super::numbers::row_index;
use super::totals::Figures;
use super::{ReadError, Region};

/// A record of the table.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// Number of the creation event.
    event: u64,
    /// The allocator's slot.
    slot: u16,
    /// The buffer, except for the index of its allocator.
    circular: LedgerCircular,
}

/// Upper limit for columns and rows of cores.
const CORES_END: u8 = 64;
/// Attempts to read all records at one point in time.
const TRIES: u32 = 8;

/// Reads the live circular and dataflow buffers of programs, for figures that were just read. Each record is complete. They are consistent
/// with each other if the writer paused during one read.
pub(super) fn read(region: &Region, figures: &Figures) -> Result<Vec<LedgerCircular>, ReadError> {
    let used = figures.counters.circulars_used;
    if used == 0 {
        return Ok(Vec::new());
    }
    // Exact figures belong to a known number of events. If it is unchanged, the records belong to it, too.
    let before = if figures.ledger.exactness == Exactness::Exact { figures.ledger.events * 2 } else { region.source.seq()? };
    let live = |record: Record| {
        let row = figures.rows.get(row_index(record.slot, kind::CB)).filter(|row| row.is_used && record.event > row.epoch);
        // Allocators are sorted by slot.
        let allocator = row.and_then(|_| figures.ledger.allocators.binary_search_by_key(&record.slot, |allocator| allocator.slot).ok());
        Some(LedgerCircular { allocator: allocator?, ..record.circular })
    };
    Ok(settled(region, used, before)?.into_iter().filter_map(live).collect())
}

/// Returns complete records, all of the same time if possible.
fn settled(region: &Region, used: u32, mut before: u64) -> Result<Vec<Record>, ReadError> {
    let mut found = copy(region, used)?;
    for _ in 0..TRIES {
        let after = region.source.seq()?;
        if before == after {
            return Ok(found);
        }
        before = after;
        let again = copy(region, used)?;
        // A record with the same creation event in both copies was not written in between. Event numbers are unique.
        found.retain(|record| again.binary_search_by_key(&record.event, |other| other.event).is_ok());
        let is_known = |record: &Record| found.binary_search_by_key(&record.event, |other| other.event).is_ok();
        if again.iter().all(is_known) {
            return Ok(found);
        }
        found = again;
    }
    let last = copy(region, used)?;
    found.retain(|record| last.binary_search_by_key(&record.event, |other| other.event).is_ok());
    Ok(found)
}

/// Copies all records that are marked as live, sorted by creation event. They may be torn.
fn copy(region: &Region, used: u32) -> Result<Vec<Record>, ReadError> {
    let mut found = region.source.decoded(region.header.tables.circulars, used, Record::decode)?;
    found.sort_unstable_by_key(|record| record.event);
    found.dedup_by_key(|record| record.event);
    Ok(found)
}

impl Record {
    fn decode(record: &[u8]) -> Option<Self> {
        let state = u64_at(record, circular::STATE);
        let cores = u32_at(record, circular::CORES).to_le_bytes();
        let [first_column, first_row, last_column, last_row] = cores;
        let is_range = first_column <= last_column && first_row <= last_row && last_column < CORES_END && last_row < CORES_END;
        let flags = u8_at(record, circular::FLAGS);
        (state.to_le_bytes()[0] == entry::LIVE && state >> 8 != 0 && is_range).then(|| Self {
            event: state >> 8,
            slot: u16_at(record, circular::ALLOCATOR),
            circular: LedgerCircular {
                allocator: 0,
                chip: Some(u8_at(record, circular::CHIP)).filter(|&chip| chip != circular::ALL_CHIPS).map(usize::from),
                program: u32_at(record, circular::PROGRAM),
                address: u32_at(record, circular::ADDRESS).into(),
                size: u32_at(record, circular::SIZE).into(),
                cores,
                is_global: flags & circular::FLAG_GLOBAL != 0,
            },
        })
    }
}
