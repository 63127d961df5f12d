//! Figures that the program requests: marks for later comparison, and current values (see `shared`).

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::layout::{KINDS, Op, header, kind, row};

use super::event::{Event, EventBody};
use super::state::WriterState;
use super::{AllocatorId, Key, Session};

/// An operation on a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceStep {
    /// The capture begins.
    Begin,
    /// The capture ends.
    End,
    /// The trace is replayed.
    Replay,
    /// The trace is released.
    Release,
}

/// The memory of one kind that a process has on a chip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowFigures {
    /// Requested bytes of live buffers.
    pub used: u64,
    /// Occupied bytes of live buffers.
    pub allocated: u64,
    /// Live buffers.
    pub count: u64,
    /// Peak of `used` since [`Session::reset_peak_on`], otherwise since tracking began.
    pub peak: u64,
    /// Peak of `used` since tracking began.
    pub peak_ever: u64,
}

impl Session<'_> {
    /// Sets a mark: an event in the recorder, and the current figures in every row in use.
    pub fn mark(&mut self) {
        let state = self.state;
        let event = state.begin(self.time);
        state.region.header(header::MARK_TIME).store(event.time, Relaxed);
        // Stored first: if the mark is incomplete, a reader uses the current figures of the other rows.
        state.region.header(header::MARK_EVENT).store(event.n, Release);
        state.mark_rows(event);
        state.end(event, Op::Mark, &EventBody::default());
    }

    /// Records the begin or end of a phase. `name` is the number of a tag, `host_rss` the process's resident bytes (0 if unknown).
    pub fn phase(&mut self, is_begin: bool, name: u32, host_rss: u64) {
        let event = self.state.begin(self.time);
        let op = if is_begin { Op::PhaseBegin } else { Op::PhaseEnd };
        self.state.end(event, op, &EventBody { tag: name, size: host_rss, ..EventBody::default() });
    }

    /// Records an operation on a trace. `id` is the program's number of the trace.
    pub fn trace(&mut self, allocator: AllocatorId, step: TraceStep, id: u64) {
        let row = self.state.row_for(Key { allocator, kind: kind::TRACE, address: 0 });
        let Some(row) = row else { return };
        let event = self.state.begin(self.time);
        let op = match step {
            TraceStep::Begin => Op::TraceBegin,
            TraceStep::End => Op::TraceEnd,
            TraceStep::Replay => Op::TraceReplay,
            TraceStep::Release => Op::TraceRelease,
        };
        self.state.end(event, op, &EventBody { row, address: id, ..EventBody::default() });
    }
}

impl WriterState {
    fn mark_rows(&self, event: Event) {
        for number in 0..self.allocators_used() * KINDS as usize {
            let row = self.region.row(number);
            if row.get(row::STATE) != 0 && row.get(row::MARK_EVENT) != event.n {
                row.set(row::MARK_BYTES, row.get(row::LIVE_BYTES));
                row.set(row::MARK_ALLOCATED, row.get(row::ALLOCATED_BYTES));
                row.set(row::MARK_COUNT, row.count());
                row.publish(row::MARK_EVENT, event.n);
            }
        }
    }

    /// Completes an incomplete mark in a repair, after the rows were counted. The repair has the same event number as the mark.
    pub(super) fn finish_mark(&self, event: Event) {
        if self.region.header(header::MARK_EVENT).load(Relaxed) == event.n {
            self.mark_rows(event);
        }
    }
}
