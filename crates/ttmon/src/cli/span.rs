//! Times as typed: `90`, `1.5`, `500ms`, `5m`, `1h30m`.

use std::time::Duration;

/// Units, and their milliseconds. `ms` comes before `m`.
const UNITS: [(&str, f64); 5] = [("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 3.6e6), ("d", 8.64e7)];

/// Parses a time. A bare number is in seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let span = match text.parse::<f64>() {
        Ok(seconds) => duration(seconds * 1e3),
        Err(_) => with_units(text),
    };
    span.ok_or_else(|| "it takes seconds or a time such as 500ms, 30s, 5m or 1h30m".to_owned())
}

/// Parses a time in which each number has its unit.
pub(crate) fn with_units(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut millis = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let (unit, factor) = UNITS.into_iter().find(|(unit, _)| rest[end..].starts_with(unit))?;
        millis += number * factor;
        rest = &rest[end + unit.len()..];
    }
    if text.is_empty() { None } else { duration(millis) }
}

/// A time too long for the type is the longest there is.
fn duration(millis: f64) -> Option<Duration> {
    (millis >= 0.0).then(|| Duration::try_from_secs_f64(millis / 1e3).unwrap_or(Duration::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_and_without_units() {
        for (text, millis) in [
            ("0", 0),
            ("90", 90_000),
            ("1.5", 1_500),
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("0.5h", 1_800_000),
        ] {
            assert_eq!(seconds(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(seconds("1e30"), Ok(Duration::MAX));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "s", "-1", "-5m", "5x", "5 m", "m5", "1.2.3s", "NaN", "all", "0,1", "5m3", "²s"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert_eq!(with_units("500"), None, "a unit is missing");
    }
}
