//! Limits warnings about users: some lines per minute, and a count of the rest. A user who connects a hundred thousand times with invalid
//! messages does not fill the log.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::limits::{WARNED_USERS_MAX, WARNINGS_PER_MINUTE_MAX};

const MINUTE: Duration = Duration::from_secs(60);

/// Users with warnings within the last minute.
#[derive(Debug, Default)]
pub(crate) struct WarningLimit(HashMap<u32, Minute>);

#[derive(Debug)]
struct Minute {
    since: Instant,
    printed: u32,
    left_out: u64,
}

impl WarningLimit {
    /// Counts a warning about a user. Returns whether it may be printed.
    pub(crate) fn may_print(&mut self, uid: u32, now: Instant) -> bool {
        if !self.0.contains_key(&uid) && self.0.len() >= WARNED_USERS_MAX {
            return false;
        }
        let minute = self.0.entry(uid).or_insert(Minute { since: now, printed: 0, left_out: 0 });
        if minute.printed < WARNINGS_PER_MINUTE_MAX {
            minute.printed += 1;
            true
        } else {
            minute.left_out += 1;
            false
        }
    }

    /// The end of the next minute in which warnings were suppressed.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.0.values().filter(|minute| minute.left_out > 0).map(|minute| minute.since + MINUTE).min()
    }

    /// Ends minutes. Returns the users with suppressed warnings, and their number.
    pub(crate) fn end_minutes(&mut self, now: Instant) -> Vec<(u32, u64)> {
        let ended = self.0.extract_if(|_, minute| now >= minute.since + MINUTE);
        ended.filter(|(_, minute)| minute.left_out > 0).map(|(uid, minute)| (uid, minute.left_out)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_warnings_of_a_minute_are_counted() {
        let (mut limit, now) = (WarningLimit::default(), Instant::now());
        let printed = (0..1000).filter(|_| limit.may_print(7, now)).count();
        assert_eq!(printed, WARNINGS_PER_MINUTE_MAX as usize);
        assert!(limit.may_print(8, now), "another user has lines of its own");
        assert_eq!((limit.next_deadline(), limit.end_minutes(now)), (Some(now + MINUTE), vec![]));
        assert_eq!(limit.end_minutes(now + MINUTE), [(7, 1000 - u64::from(WARNINGS_PER_MINUTE_MAX))]);
        assert!(limit.may_print(7, now + MINUTE) && limit.next_deadline().is_none());
    }
}
