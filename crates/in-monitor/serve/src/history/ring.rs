//! Columns of equal length with one slot per time step. The newest slot replaces the oldest.

use std::time::Duration;

use super::column::Column;

#[derive(Debug)]
pub(super) struct Ring {
    pub(super) step: Duration,
    length: usize,
    /// The newest slot, and the oldest slot ever used.
    newest: u64,
    first: Option<u64>,
    /// By device, then by field.
    columns: Vec<Vec<Column>>,
    /// The slot of the newest sample, and the sums of its values so far, because several samples may be in one slot.
    filling: Option<u64>,
    sums: Vec<Vec<Sum>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    total: i128,
    count: i128,
}

impl Sum {
    fn add(&mut self, value: i64) {
        *self = Self { total: self.total + i128::from(value), count: self.count + 1 };
    }

    fn mean(self) -> Option<i64> {
        if self.count == 0 {
            return None;
        }
        // Rounds half up, so that the mean of 0 and 1 becomes 1. The mean of 64-bit values has 64 bits.
        i64::try_from((self.total + self.count / 2).div_euclid(self.count)).ok()
    }
}

impl Ring {
    pub(super) fn new(step: Duration, span: Duration) -> Self {
        let length = usize::try_from(span.as_nanos() / step.as_nanos().max(1)).unwrap_or(usize::MAX).max(1);
        Self { step, length, newest: 0, first: None, columns: Vec::new(), filling: None, sums: Vec::new() }
    }

    pub(super) fn slot(&self, at: Duration) -> u64 {
        u64::try_from(at.as_nanos() / self.step.as_nanos().max(1)).unwrap_or(u64::MAX)
    }

    pub(super) fn time(&self, slot: u64) -> Duration {
        self.step.saturating_mul(u32::try_from(slot).unwrap_or(u32::MAX))
    }

    /// Returns the first and last slot, if there are any.
    pub(super) fn range(&self) -> Option<(u64, u64)> {
        let oldest = self.first?.max(self.newest.saturating_sub(self.length as u64 - 1));
        Some((oldest, self.newest))
    }

    /// Whether no slot was overwritten so far.
    pub(super) fn is_whole(&self) -> bool {
        self.range().is_none_or(|(oldest, _)| self.first == Some(oldest))
    }

    /// Begins the slot of a time, unless it is the current one. Stores the means of the slot before.
    pub(super) fn begin(&mut self, at: Duration) {
        let slot = self.slot(at);
        if self.filling != Some(slot) {
            self.store_means();
            self.sums.iter_mut().for_each(|sums| sums.fill(Sum::default()));
            self.filling = Some(slot);
        }
    }

    /// Adds a value to the current slot.
    pub(super) fn add(&mut self, device: usize, field: usize, value: i64) {
        self.sums[device][field].add(value);
    }

    /// Stores the means of the current slot. All slots since the newest one are gaps.
    pub(super) fn store_means(&mut self) {
        let Some(slot) = self.filling else { return };
        self.advance(slot);
        for device in 0..self.sums.len() {
            for field in 0..self.sums[device].len() {
                if let Some(mean) = self.sums[device][field].mean() {
                    self.store(device, field, slot, mean);
                }
            }
        }
    }

    /// Advances to a slot: all slots in between, and this one, are gaps until a value is stored.
    fn advance(&mut self, slot: u64) {
        if self.first.is_some() && slot <= self.newest {
            return;
        }
        let from = if self.first.is_some() { self.newest + 1 } else { slot };
        let from = from.max(slot.saturating_sub(self.length as u64 - 1));
        for gap in from..=slot {
            let index = self.index(gap);
            self.columns.iter_mut().flatten().for_each(|column| column.clear(index));
        }
        self.first.get_or_insert(slot);
        self.newest = slot;
    }

    /// Stores a value into the newest slot. A value of an overwritten slot is dropped.
    fn store(&mut self, device: usize, field: usize, slot: u64, value: i64) {
        if self.range().is_some_and(|(oldest, newest)| (oldest..=newest).contains(&slot)) {
            let (index, length) = (self.index(slot), self.length);
            self.columns[device][field].store(index, length, value);
        }
    }

    pub(super) fn get(&self, device: usize, field: usize, slot: u64) -> Option<i64> {
        let (oldest, newest) = self.range()?;
        (oldest..=newest).contains(&slot).then(|| self.columns[device][field].get(self.index(slot)))?
    }

    pub(super) fn add_device(&mut self, fields: usize) {
        self.columns.push((0..fields).map(|_| Column::Empty).collect());
        self.sums.push(vec![Sum::default(); fields]);
    }

    pub(super) fn forget(&mut self, device: usize) {
        self.columns[device].iter_mut().for_each(|column| *column = Column::Empty);
        self.sums[device].fill(Sum::default());
    }

    pub(super) fn bytes(&self) -> usize {
        self.columns.iter().flatten().map(Column::bytes).sum()
    }

    fn index(&self, slot: u64) -> usize {
        usize::try_from(slot % self.length as u64).expect("it is less than `length`")
    }
}
