//! The flight recorder.

use super::header::Counters;
use super::replay::{self, Record};
use super::{ReadError, Region, stacks, tags};
use ttmon_ledger::layout::Op;

/// Recorded events, and the number of events that were lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// Number of requested events that could not be read: overwritten, or of a row that now belongs to another allocator.
    pub overrun: u64,
    /// Number of the last event, to be passed as `after` in the next call.
    pub next: u64,
    /// Texts of the tags by id. Every id in these events has a text; 0 is "".
    pub tags: Vec<String>,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The event's number, from 1 on.
    pub number: u64,
    /// Time in nanoseconds since 1970.
    pub time: u64,
    /// The type of the event.
    pub op: Op,
    /// The allocator's slot.
    pub allocator: u16,
    /// The kind of memory.
    pub kind: u8,
    /// Address of the buffer.
    pub address: u64,
    /// Bytes of the buffer.
    pub size: u64,
    /// Index in the entry table.
    pub slot: u32,
    /// The tag.
    pub tag: u32,
    /// Bytes in each bank; 0 if unknown.
    pub per_bank: u32,
    /// Bytes of a page; for circular buffers the number of the program.
    pub page: u32,
    /// References after a REF or UNREF, otherwise 0.
    pub refs: u32,
    /// The tag with the name of the operation; 0 if unknown.
    pub operation: u32,
    /// The stack of the allocation, as in an entry.
    pub stack: u32,
}

pub(super) fn read(region: &Region, after: u64) -> Result<Recorded, ReadError> {
    let tables = &region.header.tables;
    let ring = u64::from(tables.events.records);
    let last = region.source.seq()? / 2;
    let after = after.min(last);
    let first = (after + 1).max((last + 1).saturating_sub(ring));
    let mut records: Vec<Record> = Vec::new();
    replay::records(region, first, last, |record| records.extend(record))?;
    // Read after the records, because the writer may have advanced up to this position while they were read.
    let counters = Counters::read(&region.source, tables)?;
    let oldest = (counters.seq / 2 + 2).saturating_sub(ring).max(counters.rows_believable_from);
    let tags = tags::read(region, counters.tags_used)?;
    let converter = region.converter();
    let events: Vec<Event> = records
        .iter()
        .filter(|record| record.number >= oldest)
        .filter_map(|record| {
            let op = Op::from_number(record.op)?;
            let counts_references = matches!(op, Op::Ref | Op::Unref);
            let is_sane = u32::from(record.row) < tables.rows.records || matches!(op, Op::Repair | Op::Mark | Op::Nothing);
            let (per_bank, refs) = if counts_references { (0, record.per_bank) } else { (record.per_bank, 0) };
            is_sane.then(|| Event {
                number: record.number,
                time: converter.unix_ns(record.time),
                op,
                allocator: record.allocator(),
                kind: record.kind(),
                address: record.address,
                size: record.size,
                slot: record.slot,
                tag: tags::known(record.tag, counters.tags_used),
                per_bank,
                page: record.page,
                refs,
                operation: tags::known(record.operation, counters.tags_used),
                stack: stacks::known(record.stack, counters.stacks_used),
            })
        })
        .collect();
    Ok(Recorded { overrun: last - after - events.len() as u64, events, next: last, tags })
}
