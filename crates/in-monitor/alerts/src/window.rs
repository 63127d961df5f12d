//! Summarizes a value over a span of time in a few numbers.

use std::collections::VecDeque;
use std::time::Duration;

use crate::limits::WINDOW_BUCKETS;

/// The recent values of one field of one device, in buckets of the span.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    span: Duration,
    buckets: VecDeque<Bucket>,
    last: Option<f64>,
    /// The first bucket with a value, to detect that the history is too short.
    first: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    number: u64,
    lowest: f64,
    highest: f64,
    increase: f64,
}

impl Window {
    pub(crate) fn new(span: Duration) -> Self {
        Self { span, buckets: VecDeque::new(), last: None, first: None }
    }

    fn number(&self, at: Duration) -> u64 {
        let bucket = (self.span.as_nanos() / u128::from(WINDOW_BUCKETS)).max(1);
        u64::try_from(at.as_nanos() / bucket).unwrap_or(u64::MAX)
    }

    /// Adds a value. A missing value leaves a gap.
    pub(crate) fn add(&mut self, at: Duration, value: Option<f64>) {
        let number = self.number(at);
        // If the clock goes back, start again.
        if self.buckets.back().is_some_and(|bucket| bucket.number > number) {
            *self = Self::new(self.span);
        }
        while self.buckets.front().is_some_and(|bucket| bucket.number + 2 * WINDOW_BUCKETS <= number) {
            self.buckets.pop_front();
        }
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        // A falling counter was reset, or a process ended and its share was subtracted. Neither is an increase.
        let increase = self.last.map_or(0.0, |last| (value - last).max(0.0));
        self.last = Some(value);
        self.first.get_or_insert(number);
        match self.buckets.back_mut().filter(|bucket| bucket.number == number) {
            Some(bucket) => {
                (bucket.lowest, bucket.highest) = (bucket.lowest.min(value), bucket.highest.max(value));
                bucket.increase += increase;
            }
            None => self.buckets.push_back(Bucket { number, lowest: value, highest: value, increase }),
        }
    }

    /// Returns the increase of a counter within the span.
    pub(crate) fn increase(&self, at: Duration) -> Option<f64> {
        self.last?;
        let now = self.number(at);
        Some(self.buckets.iter().filter(|bucket| bucket.number + WINDOW_BUCKETS > now).map(|bucket| bucket.increase).sum())
    }

    /// Returns the lowest value of the span minus the highest value of the span before: the permanent growth.
    pub(crate) fn growth(&self, at: Duration) -> Option<f64> {
        let now = self.number(at);
        // Both spans must be complete.
        self.first.filter(|first| first.saturating_add(2 * WINDOW_BUCKETS - 1) <= now)?;
        let is_recent = |bucket: &&Bucket| bucket.number + WINDOW_BUCKETS > now;
        let lowest = self.buckets.iter().filter(is_recent).map(|bucket| bucket.lowest).reduce(f64::min)?;
        let highest = self.buckets.iter().filter(|bucket| !is_recent(bucket)).map(|bucket| bucket.highest).reduce(f64::max)?;
        Some(lowest - highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn fed(values: impl IntoIterator<Item = f64>) -> (Window, Duration) {
        let mut window = Window::new(MINUTE);
        let mut at = Duration::from_secs(1000);
        for value in values {
            at += Duration::from_secs(1);
            window.add(at, Some(value));
        }
        (window, at)
    }

    #[test]
    fn an_increase_is_forgotten_after_the_span() {
        let (mut window, at) = fed([7.0, 7.0, 9.0]);
        assert_eq!(window.increase(at), Some(2.0));
        for second in 1..=70 {
            window.add(at + Duration::from_secs(second), Some(9.0));
        }
        assert_eq!(window.increase(at + Duration::from_secs(50)), Some(2.0));
        assert_eq!(window.increase(at + Duration::from_secs(70)), Some(0.0));
        assert_eq!(Window::new(MINUTE).increase(at), None, "nothing was seen");
        let (fallen, at) = fed([9.0, 2.0, 3.0]);
        assert_eq!(fallen.increase(at), Some(1.0));
    }

    #[test]
    fn growth_is_what_stays() {
        let (leak, at) = fed((0..300).map(f64::from));
        assert!(leak.growth(at).is_some_and(|growth| (0.0..10.0).contains(&growth)), "{:?}", leak.growth(at));
        // A model is loaded once, and a load varies.
        let (step, at) = fed((0..300).map(|second| if second < 200 { 0.0 } else { 50.0 }));
        assert_eq!(step.growth(at), Some(0.0));
        let (wave, at) = fed((0..300).map(|second| f64::from(second % 20)));
        assert!(wave.growth(at).is_some_and(|growth| growth < 0.0));
        let (short, at) = fed((0..100).map(f64::from));
        assert_eq!(short.growth(at), None, "two spans have not passed");
    }

    #[test]
    fn a_window_is_bounded_and_survives_a_clock_that_goes_back() {
        let (mut window, at) = fed((0..5000).map(f64::from));
        assert!(window.buckets.len() <= 2 * usize::try_from(WINDOW_BUCKETS).unwrap() + 1);
        window.add(at - Duration::from_secs(3000), Some(1.0));
        assert_eq!(window.increase(at), Some(0.0));
        window.add(at, None);
        window.add(at, Some(f64::NAN));
        assert_eq!(window.increase(at), Some(0.0));
    }
}
