//! Figures that the program itself asks for: marks to compare with, a peak it can reset, and what a row has now.

use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::layout::{KINDS, Op, header, row};

use super::{
    AllocatorId, Session,
    books::Books,
    event::{Event, Fact},
    memory::Row,
};

/// What a row has now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowFigures {
    /// Live bytes, as asked for.
    pub used: u64,
    /// Live bytes, as taken.
    pub allocated: u64,
    /// Live buffers.
    pub count: u64,
    /// Most live bytes since [`Session::reset_peak`], else since tracking began.
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
        books.end(event, Op::Mark, &Fact::default());
    }

    /// What an allocator has of one kind of memory; `None` where it is not open. A kind that was never used has nothing.
    pub fn figures(&self, allocator: AllocatorId, kind: u8) -> Option<RowFigures> {
        let row = self.row_in_use(allocator, kind)?;
        let Some(row) = row else { return Some(RowFigures::default()) };
        Some(RowFigures {
            used: row.get(row::LIVE_BYTES),
            allocated: row.get(row::ALLOCATED_BYTES),
            count: row.count(),
            peak: row.get(row::INNER_PEAK),
            peak_ever: row.get(row::PEAK),
        })
    }

    /// From now on [`RowFigures::peak`] counts anew. The peak that others see stays what it is.
    pub fn reset_peak(&mut self, allocator: AllocatorId, kind: u8) {
        // One word, which no reader takes for anything but itself: no event.
        if let Some(Some(row)) = self.row_in_use(allocator, kind) {
            row.set(row::INNER_PEAK, row.get(row::LIVE_BYTES));
        }
    }

    fn row_in_use(&self, allocator: AllocatorId, kind: u8) -> Option<Option<Row<'_>>> {
        if u32::from(kind) >= KINDS || !self.books.is_open(allocator) {
            return None;
        }
        let row = self.books.region.row(allocator.row(kind));
        Some((row.get(row::STATE) == allocator.state(row::IN_USE)).then_some(row))
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
