//! A table of items with numbers that are not reused, so that a stale number never refers to another item.

/// A table that reuses its slots under new numbers.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Adds an item. The low half of its number is its slot.
    pub(crate) fn insert(&mut self, item: T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() - 1
        });
        let (turn, slot) = &mut self.slots[index];
        // 24 bits, so that the number has room for an event kind.
        *turn = (*turn + 1) & 0xFF_FFFF;
        *slot = Some(item);
        u64::from(*turn) << 32 | index as u64
    }

    fn index_and_turn(number: u64) -> (usize, u32) {
        ((number & 0xFFFF_FFFF) as usize, (number >> 32 & 0xFF_FFFF) as u32)
    }

    #[inline]
    fn slot(&mut self, number: u64) -> Option<&mut Option<T>> {
        let (index, turn) = Self::index_and_turn(number);
        self.slots.get_mut(index).filter(|(known, _)| *known == turn).map(|(_, slot)| slot)
    }

    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let (index, turn) = Self::index_and_turn(number);
        self.slots.get(index).filter(|(known, _)| *known == turn)?.1.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.slot(number)?.as_mut()
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let item = self.lend(number)?;
        self.free.push(Self::index_and_turn(number).0);
        Some(item)
    }

    /// Takes an item out temporarily. The caller returns it with [`Slab::put_back`].
    #[inline]
    pub(crate) fn lend(&mut self, number: u64) -> Option<T> {
        self.slot(number)?.take()
    }

    #[inline]
    pub(crate) fn put_back(&mut self, number: u64, item: T) {
        let (index, _) = Self::index_and_turn(number);
        if let Some((_, slot)) = self.slots.get_mut(index) {
            *slot = Some(item);
        }
    }

    /// All items with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, (turn, item))| Some((u64::from(*turn) << 32 | index as u64, item.as_ref()?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_of_one_item() {
        let mut slab = Slab::default();
        let (one, two) = (slab.insert("one"), slab.insert("two"));
        assert_eq!((slab.get(one), slab.len()), (Some(&"one"), 2));
        assert_eq!(slab.remove(one), Some("one"));
        let three = slab.insert("three");
        assert_eq!((slab.get(one), slab.get(three)), (None, Some(&"three")));
        assert_eq!(slab.remove(one), None);
        let lent = slab.lend(two).expect("there");
        assert_eq!(slab.get(two), None);
        slab.put_back(two, lent);
        assert_eq!(slab.iter().map(|(_, item)| *item).collect::<Vec<_>>(), ["three", "two"]);
    }
}
