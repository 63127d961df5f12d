//! Replays the events during the copy of the entries, from the recorder's ring, over the copy by slot.

use std::collections::HashMap;

use super::bytes::{position, u32_at, u64_at};
use super::clock::Converter;
use super::entry::Entry;
use super::header::Tables;
use super::numbers::place_of;
use super::{ReadError, Region};
use ttmon_ledger::layout::{Op, entry, event};

/// A decoded record of the ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) number: u64,
    pub(super) time: u64,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) row: u16,
    pub(super) op: u8,
    pub(super) slot: u32,
    pub(super) tag: u32,
    pub(super) per_bank: u32,
    pub(super) page: u32,
    pub(super) stack: u32,
    pub(super) operation: u32,
}

impl Record {
    /// Decodes the record of event `number`; `None` if it has another event or is incomplete.
    fn decode(number: u64, bytes: &[u8]) -> Option<Self> {
        let (what, whole) = (u64_at(bytes, event::WHAT), u64_at(bytes, event::WHOLE));
        #[allow(clippy::cast_possible_truncation, reason = "fields of fewer bits")]
        let record = Self {
            number,
            time: u64_at(bytes, event::TIME),
            address: u64_at(bytes, event::ADDRESS),
            size: what & event::SIZE_MASK,
            row: (what >> event::ROW_SHIFT) as u16,
            op: (what >> event::OP_SHIFT) as u8,
            slot: (whole & event::SLOT_MASK) as u32,
            tag: (whole >> event::TAG_SHIFT & event::TAG_MASK) as u32,
            per_bank: u32_at(bytes, event::PER_BANK),
            page: u32_at(bytes, event::PAGE),
            stack: u32_at(bytes, event::STACK),
            operation: u32_at(bytes, event::OPERATION),
        };
        (whole >> event::NUMBER_SHIFT == number & 0xFFFF_FFFF).then_some(record)
    }

    /// The kind of memory of the row.
    pub(super) fn kind(&self) -> u8 {
        place_of(self.row).1
    }

    /// The allocator of the row.
    pub(super) fn allocator(&self) -> u16 {
        place_of(self.row).0
    }
}

/// Reads the records of the events `first ..= last`, at most as many as the ring holds. `each` gets `None` for an incomplete record. A
/// later read of `seq` shows whether a complete record was overwritten meanwhile.
pub(super) fn records(region: &Region, first: u64, last: u64, mut each: impl FnMut(Option<Record>)) -> Result<(), ReadError> {
    let table = region.header.tables.events;
    let size = u64::from(table.records);
    let mut number = first;
    while number <= last {
        let at = number % size;
        let count = (size - at).min(last - number + 1);
        let (at, run) = (u32::try_from(at).unwrap_or(0), u32::try_from(count).unwrap_or(0));
        region.source.each(table, at, run, |index, bytes| {
            each(Record::decode(number + u64::from(index - at), bytes));
            Ok(())
        })?;
        number += count;
    }
    Ok(())
}

/// The change of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// The entry was freed.
    Gone,
    /// The slot has this new entry. Its layout, cores, flags and thread are not known yet.
    Live(Entry),
    /// The entry is unchanged, except for the number of references.
    Refs(u32),
}

/// The combined changes of some events.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) slots: HashMap<u32, Change>,
    /// Rows that were freed as a whole, with the last event that did so.
    pub(super) epochs: HashMap<u16, u64>,
}

/// Minimum distance in events between the records that are read and the next one that the writer overwrites.
const MARGIN: u64 = 64;

/// Returns the changes of the events after `from` up to `to`; `None` if some are missing, or the writer repaired its ledger.
pub(super) fn changes(region: &Region, from: u64, to: u64, converter: &Converter) -> Result<Option<Changes>, ReadError> {
    let tables = &region.header.tables;
    let room = u64::from(tables.events.records).saturating_sub(MARGIN);
    let mut changes = Changes::default();
    if from == to {
        return Ok(Some(changes));
    }
    if to < from || to - from >= room {
        return Ok(None);
    }
    let mut is_whole = true;
    records(region, from + 1, to, |record| {
        is_whole &= record.is_some_and(|record| changes.add(&record, tables, converter));
    })?;
    // The writer may have continued, but did not reach the records that were read.
    let now = region.source.seq()? / 2;
    Ok((is_whole && now >= to && now - from < room).then_some(changes))
}

impl Changes {
    /// Records the effect of an event on entries; false if the effect is unknown.
    fn add(&mut self, record: &Record, tables: &Tables, converter: &Converter) -> bool {
        let op = Op::from_number(record.op);
        let has_slot = matches!(op, Some(Op::Alloc | Op::Free | Op::Ref | Op::Unref));
        if has_slot && record.slot >= tables.entries.records {
            return false;
        }
        match op {
            Some(Op::Alloc) => {
                self.slots.insert(record.slot, Change::Live(Entry::from_record(record, converter)));
            }
            Some(Op::Free) => {
                self.slots.insert(record.slot, Change::Gone);
            }
            Some(Op::Ref | Op::Unref) => match self.slots.entry(record.slot).or_insert(Change::Refs(0)) {
                Change::Live(entry) => entry.refs = record.per_bank,
                Change::Refs(refs) => *refs = record.per_bank,
                Change::Gone => {}
            },
            Some(Op::FreeAll) => {
                self.epochs.insert(record.row, record.number);
            }
            Some(Op::UnlistedAlloc | Op::UnlistedFree | Op::Open | Op::Close) => {}
            Some(Op::Failed | Op::Mark | Op::Nothing | Op::AddCircular | Op::RemoveProgram) => {}
            Some(Op::PhaseBegin | Op::PhaseEnd | Op::TraceBegin | Op::TraceEnd | Op::TraceReplay | Op::TraceRelease) => {}
            // A repair changes entries without separate events.
            Some(Op::Repair) | None => return false,
        }
        true
    }

    /// Sets the fields that events do not have from the entries, if those are unchanged.
    pub(super) fn complete(&mut self, region: &Region) -> Result<(), ReadError> {
        let mut slots: Vec<u32> =
            self.slots.iter().filter(|(_, change)| matches!(change, Change::Live(_))).map(|(&slot, _)| slot).collect();
        slots.sort_unstable();
        let table = region.header.tables.entries;
        let stride = position(table.stride.into());
        let (mut fields, mut states) = (Vec::new(), Vec::new());
        for run in slots.chunk_by(|a, b| b - a <= GAP_MAX) {
            // A run may be the whole table. It is split into pieces that one read fetches.
            for run in run.chunks(RUN_MAX) {
                let (first, last) = (run[0], run[run.len() - 1]);
                let bytes = (last - first + 1) as usize * stride;
                fields.resize(bytes, 0);
                states.resize(bytes, 0);
                let at = table.offset + u64::from(first) * u64::from(table.stride);
                region.source.read(&mut fields, at)?;
                // The event is complete, so its fields were stored before the first read. If the state is the same afterwards, the fields
                // did not change during the read.
                region.source.read(&mut states, at)?;
                for &slot in run {
                    let offset = (slot - first) as usize * stride;
                    if let Some(Change::Live(entry)) = self.slots.get_mut(&slot)
                        && u64_at(&states[offset..], entry::STATE) == entry.event << 8 | u64::from(entry::LIVE)
                    {
                        entry.complete(&fields[offset..offset + stride]);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Slots that are at most this far apart are fetched by one read.
const GAP_MAX: u32 = 16;
/// Slots per run: 16 x 256 records of 64 bytes are 256 KiB.
const RUN_MAX: usize = 256;
