//! What benches share: their arguments, the kernel's clocks, quantiles, and verdicts on limits.
//!
//! A bench prints its figures beside its limits. It never fails because of them, since a busy machine is not a defect of the program.

use std::fmt::{self, Display};
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the arguments of this bench, without the flag that `cargo bench` adds.
#[must_use]
pub fn arguments() -> Vec<String> {
    std::env::args().skip(1).filter(|argument| argument != "--bench").collect()
}

/// Whether the only argument is `--quick`. Panics if there are others.
#[must_use]
pub fn is_quick() -> bool {
    let arguments = arguments();
    assert!(arguments.is_empty() || arguments == ["--quick"], "the only argument is --quick, not {arguments:?}");
    !arguments.is_empty()
}

/// Returns the number after a flag, the default without arguments, or the number for `--quick`. Panics if there are others.
#[must_use]
pub fn number(flag: &str, default: usize, quick: usize) -> usize {
    let arguments = arguments();
    match &arguments[..] {
        [] => Some(default),
        [only] if only == "--quick" => Some(quick),
        [first, number] if first == flag => number.parse().ok().filter(|number| *number > 0),
        _ => None,
    }
    .unwrap_or_else(|| panic!("the only argument is --quick, or {flag} with a number from 1 on, not {arguments:?}"))
}

/// Returns the load of this host over 1, 5 and 15 minutes, as the kernel prints it.
#[must_use]
pub fn load() -> String {
    fs::read_to_string("/proc/loadavg").unwrap().trim().to_owned()
}

/// Returns the processor time of this thread so far, which is less sensitive to a busy machine than wall time.
#[must_use]
pub fn thread_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// Returns the processor time so far of a thread, by its folder in `/proc`. It is zero after the thread's end.
#[must_use]
pub fn task_time(task: &Path) -> Duration {
    let statistics = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
    Duration::from_nanos(statistics.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok()).unwrap_or(0))
}

/// Returns the processor time so far of all living threads of a process.
#[must_use]
pub fn process_time(pid: u32) -> Duration {
    fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().map(|task| task_time(&task.path())).sum()
}

/// Returns the resident memory of a process in KiB, with shared memory.
#[must_use]
pub fn resident_kib(pid: u32) -> u64 {
    kib(&format!("/proc/{pid}/status"), "VmRSS:").unwrap()
}

/// Returns the KiB in the line of a file of `/proc` that begins with this word.
#[must_use]
pub fn kib(path: &str, word: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(word)?.trim().strip_suffix(" kB")?.parse().ok())
}

/// Returns the smallest value such that `percent` of all values are not above it.
#[must_use]
pub fn quantile<T: PartialOrd + Copy>(values: &[T], percent: usize) -> T {
    let mut sorted = values.to_vec();
    sorted.sort_by(|one, other| one.partial_cmp(other).unwrap());
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}

/// A bound with its unit.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// Not above.
    AtMost(f64, &'static str),
    /// Not below.
    AtLeast(f64, &'static str),
    /// Not equal either.
    Below(f64, &'static str),
}

impl Limit {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit, _) => value <= limit,
            Self::AtLeast(limit, _) => value >= limit,
            Self::Below(limit, _) => value < limit,
        }
    }
}

impl Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (words, limit, unit) = match self {
            Self::AtMost(limit, unit) => ("at most", limit, unit),
            Self::AtLeast(limit, unit) => ("at least", limit, unit),
            Self::Below(limit, unit) => ("below", limit, unit),
        };
        write!(formatter, "{words} {limit}{}{unit}", if unit.is_empty() { "" } else { " " })
    }
}

/// Counts the limits that hold and those that are missed.
#[derive(Debug, Default)]
pub struct Verdicts {
    held: usize,
    missed: usize,
}

impl Verdicts {
    /// Returns the word for a value and its limit.
    pub fn judge(&mut self, value: f64, limit: Limit) -> &'static str {
        let holds = limit.holds(value);
        *if holds { &mut self.held } else { &mut self.missed } += 1;
        if holds { "holds" } else { "MISSED" }
    }

    /// Returns a limit with the word for a value, such as `at most 2 ns: holds`.
    pub fn text(&mut self, value: f64, limit: Limit) -> String {
        format!("{limit}: {}", self.judge(value, limit))
    }

    /// Prints a line, followed by the limits of some of its figures.
    pub fn print(&mut self, line: &str, figures: &[(f64, Limit)]) {
        let texts: Vec<String> = figures.iter().map(|(value, limit)| self.text(*value, *limit)).collect();
        println!("{line}{}{}", if texts.is_empty() { "" } else { "  <- " }, texts.join("; "));
    }
}

impl Display for Verdicts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} limits hold, {} MISSED", self.held, self.missed)
    }
}

#[cfg(test)]
mod tests {
    use super::Limit::{AtLeast, AtMost, Below};
    use super::*;

    #[test]
    fn limits_hold_up_to_their_value() {
        let mut verdicts = Verdicts::default();
        let mut text = |value, limit| verdicts.text(value, limit);
        assert_eq!(
            [text(100.0, AtMost(100.0, "ns")), text(100.1, AtMost(100.0, "ns"))],
            ["at most 100 ns: holds", "at most 100 ns: MISSED"]
        );
        assert_eq!([text(0.8, AtLeast(0.8, "x")), text(0.7, AtLeast(0.8, "x"))], ["at least 0.8 x: holds", "at least 0.8 x: MISSED"]);
        assert_eq!(text(0.0, AtMost(0.0, "")), "at most 0: holds");
        assert_eq!([text(1.9, Below(2.0, "kB")), text(2.0, Below(2.0, "kB"))], ["below 2 kB: holds", "below 2 kB: MISSED"]);
        assert_eq!(
            [text(f64::NAN, AtMost(1.0, "ms")), text(f64::NAN, AtLeast(1.0, "ms"))],
            ["at most 1 ms: MISSED", "at least 1 ms: MISSED"]
        );
        assert_eq!(verdicts.to_string(), "4 limits hold, 5 MISSED");
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let values = [10.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        assert_eq!([50, 90, 99, 100].map(|percent| quantile(&values, percent)), [5.0, 9.0, 10.0, 10.0]);
        assert_eq!(quantile(&[Duration::from_secs(3)], 50), Duration::from_secs(3));
    }

    #[test]
    fn the_time_and_memory_of_this_process_are_found() {
        let own = std::process::id();
        let before = (thread_time(), process_time(own));
        crate::until("more processor time", || thread_time() > before.0 && process_time(own) > before.1);
        assert!(resident_kib(own) > 100);
        assert_eq!(kib("/proc/self/status", "NoSuchLine:"), None);
    }
}
