//! Opens and closes allocators, and reuses their slots with a new generation.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::layout::{ALLOCATORS, KINDS, Lost, Op, allocator, header, row};

use super::event::{Event, EventBody};
use super::memory::{low, pair};
use super::state::WriterState;
use super::{AllocatorId, AllocatorSpec, Key};

const COUNT: usize = ALLOCATORS.records as usize;
const ROWS_EACH: usize = KINDS as usize;

/// Number of words in `WriterState::figures`, and for each allocator. The words that an event needs come first, in one cache line.
pub(super) const FIGURES: u32 = ALLOCATORS.records * 32;
const FIGURES_EACH: usize = (FIGURES / ALLOCATORS.records) as usize;
/// The generation of the allocator while it is open, otherwise 0.
const OPEN: usize = 0;
/// A bit for each row that is known to be in use, and [`SHARES`].
const IN_USE: usize = 1;
/// The allocator shares chips with another; see `shared`.
const SHARES: u64 = 1 << ROWS_EACH;
/// The number of banks of each row.
const BANKS: usize = 2;
const NAME: usize = BANKS + ROWS_EACH;
/// The event that closed the allocator.
const CLOSED_AT: usize = NAME + 1;
/// The last generation of the slot.
const GENERATION: usize = CLOSED_AT + 1;
/// The number of live buffers of each row, during a repair.
const COUNTED: usize = GENERATION + 1;
/// Not a valid name: no origin is this large.
const NO_NAME: u64 = u64::MAX;

impl WriterState {
    /// Returns the row of a key, if its allocator is open.
    #[inline]
    pub(super) fn row_for(&self, key: Key) -> Option<usize> {
        (u32::from(key.kind) < KINDS && self.is_open(key.allocator)).then(|| key.allocator.row(key.kind))
    }

    #[inline]
    pub(super) fn is_open(&self, id: AllocatorId) -> bool {
        id.generation != 0 && self.figure(id.slot(), OPEN) == u64::from(id.generation)
    }

    #[inline]
    fn figure(&self, slot: usize, which: usize) -> u64 {
        self.figures.at(slot * FIGURES_EACH + which).load(Relaxed)
    }

    fn set_figure(&self, slot: usize, which: usize, value: u64) {
        self.figures.at(slot * FIGURES_EACH + which).store(value, Relaxed);
    }

    /// The cell in which a repair counts the live buffers of a row.
    pub(super) fn counted(&self, row: usize) -> &AtomicU64 {
        self.figures.at(row / ROWS_EACH * FIGURES_EACH + COUNTED + row % ROWS_EACH)
    }

    /// The rows of an allocator that are known to be in use. Without the lock this is only a hint.
    #[inline]
    pub(super) fn rows_known(&self, slot: usize) -> impl Iterator<Item = usize> {
        let kinds = self.figure(slot, IN_USE);
        (0..ROWS_EACH).filter(move |kind| kinds >> kind & 1 != 0).map(move |kind| slot * ROWS_EACH + kind)
    }

    pub(super) fn is_slot_open(&self, slot: usize) -> bool {
        self.figure(slot, OPEN) != 0
    }

    /// Whether the allocator of a row shares chips with another.
    #[inline]
    pub(super) fn shares(&self, row: usize) -> bool {
        self.figure(row / ROWS_EACH, IN_USE) & SHARES != 0
    }

    pub(super) fn note_sharing(&self, slot: usize) {
        self.set_figure(slot, IN_USE, self.figure(slot, IN_USE) | SHARES);
    }

    /// The address of the figures of an allocator, to prefetch them.
    #[inline]
    pub(super) fn figures_of(&self, slot: usize) -> &AtomicU64 {
        self.figures.at(slot * FIGURES_EACH)
    }

    /// Bytes that a buffer occupies: those per bank times the banks, or its size if that is not known.
    #[inline]
    pub(super) fn allocated(&self, row: usize, size: u64, per_bank: u32) -> u64 {
        if per_bank == 0 {
            return size;
        }
        match self.figure(row / ROWS_EACH, BANKS + row % ROWS_EACH) {
            0 => size,
            banks => u64::from(per_bank).wrapping_mul(banks),
        }
    }

    /// Returns the open allocator with this origin and id; any of them if there are several.
    pub(super) fn named(&self, origin: u32, given_id: u32) -> Option<AllocatorId> {
        let name = pair(given_id, origin);
        let used = self.allocators_used();
        // The device id is the first guess, because programs open few devices, in order.
        let guess = given_id as usize % COUNT;
        let is_it = |slot: &usize| self.figure(*slot, NAME) == name && self.figure(*slot, OPEN) != 0;
        let slot = if guess < used && is_it(&guess) { guess } else { (0..used).rev().find(is_it)? };
        AllocatorId::new(slot, low(self.figure(slot, OPEN)))
    }

    pub(super) fn open(&self, time: u64, spec: &AllocatorSpec<'_>) -> Result<AllocatorId, Lost> {
        let used = self.allocators_used();
        if let Some(id) = self.closed_like(spec) {
            self.reopen(time, id);
            return Ok(id);
        }
        let slot = if used < COUNT { Some(used) } else { self.longest_closed() };
        let Some(slot) = slot else {
            self.lose(Lost::NoAllocator);
            return Err(Lost::NoAllocator);
        };
        let generation = low(self.figure(slot, GENERATION)).wrapping_add(1).max(1);
        let Some(id) = AllocatorId::new(slot, generation) else { return Err(Lost::NoAllocator) };

        let event = self.begin(time);
        // If the thread dies here, no name matches the slot.
        self.set_figure(slot, NAME, NO_NAME);
        self.set_figure(slot, IN_USE, 0);
        self.describe(event, id, spec);
        if slot < used {
            self.empty_rows(event, slot);
            // Older events in the ring refer to these rows, but belong to another allocator.
            self.region.header(header::FIRST_VALID_EVENT).store(event.n, Relaxed);
        } else {
            self.region.header(header::ALLOCATORS_USED).store(used as u64 + 1, Release);
        }
        for (kind, geometry) in spec.kinds.iter().enumerate() {
            self.set_figure(slot, BANKS + kind, u64::from(geometry.banks));
        }
        self.begin_sharing(id);
        self.set_figure(slot, NAME, pair(spec.given_id, spec.origin));
        self.set_figure(slot, GENERATION, u64::from(generation));
        self.set_figure(slot, OPEN, u64::from(generation));
        self.end(event, Op::Open, &EventBody { row: slot * ROWS_EACH, ..EventBody::default() });
        Ok(id)
    }

    /// Restores the writer's private figures of allocators from the region of an earlier writer. An allocator with an incomplete record has
    /// no name and is never found.
    pub(super) fn take_over_allocators(&self) {
        for slot in 0..self.allocators_used() {
            let state = self.region.allocator(slot, allocator::STATE).load(Relaxed);
            let generation = state >> 8;
            let is_open = state & 0xFF == u64::from(allocator::OPEN);
            let name = if state & 0xFF == u64::from(allocator::WRITING) {
                NO_NAME
            } else {
                self.region.allocator(slot, allocator::GIVEN_ID).load(Relaxed)
            };
            self.set_figure(slot, NAME, name);
            self.set_figure(slot, GENERATION, generation);
            self.set_figure(slot, OPEN, if is_open { generation } else { 0 });
            for kind in 0..allocator::KINDS_MAX {
                let banks = low(self.region.allocator(slot, allocator::geometry(kind)).load(Relaxed));
                self.set_figure(slot, BANKS + kind, u64::from(banks));
            }
        }
    }

    /// Searches for a closed allocator with the properties of `spec`, such as that of a device that was closed and opened again. Returns
    /// its slot with the next generation.
    fn closed_like(&self, spec: &AllocatorSpec<'_>) -> Option<AllocatorId> {
        let name = pair(spec.given_id, spec.origin);
        (0..self.allocators_used())
            .filter(|slot| self.figure(*slot, NAME) == name && self.figure(*slot, OPEN) == 0)
            .filter_map(|slot| AllocatorId::new(slot, low(self.figure(slot, GENERATION)).wrapping_add(1).max(1)))
            .find(|id| each_word(spec, |field, value| self.region.allocator(id.slot(), field).load(Relaxed) == value))
    }

    /// Opens a closed allocator again. The peaks and counts of its rows continue, because they apply since tracking began.
    fn reopen(&self, time: u64, id: AllocatorId) {
        let event = self.begin(time);
        let slot = id.slot();
        // The rows come first. A reader accepts rows one generation ahead of their allocator, so the peaks stay valid if the thread dies at
        // any point.
        for number in slot * ROWS_EACH..(slot + 1) * ROWS_EACH {
            let row = self.region.row(number);
            if row.get(row::STATE) != 0 {
                row.publish(row::STATE, id.state(row::IN_USE));
            }
        }
        self.region.allocator(slot, allocator::OPENED_AT).store(event.time, Relaxed);
        self.region.allocator(slot, allocator::CLOSED_AT).store(0, Relaxed);
        self.begin_checks(slot);
        self.region.allocator(slot, allocator::STATE).store(id.state(allocator::OPEN), Release);
        self.set_figure(slot, IN_USE, 0);
        self.begin_sharing(id);
        self.set_figure(slot, GENERATION, u64::from(id.generation));
        self.set_figure(slot, OPEN, u64::from(id.generation));
        self.end(event, Op::Open, &EventBody { row: slot * ROWS_EACH, ..EventBody::default() });
    }

    /// Frees the remaining buffers of an allocator, then closes it.
    pub(super) fn close(&self, time: u64, id: AllocatorId) {
        if !self.is_open(id) {
            return;
        }
        self.free_rows(time, id);
        let event = self.begin(time);
        let slot = id.slot();
        self.region.allocator(slot, allocator::CLOSED_AT).store(time, Relaxed);
        self.region.allocator(slot, allocator::STATE).store(id.state(allocator::CLOSED), Release);
        self.set_figure(slot, OPEN, 0);
        self.end_sharing(slot);
        self.set_figure(slot, CLOSED_AT, event.n);
        self.end(event, Op::Close, &EventBody { row: slot * ROWS_EACH, ..EventBody::default() });
    }

    /// Frees all rows of an allocator, with one event for each row in use.
    pub(super) fn free_rows(&self, time: u64, id: AllocatorId) {
        if self.is_open(id) {
            for number in self.rows_in_use(id) {
                self.free_row(time, number);
            }
        }
    }

    /// The rows of an allocator that were ever used.
    pub(super) fn rows_in_use(&self, id: AllocatorId) -> impl Iterator<Item = usize> {
        let rows = id.slot() * ROWS_EACH;
        (rows..rows + ROWS_EACH).filter(move |number| self.region.row(*number).get(row::STATE) == id.state(row::IN_USE))
    }

    /// Initializes a row. Called for the first event of the row, as a part of that event.
    #[inline]
    pub(super) fn use_row(&self, number: usize, id: AllocatorId) {
        let bit = 1 << (number % ROWS_EACH);
        let known = self.figure(id.slot(), IN_USE);
        if known & bit == 0 {
            self.region.row(number).publish(row::STATE, id.state(row::IN_USE));
            self.set_figure(id.slot(), IN_USE, known | bit);
        }
    }

    pub(super) fn allocators_used(&self) -> usize {
        (low(self.region.header(header::ALLOCATORS_USED).load(Relaxed)) as usize).min(COUNT)
    }

    fn longest_closed(&self) -> Option<usize> {
        let closed = (0..COUNT).filter(|slot| self.figure(*slot, OPEN) == 0);
        closed.min_by_key(|slot| self.figure(*slot, CLOSED_AT))
    }

    fn describe(&self, event: Event, id: AllocatorId, spec: &AllocatorSpec<'_>) {
        let word = |field| self.region.allocator(id.slot(), field);
        word(allocator::STATE).store(id.state(allocator::WRITING), Relaxed);
        word(allocator::OPENED_AT).store(event.time, Relaxed);
        word(allocator::CLOSED_AT).store(0, Relaxed);
        for field in [allocator::CHECK, allocator::CHECKS, allocator::DIFFERENCES, allocator::L1_LOWER_END] {
            word(field).store(0, Relaxed);
        }
        each_word(spec, |field, value| {
            word(field).store(value, Relaxed);
            true
        });
        word(allocator::STATE).store(id.state(allocator::OPEN), Release);
    }

    /// Resets the rows of a slot's former allocator. Its entries are dead already and stay dead, because the epoch only grows.
    fn empty_rows(&self, event: Event, slot: usize) {
        for number in slot * ROWS_EACH..(slot + 1) * ROWS_EACH {
            let row = self.region.row(number);
            if row.get(row::STATE) == 0 {
                continue;
            }
            row.publish(row::EPOCH, event.n);
            row.set(row::STATE, 0);
            // Entries of the former allocator do not belong to this one.
            row.set(row::BEGUN, event.n);
            self.forget_left(row);
            let kept = [row::EPOCH, row::STATE, row::BEGUN];
            for field in (row::EPOCH..=row::MARK_EVENT).step_by(8).filter(|field| !kept.contains(field)) {
                row.set(field, 0);
            }
        }
    }
}

/// Calls `each` with each word that describes an allocator, until it returns false. Returns whether it never did.
fn each_word(spec: &AllocatorSpec<'_>, each: impl Fn(u64, u64) -> bool) -> bool {
    let chips = spec.chips.iter().take(allocator::CHIPS_MAX as usize);
    let (rows, columns) = spec.mesh;
    let shape = u64::from(rows) | u64::from(columns) << 16 | (chips.len() as u64) << 32;
    each(allocator::MESH_ROWS, shape)
        && each(allocator::GIVEN_ID, pair(spec.given_id, spec.origin))
        && spec
            .kinds
            .iter()
            .zip((0..).map(allocator::geometry))
            .all(|(kind, at)| each(at, pair(kind.banks, kind.alignment)) && each(at + 8, kind.bank_bytes) && each(at + 16, kind.base))
        && chips.zip((0..).map(allocator::chip)).all(|(chip, at)| each(at, pair(chip.metal_id, chip.flags)) && each(at + 8, chip.unique_id))
}

const _: () = assert!(COUNTED + ROWS_EACH <= FIGURES_EACH && BANKS + allocator::KINDS_MAX <= 8);
