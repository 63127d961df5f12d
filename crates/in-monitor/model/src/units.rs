//! Quantities with their unit in the type.

use std::fmt;

macro_rules! quantities {
    ($($(#[$doc:meta])* $name:ident($inner:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        pub struct $name(pub $inner);
    )*};
}

quantities! {
    /// Degrees Celsius.
    Celsius(f64);
    /// Watts.
    Watts(f64);
    /// Volts.
    Volts(f64);
    /// Amperes.
    Amperes(f64);
    /// Megahertz, the driver's unit for clocks.
    Megahertz(u64);
    /// Revolutions per minute.
    Rpm(u64);
    /// Bytes per second.
    BytesPerSecond(f64);
    /// Words of a chip's network per second. The size of a word is not known on every architecture.
    WordsPerSecond(f64);
}

/// The unit of a field. The symbol of a unit is part of CSV headings and never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// No unit: text, an identifier, or a flag.
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
    /// A time, as RFC 3339 text.
    Time,
}

/// The base unit of metrics, and the conversion to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Base {
    /// The suffix of a metric's name. Empty if there is none.
    pub name: &'static str,
    /// The factor of the conversion.
    pub factor: f64,
}

impl Unit {
    /// Returns the symbol, and the name of the base unit.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::None | Self::Time => ("", ""),
            Self::Celsius => ("C", "celsius"),
            Self::Watts => ("W", "watts"),
            Self::Volts => ("V", "volts"),
            Self::Amperes => ("A", "amperes"),
            Self::Megahertz => ("MHz", "hertz"),
            Self::Rpm => ("rpm", "rpm"),
            Self::Count => ("count", ""),
            Self::Bytes => ("B", "bytes"),
            Self::BytesPerSecond => ("B/s", "bytes_per_second"),
            Self::WordsPerSecond => ("words/s", "words_per_second"),
            Self::Ratio => ("ratio", "ratio"),
        }
    }

    /// Returns the text in brackets after a CSV heading, or an empty string if there is none.
    pub fn symbol(self) -> &'static str {
        self.names().0
    }

    /// Returns the base unit of metrics: hertz for a field in megahertz.
    pub fn base(self) -> Base {
        Base { name: self.names().1, factor: if self == Self::Megahertz { 1e6 } else { 1.0 } }
    }

    /// Returns whether the numbers are whole.
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Megahertz | Self::Rpm | Self::Count | Self::Bytes)
    }

    /// Returns whether multiples are powers of 1024.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::Bytes | Self::BytesPerSecond)
    }
}

/// A time in nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime(pub u64);

impl UnixTime {
    /// Formats the time as RFC 3339 text in UTC, to the millisecond: `2026-11-15T08:12:45.120Z`.
    pub fn rfc3339(self) -> String {
        let millis = self.0 / 1_000_000;
        let (days, in_day) = (millis / 86_400_000, millis % 86_400_000);
        let (year, month, day) = civil_from_days(days);
        let (hour, rest) = (in_day / 3_600_000, in_day % 3_600_000);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{:02}:{:02}.{:03}Z", rest / 60_000, rest % 60_000 / 1000, rest % 1000)
    }

    /// Parses RFC 3339 text, `2026-11-15T08:12:45.120Z` or with an offset. Times before 1970 are rejected.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let is_shaped = text.is_ascii()
            && bytes.len() >= 20
            && [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')].iter().all(|(at, byte)| bytes[*at] == *byte);
        if !is_shaped || !matches!(bytes[10], b'T' | b't' | b' ') {
            return None;
        }
        let number = |from: usize, to: usize| digits(&text[from..to]);
        let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        let days = days_from_civil(year, month, day)?;
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let rest = &text[19..];
        let (fraction, zone) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
            None => ("", rest),
        };
        if rest.starts_with('.') && fraction.is_empty() {
            return None;
        }
        let nanos: u64 = fraction
            .bytes()
            .take(9)
            .zip([100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1])
            .map(|(digit, place)| u64::from(digit - b'0') * place)
            .sum();
        let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
        let seconds = seconds.checked_add_signed(-offset_seconds(zone)?)?;
        seconds.checked_mul(1_000_000_000)?.checked_add(nanos).map(Self)
    }
}

fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Parses `Z`, or an offset in hours and minutes: `+05:30`.
fn offset_seconds(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':').filter(|(hours, minutes)| hours.len() == 2 && minutes.len() == 2)?;
    let (hours, minutes) = (i64::try_from(digits(hours)?).ok()?, i64::try_from(digits(minutes)?).ok()?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Returns the days from 1970-01-01 to a valid later date.
fn days_from_civil(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    let (shifted_year, shifted_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let days = (era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year).checked_sub(719_468)?;
    // The inverse function detects dates that do not exist.
    (civil_from_days(days) == (year, month, day)).then_some(days)
}

/// Returns year, month and day of a day counted from 1970-01-01. Years of this computation begin in March, so that a leap day is the last
/// day of its year.
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

/// A version of two to four numbers, in the format of drivers and firmware: `2.9.0`, `2.7.0-rc1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number, or 0 if it is missing.
    pub patch: u32,
}

impl Version {
    /// Creates a version.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Parses the leading numbers. A suffix like `-rc1` is ignored.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.split_once(['-', '+']).map_or(text, |(numbers, _)| numbers);
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

/// Units of sizes, each 1024 times the previous one.
const SIZES: [&str; 7] = ["B", "KB", "MB", "GB", "TB", "PB", "EB"];

/// Formats a size in binary multiples with one decimal: `2.4GB`, where GB is 2^30.
pub fn size(bytes: u64) -> String {
    match in_its_unit(bytes) {
        (_, 0) => format!("{bytes}B"),
        (value, unit) => format!("{value:.1}{}", SIZES[unit]),
    }
}

/// Formats a size in the unit of another size: `0.3` for `12.0GB`. A size above zero is never shown as zero.
pub fn size_in_unit_of(bytes: u64, other: u64) -> String {
    let (_, unit) = in_its_unit(other);
    match (0..unit).fold(bytes as f64, |value, _| value / 1024.0) {
        value if value > 0.0 && value < 0.05 => "<0.1".to_owned(),
        value => format!("{value:.1}"),
    }
}

/// Returns the unit that a size is printed in.
pub fn size_unit(bytes: u64) -> &'static str {
    SIZES[in_its_unit(bytes).1]
}

/// Converts a size to one of the [`SIZES`].
fn in_its_unit(bytes: u64) -> (f64, usize) {
    let mut value = bytes as f64;
    let mut unit = 0;
    // A larger value would be printed as 1024.0.
    while value >= 1023.95 && unit + 1 < SIZES.len() {
        value /= 1024.0;
        unit += 1;
    }
    (value, unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_the_unit_of_the_whole() {
        for (bytes, other, text) in [
            (300 << 20, 12 << 30, "0.3"),
            (1, 12 << 30, "<0.1"),
            (0, 12 << 30, "0.0"),
            (1 << 29, (1 << 30) - 1, "0.5"),
            (u64::MAX, u64::MAX, "16.0"),
        ] {
            assert_eq!(size_in_unit_of(bytes, other), text, "{bytes} of {}", size(other));
        }
    }

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
    fn times_are_read_back() {
        for nanos in [0, 951_782_400_123_000_000, 1_795_075_965_001_000_000, 4_102_444_799_999_000_000] {
            assert_eq!(UnixTime::parse_rfc3339(&UnixTime(nanos).rfc3339()), Some(UnixTime(nanos)));
        }
        assert_eq!(UnixTime::parse_rfc3339("1970-01-01T05:30:01+05:30"), Some(UnixTime(1_000_000_000)));
        assert_eq!(UnixTime::parse_rfc3339("1970-01-01T00:00:00.5-00:01"), Some(UnixTime(60_500_000_000)));
        for wrong in [
            "",
            "2026-11-15",
            "2026-11-15T08:12:45",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-15T24:00:00Z",
            "2026-11-15T08:12:45.Z",
            "2026-11-15T08:12:45+5:30",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59Z",
            "2026-11-15T08:12:4éZ",
            "+026-11-15T08:12:45Z",
        ] {
            assert_eq!(UnixTime::parse_rfc3339(wrong), None, "{wrong}");
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
