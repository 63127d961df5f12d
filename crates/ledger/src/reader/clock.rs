//! From the ledger's clock to the time of day.
//!
//! A ledger holds one moment in all its clocks, that of its creation. For the CPU's counter the rate is measured from there to
//! now: both ends are good to a fraction of a microsecond, so every time in between is as well, however young the ledger is.

use super::bytes::{u32_at, u64_at};
use crate::layout::{Clock, header};
use crate::tsc;

/// The creation of a ledger in each clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Creation {
    clock: Option<Clock>,
    monotonic: u64,
    pub(super) realtime: u64,
    ticks: u64,
}

/// Turns times of one ledger into nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Converter {
    ticks: u64,
    realtime: u64,
    /// Nanoseconds a tick x 2^32; `None` where the clock is not known here.
    scale: Option<u64>,
}

const ONE: u64 = 1 << 32;
/// Counters tick between 100 MHz and 10 GHz: anything else was not measured but made up.
const SCALES: std::ops::RangeInclusive<u64> = ONE / 10..=ONE * 10;
/// Below this age a rate out of range may be an error of the two readings.
const YOUNG_NS: u64 = 1_000_000;

impl Creation {
    pub(super) fn decode(bytes: &[u8]) -> Self {
        let clock = match u32_at(bytes, header::CLOCK) {
            0 => Some(Clock::Monotonic),
            1 => Some(Clock::Tsc),
            _ => None,
        };
        Self {
            clock,
            monotonic: u64_at(bytes, header::CREATED_MONOTONIC),
            realtime: u64_at(bytes, header::CREATED_REALTIME),
            ticks: u64_at(bytes, header::CREATED_CLOCK),
        }
    }

    pub(super) fn converter(&self) -> Converter {
        let (ticks, scale) = match self.clock {
            Some(Clock::Monotonic) => (self.monotonic, Some(ONE)),
            Some(Clock::Tsc) => (self.ticks, both_now().and_then(|(ticks, monotonic)| self.scale(ticks, monotonic))),
            None => (0, None),
        };
        Converter { ticks, realtime: self.realtime, scale }
    }

    fn scale(&self, ticks_now: u64, monotonic_now: u64) -> Option<u64> {
        let ticks = ticks_now.checked_sub(self.ticks)?;
        let elapsed = monotonic_now.checked_sub(self.monotonic)?;
        let scale = (u128::from(elapsed) << 32).checked_div(u128::from(ticks))?;
        let scale = u64::try_from(scale).unwrap_or(u64::MAX);
        if SCALES.contains(&scale) { Some(scale) } else { (elapsed < YOUNG_NS).then(|| scale.clamp(*SCALES.start(), *SCALES.end())) }
    }
}

impl Converter {
    /// Nanoseconds since 1970; 0 stays 0 (never), and is all there is where the clock is not known.
    #[inline]
    pub(super) fn unix_ns(&self, time: u64) -> u64 {
        let Some(scale) = self.scale.filter(|_| time != 0) else { return 0 };
        let distance = (u128::from(time.abs_diff(self.ticks)) * u128::from(scale)) >> 32;
        let distance = u64::try_from(distance).unwrap_or(u64::MAX);
        if time >= self.ticks { self.realtime.saturating_add(distance) } else { self.realtime.saturating_sub(distance) }
    }
}

/// The counter and CLOCK_MONOTONIC at one moment: the closest of a few pairs, for we may be interrupted between the two.
fn both_now() -> Option<(u64, u64)> {
    (0..4)
        .filter_map(|_| {
            let before = tsc::monotonic_ns();
            let ticks = tsc::now()?;
            let apart = tsc::monotonic_ns().saturating_sub(before);
            Some((apart, (ticks, before + apart / 2)))
        })
        .min()
        .map(|(_, pair)| pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn creation(clock: Option<Clock>) -> Creation {
        Creation { clock, monotonic: 1_000, realtime: 5_000_000, ticks: 70_000 }
    }

    #[test]
    fn monotonic_times_move_with_the_creation() {
        let converter = creation(Some(Clock::Monotonic)).converter();
        assert_eq!(converter.unix_ns(1_250), 5_000_250);
        assert_eq!(converter.unix_ns(900), 4_999_900, "begun before the ledger was there");
        assert_eq!(converter.unix_ns(0), 0, "never");
        assert_eq!(converter.unix_ns(u64::MAX), u64::MAX);
    }

    #[test]
    fn counter_times_go_by_the_measured_rate() {
        let created = creation(Some(Clock::Tsc));
        let scale = created.scale(70_000 + 2_500_000_000, 1_000 + 1_000_000_000);
        let converter = Converter { ticks: created.ticks, realtime: created.realtime, scale };
        assert_eq!(converter.unix_ns(70_000 + 250), 5_000_000 + 99, "2.5 ticks a nanosecond, cut");
        assert_eq!(converter.unix_ns(70_000 + 2_500_000), 5_000_000 + 999_999);
    }

    #[test]
    fn absurd_rates_give_no_times() {
        let created = creation(Some(Clock::Tsc));
        assert_eq!(created.scale(69_999, 2_000), None, "before its creation");
        assert_eq!(created.scale(70_001, 5_000_000_000), None, "one tick in five seconds");
        assert_eq!(created.scale(70_000, 1_000), None, "no time at all");
        assert_eq!(created.scale(70_001, 1_100), Some(ONE * 10), "too young to tell");
        assert_eq!(creation(None).converter().unix_ns(77), 0);
    }
}
