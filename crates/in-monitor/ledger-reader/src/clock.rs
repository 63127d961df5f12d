//! Converts the ledger's clock to the time of day.
//!
//! A ledger has its creation time in all its clocks. For the CPU's counter the rate is measured from the creation to now. Both ends are
//! accurate to a fraction of a microsecond, and so is every time in between, even for a new ledger. If a clock was set, or the process has
//! its own clocks, times may be unknown. The live buffers are always known.

use super::bytes::{u32_at, u64_at};
use ttmon_ledger::layout::{Clock, header};
use ttmon_ledger::tsc;
use ttmon_model::units::UnixTime;

/// The creation of a ledger in each clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Creation {
    clock: Option<Clock>,
    monotonic: u64,
    pub(super) realtime: u64,
    ticks: u64,
}

/// Converts times of one ledger to nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Converter {
    ticks: u64,
    realtime: u64,
    /// Nanoseconds per tick x 2^32; `None` if the clock is not known here.
    scale: Option<u64>,
}

const ONE: u64 = 1 << 32;
/// Valid rates: counters run between 100 MHz and 10 GHz. Other rates are forged.
const SCALES: std::ops::RangeInclusive<u64> = ONE / 10..=ONE * 10;
/// Below this age a rate out of range may be a measurement error.
const YOUNG_NS: u64 = 1_000_000;
/// Two clocks that differ by more than this, and by more than this fraction of the elapsed time, were not only adjusted gradually.
const APART_NS: u64 = 10_000_000;
const APART_PART: u64 = 128;
/// How long the counter is measured if the clocks contradict each other, and the accuracy of the result.
const WATCH_NS: u64 = 200_000;
const NEAR_PART: u64 = 32;

/// All clocks at one time.
#[derive(Clone, Copy, Debug)]
struct ClockReading {
    ticks: u64,
    monotonic: u64,
    realtime: u64,
}

impl Creation {
    pub(super) fn decode(bytes: &[u8]) -> Self {
        Self {
            clock: Clock::from_number(u32_at(bytes, header::CLOCK)),
            monotonic: u64_at(bytes, header::CREATED_MONOTONIC),
            realtime: u64_at(bytes, header::CREATED_REALTIME),
            ticks: u64_at(bytes, header::CREATED_CLOCK),
        }
    }

    pub(super) fn converter(&self) -> Converter {
        match self.clock {
            Some(Clock::Monotonic) => Converter { ticks: self.monotonic, realtime: self.realtime, scale: Some(ONE) },
            Some(Clock::Tsc) => ClockReading::now().map_or(self.unknown(), |now| self.by_counter(now, || watched(now))),
            None => self.unknown(),
        }
    }

    fn unknown(&self) -> Converter {
        Converter { ticks: self.ticks, realtime: self.realtime, scale: None }
    }

    /// Converts by the counter. CLOCK_MONOTONIC gives the rate, unless it contradicts the wall clock. Then one of the two was changed: the
    /// wall clock was set, or the process has a time namespace with its own monotonic clock. `watch`, a rate measured now, decides which
    /// one is right.
    fn by_counter(&self, now: ClockReading, watch: impl FnOnce() -> Option<u64>) -> Converter {
        let by_monotonic = self.scale(now.ticks, now.monotonic.checked_sub(self.monotonic));
        let by_realtime = self.scale(now.ticks, now.realtime.checked_sub(self.realtime));
        let elapsed = now.monotonic.wrapping_sub(self.monotonic);
        let apart = elapsed.abs_diff(now.realtime.wrapping_sub(self.realtime));
        if by_monotonic.is_some() && apart <= APART_NS + elapsed / APART_PART {
            return Converter { scale: by_monotonic, ..self.unknown() };
        }
        let Some(watched) = watch() else { return Converter { scale: by_monotonic, ..self.unknown() } };
        let is_near = |scale: &u64| scale.abs_diff(watched) <= watched / NEAR_PART;
        match (by_monotonic.filter(is_near), by_realtime.filter(is_near)) {
            (None, Some(scale)) => Converter { scale: Some(scale), ..self.unknown() },
            // The wall clock was set. Ages counted back from now are right.
            (scale, _) => {
                let scale = scale.unwrap_or(watched);
                let age = now.ticks.checked_sub(self.ticks).map(|ticks| nanoseconds(ticks, scale));
                age.map_or(self.unknown(), |age| Converter {
                    ticks: self.ticks,
                    realtime: now.realtime.saturating_sub(age),
                    scale: Some(scale),
                })
            }
        }
    }

    /// Nanoseconds per tick x 2^32, from the creation to a later time.
    fn scale(&self, ticks_now: u64, elapsed: Option<u64>) -> Option<u64> {
        let (ticks, elapsed) = (ticks_now.checked_sub(self.ticks)?, elapsed?);
        let scale = rate(elapsed, ticks)?;
        if SCALES.contains(&scale) { Some(scale) } else { (elapsed < YOUNG_NS).then(|| scale.clamp(*SCALES.start(), *SCALES.end())) }
    }
}

fn rate(nanoseconds: u64, ticks: u64) -> Option<u64> {
    let scale = (u128::from(nanoseconds) << 32).checked_div(u128::from(ticks))?;
    Some(u64::try_from(scale).unwrap_or(u64::MAX))
}

fn nanoseconds(ticks: u64, scale: u64) -> u64 {
    u64::try_from((u128::from(ticks) * u128::from(scale)) >> 32).unwrap_or(u64::MAX)
}

impl Converter {
    /// Returns a time of the ledger as [`UnixTime`].
    #[inline]
    pub(super) fn unix(&self, time: u64) -> UnixTime {
        UnixTime(self.unix_ns(time))
    }

    /// Returns nanoseconds since 1970. 0 means never and stays 0. If the clock is not known, the result is always 0.
    #[inline]
    pub(super) fn unix_ns(&self, time: u64) -> u64 {
        let Some(scale) = self.scale.filter(|_| time != 0) else { return 0 };
        let distance = nanoseconds(time.abs_diff(self.ticks), scale);
        if time >= self.ticks { self.realtime.saturating_add(distance) } else { self.realtime.saturating_sub(distance) }
    }
}

impl ClockReading {
    /// Returns the most consistent of a few readings, because the thread may be preempted between the clocks.
    fn now() -> Option<Self> {
        (0..4)
            .filter_map(|_| {
                let before = tsc::monotonic_ns();
                let ticks = tsc::now()?;
                let apart = tsc::monotonic_ns().saturating_sub(before);
                let realtime = tsc::realtime_ns();
                Some((apart, Self { ticks, monotonic: before + apart / 2, realtime }))
            })
            .min_by_key(|(apart, _)| *apart)
            .map(|(_, moment)| moment)
    }
}

/// Measures the rate of the counter by this process's monotonic clock, for a short time from `since`.
fn watched(since: ClockReading) -> Option<u64> {
    loop {
        let now = ClockReading::now()?;
        let elapsed = now.monotonic.checked_sub(since.monotonic)?;
        if elapsed >= WATCH_NS {
            let ticks = now.ticks.checked_sub(since.ticks)?;
            return rate(elapsed, ticks).filter(|scale| SCALES.contains(scale));
        }
        std::hint::spin_loop();
    }
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

    /// 2.5 ticks per nanosecond.
    const RATE: u64 = ONE * 2 / 5;
    const HOUR: u64 = 3_600_000_000_000;

    /// A reading this many nanoseconds after the creation, by the counter and by each clock.
    fn after(ticks: u64, monotonic: u64, realtime: u64) -> ClockReading {
        let created = creation(None);
        ClockReading {
            ticks: created.ticks + ticks / 2 * 5,
            monotonic: created.monotonic + monotonic,
            realtime: created.realtime + realtime,
        }
    }

    fn by_counter(now: ClockReading, watched: Option<u64>) -> Converter {
        creation(Some(Clock::Tsc)).by_counter(now, || watched)
    }

    #[test]
    fn counter_times_go_by_the_measured_rate() {
        let converter = by_counter(after(1_000_000_000, 1_000_000_000, 1_000_400_000), None);
        assert_eq!(converter.unix_ns(70_000 + 250), 5_000_000 + 99, "2.5 ticks a nanosecond, cut");
        assert_eq!(converter.unix_ns(70_000 + 2_500_000), 5_000_000 + 999_999);
    }

    #[test]
    fn after_the_wall_clock_was_set_ages_are_right() {
        let created = Creation { realtime: 100 * HOUR, ..creation(Some(Clock::Tsc)) };
        let event = created.ticks + HOUR / 2 * 5 / 2;
        // Far ahead, slightly back, and before the creation.
        for wall in [9_000 * HOUR, 100 * HOUR + HOUR / 2, 77 * HOUR] {
            let now = ClockReading { realtime: wall, ..after(HOUR, HOUR, 0) };
            let age = now.realtime - created.by_counter(now, || Some(RATE)).unix_ns(event);
            assert!(age.abs_diff(HOUR / 2) < 1_000_000, "{wall}: {age}");
        }
    }

    #[test]
    fn in_a_time_namespace_the_wall_clock_gives_the_rate() {
        let event = creation(None).ticks + HOUR / 2 * 5 / 2;
        let ahead = ClockReading { monotonic: 0, ..after(HOUR, 0, HOUR) };
        for now in [ahead, after(HOUR, 3 * HOUR, HOUR), after(HOUR, 100 * HOUR, HOUR)] {
            let time = by_counter(now, Some(RATE)).unix_ns(event);
            assert!(time.abs_diff(5_000_000 + HOUR / 2) < 1_000_000, "{now:?}: {time}");
        }
        // Both clocks were changed: the measured rate decides.
        let now = after(HOUR, 9 * HOUR, 5 * HOUR);
        let age = now.realtime - by_counter(now, Some(RATE)).unix_ns(event);
        assert!(age.abs_diff(HOUR / 2) < HOUR / 100, "{age}");
    }

    #[test]
    fn absurd_rates_give_no_times() {
        let created = creation(Some(Clock::Tsc));
        assert_eq!(created.scale(69_999, Some(1_000)), None, "before its creation");
        assert_eq!(created.scale(70_001, Some(4_999_999_000)), None, "one tick in five seconds");
        assert_eq!(created.scale(70_000, Some(0)), None, "no time at all");
        assert_eq!(created.scale(70_001, Some(100)), Some(ONE * 10), "too young to measure");
        assert_eq!(creation(None).converter().unix_ns(77), 0);
        // The counter restarted, as after the machine was suspended.
        let anew = ClockReading { ticks: 5, ..after(0, HOUR, HOUR) };
        assert_eq!(by_counter(anew, Some(RATE)).unix_ns(70_001), 0);
        assert_eq!(by_counter(anew, None).unix_ns(70_001), 0);
    }
}
