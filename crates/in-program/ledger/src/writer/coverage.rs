//! Counters without the lock: launched programs, calls of each hooked function, and the cost of recording.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::layout::{COVERAGE, Coverage, LAUNCHES, coverage, header, launches};

use super::memory::{beginning, position};
use super::state::WriterState;
use super::{Session, Writer, clock};

impl Writer {
    /// Counts a program that was launched on some chips. Needs no lock and makes no event. Has no effect before there is a ledger.
    #[inline]
    pub fn launched_on(&self, metal_ids: &[u32]) {
        let Some(state) = self.state().filter(|state| state.is_ours()) else { return };
        let time = clock::now(state.clock);
        for &metal_id in metal_ids {
            state.count_launch(metal_id, time);
        }
    }

    /// Counts a call of the hooked function with this number. Needs no lock. Returns whether there is a ledger.
    #[inline]
    pub fn hit(&self, feature: u8) -> bool {
        let Some(state) = self.state().filter(|state| state.is_ours()) else { return false };
        if u32::from(feature) < COVERAGE.records {
            state.region.word(COVERAGE, usize::from(feature), coverage::HITS).fetch_add(1, Relaxed);
        }
        true
    }

    /// Adds the time that recording added to a call. The hook measures a sample of the calls.
    #[inline]
    pub fn cost(&self, nanoseconds: u64) {
        if let Some(state) = self.state().filter(|state| state.is_ours()) {
            state.region.header(header::COST_SAMPLES).fetch_add(1, Relaxed);
            state.region.header(header::COST_NS).fetch_add(nanoseconds, Relaxed);
        }
    }
}

impl Session<'_> {
    /// Counts several calls of the hooked function with this number. It is cheaper than [`Writer::hit`]; use only one of them per feature.
    #[inline]
    pub fn hits(&mut self, feature: u8, count: u32) {
        if u32::from(feature) < COVERAGE.records {
            let hits = self.state.region.word(COVERAGE, usize::from(feature), coverage::HITS);
            hits.store(hits.load(Relaxed).wrapping_add(count.into()), Relaxed);
        }
    }

    /// Records the state of a feature of the hook. Repeating it changes nothing.
    pub fn cover(&mut self, feature: u8, name: &str, state: Coverage, reason: &str) {
        let region = &self.state.region;
        let record = usize::from(feature);
        if u32::from(feature) >= COVERAGE.records || self.state.is_hosted() {
            return;
        }
        let word = region.word(COVERAGE, record, coverage::STATE);
        let before = word.load(Relaxed);
        let texts = [(coverage::NAME, coverage::NAME_BYTES, name), (coverage::REASON, coverage::REASON_BYTES, reason)]
            .map(|(field, bytes, text)| (field, bytes, beginning(text, bytes - 1)));
        let is_same = before & 0xFF == state as u64
            && texts.iter().all(|(field, bytes, text)| region.has_text(COVERAGE, record, *field, *bytes, text));
        if is_same {
            return;
        }
        // If the number of changes is the same before and after, a reader has complete texts.
        super::protocol::withdraw(word, before & !0xFF);
        texts.iter().for_each(|(field, bytes, text)| region.set_text(COVERAGE, record, *field, *bytes, text));
        word.store((before & !0xFF).wrapping_add(0x100) | state as u64, Release);
        region.header(header::COVERAGE_USED).fetch_max(record as u64 + 1, Release);
    }
}

impl WriterState {
    fn count_launch(&self, metal_id: u32, time: u64) {
        let Some(record) = self.launches_of(metal_id) else { return };
        self.region.word(LAUNCHES, record, launches::PROGRAMS).fetch_add(1, Relaxed);
        self.region.word(LAUNCHES, record, launches::LAST_TIME).store(time, Relaxed);
    }

    /// Returns the chip's record and creates it if there is none. The chip's number is the first index to try.
    fn launches_of(&self, metal_id: u32) -> Option<usize> {
        const COUNT: usize = LAUNCHES.records as usize;
        let name = u64::from(metal_id) + 1;
        for step in 0..COUNT {
            let record = (metal_id as usize).wrapping_add(step) % COUNT;
            let word = self.region.word(LAUNCHES, record, launches::CHIP);
            let found = word.load(Acquire);
            if found == name {
                return Some(record);
            }
            // Another thread may take it at the same time, possibly for the same chip.
            if found == 0 {
                match word.compare_exchange(0, name, AcqRel, Acquire) {
                    Ok(_) => {
                        self.region.header(header::LAUNCHES_USED).fetch_max(record as u64 + 1, Release);
                        return Some(record);
                    }
                    Err(other) if other == name => return Some(record),
                    Err(_) => {}
                }
            }
        }
        None
    }
}

const _: () = assert!(coverage::NAME_BYTES.is_multiple_of(8) && coverage::REASON_BYTES.is_multiple_of(8));
const _: () = assert!(position(coverage::REASON) + coverage::REASON_BYTES == COVERAGE.stride as usize);
