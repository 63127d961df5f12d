//! The flight recorder.

use super::header::Counters;
use super::replay::{self, Record};
use super::{ReadError, Region, stacks, tags};
use crate::layout::Op;

/// Events, and how many of them were gone before they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// How many of those asked for could not be read: overwritten, or of a row that means another allocator now.
    pub overrun: u64,
    /// Number of the last event there was: ask for those after it next time.
    pub next: u64,
    /// Texts of the tags by id; every id in these events has one, and 0 is "".
    pub tags: Vec<String>,
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number, from 1 on.
    pub number: u64,
    /// When, in nanoseconds since 1970.
    pub time: u64,
    /// What happened.
    pub op: Op,
    /// The allocator's slot.
    pub allocator: u16,
    /// The kind of memory.
    pub kind: u8,
    /// Address of the buffer.
    pub address: u64,
    /// Its bytes.
    pub size: u64,
    /// Where it stands in the ledger.
    pub slot: u32,
    /// Its tag.
    pub tag: u32,
    /// Bytes in each bank; 0 is unknown.
    pub per_bank: u32,
    /// Bytes of a page; of circular buffers the program's number.
    pub page: u32,
    /// References after a REF or UNREF, otherwise 0.
    pub refs: u32,
    /// The tag that names the operation; 0 is unknown.
    pub operation: u32,
    /// Where the program asked for the buffer, as an entry's.
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
    // Read after the records: the writer may have been anywhere up to its present position while they were read.
    let counters = Counters::read(&region.source, tables)?;
    let oldest = (counters.seq / 2 + 2).saturating_sub(ring).max(counters.rows_believable_from);
    let tags = tags::read(region, counters.tags_used)?;
    let converter = region.converter();
    let events: Vec<Event> = records
        .iter()
        .filter(|record| record.number >= oldest)
        .filter_map(|record| {
            let op = Op::from_byte(record.op)?;
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
