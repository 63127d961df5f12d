//! Waits for conditions.

use std::thread;
use std::time::{Duration, Instant};

/// Longer than any step takes on a machine under any load. Only a defect reaches it.
pub const TIMEOUT: Duration = Duration::from_secs(120);

const INTERVAL: Duration = Duration::from_millis(5);

/// Waits until a condition is true. Panics after [`TIMEOUT`].
#[track_caller]
pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    until_or(is_so, || format!("never: {what}"));
}

/// As [`until`], with a message about the state at the end.
#[track_caller]
pub(crate) fn until_or(mut is_so: impl FnMut() -> bool, message: impl Fn() -> String) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{}", message());
        thread::sleep(INTERVAL);
    }
}
