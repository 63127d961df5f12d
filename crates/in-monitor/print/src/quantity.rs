//! Formats numbers: sizes, shares, ages; and any value of the field table as text.

use ttmon_json::rounded;
use ttmon_model::fields::Value;
pub use ttmon_model::units::size;
use ttmon_model::units::{Unit, UnixTime};
use ttmon_model::{Missing, Reading};

/// Replaces a missing value.
pub const ABSENT: &str = "N/A";

/// Formats a size, or `ABSENT` for a missing one.
pub fn size_or_absent(bytes: Reading<u64>) -> String {
    bytes.map_or_else(|_| ABSENT.to_owned(), size)
}

/// Formats a ratio in at most five columns: `37%`. Any value above 0 is shown as more than 0.
pub fn percent(ratio: f64) -> String {
    share_with(ratio, 0, 1.0)
}

/// Formats a ratio with one decimal: `37.3%`.
pub fn exact_percent(ratio: f64) -> String {
    share_with(ratio, 1, 0.1)
}

fn share_with(ratio: f64, decimals: usize, least: f64) -> String {
    match ratio * 100.0 {
        share if share > 999.0 => ">999%".to_owned(),
        share if share > 0.0 && share < least / 2.0 => format!("<{least}%"),
        share => format!("{share:.decimals$}%"),
    }
}

/// Formats an age in its two largest units: `2h14m`.
pub fn age(since: UnixTime, now: UnixTime) -> String {
    let seconds = now.0.saturating_sub(since.0) / 1_000_000_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if days > 0 => format!("{days}d{}h", hours % 24),
        () if hours > 0 => format!("{hours}h{}m", minutes % 60),
        () if minutes > 0 => format!("{minutes}m{}s", seconds % 60),
        () => format!("{seconds}s"),
    }
}

/// Formats a value as plain text, with numbers as in JSON.
pub fn plain(value: &Value, unit: Unit) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => format!("{:?}", rounded(*number, unit)),
        Value::Bool(truth) => truth.to_string(),
        Value::List(texts) => texts.join("; "),
        Value::Numbers(numbers) => {
            let texts: Vec<String> = numbers.iter().map(|number| rounded(*number, unit).to_string()).collect();
            texts.join("; ")
        }
        Value::Time(time) => time.rfc3339(),
    }
}

/// Formats a number with its unit, as short as possible: `54°C`, `2.4GB/s`.
pub fn short(number: f64, unit: Unit) -> String {
    match unit {
        Unit::None | Unit::Count | Unit::Time => thousands(number),
        Unit::Celsius => format!("{number:.0}°C"),
        Unit::Volts => format!("{number:.2}V"),
        Unit::Watts | Unit::Amperes | Unit::Megahertz | Unit::Rpm => format!("{number:.0}{}", unit.symbol()),
        Unit::Bytes => size_of_float(number),
        Unit::BytesPerSecond => format!("{}/s", size_of_float(number)),
        Unit::WordsPerSecond => format!("{}w/s", thousands(number)),
        Unit::Ratio => percent(number),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
fn size_of_float(bytes: f64) -> String {
    size(bytes.max(0.0).round() as u64)
}

fn thousands(number: f64) -> String {
    match number {
        number if number >= 1e9 => format!("{:.1}G", number / 1e9),
        number if number >= 1e6 => format!("{:.1}M", number / 1e6),
        number if number >= 1e3 => format!("{:.1}k", number / 1e3),
        number => format!("{number:.0}"),
    }
}

/// Formats a value with its unit; bytes also in the units of the tables.
pub fn with_unit(value: &Value, unit: Unit) -> String {
    match (value, unit) {
        (Value::Integer(bytes @ 1024..), Unit::Bytes) => format!("{bytes} B ({})", size(*bytes)),
        (_, Unit::None | Unit::Count | Unit::Ratio | Unit::Time) => plain(value, unit),
        (_, unit) => format!("{} {}", plain(value, unit), unit.symbol()),
    }
}

/// Formats the reason of a missing value, by its JSON name and in words: `N/A (gone: the device left the bus)`.
pub fn absence(reason: Missing, explanation: &str) -> String {
    format!("{ABSENT} ({reason}: {explanation})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_have_one_decimal_and_a_unit() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.0KB"),
            (800 << 20, "800.0MB"),
            (2_576_980_377, "2.4GB"),
            (12 << 30, "12.0GB"),
            ((1 << 30) - 1, "1.0GB"),
            (1023 << 20, "1023.0MB"),
            (u64::MAX, "16.0EB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn shares() {
        for (ratio, text) in [(0.0, "0%"), (0.001, "<1%"), (0.373, "37%"), (1.0, "100%"), (1e9, ">999%")] {
            assert_eq!(percent(ratio), text);
        }
        assert_eq!(exact_percent(0.373), "37.3%");
    }

    #[test]
    fn ages_have_two_units() {
        let ago = |seconds: u64| age(UnixTime(0), UnixTime(seconds * 1_000_000_000));
        assert_eq!([5, 125, 8040, 100_000].map(ago), ["5s", "2m5s", "2h14m", "1d3h"]);
        assert_eq!(age(UnixTime(9), UnixTime(0)), "0s");
    }

    proptest! {
        #[test]
        fn sizes_take_eight_columns_at_most(bytes: u64) {
            prop_assert!(size(bytes).len() <= 8);
        }
    }
}
