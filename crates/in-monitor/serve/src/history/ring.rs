//! Columns of equal length with one slot per time step. The newest slot replaces the oldest.

use std::time::Duration;

use super::Column;

#[derive(Debug)]
pub(super) struct Ring {
    pub(super) step: Duration,
    length: usize,
    /// The newest slot, and the oldest slot ever used.
    newest: u64,
    first: Option<u64>,
    /// By device, then by field.
    columns: Vec<Vec<Column>>,
}

impl Ring {
    pub(super) fn new(step: Duration, span: Duration) -> Self {
        let length = usize::try_from(span.as_nanos() / step.as_nanos().max(1)).unwrap_or(usize::MAX).max(1);
        Self { step, length, newest: 0, first: None, columns: Vec::new() }
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

    /// Advances to a slot: all slots in between, and this one, are gaps until a value is stored.
    pub(super) fn advance(&mut self, slot: u64) {
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
    pub(super) fn store(&mut self, device: usize, field: usize, slot: u64, value: i64) {
        if self.range().is_some_and(|(oldest, newest)| (oldest..=newest).contains(&slot)) {
            let (index, length) = (self.index(slot), self.length);
            self.columns[device][field].store(index, length, value);
        }
    }

    pub(super) fn get(&self, device: usize, field: usize, slot: u64) -> Option<i64> {
        let (oldest, newest) = self.range()?;
        (oldest..=newest).contains(&slot).then(|| self.columns[device][field].get(self.index(slot)))?
    }

    pub(super) fn grow(&mut self, devices: usize, fields: usize) {
        self.columns.resize_with(devices, || (0..fields).map(|_| Column::Empty).collect());
    }

    pub(super) fn forget(&mut self, device: usize) {
        self.columns[device].iter_mut().for_each(|column| *column = Column::Empty);
    }

    pub(super) fn bytes(&self) -> usize {
        self.columns.iter().flatten().map(Column::bytes).sum()
    }

    fn index(&self, slot: u64) -> usize {
        usize::try_from(slot % self.length as u64).expect("it is less than `length`")
    }
}
