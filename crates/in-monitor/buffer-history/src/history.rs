//! Applies the events of a ledger one after another. The result is the live buffers at each refusal, the largest free blocks of the banks,
//! phases and traces.
//!
//! If the history is updated while the program runs, it is complete as long as no event is overwritten before it is read. If it is read
//! afterwards, it begins with the oldest event in the recorder.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ttmon_ledger_reader::{Event, EventCursor, Lines, NewEvents, Op, ReadError, Region, Tags};
use ttmon_model::event::Refusal;
use ttmon_model::groups::changes;
use ttmon_model::ledger::{BufferKind, Ledger, LedgerRefusal};
use ttmon_model::phase::{PHASE_KINDS, Phase, PhaseBytes, Point, Tightest, UnsafeTrace};
use ttmon_model::room::largest_free;
use ttmon_model::stack::SourceLine;

use crate::live::{Change, LiveBuffer, LiveSet, RowKey};
use crate::phases::Phases;
use crate::room::{add_room, geometry};
use crate::traces::Traces;

/// Maximum number of buffers that are sorted to find the largest free blocks, over all points. Later points are skipped.
const SORTED_MAX: usize = 64 << 20;

/// The result of applying the events of one ledger.
#[derive(Debug, Default)]
pub struct History {
    cursor: EventCursor,
    missed: u64,
    live: LiveSet,
    used: PhaseBytes,
    /// The refused requests by event, with the buffers that prevented them.
    refused: BTreeMap<u64, Refusal>,
    tightest: HashMap<RowKey, Option<Tightest>>,
    phases: Phases,
    traces: Traces,
    since_mark: Option<SinceMark>,
    sorted: usize,
}

/// Changes since the last mark, by stack.
#[derive(Debug, Default)]
struct SinceMark {
    bytes: HashMap<u32, i64>,
    /// The buffers that were live at the last free-all of each row. They count as freed while the allocator is open, or after another one.
    torn_down: HashMap<RowKey, HashMap<u32, i64>>,
}

impl SinceMark {
    fn add(&mut self, (_, kind): RowKey, stack: u32, bytes: i64) {
        if kind.is_banked() {
            let sum = self.bytes.entry(stack).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }

    fn tear_down(&mut self, row: RowKey, buffers: &HashMap<u64, LiveBuffer>) {
        let mut found: HashMap<u32, i64> = HashMap::new();
        for buffer in buffers.values() {
            let sum = found.entry(buffer.stack).or_default();
            *sum = sum.saturating_sub(signed(buffer.size));
        }
        for (stack, bytes) in self.torn_down.insert(row, found).into_iter().flatten() {
            self.add(row, stack, bytes);
        }
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Returns the index of a kind that phases count.
fn phase_kind((_, kind): RowKey) -> Option<usize> {
    PHASE_KINDS.iter().position(|phase_kind| kind == BufferKind::Of(*phase_kind))
}

fn add_used(used: &mut PhaseBytes, row: RowKey, bytes: i64) {
    if let Some(at) = phase_kind(row) {
        used[at] = used[at].saturating_add_signed(bytes);
    }
}

/// The additional data that new events need.
#[derive(Debug, Default)]
struct Ground {
    ledger: Option<Ledger>,
    refusals: Vec<LedgerRefusal>,
    lines: Arc<Lines>,
}

impl Ground {
    fn read(region: &Region, cursor: &mut EventCursor, new: &NewEvents) -> Result<Self, ReadError> {
        if !new.events.iter().any(|event| matches!(event.op, Op::Failed | Op::Mark | Op::PhaseEnd)) {
            return Ok(Self::default());
        }
        let refusals = cursor.refusals(region, new);
        let lines = if refusals.is_empty() { Arc::default() } else { cursor.lines(region) };
        Ok(Self { ledger: Some(region.figures()?), refusals, lines })
    }
}

impl History {
    /// Returns the history of the events that are still in the recorder.
    pub fn of(region: &Region) -> Result<Self, ReadError> {
        let mut history = Self::default();
        history.follow(region)?;
        Ok(history)
    }

    /// Applies the events since the last call.
    pub fn follow(&mut self, region: &Region) -> Result<(), ReadError> {
        let mut cursor = self.cursor.clone();
        let mut new = cursor.read(region, |_| false, usize::MAX)?;
        if new.overrun > 0 {
            let listing = region.live_events()?;
            cursor = self.cursor.clone();
            new = cursor.read(region, |_| false, usize::MAX)?;
            self.missed = self.missed.saturating_add(new.overrun);
            self.restart(LiveSet::before(&listing, &new));
        }
        let ground = Ground::read(region, &mut cursor, &new)?;
        for event in &new.events {
            self.apply(event, &ground, &new.tags);
        }
        self.cursor = cursor;
        Ok(())
    }

    /// Returns the number of the last applied event.
    pub fn seen(&self) -> u64 {
        self.cursor.seen()
    }

    /// Returns the number of events that were overwritten before they were read.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Adds the buffers that prevented the request that was refused at this event. They are unknown if the event was overwritten.
    pub fn complete(&self, event: u64, refusal: Refusal) -> Refusal {
        match self.refused.get(&event) {
            Some(known) => Refusal { bank_bytes: known.bank_bytes, window: known.window.clone(), l1_small: known.l1_small, ..refusal },
            None => Refusal { is_overrun: true, ..refusal },
        }
    }

    /// Returns the smallest value of the largest free block of a row (slot of its allocator, kind), over the points that are events.
    pub fn tightest(&self, slot: u16, kind: BufferKind) -> Option<&Tightest> {
        self.tightest.get(&(slot, kind))?.as_ref()
    }

    /// Returns the program's phases, in the order of their first start.
    pub fn phases(&self, lines: &Lines) -> Vec<Phase> {
        self.phases.report(lines)
    }

    /// Returns the traces that overwrite buffers.
    pub fn unsafe_traces(&self, lines: &Lines) -> Vec<UnsafeTrace> {
        self.traces.report(lines)
    }

    /// Returns the change of the bytes since the last mark by line, highest first. For a closed allocator, the state just before the close
    /// counts. Returns `None` without a mark, or if events since the mark were overwritten.
    pub fn growth_by_line(&self, lines: &Lines, is_open: impl Fn(u16) -> bool) -> Option<Vec<(Option<Arc<SourceLine>>, i64)>> {
        let since = self.since_mark.as_ref()?;
        let freed = since.torn_down.iter().filter(|((slot, kind), _)| is_open(*slot) && kind.is_banked());
        let freed = freed.flat_map(|(_, stacks)| stacks);
        let mut sums = changes(since.bytes.iter().chain(freed).map(|(stack, bytes)| (lines.line(*stack).cloned(), *bytes)));
        sums.retain(|(_, bytes)| *bytes != 0);
        Some(sums)
    }

    fn restart(&mut self, live: LiveSet) {
        self.since_mark = None;
        self.live = live;
        self.used = [0; 2];
        for (row, buffer) in self.live.all() {
            add_used(&mut self.used, row, signed(buffer.size));
        }
        self.phases.interrupt();
        self.traces.interrupt();
    }

    fn apply(&mut self, event: &Event, ground: &Ground, tags: &Tags) {
        let row = (event.allocator, event.kind);
        match self.live.apply(event) {
            Some(Change::Added(buffer)) => {
                self.change(row, buffer.stack, signed(buffer.size));
                self.phases.added(&buffer, self.used);
                self.traces.added(row, &buffer);
            }
            Some(Change::Removed(buffer)) => {
                self.change(row, buffer.stack, -signed(buffer.size));
                self.phases.removed(&buffer);
                self.traces.removed(&buffer);
            }
            Some(Change::Cleared(buffers)) => {
                if let Some(since) = &mut self.since_mark {
                    since.tear_down(row, &buffers);
                }
                for buffer in buffers.values() {
                    add_used(&mut self.used, row, -signed(buffer.size));
                    self.phases.torn_down(buffer);
                    self.traces.removed(buffer);
                }
            }
            None => self.note(event, ground, tags),
        }
    }

    /// Records that the live bytes of a row changed by an allocation or a free.
    fn change(&mut self, row: RowKey, stack: u32, bytes: i64) {
        add_used(&mut self.used, row, bytes);
        if let Some(since) = &mut self.since_mark {
            since.add(row, stack, bytes);
        }
    }

    /// Applies an event that changes no buffers.
    fn note(&mut self, event: &Event, ground: &Ground, tags: &Tags) {
        let name = tags.get(event.tag).map_or("", |tag| tag.as_str());
        match event.op {
            Op::Failed => self.refused(event, ground),
            Op::Mark => {
                self.since_mark = Some(SinceMark::default());
                self.compare(event.time, ground, &Point::Mark);
            }
            Op::PhaseBegin => self.phases.begin(name, event.time, self.used, event.size),
            Op::PhaseEnd => {
                let largest = self.compare(event.time, ground, &Point::Phase(name.to_owned()));
                self.phases.end(name, event.time, self.used, event.size, largest);
            }
            Op::TraceBegin => self.traces.begin(event.allocator, event.address),
            Op::TraceEnd => self.traces.end(event.allocator, event.address, event.number),
            Op::TraceReplay => self.traces.replay(event.allocator, event.address, event.number),
            Op::TraceRelease => self.traces.release(event.allocator, event.address),
            _ => {}
        }
    }

    fn refused(&mut self, event: &Event, ground: &Ground) {
        let Some(refused) = ground.refusals.iter().find(|refused| refused.event == event.number) else { return };
        let Some(ledger) = &ground.ledger else { return };
        let mut refused = refused.clone();
        add_room(&mut refused, &self.live, ledger, &ground.lines);
        let refusal = refused.refusal;
        if refusal.per_bank > 0 {
            let known = self.tightest.entry((refused.slot, refusal.kind)).or_default();
            Tightest::note(known, refusal.largest_free_per_bank, refused.time.0, Point::Refusal);
        }
        self.refused.insert(event.number, refusal);
    }

    /// Compares the largest free blocks of all rows. Returns the smallest by [`PHASE_KINDS`].
    fn compare(&mut self, time: u64, ground: &Ground, at: &Point) -> [Option<u64>; 2] {
        let mut least = [None; 2];
        let Some(ledger) = &ground.ledger else { return least };
        let open = ledger.allocators.iter().filter(|allocator| allocator.closed.is_none_or(|closed| closed.0 >= time));
        let rows = open.flat_map(|allocator| allocator.rows.iter().map(|row| (allocator.slot, row.kind)));
        for row in rows {
            let Some(at_kind) = phase_kind(row) else { continue };
            self.sorted = self.sorted.saturating_add(self.live.count(row));
            if self.sorted > SORTED_MAX {
                break;
            }
            let Some(geometry) = geometry(ledger, row, None) else { continue };
            let buffers = self.live.row(row).map(|buffers| buffers.map(|(address, buffer)| (address, u64::from(buffer.per_bank))));
            let Some(bytes) = buffers.and_then(|buffers| largest_free(buffers, geometry)) else { continue };
            Tightest::note(self.tightest.entry(row).or_default(), bytes, time, at.clone());
            let usage = &mut least[at_kind];
            *usage = Some(usage.map_or(bytes, |least: u64| least.min(bytes)));
        }
        least
    }
}
