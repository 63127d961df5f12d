//! Failed allocations of the program, as recorded by the writer.

use super::bytes::{position, text_at, u8_at, u16_at, u32_at, u64_at};
use super::clock::Converter;
use super::header::Counters;
use super::{ReadError, Region, stacks, tags};
use ttmon_ledger::layout::{Refused, failure};

/// A failed allocation, or a clash of circular buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its number, from 1 on.
    pub number: u64,
    /// Time in nanoseconds since 1970.
    pub time: u64,
    /// Number of the event.
    pub event: u64,
    /// The type of failure.
    pub what: Refused,
    /// The kind of memory.
    pub kind: u8,
    /// The allocator's slot.
    pub allocator: u16,
    /// The generation of the slot at that time.
    pub generation: u32,
    /// Requested bytes.
    pub size: u64,
    /// Bytes in each bank; 0 if unknown.
    pub per_bank: u64,
    /// Number of banks; 0 if unknown.
    pub banks: u32,
    /// Free bytes in a bank.
    pub free_per_bank: u64,
    /// The largest free block in a bank.
    pub largest_free_per_bank: u64,
    /// Text of the thread's tag.
    pub tag: String,
    /// Name of the operation.
    pub operation: String,
    /// The stack of the allocation, as in an entry.
    pub stack: u32,
    /// The largest live buffers of the row, largest first.
    pub largest: Vec<Large>,
    /// The start of the error message that the program received.
    pub message: String,
    /// Whether the message is truncated.
    pub is_message_cut: bool,
}

/// A large live buffer at the time of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Large {
    /// The address.
    pub address: u64,
    /// Requested bytes.
    pub size: u64,
    /// Bytes in each bank; 0 if unknown.
    pub per_bank: u32,
    /// Text of the tag.
    pub tag: String,
    /// Name of the operation that allocated the buffer.
    pub operation: String,
    /// The stack of the allocation, as in an entry.
    pub stack: u32,
    /// Bits of [`layout::flag`](ttmon_ledger::layout::flag).
    pub flags: u16,
}

pub(super) fn read(region: &Region) -> Result<Vec<Failure>, ReadError> {
    let tables = &region.header.tables;
    let counters = Counters::read(&region.source, tables)?;
    if counters.failures == 0 {
        return Ok(Vec::new());
    }
    let table = tables.failures;
    let stride = table.stride as usize;
    let (mut bytes, mut again) = (Vec::new(), Vec::new());
    region.source.records(table, table.records, &mut bytes)?;
    region.source.records(table, table.records, &mut again)?;
    let counters = Counters::read(&region.source, tables)?;
    let texts = tags::read(region, counters.tags_used)?;
    let converter = region.converter();
    let number = |record: &[u8]| u64_at(record, failure::NUMBER);
    let mut failures: Vec<Failure> = bytes
        .chunks_exact(stride)
        .zip(again.chunks_exact(stride))
        // The number is stored last and cleared first: if it is the same before and after, the record is complete.
        .filter(|(record, again)| number(record) != 0 && number(record) == number(again))
        .filter_map(|(record, _)| Failure::decode(record, &texts, counters.stacks_used, &converter))
        .collect();
    failures.sort_unstable_by_key(|failure| failure.number);
    failures.dedup_by_key(|failure| failure.number);
    Ok(failures)
}

impl Failure {
    fn decode(record: &[u8], texts: &[String], stacks_used: u32, converter: &Converter) -> Option<Self> {
        // Id 0 means no text. A larger id than all texts is in a damaged ledger only.
        let text = |id: u32| texts.get(id as usize).cloned().unwrap_or_default();
        let count = u32_at(record, failure::LARGEST_COUNT).min(8);
        let message = text_at(record, failure::MESSAGE, failure::MESSAGE_BYTES);
        let kind = u8_at(record, failure::KIND);
        (kind < 8).then_some(())?;
        Some(Self {
            number: u64_at(record, failure::NUMBER),
            time: converter.unix_ns(u64_at(record, failure::TIME)),
            event: u64_at(record, failure::EVENT),
            what: Refused::from_number(u8_at(record, failure::WHAT))?,
            kind,
            allocator: u16_at(record, failure::ALLOCATOR),
            generation: u32_at(record, failure::GENERATION),
            size: u64_at(record, failure::SIZE),
            per_bank: u64_at(record, failure::PER_BANK),
            banks: u32_at(record, failure::BANKS),
            free_per_bank: u64_at(record, failure::FREE_PER_BANK),
            largest_free_per_bank: u64_at(record, failure::LARGEST_FREE_PER_BANK),
            tag: text(u32_at(record, failure::TAG)),
            operation: text(u32_at(record, failure::OPERATION)),
            stack: stacks::known(u32_at(record, failure::STACK), stacks_used),
            largest: (0..count).map(|number| Large::decode(record, number, stacks_used, &text)).collect(),
            is_message_cut: u64_at(record, failure::MESSAGE_LENGTH) > message.len() as u64,
            message,
        })
    }
}

impl Large {
    fn decode(record: &[u8], number: u32, stacks_used: u32, text: &impl Fn(u32) -> String) -> Self {
        let at = failure::LARGEST + failure::LARGEST_BYTES * u64::from(number);
        Self {
            address: u64_at(record, at),
            size: u64_at(record, at + 8),
            per_bank: u32_at(record, at + 16),
            tag: text(u16_at(record, at + 20).into()),
            operation: text(u16_at(record, at + 22).into()),
            stack: stacks::known(u32_at(record, at + 24), stacks_used),
            flags: u16_at(record, at + 28),
        }
    }
}

const _: () = assert!(failure::LARGEST_MAX == 8 && position(failure::MESSAGE) + failure::MESSAGE_BYTES <= 1024);
