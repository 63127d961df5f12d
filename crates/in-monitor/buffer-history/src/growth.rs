//! The change of a program's memory since its last mark, by line, tag and operation.

use std::collections::HashMap;

use ttmon_ledger_reader::{Event, Op, ReadError, Region};
use ttmon_model::groups::{GroupBy, GroupKey, changes};

use crate::live::TornDown;

/// Bytes allocated minus bytes freed, by the slot of their allocator and their group.
pub type GroupGrowth = Vec<((u16, GroupKey), i64)>;

/// The growth of a ledger since its last mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrowthSinceMark {
    /// The program set no mark.
    NoMark,
    /// Events since the mark were overwritten, or not all buffers are listed.
    Unknown,
    /// The changes since the mark.
    Known(GroupGrowth),
}

/// Reads the growth of a ledger from its events since the last mark.
pub fn growth_since_mark(region: &Region, by: GroupBy) -> Result<GrowthSinceMark, ReadError> {
    let listing = region.live_events()?;
    let Some(mark) = listing.mark else { return Ok(GrowthSinceMark::NoMark) };
    let new = region.events(mark)?;
    if new.overrun > 0 {
        return Ok(GrowthSinceMark::Unknown);
    }
    let torn_down = TornDown::of(&listing, &new);
    let mut sums: HashMap<(u16, u32), i64> = HashMap::new();
    let mut add = |event: &Event, sign: i64| {
        let number = match by {
            GroupBy::Line => event.stack,
            GroupBy::Tag => event.tag,
            GroupBy::Op => event.operation,
        };
        let sum = sums.entry((event.allocator, number)).or_default();
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
    let key = |number: u32| match by {
        GroupBy::Line => GroupKey::Line(lines.line(number).cloned()),
        GroupBy::Tag | GroupBy::Op => GroupKey::Text(new.tags.get(number).cloned()),
    };
    Ok(GrowthSinceMark::Known(changes(sums.into_iter().map(|((slot, number), bytes)| ((slot, key(number)), bytes)))))
}
