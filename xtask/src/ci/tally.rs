//! Counts tests from the last lines of test programs: `test result:` lines of Rust, `Ran … tests` and a verdict of Python.

use std::fmt;
use std::io::Write;
use std::process::Command;

use crate::stream::{Voice, listen};

#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    passed: u64,
    failed: u64,
    /// Tests of Python, which prints the verdict some lines later.
    ran: u64,
}

impl Tally {
    /// Runs tests to their end. Their output passes through immediately.
    pub(super) fn stream(&mut self, command: &mut Command, voice: Voice) -> Result<(), String> {
        let mut out = std::io::stdout().lock();
        listen(command, voice, |line| {
            self.count(&String::from_utf8_lossy(line));
            out.write_all(line)?;
            out.flush()
        })
    }

    pub(super) fn add(&mut self, passed: u64, failed: u64) {
        self.passed += passed;
        self.failed += failed;
    }

    pub(super) fn total(&self) -> u64 {
        self.passed + self.failed
    }

    fn count(&mut self, line: &str) {
        if let Some((passed, failed)) = rust(line) {
            self.passed += passed;
            self.failed += failed;
        } else if let Some(ran) = python_ran(line) {
            self.ran = ran;
        } else if let Some((failed, skipped)) = python_verdict(line) {
            // A module that cannot be imported is an error without a test, so more tests may fail than ran.
            self.passed += self.ran.saturating_sub(failed + skipped);
            self.failed += failed;
            self.ran = 0;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Parses `test result: ok. 17 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s`, at least up to `failed`.
fn rust(line: &str) -> Option<(u64, u64)> {
    let words: Vec<&str> = line.strip_prefix("test result: ")?.split_whitespace().collect();
    let count = |label: &str| {
        let at = words.iter().position(|word| word.trim_end_matches(';') == label)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    Some((count("passed")?, count("failed")?))
}

/// Parses `Ran 12 tests in 0.345s`.
fn python_ran(line: &str) -> Option<u64> {
    let (count, rest) = line.strip_prefix("Ran ")?.split_once(' ')?;
    if rest.starts_with("test") { count.parse().ok() } else { None }
}

/// Returns the failed and the skipped tests of `OK`, `OK (skipped=1)` or `FAILED (failures=1, errors=2, unexpected successes=1)`.
fn python_verdict(line: &str) -> Option<(u64, u64)> {
    let line = line.trim_end();
    let (word, details) = line.split_once(" (").map_or((line, ""), |(word, details)| (word, details.trim_end_matches(')')));
    if word != "OK" && word != "FAILED" {
        return None;
    }
    let (mut failed, mut skipped) = (0, 0);
    for (what, count) in details.split(", ").filter_map(|part| part.split_once('=')) {
        let count: u64 = count.parse().ok()?;
        match what {
            "failures" | "errors" | "unexpected successes" => failed += count,
            "skipped" => skipped += count,
            _ => {}
        }
    }
    Some((failed, skipped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &str, expected: &str) {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.count(line));
        assert_eq!(tally.to_string(), expected, "{output}");
    }

    #[test]
    fn results_of_several_programs_add_up() {
        let output = "\nrunning 2 tests\ntest a ... ok\ntest b ... FAILED\n\n\
            test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: \u{1b}[32mok\u{1b}[m. 40 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.00s";
        check(output, "41 passed, 1 failed");
        check("test result: FAILED. 3 passed; 2 failed\n", "3 passed, 2 failed");
        check(&format!("{output}\nRan 3 tests in 0.012s\n\nOK\n"), "44 passed, 1 failed");
    }

    #[test]
    fn tests_of_python_are_counted_by_their_verdict() {
        check("..\n-----\nRan 2 tests in 0.345s\n\nOK\n", "2 passed, 0 failed");
        check("Ran 1 test in 0.345s\n\nOK\n", "1 passed, 0 failed");
        check("Ran 5 tests in 1.0s\n\nOK (skipped=2, expected failures=1)\n", "3 passed, 0 failed");
        check("Ran 9 tests in 1.0s\n\nFAILED (failures=1, errors=2, skipped=1, unexpected successes=1)\n", "4 passed, 4 failed");
        check("Ran 0 tests in 0.000s\n\nFAILED (errors=1)\n", "0 passed, 1 failed");
        check("Ran 0 tests in 0.000s\n\nNO TESTS RAN\n", "0 passed, 0 failed");
    }

    #[test]
    fn other_lines_count_nothing() {
        check("test result: ok.\ntest prints test result: ok. 1 passed; 0 failed;", "0 passed, 0 failed");
        check("\u{fffd} 3 passed; 0 failed;\nOK\nFAILED\nRan off (failures=1)\nOKAY (failures=3)", "0 passed, 0 failed");
        assert_eq!(python_ran("Ran 3 miles"), None);
    }
}
