//! Adds the events from the ring of a ledger to a trace.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use ttmon_ledger_reader::{Event, EventCursor, Lines, LiveEvents, NewEvents, Op, ReadError, Region, Tags};
use ttmon_model::Kind;
use ttmon_model::event::Refused;
use ttmon_model::ledger::{BufferKind, Ledger, LedgerRefusal};

use crate::chips::Chip;
use crate::trace::{Buffer, DrawnMemory, Owner, Trace};

/// A ledger that is followed.
#[derive(Debug)]
pub struct LedgerFeed {
    owner: Owner,
    cursor: EventCursor,
    /// The memory of each slot and kind.
    memories: HashMap<(u16, BufferKind), DrawnMemory>,
    lines: Arc<Lines>,
    /// The numbers of stacks in the trace, by their numbers in the ledger.
    stacks: HashMap<u32, u32>,
}

impl LedgerFeed {
    /// Starts with the first event of a ledger. `pid` is the pid on this host.
    pub fn new(trace: &mut Trace, region: &Region, pid: u32) -> Self {
        let owner = trace.process(pid, &region.identity().program);
        Self { owner, cursor: EventCursor::default(), memories: HashMap::new(), lines: Arc::default(), stacks: HashMap::new() }
    }

    /// Adds the new events up to the time `until`, in nanoseconds since 1970.
    pub fn take(&mut self, trace: &mut Trace, region: &Region, until: u64) -> io::Result<()> {
        if region.last_event().is_ok_and(|last| last <= self.cursor.seen()) {
            return Ok(());
        }
        self.add(trace, region, |event| event.time > until).unwrap_or(Ok(()))
    }

    /// Adds the remaining events and the live buffers. If the process runs, these are the buffers that are live at the time of the call.
    pub fn finish(&mut self, trace: &mut Trace, region: &Region, is_running: bool) -> Result<(), FeedError> {
        let listing = region.live_events()?;
        // The live buffers do not include later events, so those are dropped.
        self.add(trace, region, |event| event.number > listing.ledger.events)??;
        self.reconcile(trace, region, &listing);
        if !is_running {
            trace.end(self.owner);
        }
        Ok(())
    }

    fn reconcile(&mut self, trace: &mut Trace, region: &Region, listing: &LiveEvents) {
        self.find_memories(trace, &listing.ledger);
        self.lines = self.cursor.lines(region);
        let live: Vec<(&Event, DrawnMemory)> =
            listing.live.iter().filter_map(|event| Some((event, *self.memories.get(&(event.allocator, event.kind))?))).collect();
        let stacks: Vec<u32> = live.iter().map(|(event, _)| self.stack(trace, event.stack)).collect();
        let listed = live.into_iter().zip(stacks).map(|((event, memory), stack)| (event.time, memory, drawn(event, &listing.tags, stack)));
        trace.reconcile(self.owner, listing.ledger.last_time.0, listed);
    }

    /// Adds the new events before the first one that `is_later`. The outer result is that of the ledger.
    fn add(&mut self, trace: &mut Trace, region: &Region, is_later: impl Fn(&Event) -> bool) -> Result<io::Result<()>, ReadError> {
        let before = self.cursor.clone();
        let new = self.cursor.read(region, is_later, usize::MAX)?;
        let is_new = |event: &Event| event.op == Op::Open || is_drawn(event) && !self.memories.contains_key(&(event.allocator, event.kind));
        if new.events.iter().any(is_new) {
            // The chips of an event are unknown without its allocators. The next call reads the event again.
            let Ok(figures) = region.figures() else {
                self.cursor = before;
                return Ok(Ok(()));
            };
            self.find_memories(trace, &figures);
        }
        self.lines = self.cursor.lines(region);
        if new.overrun > 0 {
            trace.record_loss(new.overrun, new.events.first().map_or(before.last_time(), |event| event.time));
        }
        let refusals = self.cursor.refusals(region, &new);
        Ok(new.events.iter().try_for_each(|event| self.add_one(trace, event, &new, &refusals)))
    }

    fn add_one(&mut self, trace: &mut Trace, event: &Event, new: &NewEvents, refusals: &[LedgerRefusal]) -> io::Result<()> {
        if event.op == Op::Mark {
            return trace.mark(event.time, self.owner);
        }
        let Some(memory) = self.memories.get(&(event.allocator, event.kind)).copied() else { return Ok(()) };
        let buffer = drawn(event, &new.tags, self.stack(trace, event.stack));
        match event.op {
            Op::Alloc | Op::UnlistedAlloc => trace.alloc(event.time, self.owner, memory, &buffer),
            Op::Free | Op::UnlistedFree => trace.free(event.time, self.owner, memory, &buffer),
            Op::FreeAll => trace.free_all(event.time, self.owner, memory),
            Op::Failed => {
                let known = refusals.iter().find(|refused| refused.event == event.number).map(|refused| &refused.refusal);
                let (per_bank, free) = known.map_or((0, 0), |refusal| (refusal.per_bank, refusal.largest_free_per_bank));
                let operation = known.map(|refusal| refusal.operation.as_str());
                let is_clash = event.refused() == Some(Refused::Clash);
                trace.refused(event.time, self.owner, memory, &Buffer { per_bank, operation, ..buffer }, free, is_clash)
            }
            _ => Ok(()),
        }
    }

    fn stack(&mut self, trace: &mut Trace, number: u32) -> u32 {
        let frames = self.lines.frames(number);
        if frames.is_empty() { 0 } else { *self.stacks.entry(number).or_insert_with(|| trace.stack(frames)) }
    }

    fn find_memories(&mut self, trace: &mut Trace, ledger: &Ledger) {
        for allocator in &ledger.allocators {
            let chips = Chip::of_allocator(allocator, ledger.is_mock);
            for kind in Kind::BANKED.map(BufferKind::Of) {
                let geometry = allocator.geometry_of(kind);
                if geometry.is_none() && !allocator.rows.iter().any(|row| row.kind == kind) {
                    continue;
                }
                let banks = geometry.and_then(|geometry| {
                    Some((u32::try_from(geometry.banks).ok().filter(|banks| *banks > 0)?, geometry.base, geometry.bank_bytes))
                });
                if let Some(memory) = trace.memory(&chips, kind, banks) {
                    self.memories.insert((allocator.slot, kind), memory);
                }
            }
        }
    }
}

/// Returns the buffer of an event.
fn drawn<'a>(event: &Event, tags: &'a Tags, stack: u32) -> Buffer<'a> {
    let text = |id| tags.get(id).map(|text| text.as_str());
    Buffer {
        address: event.address,
        size: event.size,
        per_bank: event.per_bank.into(),
        tag: text(event.tag),
        operation: text(event.operation),
        stack,
    }
}

/// Why the events of a ledger could not be read to the end.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum FeedError {
    #[error("cannot read its ledger: {0}")]
    Ledger(#[from] ReadError),
    #[error("cannot keep its events: {0}")]
    Spool(#[from] io::Error),
}

fn is_drawn(event: &Event) -> bool {
    let is_of_buffer = matches!(event.op, Op::Alloc | Op::Free | Op::FreeAll | Op::UnlistedAlloc | Op::UnlistedFree | Op::Failed);
    is_of_buffer && event.kind.is_banked()
}
