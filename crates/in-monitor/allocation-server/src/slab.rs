//! A table of items with numbers that are not reused, so that a stale number never refers to another item.

/// A table that reuses its slots under new numbers.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<(u32, Option<T>)>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Adds an item. The low half of its number is its slot.
    pub(crate) fn insert(&mut self, item: T) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() - 1
        });
        let (turn, slot) = &mut self.places[place];
        // 24 bits, so that the number has room for an event kind.
        *turn = (*turn + 1) & 0xFF_FFFF;
        *slot = Some(item);
        u64::from(*turn) << 32 | place as u64
    }

    fn place(number: u64) -> (usize, u32) {
        ((number & 0xFFFF_FFFF) as usize, (number >> 32 & 0xFF_FFFF) as u32)
    }

    #[inline]
    fn slot(&mut self, number: u64) -> Option<&mut Option<T>> {
        let (place, turn) = Self::place(number);
        self.places.get_mut(place).filter(|(known, _)| *known == turn).map(|(_, slot)| slot)
    }

    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let (place, turn) = Self::place(number);
        self.places.get(place).filter(|(known, _)| *known == turn)?.1.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.slot(number)?.as_mut()
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let item = self.lend(number)?;
        self.free.push(Self::place(number).0);
        Some(item)
    }

    /// Takes an item out temporarily. The caller returns it with [`Slab::put_back`].
    #[inline]
    pub(crate) fn lend(&mut self, number: u64) -> Option<T> {
        self.slot(number)?.take()
    }

    #[inline]
    pub(crate) fn put_back(&mut self, number: u64, item: T) {
        let (place, _) = Self::place(number);
        if let Some((_, slot)) = self.places.get_mut(place) {
            *slot = Some(item);
        }
    }

    /// All items with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.places.iter().enumerate().filter_map(|(place, (turn, item))| Some((u64::from(*turn) << 32 | place as u64, item.as_ref()?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_means_one_thing() {
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
