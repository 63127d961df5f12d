//! Times as typed: `90`, `1.5`, `500ms`, `5m`, `1h30m`.

use std::time::Duration;

use ttmon_model::duration;

/// Parses a time. A bare number is in seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let span = match text.parse::<f64>() {
        // A time that is too long for the type becomes the longest `Duration`.
        Ok(seconds) => (seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)),
        Err(_) => duration::parse(text),
    };
    span.ok_or_else(|| "it takes seconds or a time such as 500ms, 30s, 5m or 1h30m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_and_without_units() {
        for (text, millis) in [("0", 0), ("90", 90_000), ("1.5", 1_500), ("500ms", 500), ("5m", 300_000), ("0.5h", 1_800_000)] {
            assert_eq!(seconds(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(seconds("1e30"), Ok(Duration::MAX));
    }

    #[test]
    fn invalid_times_are_refused() {
        for text in ["", "s", "-1", "-5m", "5x", "NaN", "all", "0,1", "5m3"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
