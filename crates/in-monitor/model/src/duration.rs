//! Durations in the format that users write: `500ms`, `30s`, `5m`, `1h30m`, `2d`.

use std::time::Duration;

/// Units and their seconds, largest first. `ms` must come before `m`, because it begins with `m`.
const UNITS: [(&str, f64); 5] = [("d", 86_400.0), ("h", 3600.0), ("ms", 1e-3), ("m", 60.0), ("s", 1.0)];

/// Parses a duration: numbers, each with its unit (`d`, `h`, `m`, `s`, `ms`), largest unit first. A number may have a fraction.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    let mut last = f64::INFINITY;
    while !rest.is_empty() {
        let end = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let (unit, seconds) = UNITS.into_iter().find(|(unit, _)| rest[end..].starts_with(unit))?;
        if seconds >= last {
            return None;
        }
        last = seconds;
        total = total.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        rest = &rest[end + unit.len()..];
    }
    last.is_finite().then_some(total)
}

/// Formats a duration in the format of [`parse`]. Fractions of a millisecond are dropped.
pub fn format(duration: Duration) -> String {
    let mut seconds = duration.as_secs();
    let mut text = String::new();
    for (unit, letter) in [(86_400, 'd'), (3600, 'h'), (60, 'm'), (1, 's')] {
        if seconds >= unit {
            text += &format!("{}{letter}", seconds / unit);
            seconds %= unit;
        }
    }
    match duration.subsec_millis() {
        0 if text.is_empty() => text += "0s",
        0 => {}
        millis => text += &format!("{millis}ms"),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, millis) in [
            ("0s", 0),
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("1d1s", 86_401_000),
            ("1m1ms", 60_001),
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!((parse(text), format(duration).as_str()), (Some(duration), text));
        }
        assert_eq!(parse("0.5h"), Some(Duration::from_secs(1800)));
        assert_eq!(parse("1.5s"), Some(Duration::from_millis(1500)));
    }

    #[test]
    fn invalid_durations_are_refused() {
        for text in [
            "",
            "5",
            "m",
            "s",
            "5 m",
            "-5m",
            "5m5m",
            "5s1m",
            "1ms1s",
            "5x",
            "m5",
            "5m3",
            "1.2.3s",
            ".s",
            "NaNs",
            "\u{b2}s",
            "99999999999999999999s",
            "999999999999999999d",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
