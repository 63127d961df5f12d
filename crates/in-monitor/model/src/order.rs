//! Orders of buffers.

use std::cmp::{Ordering, Reverse};

use crate::ledger::Buffer;
use crate::snapshot::MappedBuffer;

/// The order in which buffers are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BufferOrder {
    /// Largest first.
    #[default]
    Size,
    /// Oldest first.
    Age,
    /// By process, then by address.
    Address,
    /// By tag, and the largest of each tag first.
    Tag,
}

impl BufferOrder {
    /// Compares the property that names the order. The callers compare process and address if it is equal.
    fn compare_named(self, a: &Buffer, b: &Buffer) -> Ordering {
        match self {
            Self::Size => b.size.cmp(&a.size),
            Self::Age => a.time.cmp(&b.time),
            Self::Address => Ordering::Equal,
            Self::Tag => (&a.tag, Reverse(a.size)).cmp(&(&b.tag, Reverse(b.size))),
        }
    }

    /// Compares two buffers of one process.
    pub fn compare_in_process(self, a: &Buffer, b: &Buffer) -> Ordering {
        let rest = |buffer: &Buffer| (buffer.address, buffer.allocator, buffer.kind);
        self.compare_named(a, b).then_with(|| rest(a).cmp(&rest(b)))
    }

    /// Compares two buffers.
    pub fn compare(self, a: &MappedBuffer, b: &MappedBuffer) -> Ordering {
        self.compare_named(&a.buffer, &b.buffer)
            .then_with(|| a.process().cmp(&b.process()))
            .then_with(|| self.compare_in_process(&a.buffer, &b.buffer))
            .then_with(|| a.allocator.id.cmp(&b.allocator.id))
    }

    /// Sorts the buffers and keeps the first `most`. Returns the number of dropped buffers.
    pub fn keep_first(self, buffers: &mut Vec<MappedBuffer>, most: usize) -> usize {
        let left_out = drop_last(buffers, most, |a, b| self.compare(a, b));
        buffers.sort_unstable_by(|a, b| self.compare(a, b));
        left_out
    }
}

/// Keeps the first `most` items of an order, unsorted. Returns the number of dropped items.
fn drop_last<T>(items: &mut Vec<T>, most: usize, compare: impl Fn(&T, &T) -> Ordering) -> usize {
    let left_out = items.len().saturating_sub(most);
    if left_out > 0 && most > 0 {
        items.select_nth_unstable_by(most - 1, compare);
    }
    items.truncate(most);
    left_out
}

/// Minimum number of additional buffers that are collected before the last ones are dropped.
const SPARE: usize = 64;

/// Collects the first buffers of one process in an order.
#[derive(Debug)]
pub struct FirstBuffers {
    order: BufferOrder,
    most: usize,
    kept: Vec<Buffer>,
    left_out: usize,
}

impl FirstBuffers {
    /// Creates a collection of at most `most` buffers.
    pub fn new(order: BufferOrder, most: usize) -> Self {
        Self { order, most, kept: Vec::new(), left_out: 0 }
    }

    /// Adds a buffer.
    pub fn add(&mut self, buffer: Buffer) {
        // Once buffers were dropped, the first `most` buffers come first. A buffer that belongs after them is dropped at once.
        let last = self.most.checked_sub(1).and_then(|last| self.kept.get(last)).filter(|_| self.left_out > 0);
        if last.is_some_and(|last| self.order.compare_in_process(&buffer, last).is_ge()) {
            self.left_out += 1;
            return;
        }
        self.kept.push(buffer);
        if self.kept.len() > self.most.saturating_add(self.most / 4 + SPARE) {
            self.drop_last();
        }
    }

    fn drop_last(&mut self) {
        self.left_out += drop_last(&mut self.kept, self.most, |a, b| self.order.compare_in_process(a, b));
    }

    /// Returns the kept buffers in no particular order, and the number of dropped buffers.
    pub fn finish(mut self) -> (Vec<Buffer>, u64) {
        self.drop_last();
        (self.kept, self.left_out as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::identity::ProcessKey;
    use crate::ledger::BufferKind;
    use crate::memory::Kind;
    use crate::snapshot::BufferAllocator;
    use crate::units::UnixTime;

    const ORDERS: [BufferOrder; 4] = [BufferOrder::Size, BufferOrder::Age, BufferOrder::Address, BufferOrder::Tag];

    fn buffer(number: u64, (size, time, tag): (u64, u64, u8)) -> Buffer {
        Buffer {
            allocator: 0,
            kind: BufferKind::Of(Kind::Dram),
            address: number,
            size,
            per_bank: None,
            page_size: None,
            layout: None,
            cores: None,
            refs: 1,
            time: UnixTime(time),
            tag: (tag > 0).then(|| tag.to_string().into()),
            operation: None,
            stack: None,
            is_per_core: false,
            is_cached: false,
            kernel_type: None,
        }
    }

    proptest! {
        #[test]
        fn first_of_some_are_first_of_all(
            facts in prop::collection::vec((0..20_u64, 0..20_u64, 0..4_u8), 0..60),
            most in 0..70_usize,
        ) {
            let process = ProcessKey { pid: 1, start_ticks: 2 };
            let allocator = Arc::new(BufferAllocator { id: "1.0.0".to_owned(), process, devices: Vec::new() });
            let buffers: Vec<Buffer> = (0..).zip(facts).map(|(number, facts)| buffer(number, facts)).collect();
            for order in ORDERS {
                let of = |buffer: Buffer| MappedBuffer { allocator: Arc::clone(&allocator), buffer };
                let mut all: Vec<MappedBuffer> = buffers.iter().cloned().map(of).collect();
                all.sort_by(|a, b| order.compare(a, b));
                let left_out = all.len().saturating_sub(most);
                all.truncate(most);

                let mut kept: Vec<MappedBuffer> = buffers.iter().cloned().map(of).collect();
                prop_assert_eq!(order.keep_first(&mut kept, most), left_out);
                prop_assert_eq!(&kept, &all);

                let mut first = FirstBuffers::new(order, most);
                buffers.iter().cloned().for_each(|buffer| first.add(buffer));
                let (some, not_kept) = first.finish();
                let mut some: Vec<MappedBuffer> = some.into_iter().map(of).collect();
                order.keep_first(&mut some, most);
                prop_assert_eq!((&some, not_kept), (&all, left_out as u64));
            }
        }
    }

    #[test]
    fn orders_put_these_first() {
        let buffers = [(10, 5, 2), (30, 4, 1), (20, 3, 0)];
        let first = |order: BufferOrder| {
            let mut first = FirstBuffers::new(order, 1);
            (0..).zip(buffers).for_each(|(number, facts)| first.add(buffer(number, facts)));
            first.finish().0.iter().map(|buffer| buffer.size).next()
        };
        assert_eq!(ORDERS.map(first), [Some(30), Some(20), Some(10), Some(20)]);
    }
}
