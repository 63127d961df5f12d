//! The last events of a ledger in the words of the model, for a screen that shows them as they happen.

use std::collections::BTreeMap;
use std::sync::Arc;

use ttmon_ledger::layout::{Op, Refused};
use ttmon_ledger::reader::Event;
use ttmon_model::identity::ProcessKey;
use ttmon_model::ledger::BufferKind;
use ttmon_model::units::UnixTime;

use crate::ledgers::{Found, buffer_kind, tag};

/// Something that happened to a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Happening {
    /// When.
    pub time: UnixTime,
    /// In which process.
    pub process: ProcessKey,
    /// What, in a word.
    pub what: &'static str,
    /// Its kind of memory.
    pub kind: BufferKind,
    /// The allocator's place in the ledger.
    pub slot: u16,
    /// Its address.
    pub address: u64,
    /// Its bytes.
    pub size: u64,
    /// Its tag.
    pub tag: Option<String>,
}

/// More than this of one ledger at once nobody reads.
const COUNT_MAX: usize = 50;

/// Looks again and again at what happens in the ledgers of a machine.
#[derive(Debug, Default)]
pub struct Watch {
    /// The last event told of each.
    seen: BTreeMap<(ProcessKey, (u64, u64)), u64>,
}

impl Watch {
    /// What happened since the last look, oldest first; of a ledger not looked at before, the last few events.
    pub fn look(&mut self, ledgers: &[Arc<Found>]) -> Vec<Happening> {
        let mut happenings = Vec::new();
        self.seen.retain(|key, _| ledgers.iter().any(|found| (found.owner, found.identity()) == *key));
        for found in ledgers {
            let number = self.seen.entry((found.owner, found.identity())).or_default();
            if let Some((happened, next)) = after(found, *number, COUNT_MAX) {
                *number = next;
                happenings.extend(happened);
            }
        }
        happenings.sort_by_key(|happening| happening.time);
        happenings
    }
}

/// What happened after the event of a number, the last of it if there was much, and the number to ask with next time. `None`
/// where the ledger cannot be read.
fn after(found: &Found, number: u64, count_max: usize) -> Option<(Vec<Happening>, u64)> {
    let recorded = found.region.events(number).ok()?;
    let happened = |event: &Event| {
        Some(Happening {
            time: UnixTime(event.time),
            process: found.owner,
            what: word(event)?,
            kind: buffer_kind(event.kind),
            slot: event.allocator,
            address: event.address,
            size: event.size,
            tag: tag(&recorded.tags, event.tag).cloned(),
        })
    };
    let skipped = recorded.events.len().saturating_sub(count_max);
    Some((recorded.events[skipped..].iter().filter_map(happened).collect(), recorded.next))
}

/// What a person would call it; nothing for what only the ledger itself needs.
fn word(event: &Event) -> Option<&'static str> {
    Some(match event.op {
        Op::Alloc | Op::UnlistedAlloc => "alloc",
        Op::Free | Op::UnlistedFree => "free",
        Op::FreeAll => "free all",
        Op::Open => "open",
        Op::Close => "close",
        Op::Failed if event.slot == u32::from(Refused::Clash as u8) => "CLASH",
        Op::Failed => "REFUSED",
        Op::Mark => "mark",
        Op::AddCircular => "cb",
        Op::RemoveProgram => "program gone",
        Op::Ref | Op::Unref | Op::Repair | Op::Nothing => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clash_is_not_out_of_memory() {
        let failed = |what: Refused| Event {
            number: 1,
            time: 0,
            op: Op::Failed,
            allocator: 0,
            kind: 0,
            address: 0,
            size: 1,
            slot: u32::from(what as u8),
            tag: 0,
            per_bank: 0,
            page: 0,
            refs: 0,
        };
        assert_eq!([Refused::OutOfMemory, Refused::Clash].map(|what| word(&failed(what))), [Some("REFUSED"), Some("CLASH")]);
    }
}
