//! The figures: allocators and their rows, all of the same time.
//!
//! They are read between two reads of `seq`. If both are equal and even, no event changed the figures meanwhile.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use ttmon_ledger::layout::{KINDS, allocator, header, row, status};
use ttmon_model::ledger::{Exactness, Ledger};

use super::bytes::{position, u64_at};
use super::clock::Converter;
use super::header::{Counters, ENVIRONMENT, is_mock, visible_devices};
use super::numbers::{kind_number, row_index};
use super::rows::{self, RowRecord};
use super::{ReadError, Region, coverage};

/// Number of immediate attempts, and of attempts with pauses, before the entries are counted instead.
const TRIES_QUICK: u32 = 8;
const TRIES_PAUSED: u32 = 8;
const PAUSE: Duration = Duration::from_micros(50);

/// The changing part of a ledger.
pub(super) struct Figures {
    /// Whether all figures are of the same time.
    pub(super) is_exact: bool,
    /// Whether an event stayed incomplete during all attempts: its writer is dead or stopped.
    pub(super) is_stalled: bool,
    pub(super) converter: Converter,
    pub(super) counters: Counters,
    /// All rows by number, in use or not.
    pub(super) rows: Vec<RowRecord>,
    /// The figures, without buffers.
    pub(super) ledger: Ledger,
}

impl Figures {
    /// Sets the figures of each row at the last mark. Called after the rows are final.
    pub(super) fn settle_marks(&mut self) {
        let mark = self.counters.mark_event;
        let is_half_done = !self.is_exact && mark == self.ledger.events + 1;
        for allocator in &mut self.ledger.allocators {
            for row in &mut allocator.rows {
                let record = &self.rows[row_index(allocator.slot, kind_number(row.kind))];
                record.settle_mark(row, mark, is_half_done);
            }
        }
    }
}

/// Reads the figures, all of the same time if that succeeds within a few attempts.
pub(super) fn read(region: &Region, converter: Converter) -> Result<Figures, ReadError> {
    let mut raw = RAW.take();
    let figures = read_with(&mut raw, region, converter);
    RAW.set(raw);
    figures
}

thread_local! {
    /// Reused memory for the copies. Hundreds of ledgers may be read in sequence every second.
    static RAW: Cell<Raw> = Cell::default();
}

fn read_with(raw: &mut Raw, region: &Region, converter: Converter) -> Result<Figures, ReadError> {
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
        self.header.resize(position(Counters::END - ENVIRONMENT), 0);
        region.source.read(&mut self.header, ENVIRONMENT)?;
        let counters = Counters::decode(&self.header, ENVIRONMENT, tables);
        let used = counters.allocators_used;
        region.source.records(tables.allocators, used, &mut self.allocators)?;
        region.source.records(tables.rows, used * KINDS, &mut self.rows)?;
        region.source.records(tables.shared, counters.shared_used, &mut self.shared)?;
        Ok(counters)
    }

    fn decode(&self, region: &Region, converter: Converter, counters: Counters, found: Settled) -> Result<Figures, ReadError> {
        let tables = &region.header.tables;
        let row_bytes = tables.rows.stride as usize;
        let mut allocators = Vec::new();
        let mut rows = Vec::with_capacity(self.rows.len() / row_bytes);
        let of_each = self.rows.chunks_exact(row_bytes * KINDS as usize);
        for ((slot, record), eight) in (0..).zip(self.allocators.chunks_exact(tables.allocators.stride as usize)).zip(of_each) {
            let mut read = rows::allocator(slot, record, &converter);
            let generation = u64_at(record, allocator::STATE) >> 8;
            for (kind, bytes) in (0..).zip(eight.chunks_exact(row_bytes)) {
                // One generation ahead: the allocator is being opened again.
                let in_use = [generation, generation.wrapping_add(1)].map(|generation| generation << 8 | u64::from(row::IN_USE));
                let is_used = read.is_some() && in_use.contains(&u64_at(bytes, row::STATE));
                rows.push(RowRecord::decode(bytes, is_used));
                if let Some(read) = read.as_mut().filter(|_| is_used) {
                    let row = rows::ledger_row(kind, bytes, read, &converter);
                    read.rows.push(row);
                }
            }
            allocators.extend(read);
        }
        let field = |offset: u64| u64_at(&self.header, offset - ENVIRONMENT);
        let is_exact = found == Settled::Exact;
        let shared = self.shared.chunks_exact(tables.shared.stride as usize);
        let ledger = Ledger {
            is_exact: field(header::STATUS) & status::INEXACT == 0,
            exactness: if is_exact { Exactness::Exact } else { Exactness::Recounted },
            is_mock: is_mock(&self.header),
            visible_devices: visible_devices(&self.header),
            events: counters.seq / 2,
            last_time: converter.unix(field(header::LAST_TIME)),
            lost: std::array::from_fn(|reason| field(header::LOST + reason as u64 * 8)),
            cost: (field(header::COST_SAMPLES), field(header::COST_NS)),
            allocators,
            shared: shared.filter_map(|record| rows::shared_chip(record, &converter)).collect(),
            has_circulars: counters.circulars_used == 0,
            launches: coverage::launches(region, counters.launches_used, &converter)?,
            coverage: coverage::features(region, counters.coverage_used)?,
            ..Ledger::empty(region.header.identity.writer)
        };
        let mut figures = Figures { is_exact, is_stalled: found == Settled::Stalled, converter, counters, rows, ledger };
        if figures.is_exact {
            figures.settle_marks();
        }
        Ok(figures)
    }
}
