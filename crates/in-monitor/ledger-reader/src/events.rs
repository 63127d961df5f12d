//! The flight recorder.

use ttmon_ledger::layout::{self, Op};
use ttmon_model::event::Refused;
use ttmon_model::ledger::BufferKind;

use super::entry::Entry;
use super::header::Counters;
use super::numbers::buffer_kind;
use super::replay::{self, Record};
use super::tags::Tags;
use super::{ReadError, Region, lines, tags};

/// New events, and the number of events that were lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewEvents {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// Number of requested events that could not be read: overwritten, or of a row that now belongs to another allocator.
    pub overrun: u64,
    /// Number of the last event, to be passed as `after` in the next call.
    pub next: u64,
    /// Texts of the tags by id.
    pub tags: Tags,
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
    pub kind: BufferKind,
    /// Address of the buffer.
    pub address: u64,
    /// Bytes of the buffer.
    pub size: u64,
    /// Index in the entry table, or the type of a refusal.
    pub(super) slot: u32,
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
    /// The stack of the allocation: a number in [`Lines`](super::Lines) if it has lines.
    pub stack: u32,
}

impl Event {
    /// Returns the type of a refusal.
    pub fn refused(&self) -> Option<Refused> {
        let is_clash = self.slot == u32::from(layout::Refused::Clash as u8);
        (self.op == Op::Failed).then_some(if is_clash { Refused::Clash } else { Refused::OutOfMemory })
    }

    /// Creates the event that allocated a buffer.
    pub(super) fn of(entry: Entry) -> Self {
        Self {
            number: entry.event,
            time: entry.time,
            op: Op::Alloc,
            allocator: entry.allocator,
            kind: buffer_kind(entry.kind),
            address: entry.address,
            size: entry.size,
            slot: entry.slot,
            tag: entry.tag,
            per_bank: entry.per_bank,
            page: entry.page,
            refs: entry.refs,
            operation: entry.operation,
            stack: entry.stack,
        }
    }
}

pub(super) fn read(region: &Region, after: u64) -> Result<NewEvents, ReadError> {
    let tables = &region.header.tables;
    let ring = u64::from(tables.events.records);
    let last = region.source.seq()? / 2;
    let after = after.min(last);
    let first = (after + 1).max((last + 1).saturating_sub(ring));
    let mut records: Vec<Record> = Vec::new();
    replay::records(region, first, last, |record| records.extend(record))?;
    // Read after the records, because the writer may have advanced up to this position while they were read.
    let counters = Counters::read(&region.source, tables)?;
    let oldest = (counters.seq / 2 + 2).saturating_sub(ring).max(counters.first_valid_event);
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
                kind: buffer_kind(record.kind()),
                address: record.address,
                size: record.size,
                slot: record.slot,
                tag: tags::known(record.tag, counters.tags_used),
                per_bank,
                page: record.page,
                refs,
                operation: tags::known(record.operation, counters.tags_used),
                stack: lines::known(record.stack, counters.stacks_used),
            })
        })
        .collect();
    Ok(NewEvents { overrun: last - after - events.len() as u64, events, next: last, tags })
}
