//! Figures that the program itself asks for: marks to compare with, and what it has now (see `shared`).

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::layout::{KINDS, Op, header, kind, row};

use super::{
    AllocatorId, Key, Session,
    books::Books,
    event::{Event, EventBody},
};

/// What a program does with a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceStep {
    /// The capture begins.
    Begin,
    /// The capture ends.
    End,
    /// The trace runs again.
    Replay,
    /// The trace is given up.
    Release,
}

/// What a process has on a chip, of one kind of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowFigures {
    /// Live bytes, as asked for.
    pub used: u64,
    /// Live bytes, as taken.
    pub allocated: u64,
    /// Live buffers.
    pub count: u64,
    /// Most live bytes since [`Session::reset_peak_on`], else since tracking began.
    pub peak: u64,
    /// Most live bytes since tracking began.
    pub peak_ever: u64,
}

impl Session<'_> {
    /// A mark in the recorder, and in every row in use what it has now, to be compared with later.
    pub fn mark(&mut self) {
        let books = self.books;
        let event = books.begin(self.time);
        books.region.header(header::MARK_TIME).store(event.time, Relaxed);
        // First: who finds it half done takes what the other rows have now.
        books.region.header(header::MARK_EVENT).store(event.n, Release);
        books.mark_rows(event);
        books.end(event, Op::Mark, &EventBody::default());
    }

    /// A phase begins or ends. `name` is the number of a tag, `host_rss` the process's resident bytes (0 = unknown).
    pub fn phase(&mut self, is_begin: bool, name: u32, host_rss: u64) {
        let event = self.books.begin(self.time);
        let op = if is_begin { Op::PhaseBegin } else { Op::PhaseEnd };
        self.books.end(event, op, &EventBody { tag: name, size: host_rss, ..EventBody::default() });
    }

    /// A step in the life of a trace. `id` is the program's number of the trace.
    pub fn trace(&mut self, allocator: AllocatorId, step: TraceStep, id: u64) {
        let row = self.books.row_for(Key { allocator, kind: kind::TRACE, address: 0 });
        let Some(row) = row else { return };
        let event = self.books.begin(self.time);
        let op = match step {
            TraceStep::Begin => Op::TraceBegin,
            TraceStep::End => Op::TraceEnd,
            TraceStep::Replay => Op::TraceReplay,
            TraceStep::Release => Op::TraceRelease,
        };
        self.books.end(event, op, &EventBody { row, address: id, ..EventBody::default() });
    }
}

impl Books {
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

    /// In a repair, after the rows were counted: if a mark was half done, the rest of the rows get theirs. Its event becomes
    /// the repair, of the same number.
    pub(super) fn finish_mark(&self, event: Event) {
        if self.region.header(header::MARK_EVENT).load(Relaxed) == event.n {
            self.mark_rows(event);
        }
    }
}
