//! The figures: allocators and their rows, all of one moment.
//!
//! They are read between two looks at `seq`. Equal and even means that no event touched them meanwhile.

use std::thread;
use std::time::Duration;

use super::bytes::{position, u16_at, u32_at, u64_at};
use super::clock::Converter;
use super::header::Counters;
use super::peak::Span;
use super::{Exactness, Refusal, Region};
use crate::layout::{KINDS, LOST_KINDS, Table, allocator, row};

/// The figures of a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Totals {
    /// How far they may be believed.
    pub exactness: Exactness,
    /// Events completed: the number of the last one.
    pub events: u64,
    /// Live buffers of all rows.
    pub live_entries: u64,
    /// Their bytes.
    pub live_bytes: u64,
    /// Bits of [`layout::status`](crate::layout::status).
    pub status: u64,
    /// Lost events by [`layout::Lost`](crate::layout::Lost).
    pub lost: [u64; LOST_KINDS],
    /// How often the writer repaired the ledger after a thread died in the middle of an event.
    pub repairs: u64,
    /// When the last event was, in nanoseconds since 1970; 0 is never.
    pub last_time: u64,
    /// Every allocator there was and whose slot was not taken again, closed ones included.
    pub allocators: Vec<Allocator>,
}

/// What hands out memory on one or several chips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocator {
    /// Its number in entries and events.
    pub slot: u16,
    /// How often the slot was taken.
    pub generation: u32,
    /// Whether it still is.
    pub is_open: bool,
    /// The id that the program gave.
    pub given_id: u32,
    /// 1 client, 2 hook, 3 socket.
    pub origin: u32,
    /// Rows and columns of a mesh.
    pub mesh: Option<(u16, u16)>,
    /// Its chips.
    pub chips: Vec<Chip>,
    /// When it was opened, in nanoseconds since 1970.
    pub opened: u64,
    /// When it was closed.
    pub closed: Option<u64>,
    /// Its kinds of memory that were ever used.
    pub rows: Vec<Row>,
}

/// A chip as the program knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chip {
    /// TT-Metal's number.
    pub metal_id: Option<u32>,
    /// The chip's own.
    pub unique_id: Option<u64>,
    /// Flags of the writer.
    pub flags: u32,
}

/// How a kind of memory is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Banks a buffer is spread over.
    pub banks: u32,
    /// Blocks are multiples of it.
    pub alignment: u32,
    /// Bytes of one bank.
    pub bank_bytes: u64,
    /// Where it begins.
    pub base: u64,
}

/// The figures of one kind of memory of one allocator. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Which kind of memory.
    pub kind: u8,
    /// How it is laid out, where the writer knows.
    pub geometry: Option<Geometry>,
    /// Live bytes, as asked for.
    pub used: u64,
    /// Live bytes, as taken: blocks x banks.
    pub allocated: u64,
    /// Live buffers.
    pub count: u64,
    /// Most live bytes there were.
    pub peak: u64,
    /// When.
    pub peak_time: u64,
    /// By which event.
    pub peak_event: u64,
    /// Most allocated bytes there were.
    pub peak_allocated: u64,
    /// When.
    pub peak_allocated_time: u64,
    /// Allocations so far.
    pub allocs: u64,
    /// Frees so far.
    pub frees: u64,
    /// Allocations that the program was refused.
    pub failed: u64,
    /// Live buffers that the ledger has no room to list; they are in the figures above.
    pub unlisted_count: u64,
    /// Their bytes.
    pub unlisted_bytes: u64,
    /// Their allocated bytes.
    pub unlisted_allocated: u64,
    /// Entries from up to this event are dead.
    pub(super) epoch: u64,
    /// Count and bytes at the peak that the ledger had no room to list, and that it had no room to keep.
    pub(super) peak_unlisted: (u64, u64),
    pub(super) peak_lost: (u64, u64),
}

/// Tries at once, and then with pauses, before the entries are counted.
const TRIES_QUICK: u32 = 8;
const TRIES_PAUSED: u32 = 8;
const PAUSE: Duration = Duration::from_micros(50);

/// What was read of the moving part of a ledger.
pub(super) struct Frame {
    /// Whether all of it is of one moment.
    pub(super) is_exact: bool,
    /// Whether an event stayed half done while we tried: its writer is dead, or stopped.
    pub(super) is_stalled: bool,
    pub(super) counters: Counters,
    /// Every row there is, by number, in use or not.
    pub(super) rows: Vec<RowRecord>,
    pub(super) allocators: Vec<Allocator>,
    pub(super) last_time: u64,
}

/// A row as the list needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowRecord {
    pub(super) is_used: bool,
    pub(super) epoch: u64,
    pub(super) peak_span: Span,
    /// Count and bytes of the entries of the peak that are live; the list counts them.
    pub(super) peak_live: (u64, u64),
}

impl Frame {
    /// Events completed.
    pub(super) fn events(&self) -> u64 {
        self.counters.seq / 2
    }

    pub(super) fn into_totals(self, exactness: Exactness) -> Totals {
        Totals {
            exactness,
            events: self.events(),
            live_entries: self.counters.live_entries,
            live_bytes: self.counters.live_bytes,
            status: self.counters.status,
            lost: self.counters.lost,
            repairs: self.counters.repairs,
            last_time: self.last_time,
            allocators: self.allocators,
        }
    }
}

/// Reads the figures, of one moment if that can be had within a few tries.
pub(super) fn frame(region: &Region) -> Result<Frame, Refusal> {
    let mut raw = Raw::default();
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
            return Ok(raw.decode(region, counters, Found::Exact));
        }
        before = after;
    }
    let counters = raw.read(region)?;
    let found = if !moved && counters.seq == first { Found::Stalled } else { Found::Moving };
    Ok(raw.decode(region, counters, found))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Exact,
    Stalled,
    Moving,
}

/// Bytes of the allocators in use and of their rows.
#[derive(Default)]
struct Raw {
    scratch: Vec<u8>,
    allocators: Vec<u8>,
    rows: Vec<u8>,
}

impl Raw {
    fn read(&mut self, region: &Region) -> Result<Counters, Refusal> {
        let tables = &region.header.tables;
        let counters = Counters::read(&region.source, tables)?;
        let used = counters.allocators_used;
        let mut copy = |table: Table, count: u32, into: &mut Vec<u8>| {
            into.clear();
            region.source.chunks(table, 0, count, &mut self.scratch, |_, chunk| into.extend_from_slice(chunk))
        };
        copy(tables.allocators, used, &mut self.allocators)?;
        copy(tables.rows, used * KINDS, &mut self.rows)?;
        Ok(counters)
    }

    fn decode(&self, region: &Region, counters: Counters, found: Found) -> Frame {
        let tables = &region.header.tables;
        let converter = region.header.creation.converter();
        let row_bytes = tables.rows.stride as usize;
        let mut allocators = Vec::new();
        let mut rows = Vec::with_capacity(self.rows.len() / row_bytes);
        let of_each = self.rows.chunks_exact(row_bytes * KINDS as usize);
        for ((slot, record), eight) in (0..).zip(self.allocators.chunks_exact(tables.allocators.stride as usize)).zip(of_each) {
            let mut read = Allocator::decode(slot, record, &converter);
            let generation = u64_at(record, allocator::STATE) >> 8;
            for (kind, bytes) in (0..).zip(eight.chunks_exact(row_bytes)) {
                // One generation ahead: its allocator is being opened again.
                let in_use = [generation, generation.wrapping_add(1)].map(|generation| generation << 8 | u64::from(row::IN_USE));
                let is_used = read.is_some() && in_use.contains(&u64_at(bytes, row::STATE));
                rows.push(RowRecord::decode(bytes, is_used));
                if let Some(read) = read.as_mut().filter(|_| is_used) {
                    read.rows.push(Row::decode(kind, bytes, record, &converter));
                }
            }
            allocators.extend(read);
        }
        Frame {
            is_exact: found == Found::Exact,
            is_stalled: found == Found::Stalled,
            last_time: converter.unix_ns(counters.last_time),
            counters,
            rows,
            allocators,
        }
    }
}

impl Allocator {
    fn decode(slot: u16, record: &[u8], converter: &Converter) -> Option<Self> {
        let state = u64_at(record, allocator::STATE);
        let is_open = match state.to_le_bytes()[0] {
            allocator::OPEN => true,
            allocator::SHUT => false,
            _ => return None,
        };
        let mesh = (u16_at(record, allocator::MESH_ROWS), u16_at(record, allocator::MESH_COLUMNS));
        let chips = u32_at(record, allocator::CHIPS).min(allocator::CHIPS_MAX);
        Some(Self {
            slot,
            generation: u32::try_from(state >> 8).unwrap_or(u32::MAX),
            is_open,
            given_id: u32_at(record, allocator::GIVEN_ID),
            origin: u32_at(record, allocator::ORIGIN),
            mesh: Some(mesh).filter(|&(rows, columns)| rows != 0 && columns != 0),
            chips: (0..chips).map(|chip| Chip::decode(record, chip)).collect(),
            opened: converter.unix_ns(u64_at(record, allocator::OPENED)),
            closed: (!is_open).then(|| converter.unix_ns(u64_at(record, allocator::CLOSED))),
            rows: Vec::new(),
        })
    }
}

impl Chip {
    fn decode(record: &[u8], chip: u32) -> Self {
        let at = allocator::CHIP_LIST + allocator::CHIP_BYTES * u64::from(chip);
        Self {
            metal_id: Some(u32_at(record, at)).filter(|&id| id != allocator::METAL_ID_UNKNOWN),
            unique_id: Some(u64_at(record, at + 8)).filter(|&id| id != 0),
            flags: u32_at(record, at + 4),
        }
    }
}

impl Geometry {
    /// Kinds that an allocator describes; host memory and other have no banks.
    const KINDS: u8 = 6;

    fn decode(record: &[u8], kind: u8) -> Option<Self> {
        let at = allocator::KINDS + allocator::KIND_BYTES * u64::from(kind);
        let geometry = Self {
            banks: u32_at(record, at),
            alignment: u32_at(record, at + 4),
            bank_bytes: u64_at(record, at + 8),
            base: u64_at(record, at + 16),
        };
        let is_known = geometry != Self { banks: 0, alignment: 0, bank_bytes: 0, base: 0 };
        (kind < Self::KINDS && is_known).then_some(geometry)
    }
}

impl Row {
    fn decode(kind: u8, bytes: &[u8], allocator: &[u8], converter: &Converter) -> Self {
        let field = |offset| u64_at(bytes, offset);
        Self {
            kind,
            geometry: Geometry::decode(allocator, kind),
            used: field(row::LIVE_BYTES),
            allocated: field(row::ALLOCATED_BYTES),
            count: field(row::LIVE_COUNT),
            peak: field(row::PEAK),
            peak_time: converter.unix_ns(field(row::PEAK_TIME)),
            peak_event: field(row::PEAK_EVENT),
            peak_allocated: field(row::PEAK_ALLOCATED),
            peak_allocated_time: converter.unix_ns(field(row::PEAK_ALLOCATED_TIME)),
            allocs: field(row::ALLOCS),
            frees: field(row::FREES),
            failed: field(row::FAILED),
            unlisted_count: field(row::UNLISTED_COUNT),
            unlisted_bytes: field(row::UNLISTED_BYTES),
            unlisted_allocated: field(row::UNLISTED_ALLOCATED),
            epoch: field(row::EPOCH),
            peak_unlisted: (field(row::PEAK_UNLISTED_COUNT), field(row::PEAK_UNLISTED_BYTES)),
            peak_lost: (field(row::PEAK_LOST_COUNT), field(row::PEAK_LOST_BYTES)),
        }
    }
}

impl RowRecord {
    fn decode(bytes: &[u8], is_used: bool) -> Self {
        Self {
            is_used,
            epoch: u64_at(bytes, row::EPOCH),
            peak_span: Span { epoch: u64_at(bytes, row::PEAK_EPOCH), event: u64_at(bytes, row::PEAK_EVENT) },
            peak_live: (0, 0),
        }
    }
}

/// Number of a row.
pub(super) fn row_index(allocator: u16, kind: u8) -> usize {
    position(u64::from(allocator) * u64::from(KINDS) + u64::from(kind))
}
