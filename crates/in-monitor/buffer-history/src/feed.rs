//! Adds the events from the ring of a ledger to a trace.

use std::collections::HashMap;
use std::io;

use ttmon_collect::Lines;
use ttmon_collect::ledgers::{buffer_kind, tag};
use ttmon_ledger::layout::{Op, Refused, kind};
use ttmon_ledger_reader::{Allocator, Entry, Event, Failure, Geometry, Listing, ReadError, Recorded, Region, Totals};

use crate::trace::{Buffer, Chip, Owner, Space, Trace};

/// A ledger that is followed.
#[derive(Debug)]
pub struct LedgerFeed {
    owner: Owner,
    seen: u64,
    last_time: u64,
    /// The spaces, by slot and kind.
    spaces: HashMap<(u16, u8), Space>,
    lines: Lines,
    /// The numbers of stacks in the trace, by their numbers in the ledger.
    stacks: HashMap<u32, u32>,
}

impl LedgerFeed {
    /// Starts with the first event of a ledger. `pid` is the pid on this host.
    pub fn new(trace: &mut Trace, region: &Region, pid: u32) -> Self {
        let owner = trace.process(pid, &region.identity().program);
        Self { owner, seen: 0, last_time: 0, spaces: HashMap::new(), lines: Lines::default(), stacks: HashMap::new() }
    }

    /// Adds the new events up to the time `until`, in nanoseconds since 1970.
    pub fn take(&mut self, trace: &mut Trace, region: &Region, until: u64) -> io::Result<()> {
        if region.last_event().is_ok_and(|last| last <= self.seen) {
            return Ok(());
        }
        let Ok(mut recorded) = region.events(self.seen) else { return Ok(()) };
        if let Some(later) = recorded.events.iter().position(|event| event.time > until) {
            recorded.next = recorded.events[later].number.saturating_sub(1);
            recorded.events.truncate(later);
        }
        self.add(trace, region, &recorded)
    }

    /// Adds the remaining events and the live buffers. If the process runs, these are the buffers that are live at the time of the call.
    pub fn finish(&mut self, trace: &mut Trace, region: &Region, is_running: bool) -> Result<(), FeedError> {
        let listing = region.list()?;
        let mut recorded = region.events(self.seen)?;
        // The live buffers do not include later events, so those are dropped.
        recorded.events.retain(|event| event.number <= listing.totals.events);
        self.add(trace, region, &recorded)?;
        self.settle(trace, region, &listing)?;
        if !is_running {
            trace.end(self.owner);
        }
        Ok(())
    }

    fn settle(&mut self, trace: &mut Trace, region: &Region, listing: &Listing) -> Result<(), FeedError> {
        self.find_spaces(trace, &listing.totals);
        let entries: Vec<(&Entry, Space)> =
            listing.entries.iter().filter_map(|entry| Some((entry, *self.spaces.get(&(entry.allocator, entry.kind))?))).collect();
        if entries.iter().any(|(entry, _)| entry.stack > self.lines.len()) {
            self.lines = Lines::read(region)?;
        }
        let stacks: Vec<u32> = entries.iter().map(|(entry, _)| self.stack(trace, entry.stack)).collect();
        let listed = entries.into_iter().zip(stacks).map(|((entry, space), stack)| {
            let text = |number| tag(&listing.tags, number).map(String::as_str);
            let buffer = Buffer {
                address: entry.address,
                size: entry.size,
                per_bank: entry.per_bank.into(),
                tag: text(entry.tag),
                operation: text(entry.operation),
                stack,
            };
            (entry.time, space, buffer)
        });
        trace.settle(self.owner, listing.totals.last_time, listed);
        Ok(())
    }

    fn add(&mut self, trace: &mut Trace, region: &Region, recorded: &Recorded) -> io::Result<()> {
        let events = &recorded.events;
        let is_new = |event: &Event| event.op == Op::Open || is_drawn(event) && !self.spaces.contains_key(&(event.allocator, event.kind));
        if events.iter().any(is_new) {
            // The chips of an event are unknown without its allocators. The next call reads the event again.
            let Ok(totals) = region.totals() else { return Ok(()) };
            self.find_spaces(trace, &totals);
        }
        if events.iter().any(|event| event.stack < ttmon_ledger::layout::stack::NO_PYTHON && event.stack > self.lines.len()) {
            // If reading fails, the new stacks have no lines until the next attempt.
            if let Ok(lines) = Lines::read(region) {
                self.lines = lines;
            }
        }
        if recorded.overrun > 0 {
            trace.lose(recorded.overrun, events.first().map_or(self.last_time, |event| event.time));
        }
        let has_failed = events.iter().any(|event| event.op == Op::Failed);
        // Without its details, a refused allocation is still an event.
        let failures = if has_failed { region.failures().unwrap_or_default() } else { Vec::new() };
        for event in events {
            self.add_one(trace, event, recorded, &failures)?;
        }
        self.seen = recorded.next;
        self.last_time = events.last().map_or(self.last_time, |event| event.time);
        Ok(())
    }

    fn add_one(&mut self, trace: &mut Trace, event: &Event, recorded: &Recorded, failures: &[Failure]) -> io::Result<()> {
        if event.op == Op::Mark {
            return trace.mark(event.time, self.owner);
        }
        let Some(space) = self.spaces.get(&(event.allocator, event.kind)).copied() else { return Ok(()) };
        let text = |number| tag(&recorded.tags, number).map(String::as_str);
        let buffer = Buffer {
            address: event.address,
            size: event.size,
            per_bank: event.per_bank.into(),
            tag: text(event.tag),
            operation: text(event.operation),
            stack: self.stack(trace, event.stack),
        };
        match event.op {
            Op::Alloc | Op::UnlistedAlloc => trace.alloc(event.time, self.owner, space, &buffer),
            Op::Free | Op::UnlistedFree => trace.free(event.time, self.owner, space, &buffer),
            Op::FreeAll => trace.free_all(event.time, self.owner, space),
            Op::Failed => {
                let known = failures.iter().find(|failure| failure.event == event.number);
                let (per_bank, free) = known.map_or((0, 0), |failure| (failure.per_bank, failure.largest_free_per_bank));
                let is_clash = event.slot == u32::from(Refused::Clash as u8);
                let operation = known.map(|failure| failure.operation.as_str());
                trace.refused(event.time, self.owner, space, &Buffer { per_bank, operation, ..buffer }, free, is_clash)
            }
            _ => Ok(()),
        }
    }

    fn stack(&mut self, trace: &mut Trace, number: u32) -> u32 {
        let frames = self.lines.frames(number);
        if frames.is_empty() { 0 } else { *self.stacks.entry(number).or_insert_with(|| trace.stack(frames)) }
    }

    fn find_spaces(&mut self, trace: &mut Trace, totals: &Totals) {
        for allocator in &totals.allocators {
            let chips = chips(allocator, totals.environment.is_mock);
            for number in [kind::DRAM, kind::L1, kind::L1_SMALL, kind::TRACE] {
                let row = allocator.rows.iter().find(|row| row.kind == number);
                let geometry = row.and_then(|row| row.geometry).or_else(|| *allocator.geometry.get(usize::from(number))?);
                if row.is_none() && geometry.is_none() {
                    continue;
                }
                let banks = geometry
                    .filter(|geometry| geometry.banks > 0)
                    .map(|Geometry { banks, base, bank_bytes, .. }| (banks, base, bank_bytes));
                if let Some(space) = trace.space(&chips, buffer_kind(number), banks) {
                    self.spaces.insert((allocator.slot, number), space);
                }
            }
        }
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
    is_of_buffer && [kind::DRAM, kind::L1, kind::L1_SMALL, kind::TRACE].contains(&event.kind)
}

fn chips(allocator: &Allocator, is_mock: bool) -> Vec<Chip> {
    let word = if is_mock { "simulated chip" } else { "chip" };
    let chip = |number: u64, unique: Option<u64>| Chip { id: unique.unwrap_or(number), number, name: format!("{word} {number}") };
    let of = |chip_: &ttmon_ledger_reader::Chip| {
        let number = chip_.metal_id.map_or(u64::from(allocator.given_id), u64::from);
        chip(number, chip_.unique_id)
    };
    let chips: Vec<Chip> = allocator.chips.iter().map(of).collect();
    if chips.is_empty() { vec![chip(allocator.given_id.into(), None)] } else { chips }
}
