//! Clocks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Returns the time since boot. It never jumps, and includes the time in suspend.
pub fn boot_time() -> Duration {
    clock_gettime(ClockId::Boottime).try_into().expect("the time since boot is positive")
}

/// Returns the nanoseconds since 1970 on the wall clock. A clock before 1970 reads 0.
pub fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
