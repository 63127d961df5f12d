//! The live buffers of a ledger at any of its events.

use std::collections::{HashMap, HashSet};

use ttmon_ledger_reader::{Event, LiveEvents, NewEvents, Op};
use ttmon_model::ledger::BufferKind;

/// Slot of an allocator, and kind of memory.
pub(crate) type RowKey = (u16, BufferKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveBuffer {
    /// The event that allocated the buffer, or 0 if it is no longer in the recorder.
    pub(crate) event: u64,
    /// Requested bytes.
    pub(crate) size: u64,
    /// Bytes in each bank, or 0 if unknown.
    pub(crate) per_bank: u32,
    /// Number of the stack that requested it.
    pub(crate) stack: u32,
}

/// The live buffers of a row by address.
pub(crate) type LiveRow = HashMap<u64, LiveBuffer>;

/// The live buffers of all rows after some event.
#[derive(Debug, Default)]
pub(crate) struct LiveSet {
    rows: HashMap<RowKey, LiveRow>,
    /// Rows with buffers that are not listed.
    unknown: HashSet<RowKey>,
}

#[derive(Debug)]
pub(crate) enum Change {
    Added(LiveBuffer),
    Removed(LiveBuffer),
    Cleared(LiveRow),
}

fn key_of(event: &Event) -> RowKey {
    (event.allocator, event.kind)
}

fn buffer(event: &Event) -> LiveBuffer {
    LiveBuffer { event: event.number, size: event.size, per_bank: event.per_bank, stack: event.stack }
}

impl LiveSet {
    /// Returns the live buffers before the first recorded event, by undoing the events. They must have been read after the listing.
    pub(crate) fn before(listing: &LiveEvents, new: &NewEvents) -> Self {
        let mut set = Self::default();
        for event in &listing.live {
            set.rows.entry(key_of(event)).or_default().insert(event.address, buffer(event));
        }
        let torn_down = TornDown::of(listing, new);
        for event in new.events.iter().rev().filter(|event| event.number <= listing.ledger.events) {
            let row = set.rows.entry(key_of(event)).or_default();
            match event.op {
                Op::Alloc => {
                    row.remove(&event.address);
                }
                Op::Free => {
                    row.insert(event.address, LiveBuffer { event: 0, ..buffer(event) });
                }
                Op::FreeAll => row.extend(torn_down.by(event).map(|left| (left.address, buffer(left)))),
                Op::UnlistedAlloc | Op::UnlistedFree => {
                    set.unknown.insert(key_of(event));
                }
                // A repair counts the entries again, so the state before it is unknown.
                Op::Repair => set.unknown.extend(set.rows.keys().copied()),
                _ => {}
            }
        }
        set
    }

    pub(crate) fn apply(&mut self, event: &Event) -> Option<Change> {
        let key = key_of(event);
        match event.op {
            Op::Alloc => {
                let new = buffer(event);
                self.rows.entry(key).or_default().insert(event.address, new);
                Some(Change::Added(new))
            }
            Op::Free => self.rows.get_mut(&key)?.remove(&event.address).map(Change::Removed),
            Op::FreeAll => {
                self.unknown.remove(&key);
                self.rows.remove(&key).map(Change::Cleared)
            }
            Op::UnlistedAlloc | Op::UnlistedFree => {
                self.unknown.insert(key);
                None
            }
            _ => None,
        }
    }

    /// Returns the buffers of a row, or `None` if some are not listed.
    pub(crate) fn row(&self, key: RowKey) -> Option<impl Iterator<Item = (u64, LiveBuffer)> + '_> {
        let buffers = self.rows.get(&key).into_iter().flatten();
        (!self.unknown.contains(&key)).then(|| buffers.map(|(address, buffer)| (*address, *buffer)))
    }

    pub(crate) fn count(&self, key: RowKey) -> usize {
        self.rows.get(&key).map_or(0, LiveRow::len)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (RowKey, &LiveBuffer)> {
        self.rows.iter().flat_map(|(key, row)| row.values().map(move |buffer| (*key, buffer)))
    }
}

/// The buffers that were live at each free-all, from the ledger's own list.
pub(crate) struct TornDown<'a> {
    /// Numbers of the free-all events by row, ascending.
    events: HashMap<RowKey, Vec<u64>>,
    /// The buffers that were live, by row and in the order of creation.
    left: HashMap<RowKey, Vec<&'a Event>>,
}

impl<'a> TornDown<'a> {
    pub(crate) fn of(listing: &'a LiveEvents, new: &NewEvents) -> Self {
        let mut events: HashMap<RowKey, Vec<u64>> = HashMap::new();
        for event in new.events.iter().filter(|event| event.op == Op::FreeAll) {
            events.entry(key_of(event)).or_default().push(event.number);
        }
        let mut left: HashMap<RowKey, Vec<&Event>> = HashMap::new();
        for event in &listing.left {
            left.entry(key_of(event)).or_default().push(event);
        }
        left.values_mut().for_each(|events| events.sort_unstable_by_key(|event| event.number));
        Self { events, left }
    }

    pub(crate) fn by(&self, event: &Event) -> impl Iterator<Item = &'a Event> {
        let numbers = self.events.get(&key_of(event)).map_or(&[][..], Vec::as_slice);
        let earlier = numbers[..numbers.partition_point(|number| *number < event.number)].last().copied().unwrap_or(0);
        let left = self.left.get(&key_of(event)).map_or(&[][..], Vec::as_slice);
        let from = left.partition_point(|left| left.number <= earlier);
        let to = left.partition_point(|left| left.number < event.number);
        left[from..to.max(from)].iter().copied()
    }
}
