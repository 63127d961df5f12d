//! Reconstructs the block table of an allocator: its live blocks in the order of their addresses, and the free blocks between them.
//! TT-Metal's own table has the same blocks: one for each buffer, with adjacent free blocks merged.

use crate::snapshot::Block;

/// Builds the table of the bytes from `start` to `end`. `live` has addresses and sizes. Overlapping parts are cut off, so the blocks
/// always cover the range exactly. Without a live buffer there is one free block, even if the range is empty.
pub(super) fn table(start: u64, end: u64, mut live: Vec<(u64, u64)>) -> Vec<Block> {
    live.retain(|(_, size)| *size > 0);
    live.sort_unstable();
    let end = end.max(start);
    let mut blocks = Vec::with_capacity(live.len() * 2 + 1);
    let mut next = start;
    for (address, size) in live {
        let behind = address.saturating_add(size);
        let (first, last) = (address.clamp(next, end), behind.clamp(next, end));
        if first > next {
            blocks.push(Block { address: next, size: first - next, is_free: true });
        }
        if last > first {
            blocks.push(Block { address: first, size: last - first, is_free: false });
        }
        next = last;
    }
    if next < end || blocks.is_empty() {
        blocks.push(Block { address: next, size: end - next, is_free: true });
    }
    blocks
}

pub(super) fn largest_free(blocks: &[Block]) -> u64 {
    blocks.iter().filter(|block| block.is_free).map(|block| block.size).max().unwrap_or(0)
}

/// Counts bytes that belong to more than one buffer. Each item is (address, size) of a different buffer.
pub(super) fn shared(mut intervals: Vec<(u64, u64)>) -> u64 {
    intervals.sort_unstable();
    // Bytes below `once` are covered by one buffer, bytes below `twice` by two.
    let (mut once, mut twice, mut bytes) = (0_u64, 0_u64, 0_u64);
    for (address, size) in intervals {
        let end = address.saturating_add(size);
        let (first, last) = (address.max(twice), end.min(once));
        if last > first {
            bytes = bytes.saturating_add(last - first);
            twice = last;
        }
        once = once.max(end);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn allocated(blocks: &[Block]) -> u64 {
        blocks.iter().filter(|block| !block.is_free).map(|block| block.size).sum()
    }

    fn tuples(blocks: &[Block]) -> Vec<(u64, u64, bool)> {
        blocks.iter().map(|block| (block.address, block.size, block.is_free)).collect()
    }

    #[test]
    fn nothing_live_is_one_free_block() {
        assert_eq!(tuples(&table(0x100, 0x500, vec![])), [(0x100, 0x400, true)]);
        assert_eq!(tuples(&table(0x100, 0x100, vec![])), [(0x100, 0, true)], "also where there is no memory");
        assert_eq!(tuples(&table(7, 3, vec![])), [(7, 0, true)]);
    }

    #[test]
    fn blocks_and_what_is_between_them() {
        let blocks = table(100, 200, vec![(150, 10), (100, 20), (160, 40)]);
        assert_eq!(tuples(&blocks), [(100, 20, false), (120, 30, true), (150, 10, false), (160, 40, false)]);
        assert_eq!((allocated(&blocks), largest_free(&blocks)), (70, 30));
        let full = table(0, 10, vec![(0, 10)]);
        assert_eq!((tuples(&full), largest_free(&full)), (vec![(0, 10, false)], 0));
    }

    #[test]
    fn overlapping_and_outside_parts_are_cut() {
        let blocks = table(100, 200, vec![(110, 20), (120, 20), (125, 5), (190, 20), (50, 60)]);
        let expected = [(100, 10, false), (110, 20, false), (130, 10, false), (140, 50, true), (190, 10, false)];
        assert_eq!(tuples(&blocks), expected);
    }

    #[test]
    fn bytes_of_two_buffers() {
        assert_eq!(shared(vec![(0, 10), (10, 10)]), 0);
        assert_eq!(shared(vec![(0, 10), (5, 10), (8, 1)]), 5);
        assert_eq!(shared(vec![(0, 100), (10, 10), (15, 10), (50, 10)]), 25);
        assert_eq!(shared(vec![(u64::MAX - 1, 10), (u64::MAX - 1, 10)]), 1);
    }

    proptest! {
        #[test]
        fn blocks_always_make_the_whole(
            start in 0..1000_u64,
            length in 0..1000_u64,
            live in prop::collection::vec((0..2500_u64, prop_oneof![0..200_u64, Just(u64::MAX)]), 0..40),
        ) {
            let end = start + length;
            let asked = live.iter().fold(0_u64, |sum, (_, size)| sum.saturating_add(*size));
            let blocks = table(start, end, live);
            prop_assert_eq!(blocks.iter().map(|block| block.size).sum::<u64>(), length);
            prop_assert_eq!(blocks[0].address, start);
            for pair in blocks.windows(2) {
                prop_assert_eq!(pair[0].address + pair[0].size, pair[1].address, "without a gap");
                prop_assert!(!(pair[0].is_free && pair[1].is_free), "free neighbours are joined");
            }
            prop_assert!(blocks.len() == 1 || blocks.iter().all(|block| block.size > 0));
            prop_assert!(largest_free(&blocks) <= length - allocated(&blocks));
            prop_assert!(allocated(&blocks) <= asked);
        }

        #[test]
        fn shared_bytes_are_those_counted_twice(intervals in prop::collection::vec((0..60_u64, 0..30_u64), 0..12)) {
            let depth = |byte: u64| intervals.iter().filter(|(address, size)| (*address..address + size).contains(&byte)).count();
            let counted = (0..100).filter(|byte| depth(*byte) > 1).count() as u64;
            prop_assert_eq!(shared(intervals.clone()), counted);
        }
    }
}
