//! Circular and dataflow buffers of programs, by core range.
//!
//! Like an entry, a buffer is live if its state is LIVE and its creation is later than the epoch of its allocator's cb row. The row does
//! not include its bytes: programs share them, and only a reader that sums them per core can compute the usage.
//!
//! The records of a program are found through private chains of slots, one for each remainder of the program's number.

use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use crate::layout::{CIRCULARS, Lost, Op, circular, entry, header, kind, row};

use super::event::EventBody;
use super::memory::{self, Lazy, low, pair};
use super::state::WriterState;
use super::{AllocatorId, Key, Session, protocol};

const SLOTS: u32 = CIRCULARS.records;
const CHAINS: u32 = 4096;
const WORDS: usize = (SLOTS + CHAINS) as usize;

/// A circular or dataflow buffer of a program on a range of cores.
#[derive(Clone, Copy, Debug)]
pub struct Circular {
    /// The allocator of the cores.
    pub allocator: AllocatorId,
    /// Index of the chip in the allocator's list; `None` for all chips.
    pub chip: Option<u8>,
    /// The program, by the caller's number.
    pub program: u32,
    /// Address in L1.
    pub address: u32,
    /// Bytes on each core.
    pub size: u32,
    /// First column, first row, last column, last row.
    pub cores: [u8; 4],
    /// It is a dataflow buffer.
    pub is_dataflow: bool,
    /// It is part of an L1 buffer, which is counted already.
    pub is_global: bool,
}

/// Private data: for each slot the next one of its chain or of the free chain, then the heads of the chains. All values are + 1; 0 ends a
/// chain.
#[derive(Debug)]
pub(super) struct Circulars {
    words: Lazy<AtomicU64, WORDS>,
    free: AtomicU32,
    /// Some buffers died with their allocator since the chains were built.
    has_dead: AtomicBool,
}

impl Circulars {
    pub(super) const fn new() -> Self {
        Self { words: Lazy::new(), free: AtomicU32::new(0), has_dead: AtomicBool::new(false) }
    }

    fn get(&self, at: u32) -> u32 {
        self.words.get(at as usize).map_or(0, |word| low(word.load(Relaxed)))
    }

    fn set(&self, at: u32, value: u32) {
        if let Some(word) = self.words.get(at as usize) {
            word.store(u64::from(value), Relaxed);
        }
    }

    fn clear(&self) {
        self.free.store(0, Relaxed);
        for chain in SLOTS..SLOTS + CHAINS {
            self.set(chain, 0);
        }
    }

    fn give(&self, slot: u32) {
        self.set(slot, self.free.load(Relaxed));
        self.free.store(slot + 1, Relaxed);
    }

    fn take(&self) -> Option<u32> {
        let slot = self.free.load(Relaxed).checked_sub(1)?;
        self.free.store(self.get(slot), Relaxed);
        Some(slot)
    }

    fn chain(&self, slot: u32, program: u32) {
        let head = SLOTS + program % CHAINS;
        self.set(slot, self.get(head));
        self.set(head, slot + 1);
    }
}

impl Session<'_> {
    /// Adds a buffer of a program. [`Session::remove_program`] or a free-all of its allocator removes it.
    pub fn add_circular(&mut self, circular: &Circular) -> Result<(), Lost> {
        let state = self.state;
        let Some(row) = state.row_for(Key { allocator: circular.allocator, kind: kind::CB, address: 0 }) else {
            return self.refuse(Lost::NoAllocator);
        };
        if state.is_hosted() || state.circulars.words.reserve().is_none() {
            return self.refuse(Lost::NoMemory);
        }
        let event = state.begin(self.time);
        state.use_row(row, circular.allocator);
        let Some(slot) = state.take_circular() else { return self.end_unchanged(event) };
        let word = |field| state.region.circular(slot, field);
        protocol::withdraw(word(circular::STATE), u64::from(entry::WRITING));
        word(circular::ADDRESS).store(pair(circular.address, circular.size), Relaxed);
        word(circular::PROGRAM).store(pair(circular.program, u32::from_le_bytes(circular.cores)), Relaxed);
        let flags = u8::from(circular.is_dataflow) * circular::FLAG_DATAFLOW + u8::from(circular.is_global) * circular::FLAG_GLOBAL;
        let place = u64::from(circular.allocator.slot) | u64::from(circular.chip.unwrap_or(circular::ALL_CHIPS)) << 16;
        word(circular::ALLOCATOR).store(place | u64::from(flags) << 24, Relaxed);
        word(circular::STATE).store(event.n << 8 | u64::from(entry::LIVE), Release);
        state.circulars.chain(slot, circular.program);
        let fact = EventBody { row, address: circular.address.into(), size: circular.size.into(), ..EventBody::default() };
        state.end(event, Op::AddCircular, &EventBody { detail: u64::from(circular.program) << 32, ..fact });
        Ok(())
    }

    /// Removes all buffers of a program, if it has any.
    pub fn remove_program(&mut self, program: u32) {
        let state = self.state;
        let head = SLOTS + program % CHAINS;
        if state.circulars.get(head) == 0 {
            return;
        }
        let (mut event, mut row, mut bytes) = (None, 0, 0_u64);
        let mut before = head;
        // The loop is bounded, so that it also ends if the chain is broken.
        for _ in 0..SLOTS {
            let Some(slot) = state.circulars.get(before).checked_sub(1) else { break };
            if low(state.region.circular(slot, circular::PROGRAM).load(Relaxed)) != program {
                before = slot;
                continue;
            }
            if event.is_none() {
                event = Some(state.begin(self.time));
            }
            if state.is_circular_live(slot) {
                row = state.row_of_circular(slot);
                bytes += u64::from(memory::high(state.region.circular(slot, circular::ADDRESS).load(Relaxed)));
            }
            state.circulars.set(before, state.circulars.get(slot));
            state.region.circular(slot, circular::STATE).store(u64::from(entry::FREE), Release);
            state.circulars.give(slot);
        }
        if let Some(event) = event {
            let fact = EventBody { row, size: bytes, detail: u64::from(program) << 32, ..EventBody::default() };
            state.end(event, Op::RemoveProgram, &fact);
        }
    }
}

impl WriterState {
    fn row_of_circular(&self, slot: u32) -> usize {
        let allocator = self.region.circular(slot, circular::ALLOCATOR).load(Relaxed) & 0xFFFF;
        memory::position(allocator) * crate::layout::KINDS as usize + usize::from(kind::CB)
    }

    fn is_circular_live(&self, slot: u32) -> bool {
        let state = self.region.circular(slot, circular::STATE).load(Relaxed);
        state & 0xFF == u64::from(entry::LIVE) && state >> 8 > self.region.row(self.row_of_circular(slot)).get(row::EPOCH)
    }

    /// Takes a free record: a returned one, an unused one, or one of a closed allocator.
    fn take_circular(&self) -> Option<u32> {
        if let Some(slot) = self.circulars.take() {
            return Some(slot);
        }
        let used = self.region.header(header::CIRCULARS_USED);
        let next = low(used.load(Relaxed));
        if next < SLOTS {
            // A reader copies this many records, so it is published before the record's first use.
            used.store(u64::from(next + 1), Release);
            return Some(next);
        }
        // A full table is searched only if some buffers are dead, not at every attempt.
        if self.circulars.has_dead.load(Relaxed) {
            self.sort_circulars();
        }
        self.circulars.take()
    }

    /// Records that a row was freed as a whole.
    pub(super) fn note_dead_circulars(&self, number: usize) {
        if number % crate::layout::KINDS as usize == usize::from(kind::CB) {
            self.circulars.has_dead.store(true, Relaxed);
        }
    }

    /// Frees the records that died with their allocator, and rebuilds the chains and the free list.
    fn sort_circulars(&self) {
        self.circulars.clear();
        let used = low(self.region.header(header::CIRCULARS_USED).load(Relaxed)).min(SLOTS);
        for slot in (0..used).rev() {
            if self.is_circular_live(slot) {
                self.circulars.chain(slot, low(self.region.circular(slot, circular::PROGRAM).load(Relaxed)));
            } else {
                self.region.circular(slot, circular::STATE).store(u64::from(entry::FREE), Release);
                self.circulars.give(slot);
            }
        }
        self.circulars.has_dead.store(false, Relaxed);
    }

    /// Rebuilds the private data in a repair, from the states of the records.
    pub(super) fn recount_circulars(&self) {
        if self.circulars.words.get(0).is_some() {
            self.sort_circulars();
        }
    }
}

const _: () = assert!(circular::SIZE == circular::ADDRESS + 4 && circular::CORES == circular::PROGRAM + 4);
const _: () = assert!(circular::CHIP == circular::ALLOCATOR + 2 && circular::FLAGS == circular::ALLOCATOR + 3);
