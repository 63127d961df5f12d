//! Times on the user's clock.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use ttmon_model::units::UnixTime;

/// The user's time zone.
#[derive(Clone, Debug)]
pub struct Clock(pub TimeZone);

impl Clock {
    fn zoned(&self, time: UnixTime) -> Zoned {
        // Every `UnixTime` is a valid timestamp.
        Timestamp::from_nanosecond(i128::from(time.0)).unwrap_or_default().to_zoned(self.0.clone())
    }

    /// `08:12`
    pub(crate) fn minute(&self, time: UnixTime) -> String {
        let time = self.zoned(time);
        format!("{:02}:{:02}", time.hour(), time.minute())
    }

    /// `08:12:45`
    pub(crate) fn second(&self, time: UnixTime) -> String {
        let time = self.zoned(time);
        format!("{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second())
    }

    /// `2026-11-15 08:12:45`
    pub(crate) fn date(&self, time: UnixTime) -> String {
        let zoned = self.zoned(time);
        format!("{} {}", zoned.date(), self.second(time))
    }
}
