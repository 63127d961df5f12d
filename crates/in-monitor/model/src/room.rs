//! Whether a refused request could have been satisfied, and which buffers prevented it.

use std::sync::Arc;

use crate::groups::sums;
use crate::ledger::LedgerGeometry;
use crate::stack::SourceLine;

crate::named! {
    /// Why there was no room.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Verdict {
        /// Too few bytes were free.
        Full = "full",
        /// Enough bytes were free, but not in one block.
        Fragmented = "fragmented",
        /// A bank is smaller than the request.
        NeverFits = "never_fits",
    }
}

/// A live buffer in a bank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupied {
    /// The offset in the bank.
    pub start: u64,
    /// The bytes in the bank.
    pub bytes: u64,
    /// The line that requested it.
    pub line: Option<Arc<SourceLine>>,
}

/// The part of a bank that is cheapest to free: it has the fewest bytes to release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Offset of the part in the bank.
    pub start: u64,
    /// Bytes of a bank that must be released.
    pub bytes: u64,
    /// Buffers that must be released, by line, most bytes first.
    pub lines: Vec<HeldByLine>,
}

/// The region of L1 for small buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallRegion {
    /// The bytes on each core: `l1_small_size`.
    pub bytes: u64,
    /// Bytes in use.
    pub used: u64,
}

/// Buffers of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldByLine {
    /// The line, or `None` if unknown.
    pub line: Option<Arc<SourceLine>>,
    /// Bytes of the buffers.
    pub bytes: u64,
    /// Number of buffers.
    pub count: u64,
}

impl HeldByLine {
    /// Formats the buffers: `3 buffers of models/vae.py:12 decode`.
    pub fn words(&self) -> String {
        let buffers = if self.count == 1 { "1 buffer".to_owned() } else { format!("{} buffers", self.count) };
        match &self.line {
            Some(line) => format!("{buffers} of {line}"),
            None => format!("{buffers} without a line"),
        }
    }

    /// Sums buffers by line, most bytes first. Each item has a line, a number of buffers and their bytes.
    pub fn collect<'a>(buffers: impl IntoIterator<Item = (Option<&'a Arc<SourceLine>>, u64, u64)>) -> Vec<Self> {
        let sums = sums(buffers.into_iter().map(|(line, count, bytes)| (line, (count, bytes))));
        sums.into_iter().map(|(line, (count, bytes))| Self { line: line.cloned(), bytes, count }).collect()
    }

    /// Formats the first few lines, and the number of the others.
    pub fn list(lines: &[Self]) -> String {
        let mut named: Vec<String> = lines.iter().take(LINES_NAMED).map(Self::words).collect();
        if lines.len() > LINES_NAMED {
            named.push(format!("{} lines more", lines.len() - LINES_NAMED));
        }
        named.join(", ")
    }
}

/// Maximum number of lines that are named.
const LINES_NAMED: usize = 3;

/// Returns the cheapest window of `wanted` bytes in a bank of `bank_bytes`. Returns `None` if the bank is smaller, or if buffers overlap.
pub fn cheapest_window(mut live: Vec<Occupied>, bank_bytes: u64, wanted: u64) -> Option<Window> {
    live.sort_by_key(|occupied| occupied.start);
    let end = |occupied: &Occupied| occupied.start.saturating_add(occupied.bytes);
    let is_apart = live.windows(2).all(|pair| end(&pair[0]) <= pair[1].start) && live.last().is_none_or(|last| end(last) <= bank_bytes);
    if wanted == 0 || wanted > bank_bytes || !is_apart {
        return None;
    }
    // A cheapest window can be moved until it starts at the end of a buffer, or ends at the start of one.
    let begins = live.iter().map(end).chain([0]);
    let ends = live.iter().map(|occupied| occupied.start).chain([bank_bytes]);
    let starts = begins.chain(ends.filter_map(|end| end.checked_sub(wanted))).filter(|start| start.saturating_add(wanted) <= bank_bytes);
    let mut sums = vec![0_u64];
    for occupied in &live {
        sums.push(sums[sums.len() - 1].saturating_add(occupied.bytes));
    }
    let members = |start: u64| {
        let first = live.partition_point(|occupied| end(occupied) <= start);
        let last = live.partition_point(|occupied| occupied.start < start.saturating_add(wanted));
        first..last.max(first)
    };
    let cost = |start: u64| {
        let members = members(start);
        sums[members.end] - sums[members.start]
    };
    let start = starts.min_by_key(|start| (cost(*start), *start))?;
    let lines = HeldByLine::collect(live[members(start)].iter().map(|occupied| (occupied.line.as_ref(), 1, occupied.bytes)));
    Some(Window { start, bytes: cost(start), lines })
}

/// Returns the largest free block of a bank with these buffers (address, bytes), or `None` if they do not fit into the bank.
pub fn largest_free(buffers: impl Iterator<Item = (u64, u64)>, geometry: LedgerGeometry) -> Option<u64> {
    let mut taken: Vec<(u64, u64)> = Vec::new();
    for (address, bytes) in buffers {
        let start = address.checked_sub(geometry.base)?;
        taken.push((start, start.checked_add(bytes).filter(|end| *end <= geometry.bank_bytes && bytes > 0)?));
    }
    taken.sort_unstable();
    let (mut largest, mut free_from) = (0, 0);
    for (start, end) in taken {
        largest = largest.max(start.checked_sub(free_from)?);
        free_from = end;
    }
    Some(largest.max(geometry.bank_bytes - free_from))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn occupied(start: u64, bytes: u64, line: u32) -> Occupied {
        Occupied { start, bytes, line: Some(Arc::new(SourceLine { file: "m.py".into(), line, function: "f".into() })) }
    }

    #[test]
    fn the_cheapest_window_frees_the_fewest_bytes() {
        // Every second block of ten is free. The small buffer in the middle is the cheapest to release.
        let live = vec![occupied(10, 10, 1), occupied(30, 10, 1), occupied(50, 2, 2), occupied(70, 10, 1), occupied(90, 10, 1)];
        let window = cheapest_window(live, 100, 25).expect("a window");
        assert_eq!((window.start, window.bytes), (40, 2));
        assert_eq!((window.lines.len(), window.lines[0].count), (1, 1));
        assert_eq!(window.lines[0].line.as_ref().map(|line| line.line), Some(2));
    }

    #[test]
    fn impossible_requests_have_no_window() {
        assert_eq!(cheapest_window(Vec::new(), 100, 101), None);
        assert_eq!(cheapest_window(Vec::new(), 100, 0), None);
        assert_eq!(cheapest_window(vec![occupied(0, 20, 1), occupied(10, 5, 1)], 100, 10), None, "two on the same bytes");
        assert_eq!(cheapest_window(vec![occupied(90, 20, 1)], 100, 10), None, "behind the end");
        assert_eq!(cheapest_window(Vec::new(), 100, 100), Some(Window { start: 0, bytes: 0, lines: Vec::new() }));
    }

    proptest! {
        #[test]
        fn no_window_is_cheaper(turns in prop::collection::vec((0..6_u64, 1..6_u64), 0..12), wanted in 1..40_u64) {
            let mut live = Vec::new();
            let mut next = 0;
            for (gap, bytes) in turns {
                live.push(occupied(next + gap, bytes, 1));
                next += gap + bytes;
            }
            let bank = next + 3;
            let overlaps = |one: &&Occupied, start: u64| one.start < start + wanted && one.start + one.bytes > start;
            let cost = |start: u64| live.iter().filter(|one| overlaps(one, start)).map(|one| one.bytes).sum::<u64>();
            let least = (0..=bank.saturating_sub(wanted)).filter(|_| wanted <= bank).map(cost).min();
            prop_assert_eq!(cheapest_window(live.clone(), bank, wanted).map(|window| window.bytes), least);
        }
    }

    #[test]
    fn the_largest_free_block_is_the_widest_gap() {
        let bank = LedgerGeometry { banks: 8, bank_bytes: 100, base: 1000 };
        let largest = |buffers: &[(u64, u64)]| largest_free(buffers.iter().copied(), bank);
        assert_eq!(largest(&[]), Some(100));
        assert_eq!(largest(&[(1030, 10), (1000, 10)]), Some(60));
        assert_eq!(largest(&[(1020, 70), (1000, 5)]), Some(15));
        assert_eq!(largest(&[(1000, 100)]), Some(0));
        assert_eq!(largest(&[(999, 10)]), None, "before the bank");
        assert_eq!(largest(&[(1090, 11)]), None, "behind the bank");
        assert_eq!(largest(&[(1000, 20), (1010, 5)]), None, "two on the same bytes");
        assert_eq!(largest(&[(1000, 0)]), None, "the bytes in a bank are not known");
    }
}
