//! Median and percentiles of many durations.

use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub(super) struct Durations(Vec<Duration>);

impl Durations {
    pub(super) fn push(&mut self, duration: Duration) {
        self.0.push(duration);
    }

    pub(super) fn median_ms(&self) -> f64 {
        self.quantile_ms(50)
    }

    pub(super) fn p90_ms(&self) -> f64 {
        self.quantile_ms(90)
    }

    pub(super) fn p99_ms(&self) -> f64 {
        self.quantile_ms(99)
    }

    fn quantile_ms(&self, percent: usize) -> f64 {
        let times: Vec<f64> = self.0.iter().map(|duration| duration.as_secs_f64() * 1000.0).collect();
        quantile(&times, percent)
    }
}

/// Returns the smallest value such that `percent` of all values are not above it; 0 if there are none.
pub(super) fn quantile(values: &[f64], percent: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0.0)
}

/// Returns the verdict on a value and its limit.
pub(super) fn verdict(is_held: bool) -> &'static str {
    if is_held { "holds" } else { "MISSED" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let mut durations = Durations::default();
        for ms in [10, 1, 2, 3, 4, 5, 6, 7, 8, 9] {
            durations.push(Duration::from_millis(ms));
        }
        assert_eq!(format!("{:.1} {:.1}", durations.median_ms(), durations.p90_ms()), "5.0 9.0");
    }
}
