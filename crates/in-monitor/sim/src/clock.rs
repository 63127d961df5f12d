//! Ticks in real time. Engine and workers count ticks from the same start time, on a monotonic clock that all processes share.

use std::time::{Duration, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use ttmon_model::units::UnixTime;

use crate::spec::TICKS_PER_SECOND;

const TICK: Duration = Duration::from_millis(1000 / TICKS_PER_SECOND);

/// The time of tick 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: monotonic() }
    }

    /// Creates the clock of another process from its [`Clock::nanos`].
    pub(crate) fn from_nanos(nanos: u64) -> Self {
        Self { start: Duration::from_nanos(nanos) }
    }

    pub(crate) fn nanos(self) -> u64 {
        u64::try_from(self.start.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn tick(self) -> u64 {
        u64::try_from(self.elapsed().as_nanos() / TICK.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn until_next_tick(self) -> Duration {
        let into_tick = self.elapsed().as_nanos() % TICK.as_nanos();
        TICK - Duration::from_nanos(u64::try_from(into_tick).unwrap_or(0))
    }

    fn elapsed(self) -> Duration {
        monotonic().saturating_sub(self.start)
    }
}

fn monotonic() -> Duration {
    clock_gettime(ClockId::Monotonic).try_into().expect("the time since the boot is positive")
}

/// Returns the wall clock time, for the times in TT-Metal's statistics.
pub(crate) fn unix_time() -> UnixTime {
    // A clock before 1970 shows 1970.
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    UnixTime(u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_counted_from_the_start() {
        let now = Clock::start();
        assert_eq!(now.tick(), 0);
        assert!(now.until_next_tick() <= TICK);
        let earlier = Clock::from_nanos(now.nanos().saturating_sub(10_100_000_000));
        assert!((40..=41).contains(&earlier.tick()), "{}", earlier.tick());
    }
}
