//! One field of one device over time, as integers: four bytes each while they fit, otherwise eight.

/// Marks a slot without a value.
const NARROW_GAP: i32 = i32::MIN;
const WIDE_GAP: i64 = i64::MIN;

#[derive(Debug)]
pub(super) enum Column {
    /// Never had a value, and uses no memory.
    Empty,
    Narrow(Box<[i32]>),
    Wide(Box<[i64]>),
}

impl Column {
    /// Stores a value. The first value allocates the column, and the first large value widens it.
    pub(super) fn store(&mut self, index: usize, length: usize, value: i64) {
        match (&mut *self, i32::try_from(value)) {
            (Self::Narrow(slots), Ok(small)) if small != NARROW_GAP => slots[index] = small,
            (Self::Wide(slots), _) => slots[index] = value.max(WIDE_GAP + 1),
            (Self::Empty, Ok(small)) if small != NARROW_GAP => {
                let mut slots = vec![NARROW_GAP; length].into_boxed_slice();
                slots[index] = small;
                *self = Self::Narrow(slots);
            }
            _ => {
                let mut slots: Box<[i64]> = (0..length).map(|index| self.get(index).unwrap_or(WIDE_GAP)).collect();
                slots[index] = value.max(WIDE_GAP + 1);
                *self = Self::Wide(slots);
            }
        }
    }

    /// Turns a slot into a gap.
    pub(super) fn clear(&mut self, index: usize) {
        match self {
            Self::Empty => {}
            Self::Narrow(slots) => slots[index] = NARROW_GAP,
            Self::Wide(slots) => slots[index] = WIDE_GAP,
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<i64> {
        match self {
            Self::Empty => None,
            Self::Narrow(slots) => Some(i64::from(slots[index])).filter(|_| slots[index] != NARROW_GAP),
            Self::Wide(slots) => Some(slots[index]).filter(|value| *value != WIDE_GAP),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::Narrow(slots) => size_of_val(&**slots),
            Self::Wide(slots) => size_of_val(&**slots),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// All stored values are returned, including gaps, for any time at which a column becomes wide.
        #[test]
        fn stored_values_are_returned(values in prop::collection::vec(prop::option::of(any::<i64>()), 1..50)) {
            let mut column = Column::Empty;
            for (index, value) in values.iter().enumerate() {
                match value {
                    Some(value) => column.store(index, values.len(), *value),
                    None => column.clear(index),
                }
            }
            for (index, value) in values.iter().enumerate() {
                prop_assert_eq!(column.get(index), value.map(|value| value.max(i64::MIN + 1)));
            }
        }
    }
}
