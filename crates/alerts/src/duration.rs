//! Durations as rules write them: `30s`, `5m`, `1h30m`, `2d`.

use std::time::Duration;

/// Reads a duration: numbers, each with its unit (`s`, `m`, `h`, `d`), the largest unit first.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut seconds: u64 = 0;
    let mut last_unit = u64::MAX;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().ok()?;
        let unit = match rest.as_bytes().get(digits)? {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 86_400,
            _ => return None,
        };
        if unit >= last_unit {
            return None;
        }
        last_unit = unit;
        seconds = seconds.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[digits + 1..];
    }
    (last_unit != u64::MAX).then(|| Duration::from_secs(seconds))
}

/// A duration as [`parse`] reads it, in whole seconds.
pub fn shown(duration: Duration) -> String {
    let mut seconds = duration.as_secs();
    let mut text = String::new();
    for (unit, letter) in [(86_400, 'd'), (3600, 'h'), (60, 'm')] {
        if seconds >= unit {
            text += &format!("{}{letter}", seconds / unit);
            seconds %= unit;
        }
    }
    if seconds > 0 || text.is_empty() {
        text += &format!("{seconds}s");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_shown() {
        for (text, seconds) in [("0s", 0), ("30s", 30), ("5m", 300), ("1h30m", 5400), ("2d", 172_800), ("1d1s", 86_401)] {
            assert_eq!((parse(text), shown(Duration::from_secs(seconds)).as_str()), (Some(Duration::from_secs(seconds)), text));
        }
        for text in ["", "5", "m", "5 m", "-5m", "5m5m", "5s1m", "1.5h", "99999999999999999999s", "5x", "999999999999999999d"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
