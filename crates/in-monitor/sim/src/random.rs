//! Pseudorandom numbers that depend only on a seed and an index. There is no state, so any tick can be computed directly.

/// What the numbers are used for. Two purposes never share numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Serial,
    AsicId,
    Chips,
    Load,
    Memory,
    Jitter,
    Counters,
    Leftover,
}

/// The random numbers for one purpose and one owner (a chip, a process).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random {
    key: u64,
}

impl Random {
    pub(crate) fn new(seed: u64, purpose: Purpose, owner: u64) -> Self {
        Self { key: [seed, purpose as u64, owner].into_iter().fold(0, |key, part| mix(key.wrapping_add(mix(part)))) }
    }

    /// Returns the number at an index. Every step is a bijection, so different indices give different numbers.
    pub(crate) fn at(self, index: u64) -> u64 {
        mix(self.key.wrapping_add(mix(index)))
    }

    /// Returns the number at an index, in `0.0..1.0`.
    pub(crate) fn unit(self, index: u64) -> f64 {
        (self.at(index) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a value on a smooth curve through [`Random::unit`] at whole indices.
    pub(crate) fn smooth(self, position: f64) -> f64 {
        let left = whole(position);
        let way = position - left as f64;
        let eased = way * way * (3.0 - 2.0 * way);
        self.unit(left) * (1.0 - eased) + self.unit(left + 1) * eased
    }
}

/// The finalizer of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Returns the whole part of a quantity, or 0 if it is negative.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a float's cast saturates, which is what is meant")]
pub(crate) fn whole(quantity: f64) -> u64 {
    quantity as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_published_generator() {
        // The first outputs of splitmix64 from state 0. The finalizer adds the increment itself.
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
        assert_eq!(mix(0x9E37_79B9_7F4A_7C15), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn curves_stay_inside_and_have_no_jumps() {
        let random = Random::new(1, Purpose::Load, 2);
        let mut before = random.smooth(0.0);
        for step in 1..10_000u32 {
            let now = random.smooth(f64::from(step) / 50.0);
            assert!((0.0..1.0).contains(&now) && (now - before).abs() < 0.04, "{step}: {before} to {now}");
            before = now;
        }
    }

    #[test]
    fn owners_and_purposes_differ() {
        let numbers = [
            Random::new(1, Purpose::Load, 0).at(0),
            Random::new(2, Purpose::Load, 0).at(0),
            Random::new(1, Purpose::Memory, 0).at(0),
            Random::new(1, Purpose::Load, 1).at(0),
            Random::new(1, Purpose::Load, 0).at(1),
        ];
        for (index, number) in numbers.iter().enumerate() {
            assert!(!numbers[..index].contains(number), "{numbers:x?}");
        }
    }
}
