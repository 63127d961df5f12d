//! The address space of a bank. It is filled roughly like TT-Metal's allocators fill it, so it gets similar holes.

use std::collections::BTreeMap;

/// The end of the memory that is filled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// From the lowest address up, like DRAM.
    Low,
    /// From the highest address down, like L1. Circular buffers grow from the other end.
    High,
}

/// Free ranges by start address. No two ranges are adjacent.
#[derive(Debug)]
pub(crate) struct Bank {
    free: BTreeMap<u64, u64>,
    end: End,
}

impl Bank {
    pub(crate) fn new(base: u64, bytes: u64, end: End) -> Self {
        Self { free: BTreeMap::from([(base, bytes)]), end }
    }

    /// Allocates `bytes` bytes from the first range that is long enough.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<u64> {
        let fits = |(_, length): &(&u64, &u64)| **length >= bytes;
        let found = match self.end {
            End::Low => self.free.iter().find(fits),
            End::High => self.free.iter().rev().find(fits),
        };
        let (start, length) = found.map(|(start, length)| (*start, *length))?;
        self.free.remove(&start);
        let (address, rest) = match self.end {
            End::Low => (start, start + bytes),
            End::High => (start + length - bytes, start),
        };
        if length > bytes {
            self.free.insert(rest, length - bytes);
        }
        Some(address)
    }

    /// Frees a range and joins it with its free neighbours.
    pub(crate) fn give(&mut self, address: u64, bytes: u64) {
        let (mut start, mut length) = (address, bytes);
        if let Some(behind) = self.free.remove(&(address + bytes)) {
            length += behind;
        }
        if let Some((before, bytes_before)) = self.free.range(..address).next_back().map(|(before, bytes)| (*before, *bytes))
            && before + bytes_before == address
        {
            self.free.remove(&before);
            (start, length) = (before, length + bytes_before);
        }
        self.free.insert(start, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn holes_are_filled_and_joined() {
        let mut bank = Bank::new(100, 100, End::Low);
        assert_eq!([bank.take(40), bank.take(40), bank.take(40)], [Some(100), Some(140), None]);
        bank.give(100, 40);
        assert_eq!([bank.take(30), bank.take(20)], [Some(100), Some(180)]);
        for (address, bytes) in [(140, 40), (100, 30), (180, 20)] {
            bank.give(address, bytes);
        }
        assert_eq!(bank.free, BTreeMap::from([(100, 100)]));
        let mut high = Bank::new(0, 64, End::High);
        assert_eq!([high.take(16), high.take(48), high.take(1)], [Some(48), Some(0), None]);
    }

    proptest! {
        /// For any sequence of allocations and frees, no two ranges overlap, and in the end all memory is free.
        #[test]
        fn no_memory_is_allocated_twice(steps in prop::collection::vec((1u64..300, any::<bool>()), 1..200), is_high: bool) {
            let mut bank = Bank::new(1000, 4096, if is_high { End::High } else { End::Low });
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (bytes, is_free) in steps {
                if is_free && !live.is_empty() {
                    let (address, bytes) = live.remove(usize::try_from(bytes).unwrap() % live.len());
                    bank.give(address, bytes);
                } else if let Some(address) = bank.take(bytes) {
                    prop_assert!(address >= 1000 && address + bytes <= 5096);
                    prop_assert!(live.iter().all(|(other, length)| address + bytes <= *other || other + length <= address));
                    live.push((address, bytes));
                }
            }
            live.into_iter().for_each(|(address, bytes)| bank.give(address, bytes));
            prop_assert_eq!(bank.free, BTreeMap::from([(1000, 4096)]));
        }
    }
}
