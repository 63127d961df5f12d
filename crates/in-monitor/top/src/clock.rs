//! Times on the user's clock.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ttmon_model::units::UnixTime;

/// The user's time zone.
#[derive(Clone, Debug)]
pub struct Clock(pub TimeZone);

impl Default for Clock {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl Clock {
    fn format(&self, time: UnixTime, format: &str) -> String {
        // Every `UnixTime` is a valid timestamp.
        let time = Timestamp::from_nanosecond(i128::from(time.0)).unwrap_or_default().to_zoned(self.0.clone());
        time.strftime(format).to_string()
    }

    /// `08:12`
    pub(crate) fn minute(&self, time: UnixTime) -> String {
        self.format(time, "%H:%M")
    }

    /// `08:12:45`
    pub(crate) fn second(&self, time: UnixTime) -> String {
        self.format(time, "%H:%M:%S")
    }

    /// `2026-11-15 08:12:45`
    pub(crate) fn date(&self, time: UnixTime) -> String {
        self.format(time, "%Y-%m-%d %H:%M:%S")
    }
}
