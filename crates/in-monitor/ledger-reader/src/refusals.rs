//! Refused requests of the program, as recorded by the writer.

use std::sync::Arc;

use ttmon_ledger::layout::{self, failure};
use ttmon_model::event::{Large, Refusal, Refused};
use ttmon_model::ledger::LedgerRefusal;
use ttmon_model::stack::SourceLine;

use super::bytes::{position, text_at, u8_at, u16_at, u32_at, u64_at};
use super::clock::Converter;
use super::header::Counters;
use super::lines::{self, Lines};
use super::numbers::buffer_kind;
use super::tags::Tags;
use super::{ReadError, Region, tags};

/// Reads the last refused requests of the program, oldest first: at most 64.
pub(super) fn read(region: &Region, lines: &Lines) -> Result<Vec<LedgerRefusal>, ReadError> {
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
    let names = Names { tags: tags::read(region, counters.tags_used)?, stacks_used: counters.stacks_used, lines };
    let converter = region.converter();
    let number = |record: &[u8]| u64_at(record, failure::NUMBER);
    let mut refusals: Vec<(u64, LedgerRefusal)> = bytes
        .chunks_exact(stride)
        .zip(again.chunks_exact(stride))
        // The number is stored last and cleared first: if it is the same before and after, the record is complete.
        .filter(|(record, again)| number(record) != 0 && number(record) == number(again))
        .filter_map(|(record, _)| Some((number(record), decode(record, &names, &converter)?)))
        .collect();
    refusals.sort_by_key(|(number, _)| *number);
    refusals.dedup_by_key(|(number, _)| *number);
    Ok(refusals.into_iter().map(|(_, refusal)| refusal).collect())
}

/// What the numbers in records mean.
struct Names<'a> {
    tags: Tags,
    stacks_used: u32,
    lines: &'a Lines,
}

impl Names<'_> {
    fn text(&self, id: u32) -> String {
        self.tags.get(id).map_or_else(String::new, |text| text.as_str().to_owned())
    }

    fn line(&self, stack: u32) -> Option<Arc<SourceLine>> {
        self.lines.line(lines::known(stack, self.stacks_used)).cloned()
    }
}

fn decode(record: &[u8], names: &Names<'_>, converter: &Converter) -> Option<LedgerRefusal> {
    let kind = u8_at(record, failure::KIND);
    (kind < 8).then_some(())?;
    let what = match layout::Refused::from_number(u8_at(record, failure::WHAT))? {
        layout::Refused::OutOfMemory => Refused::OutOfMemory,
        layout::Refused::Clash => Refused::Clash,
    };
    let count = u32_at(record, failure::LARGEST_COUNT).min(8);
    let refusal = Refusal {
        what,
        kind: buffer_kind(kind),
        size: u64_at(record, failure::SIZE),
        banks: u32_at(record, failure::BANKS).into(),
        per_bank: u64_at(record, failure::PER_BANK),
        free_per_bank: u64_at(record, failure::FREE_PER_BANK),
        largest_free_per_bank: u64_at(record, failure::LARGEST_FREE_PER_BANK),
        largest: (0..count).map(|number| large(record, number, names)).collect(),
        operation: names.text(u32_at(record, failure::OPERATION)),
        message: text_at(record, failure::MESSAGE, failure::MESSAGE_BYTES),
        line: names.line(u32_at(record, failure::STACK)),
        bank_bytes: 0,
        window: None,
        l1_small: None,
        is_overrun: false,
    };
    Some(LedgerRefusal {
        time: converter.unix(u64_at(record, failure::TIME)),
        event: u64_at(record, failure::EVENT),
        slot: u16_at(record, failure::ALLOCATOR),
        generation: u32_at(record, failure::GENERATION),
        tag: Some(names.text(u32_at(record, failure::TAG))).filter(|tag| !tag.is_empty()),
        refusal,
    })
}

/// Decodes a large live buffer at the time of a refusal.
fn large(record: &[u8], number: u32, names: &Names<'_>) -> Large {
    let at = failure::LARGEST + failure::LARGEST_BYTES * u64::from(number);
    Large {
        address: u64_at(record, at),
        size: u64_at(record, at + 8),
        per_bank: u32_at(record, at + 16).into(),
        tag: names.text(u16_at(record, at + 20).into()),
        operation: names.text(u16_at(record, at + 22).into()),
        line: names.line(u32_at(record, at + 24)),
    }
}

const _: () = assert!(failure::LARGEST_MAX == 8 && position(failure::MESSAGE) + failure::MESSAGE_BYTES <= 1024);
