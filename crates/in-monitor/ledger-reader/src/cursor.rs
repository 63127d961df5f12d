//! Follows the events of a ledger.

use std::collections::BTreeSet;
use std::sync::Arc;

use ttmon_ledger::layout::Op;
use ttmon_model::ledger::LedgerRefusal;

use super::events::{Event, NewEvents};
use super::header::Counters;
use super::lines::Lines;
use super::{ReadError, Region};

/// A position in the events of a ledger. Each event is read once, or counted as overrun.
#[derive(Clone, Debug, Default)]
pub struct EventCursor {
    seen: u64,
    last_time: u64,
    lines: Arc<Lines>,
}

impl EventCursor {
    /// Creates a cursor that reads the events after this number.
    pub fn after(event: u64) -> Self {
        Self { seen: event, ..Self::default() }
    }

    /// Returns the number of the last event that was read.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns the time of the last event that was read, or 0.
    pub fn last_time(&self) -> u64 {
        self.last_time
    }

    /// Reads the new events before the first one that `is_later`. Returns the newest `most` of them; the others count as overrun.
    pub fn read(&mut self, region: &Region, is_later: impl Fn(&Event) -> bool, most: usize) -> Result<NewEvents, ReadError> {
        let mut new = region.events(self.seen)?;
        if let Some(later) = new.events.iter().position(is_later) {
            new.next = new.events[later].number.saturating_sub(1);
            new.events.truncate(later);
        }
        new.keep_newest(most);
        self.seen = new.next;
        self.last_time = new.events.last().map_or(self.last_time, |event| event.time);
        Ok(new)
    }

    /// Returns the lines of all stacks in the events so far.
    pub fn lines(&mut self, region: &Region) -> Arc<Lines> {
        // Stacks are only appended. If reading fails, the new stacks have no lines until the next attempt.
        let has_new = Counters::read(&region.source, &region.header.tables).is_ok_and(|counters| counters.stacks_used > self.lines.len());
        if let Some(lines) = has_new.then(|| region.lines().ok()).flatten() {
            self.lines = Arc::new(lines);
        }
        Arc::clone(&self.lines)
    }

    /// Returns the details of the refused requests among new events. The ledger has those of the last ones only.
    pub fn refusals(&mut self, region: &Region, new: &NewEvents) -> Vec<LedgerRefusal> {
        if !new.events.iter().any(|event| event.op == Op::Failed) {
            return Vec::new();
        }
        // Without its details, a refused request is still an event.
        region.refusals(&self.lines(region)).unwrap_or_default()
    }
}

impl NewEvents {
    /// Keeps the newest events and the tags that they use.
    pub fn keep_newest(&mut self, most: usize) {
        let Some(surplus) = self.events.len().checked_sub(most).filter(|surplus| *surplus > 0) else { return };
        self.events.drain(..surplus);
        self.events.shrink_to_fit();
        self.overrun += surplus as u64;
        let used: BTreeSet<u32> = self.events.iter().flat_map(|event| [event.tag, event.operation]).collect();
        self.tags.keep(|id| used.contains(&id));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ttmon_model::ledger::BufferKind;

    use super::super::tags::Tags;
    use super::*;

    #[test]
    fn the_newest_events_and_their_tags_are_kept() {
        let event = |number: u64| Event {
            number,
            time: number,
            op: Op::Alloc,
            allocator: 0,
            kind: BufferKind::Other,
            address: 0,
            size: 0,
            slot: 0,
            tag: u32::try_from(number).unwrap(),
            per_bank: 0,
            page: 0,
            refs: 1,
            operation: 0,
            stack: 0,
        };
        let tags = Tags(["", "a", "b", "c"].map(|text| Arc::new(text.to_owned())).to_vec());
        let mut new = NewEvents { events: (1..4).map(event).collect(), overrun: 5, next: 3, tags };
        new.keep_newest(3);
        assert_eq!((new.events.len(), new.overrun, new.tags.get(1).map(|text| text.as_str())), (3, 5, Some("a")));
        new.keep_newest(1);
        assert_eq!((new.events[0].number, new.overrun, new.next), (3, 7, 3));
        assert_eq!((0..4).filter_map(|id| new.tags.get(id)).map(|text| text.as_str()).collect::<Vec<_>>(), ["c"]);
    }
}
