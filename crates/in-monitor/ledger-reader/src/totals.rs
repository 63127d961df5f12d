//! The figures: allocators and their rows, all of the same time.
//!
//! They are read between two reads of `seq`. If both are equal and even, no event changed the figures meanwhile.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use super::bytes::{position, u64_at};
use super::clock::Converter;
use super::coverage::{self, Feature, Launches};
use super::environment::Environment;
use super::header::Counters;
use super::rows::{Allocator, Row, RowRecord};
use super::shared::SharedChip;
use super::{Exactness, ReadError, Region};
use ttmon_ledger::layout::{KINDS, LOST_KINDS, allocator, header, row};

/// The figures of a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// How exact the figures are.
    pub exactness: Exactness,
    /// Number of completed events.
    pub events: u64,
    /// Live buffers of all rows.
    pub live_entries: u64,
    /// Bytes of the live buffers.
    pub live_bytes: u64,
    /// Bits of [`layout::status`](ttmon_ledger::layout::status).
    pub status: u64,
    /// Lost events by [`layout::Lost`](ttmon_ledger::layout::Lost).
    pub lost: [u64; LOST_KINDS],
    /// How often the writer repaired the ledger after a thread died in the middle of an event.
    pub repairs: u64,
    /// Time of the last event, in nanoseconds since 1970; 0 for none.
    pub last_time: u64,
    /// The devices that the program sees.
    pub environment: Environment,
    /// All allocators, including closed ones whose slot was not reused.
    pub allocators: Vec<Allocator>,
    /// Chips that several allocators shared at the same time.
    pub shared: Vec<SharedChip>,
    /// Features of the hook, by number.
    pub coverage: Vec<Feature>,
    /// Launched programs, by chip.
    pub launches: Vec<Launches>,
    /// Total number of failed allocations.
    pub failures: u64,
    /// Count and bytes that were live at free-alls of allocators whose slot was reused since.
    pub left_forgotten: (u64, u64),
    /// The last mark of the program.
    pub mark: Option<Mark>,
    /// Number of circular buffer records that were ever used.
    pub circulars_used: u32,
    /// Cost of recording for the program: number of measured calls, and their total nanoseconds.
    pub cost: (u64, u64),
    /// Number of stacks, and of allocations whose stack did not fit.
    pub stacks: (u32, u64),
}

/// A mark set by the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Number of its event.
    pub event: u64,
    /// Time in nanoseconds since 1970.
    pub time: u64,
}

/// Number of immediate attempts, and of attempts with pauses, before the entries are counted instead.
const TRIES_QUICK: u32 = 8;
const TRIES_PAUSED: u32 = 8;
const PAUSE: Duration = Duration::from_micros(50);

/// The changing part of a ledger.
pub(super) struct Frame {
    /// Whether all figures are of the same time.
    pub(super) is_exact: bool,
    /// Whether an event stayed incomplete during all attempts: its writer is dead or stopped.
    pub(super) is_stalled: bool,
    pub(super) converter: Converter,
    pub(super) counters: Counters,
    /// All rows by number, in use or not.
    pub(super) rows: Vec<RowRecord>,
    pub(super) totals: Totals,
}

impl Frame {
    /// Sets the figures of each row at the last mark. Called after the rows are final.
    pub(super) fn settle_marks(&mut self) {
        let mark = self.counters.mark_event;
        let is_half_done = !self.is_exact && mark == self.totals.events + 1;
        for row in self.totals.allocators.iter_mut().flat_map(|allocator| &mut allocator.rows) {
            row.settle_mark(mark, is_half_done);
        }
    }
}

/// Reads the figures, all of the same time if that succeeds within a few attempts.
pub(super) fn frame(region: &Region, converter: Converter) -> Result<Frame, ReadError> {
    let mut raw = RAW.take();
    let frame = frame_by(&mut raw, region, converter);
    RAW.set(raw);
    frame
}

thread_local! {
    /// Reused memory for the copies. Hundreds of ledgers may be read in sequence every second.
    static RAW: Cell<Raw> = Cell::default();
}

fn frame_by(raw: &mut Raw, region: &Region, converter: Converter) -> Result<Frame, ReadError> {
    let mut before = region.source.seq()?;
    let first = before;
    let mut moved = false;
    for tries in 0..TRIES_QUICK + TRIES_PAUSED {
        if tries >= TRIES_QUICK {
            thread::sleep(PAUSE);
            before = region.source.seq()?;
        }
        let counters = raw.read(region)?;
        let after = region.source.seq()?;
        moved |= after != first;
        if before == after && counters.seq == before && before.is_multiple_of(2) {
            return raw.decode(region, converter, counters, Settled::Exact);
        }
        before = after;
    }
    let counters = raw.read(region)?;
    let found = if !moved && counters.seq == first { Settled::Stalled } else { Settled::Moving };
    raw.decode(region, converter, counters, found)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Settled {
    Exact,
    Stalled,
    Moving,
}

/// Bytes of the header, of the allocators in use, and of their rows.
#[derive(Default)]
struct Raw {
    header: Vec<u8>,
    allocators: Vec<u8>,
    rows: Vec<u8>,
    shared: Vec<u8>,
}

impl Raw {
    fn read(&mut self, region: &Region) -> Result<Counters, ReadError> {
        let tables = &region.header.tables;
        self.header.resize(position(Counters::END - Environment::AT), 0);
        region.source.read(&mut self.header, Environment::AT)?;
        let counters = Counters::decode(&self.header, Environment::AT, tables);
        let used = counters.allocators_used;
        region.source.records(tables.allocators, used, &mut self.allocators)?;
        region.source.records(tables.rows, used * KINDS, &mut self.rows)?;
        region.source.records(tables.shared, counters.shared_used, &mut self.shared)?;
        Ok(counters)
    }

    fn decode(&self, region: &Region, converter: Converter, counters: Counters, found: Settled) -> Result<Frame, ReadError> {
        let tables = &region.header.tables;
        let row_bytes = tables.rows.stride as usize;
        let mut allocators = Vec::new();
        let mut rows = Vec::with_capacity(self.rows.len() / row_bytes);
        let of_each = self.rows.chunks_exact(row_bytes * KINDS as usize);
        for ((slot, record), eight) in (0..).zip(self.allocators.chunks_exact(tables.allocators.stride as usize)).zip(of_each) {
            let mut read = Allocator::decode(slot, record, &converter);
            let generation = u64_at(record, allocator::STATE) >> 8;
            for (kind, bytes) in (0..).zip(eight.chunks_exact(row_bytes)) {
                // One generation ahead: the allocator is being opened again.
                let in_use = [generation, generation.wrapping_add(1)].map(|generation| generation << 8 | u64::from(row::IN_USE));
                let is_used = read.is_some() && in_use.contains(&u64_at(bytes, row::STATE));
                rows.push(RowRecord::decode(bytes, is_used));
                if let Some(read) = read.as_mut().filter(|_| is_used) {
                    read.rows.push(Row::decode(kind, bytes, record, &converter));
                }
            }
            allocators.extend(read);
        }
        let field = |offset: u64| u64_at(&self.header, offset - Environment::AT);
        let is_exact = found == Settled::Exact;
        let shared = self.shared.chunks_exact(tables.shared.stride as usize);
        let totals = Totals {
            exactness: if is_exact { Exactness::Exact } else { Exactness::Recounted },
            events: counters.seq / 2,
            live_entries: counters.live_entries,
            live_bytes: field(header::LIVE_BYTES),
            status: field(header::STATUS),
            lost: std::array::from_fn(|reason| field(header::LOST + reason as u64 * 8)),
            repairs: field(header::REPAIRS),
            last_time: converter.unix_ns(field(header::LAST_TIME)),
            environment: Environment::decode(&self.header),
            allocators,
            shared: shared.filter_map(|record| SharedChip::decode(record, &converter)).collect(),
            coverage: coverage::features(region, counters.coverage_used)?,
            launches: coverage::launches(region, counters.launches_used, &converter)?,
            failures: counters.failures,
            left_forgotten: (field(header::LEFT_FORGOTTEN_COUNT), field(header::LEFT_FORGOTTEN_BYTES)),
            mark: Some(counters.mark_event)
                .filter(|event| *event != 0)
                .map(|event| Mark { event, time: converter.unix_ns(field(header::MARK_TIME)) }),
            circulars_used: counters.circulars_used,
            cost: (field(header::COST_SAMPLES), field(header::COST_NS)),
            stacks: (counters.stacks_used, counters.stacks_refused),
        };
        let mut frame = Frame { is_exact, is_stalled: found == Settled::Stalled, converter, counters, rows, totals };
        if frame.is_exact {
            frame.settle_marks();
        }
        Ok(frame)
    }
}
