//! Chips that several open allocators share. A mesh and its submeshes use the same memory, and their common peak is not in any row.
//!
//! When a second allocator of one origin opens on a chip, the chip gets a record. From then on every new buffer of one of these allocators
//! sums up the memory of all of them on the chip. Only growth can make a peak, so frees cost nothing. Without sharing nothing costs more.

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::layout::{ALLOCATORS, KINDS, SHARED, allocator, header, row, shared};

use super::event::Event;
use super::memory::{high, low, pair};
use super::state::WriterState;
use super::{AllocatorId, Key, RowFigures, Session};

/// Private words of a record, in `WriterState::sharing`: a bit for each allocator that shares the chip.
const WORDS_EACH: usize = ALLOCATORS.records as usize / 64;
pub(super) const SHARING: u32 = SHARED.records * ALLOCATORS.records / 64;

impl Session<'_> {
    /// Returns the memory of one kind that the process has on a chip, and its peak, including closed allocators; `None` if the chip had no
    /// allocator. The hook's figures (the higher origin) are not added to those that the program reports itself.
    pub fn figures_on(&self, metal_id: u32, kind: u8) -> Option<RowFigures> {
        if u32::from(kind) >= KINDS {
            return None;
        }
        let state = self.state;
        let origin = (0..state.allocators_used()).filter(|slot| state.is_on(*slot, metal_id)).map(|slot| state.origin_of(slot)).max()?;
        let mut sum = RowFigures::default();
        for slot in state.slots_on(metal_id, origin) {
            let row = state.region.row(slot * KINDS as usize + usize::from(kind));
            sum.used = sum.used.saturating_add(row.get(row::LIVE_BYTES));
            sum.allocated = sum.allocated.saturating_add(row.get(row::ALLOCATED_BYTES));
            sum.count = sum.count.saturating_add(row.count());
            sum.peak = sum.peak.max(row.get(row::INNER_PEAK));
            sum.peak_ever = sum.peak_ever.max(row.get(row::PEAK));
        }
        let kind = usize::from(kind);
        if let Some(record) = state.shared_record(metal_id, origin).filter(|_| kind < allocator::KINDS_MAX) {
            let word = |field| state.region.word(SHARED, record, field).load(Relaxed);
            sum.peak = sum.peak.max(word(shared::inner_peak(kind)));
            sum.peak_ever = sum.peak_ever.max(word(shared::peaks(kind)));
        }
        (sum.peak, sum.peak_ever) = (sum.peak.max(sum.used), sum.peak_ever.max(sum.used));
        Some(sum)
    }

    /// Occupied bytes of one kind of an open allocator.
    pub fn allocated(&self, allocator: AllocatorId, kind: u8) -> Option<u64> {
        let row = self.state.row_for(Key { allocator, kind, address: 0 })?;
        Some(self.state.region.row(row).get(row::ALLOCATED_BYTES))
    }

    /// Restarts [`RowFigures::peak`] of [`Session::figures_on`]. The peak for other readers does not change.
    pub fn reset_peak_on(&mut self, metal_id: u32, kind: u8) {
        let state = self.state;
        if u32::from(kind) >= KINDS {
            return;
        }
        // The words are independent of each other for readers, so this needs no event.
        for slot in (0..state.allocators_used()).filter(|slot| state.is_on(*slot, metal_id)) {
            let row = state.region.row(slot * KINDS as usize + usize::from(kind));
            if row.get(row::INNER_PEAK) != 0 {
                row.set(row::INNER_PEAK, row.get(row::LIVE_BYTES));
            }
        }
        let is_it = |record: &usize| low(state.shared_key(*record)) == metal_id.wrapping_add(1) && usize::from(kind) < allocator::KINDS_MAX;
        for record in (0..state.shared_used()).filter(is_it) {
            let (used, _) = state.together(record, usize::from(kind));
            state.region.word(SHARED, record, shared::inner_peak(usize::from(kind))).store(used, Relaxed);
        }
    }
}

impl WriterState {
    /// Records which chips a new allocator shares. The file of a service has no memory for this.
    pub(super) fn begin_sharing(&self, id: AllocatorId) {
        if self.is_hosted() {
            return;
        }
        let origin = self.origin_of(id.slot());
        for metal_id in self.chips_of(id.slot()).filter(|metal_id| *metal_id != allocator::METAL_ID_UNKNOWN) {
            for other in self.slots_on(metal_id, origin).filter(|other| *other != id.slot() && self.is_slot_open(*other)) {
                let Some(record) = self.shared_record(metal_id, origin).or_else(|| self.new_shared_record(metal_id, origin)) else { break };
                for slot in [id.slot(), other] {
                    let word = self.sharing.at(record * WORDS_EACH + slot / 64);
                    word.fetch_or(1 << (slot % 64), Relaxed);
                    self.note_sharing(slot);
                }
            }
        }
    }

    /// Records that an allocator is closed; its rows are empty.
    pub(super) fn end_sharing(&self, slot: usize) {
        for record in 0..self.shared_used() {
            self.sharing.at(record * WORDS_EACH + slot / 64).fetch_and(!(1 << (slot % 64)), Relaxed);
        }
    }

    /// Updates the common peaks after a row of a sharing allocator has grown.
    #[cold]
    pub(super) fn raise_shared(&self, event: Event, number: usize) {
        let (slot, kind) = (number / KINDS as usize, number % KINDS as usize);
        for record in (0..self.shared_used()).filter(|_| kind < allocator::KINDS_MAX) {
            if self.sharing.at(record * WORDS_EACH + slot / 64).load(Relaxed) >> (slot % 64) & 1 == 1 {
                self.raise_record(event, record, kind);
            }
        }
    }

    /// Updates all common peaks, after rows were counted again.
    pub(super) fn raise_all_shared(&self, event: Event) {
        for record in 0..self.shared_used() {
            for kind in 0..allocator::KINDS_MAX {
                self.raise_record(event, record, kind);
            }
        }
    }

    fn raise_record(&self, event: Event, record: usize, kind: usize) {
        let word = |offset| self.region.word(SHARED, record, offset);
        let (used, allocated) = self.together(record, kind);
        let inner = word(shared::inner_peak(kind));
        inner.store(inner.load(Relaxed).max(used), Relaxed);
        let peaks = shared::peaks(kind);
        for (at, sum) in [(peaks, used), (peaks + shared::ALLOCATED, allocated)] {
            if sum > word(at).load(Relaxed) {
                // The time is stored first. After a kill, a reader that finds the old figure finds it below the live bytes, and uses those.
                word(at + shared::TIME).store(event.time, Relaxed);
                word(at).store(sum, Release);
            }
        }
    }

    /// Requested and occupied bytes of all allocators that currently share a record's chip.
    fn together(&self, record: usize, kind: usize) -> (u64, u64) {
        let (mut used, mut allocated) = (0_u64, 0_u64);
        for part in 0..WORDS_EACH {
            let mut bits = self.sharing.at(record * WORDS_EACH + part).load(Relaxed);
            while bits != 0 {
                let slot = part * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let row = self.region.row(slot * KINDS as usize + kind);
                used = used.wrapping_add(row.get(row::LIVE_BYTES));
                allocated = allocated.wrapping_add(row.get(row::ALLOCATED_BYTES));
            }
        }
        (used, allocated)
    }

    fn shared_used(&self) -> usize {
        low(self.region.header(header::SHARED_USED).load(Relaxed)).min(SHARED.records) as usize
    }

    fn shared_key(&self, record: usize) -> u64 {
        self.region.word(SHARED, record, shared::KEY).load(Relaxed)
    }

    fn shared_record(&self, metal_id: u32, origin: u32) -> Option<usize> {
        (0..self.shared_used()).find(|record| self.shared_key(*record) == pair(metal_id.wrapping_add(1), origin))
    }

    /// Creates a record. Returns `None` if all are used; then only a lower bound of the chip's peak is known.
    fn new_shared_record(&self, metal_id: u32, origin: u32) -> Option<usize> {
        let record = self.shared_used();
        if record >= SHARED.records as usize {
            return None;
        }
        self.region.word(SHARED, record, shared::KEY).store(pair(metal_id.wrapping_add(1), origin), Relaxed);
        self.region.header(header::SHARED_USED).store(record as u64 + 1, Release);
        Some(record)
    }

    /// The allocators of one origin on a chip, including closed ones.
    fn slots_on(&self, metal_id: u32, origin: u32) -> impl Iterator<Item = usize> {
        (0..self.allocators_used()).filter(move |slot| self.origin_of(*slot) == origin && self.is_on(*slot, metal_id))
    }

    fn origin_of(&self, slot: usize) -> u32 {
        high(self.region.allocator(slot, allocator::GIVEN_ID).load(Relaxed))
    }

    pub(super) fn is_on(&self, slot: usize, metal_id: u32) -> bool {
        self.chips_of(slot).any(|chip| chip == metal_id)
    }

    /// TT-Metal's numbers of an allocator's chips.
    pub(super) fn chips_of(&self, slot: usize) -> impl Iterator<Item = u32> {
        let word = move |field| self.region.allocator(slot, field).load(Relaxed);
        let chips = high(word(allocator::MESH_ROWS)).min(allocator::CHIPS_MAX);
        (0..u64::from(chips)).map(move |chip| low(word(allocator::chip(chip))))
    }
}
