//! When a chip may be read.
//!
//! Opening a Wormhole device cancels its pending power-down, and closing it does not schedule it again. So a chip that no process holds is
//! read rarely, and only after the power-down has happened.

use std::time::Duration;

/// Minimum interval for a chip in use: slightly below half a second, so that samples every 500 ms always read.
const HELD_EVERY: Duration = Duration::from_millis(490);
/// Minimum interval for a chip that no process holds.
const IDLE_EVERY: Duration = Duration::from_secs(30);
/// Additional time to wait after the driver's time until it powers down an idle chip.
const GRACE_MORE: Duration = Duration::from_secs(1);
/// Time without reads after a chip answered with all ones.
const BACK_OFF: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Read,
    /// Returns the last sample.
    Keep,
    /// The power-down of the chip may be pending.
    Wait,
}

/// When a chip was last read, and since when no process holds it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChipSchedule {
    read_at: Option<Duration>,
    free_since: Option<Duration>,
    not_before: Option<Duration>,
}

impl ChipSchedule {
    pub(crate) fn observe(&mut self, now: Duration, is_held: bool) {
        self.free_since = if is_held { None } else { self.free_since.or(Some(now)) };
    }

    /// Decides what may be done now. `grace` is the driver's time until it powers down an idle chip, or zero if it does so at once.
    pub(crate) fn decide(&mut self, now: Duration, is_held: bool, grace: Duration) -> Decision {
        self.observe(now, is_held);
        let every = if is_held { HELD_EVERY } else { IDLE_EVERY };
        let is_early = self.read_at.is_some_and(|at| now.saturating_sub(at) < every) || self.not_before.is_some_and(|until| now < until);
        let free_for = self.free_since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        match () {
            () if is_early => Decision::Keep,
            () if !is_held && !grace.is_zero() && free_for < grace + GRACE_MORE => Decision::Wait,
            () => {
                self.read_at = Some(now);
                Decision::Read
            }
        }
    }

    pub(crate) fn back_off(&mut self, now: Duration) {
        self.not_before = Some(now + BACK_OFF);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_held_chip_is_read_twice_a_second_at_most() {
        let mut schedule = ChipSchedule::default();
        let reads = (0..100).filter(|turn| schedule.decide(at(turn * 50), true, GRACE) == Decision::Read).count();
        assert_eq!(reads, 10);
        assert_eq!(schedule.decide(at(5000), true, GRACE), Decision::Read);
    }

    #[test]
    fn an_idle_chip_is_read_after_its_power_down_and_seldom() {
        let mut schedule = ChipSchedule::default();
        let decisions: Vec<Decision> = (0..14).map(|second| schedule.decide(at(second * 500), false, GRACE)).collect();
        assert_eq!(decisions[..12], [Decision::Wait; 12]);
        assert_eq!(decisions[12..], [Decision::Read, Decision::Keep]);
        let reads = (7..127).filter(|second| schedule.decide(at(second * 1000), false, GRACE) == Decision::Read).count();
        assert_eq!(reads, 4);
    }

    #[test]
    fn a_holder_in_between_starts_the_wait_anew() {
        let mut schedule = ChipSchedule::default();
        assert_eq!(schedule.decide(at(0), true, GRACE), Decision::Read);
        assert_eq!(schedule.decide(at(40_000), false, GRACE), Decision::Wait);
        schedule.observe(at(45_000), true);
        assert_eq!(schedule.decide(at(46_500), false, GRACE), Decision::Wait);
        assert_eq!(schedule.decide(at(52_499), false, GRACE), Decision::Wait);
        assert_eq!(schedule.decide(at(52_500), false, GRACE), Decision::Read);
    }

    #[test]
    fn without_a_grace_there_is_no_wait() {
        assert_eq!(ChipSchedule::default().decide(at(0), false, Duration::ZERO), Decision::Read);
    }

    #[test]
    fn a_dead_chip_is_left_alone_for_ten_seconds() {
        let mut schedule = ChipSchedule::default();
        assert_eq!(schedule.decide(at(0), true, GRACE), Decision::Read);
        schedule.back_off(at(0));
        assert_eq!(schedule.decide(at(9999), true, GRACE), Decision::Keep);
        assert_eq!(schedule.decide(at(10_000), true, GRACE), Decision::Read);
    }
}
