//! The change of a program's memory since its last mark, by line, tag and operation.

use std::collections::HashMap;
use std::sync::Arc;

use ttmon_ledger_reader::{Event, Op, ReadError, Region};
use ttmon_model::stack::SourceLine;

use crate::live::TornDown;

/// The change of the bytes of one source of allocations since the mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The slot of the allocator.
    pub slot: u16,
    /// The line that requested the memory.
    pub line: Option<Arc<SourceLine>>,
    /// The tag of the allocations.
    pub tag: Option<Arc<String>>,
    /// The operation that allocated the memory.
    pub operation: Option<Arc<String>>,
    /// Bytes allocated since the mark, minus bytes freed.
    pub bytes: i64,
}

/// The growth of a ledger since its last mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrowthSinceMark {
    /// The program set no mark.
    NoMark,
    /// Events since the mark were overwritten, or not all buffers are listed.
    Unknown,
    /// The changes since the mark.
    Known(Vec<Growth>),
}

/// Reads the growth of a ledger from its events since the last mark.
pub fn growth_since_mark(region: &Region) -> Result<GrowthSinceMark, ReadError> {
    let listing = region.live_events()?;
    let Some(mark) = listing.mark else { return Ok(GrowthSinceMark::NoMark) };
    let new = region.events(mark)?;
    if new.overrun > 0 {
        return Ok(GrowthSinceMark::Unknown);
    }
    let torn_down = TornDown::of(&listing, &new);
    let mut sums: HashMap<(u16, u32, u32, u32), i64> = HashMap::new();
    let mut add = |event: &Event, sign: i64| {
        let sum = sums.entry((event.allocator, event.stack, event.tag, event.operation)).or_default();
        *sum = sum.saturating_add(i64::try_from(event.size).unwrap_or(i64::MAX).saturating_mul(sign));
    };
    for event in new.events.iter().filter(|event| event.number <= listing.ledger.events) {
        match event.op {
            Op::Alloc => add(event, 1),
            Op::Free => add(event, -1),
            Op::FreeAll => torn_down.by(event).for_each(|left| add(left, -1)),
            Op::UnlistedAlloc | Op::UnlistedFree | Op::Repair => return Ok(GrowthSinceMark::Unknown),
            _ => {}
        }
    }
    let lines = region.lines()?;
    let growth = sums.into_iter().map(|((slot, stack, tag, operation), bytes)| Growth {
        slot,
        line: lines.line(stack).cloned(),
        tag: new.tags.get(tag).cloned(),
        operation: new.tags.get(operation).cloned(),
        bytes,
    });
    Ok(GrowthSinceMark::Known(growth.collect()))
}
