//! Quantities with their unit in the type.

use std::fmt;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        pub struct $name(pub $inner);
    };
}

quantity!(
    /// Degrees Celsius.
    Celsius(f64)
);
quantity!(
    /// Watts.
    Watts(f64)
);
quantity!(
    /// Volts.
    Volts(f64)
);
quantity!(
    /// Amperes.
    Amperes(f64)
);
quantity!(
    /// Megahertz, the driver's own unit for clocks.
    Megahertz(u64)
);
quantity!(
    /// Revolutions per minute.
    Rpm(u64)
);
quantity!(
    /// Bytes per second.
    BytesPerSecond(f64)
);
quantity!(
    /// Words of a chip's network per second: the size of a word is not settled on every architecture.
    WordsPerSecond(f64)
);

/// The unit of a field. Its symbol is part of the contract: it heads CSV columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Text, an identifier, a flag: no unit.
    None,
    /// Degrees Celsius.
    Celsius,
    /// Watts.
    Watts,
    /// Volts.
    Volts,
    /// Amperes.
    Amperes,
    /// Megahertz.
    Megahertz,
    /// Revolutions per minute.
    Rpm,
    /// A plain count.
    Count,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Network words per second.
    WordsPerSecond,
    /// A fraction from 0 to 1.
    Ratio,
    /// A moment, as RFC 3339 text.
    Time,
}

impl Unit {
    /// What stands in brackets behind a CSV heading; empty where there is none.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::None | Self::Time => "",
            Self::Celsius => "C",
            Self::Watts => "W",
            Self::Volts => "V",
            Self::Amperes => "A",
            Self::Megahertz => "MHz",
            Self::Rpm => "rpm",
            Self::Count => "count",
            Self::Bytes => "B",
            Self::BytesPerSecond => "B/s",
            Self::WordsPerSecond => "words/s",
            Self::Ratio => "ratio",
        }
    }
}

/// A moment as nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime(pub u64);

impl UnixTime {
    /// The moment as RFC 3339 text in UTC, to the millisecond: `2026-11-15T08:12:45.120Z`.
    pub fn rfc3339(self) -> String {
        let millis = self.0 / 1_000_000;
        let (days, in_day) = (millis / 86_400_000, millis % 86_400_000);
        let (year, month, day) = civil_from_days(days);
        let (hour, rest) = (in_day / 3_600_000, in_day % 3_600_000);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{:02}:{:02}.{:03}Z", rest / 60_000, rest % 60_000 / 1000, rest % 1000)
    }
}

/// Year, month and day of a day counted from 1970-01-01: the Gregorian calendar in years that begin in March, so
/// that a leap day is the last day of its year.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_ERA: u64 = 719_468;
    const DAYS_IN_ERA: u64 = 146_097;
    let shifted = days + DAYS_TO_ERA;
    let (era, day_of_era) = (shifted / DAYS_IN_ERA, shifted % DAYS_IN_ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// A version of two to four numbers, as drivers and firmware print them: `2.9.0`, `2.7.0-rc1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number; 0 where it is not printed.
    pub patch: u32,
}

impl Version {
    /// A version known at compile time.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Reads the leading numbers; a suffix such as `-rc1` does not count.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(['-', '+']).next().unwrap_or_default();
        let mut parts = numbers.split('.').map(str::parse::<u32>);
        let major = parts.next()?.ok()?;
        let minor = parts.next().unwrap_or(Ok(0)).ok()?;
        let patch = parts.next().unwrap_or(Ok(0)).ok()?;
        Some(Self { major, minor, patch })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_795_075_965, "2026-11-19T08:12:45.000Z"),
            (4_102_444_799, "2099-12-31T23:59:59.000Z"),
        ] {
            assert_eq!(UnixTime(seconds * 1_000_000_000).rfc3339(), text);
        }
    }

    #[test]
    fn versions_compare_as_numbers() {
        let parse = |text| Version::parse(text).unwrap();
        assert!(parse("2.10.0") > parse("2.9.0"));
        assert_eq!(parse("1.34"), Version::new(1, 34, 0));
        assert_eq!(parse("2.7.0-rc1"), Version::new(2, 7, 0));
        assert_eq!(Version::parse("garbage"), None);
        assert_eq!(Version::parse(""), None);
    }
}
