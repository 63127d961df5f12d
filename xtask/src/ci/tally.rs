//! Counts tests from the `test result:` lines that every test program ends with.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::project::{called, succeeded};

#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    /// Runs a `cargo test` to its end, passing on what it prints as it comes.
    pub(super) fn stream(&mut self, command: &mut Command) -> Result<(), String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut child = command.stdout(Stdio::piped()).spawn().map_err(|error| format!("{}: {error}", called(command)))?;
        let output = child.stdout.take().ok_or("the pipe to the tests was not made")?;
        let copied = self.copy(BufReader::new(output), std::io::stdout().lock()).map_err(failed);
        let status = child.wait().map_err(failed)?;
        copied?;
        succeeded(command, status)
    }

    fn copy(&mut self, mut from: impl BufRead, mut to: impl Write) -> std::io::Result<()> {
        let mut line = Vec::new();
        // Tests may print what is not UTF-8, and the last line may lack its end.
        while from.read_until(b'\n', &mut line)? > 0 {
            to.write_all(&line)?;
            if let Some(result) = parse(&String::from_utf8_lossy(&line)) {
                self.passed += result.passed;
                self.failed += result.failed;
            }
            line.clear();
        }
        to.flush()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// `test result: ok. 17 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.02s`
fn parse(line: &str) -> Option<Tally> {
    let words: Vec<&str> = line.strip_prefix("test result: ")?.split_whitespace().collect();
    let count = |label: &str| {
        let at = words.iter().position(|word| *word == label)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    Some(Tally { passed: count("passed;")?, failed: count("failed;")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_programs_add_up() {
        let output = "\nrunning 2 tests\ntest a ... ok\ntest b ... FAILED\n\n\
            test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: \u{1b}[32mok\u{1b}[m. 40 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.00s";
        let mut tally = Tally::default();
        let mut copy = Vec::new();
        tally.copy(output.as_bytes(), &mut copy).unwrap();
        assert_eq!(tally.to_string(), "41 passed, 1 failed");
        assert_eq!(copy, output.as_bytes());
    }

    #[test]
    fn other_lines_count_nothing() {
        assert_eq!(parse("test result: ok."), None);
        assert_eq!(parse("test prints test result: ok. 1 passed; 0 failed;"), None);
        let mut tally = Tally::default();
        tally.copy(&b"\xff\xfe 3 passed; 0 failed;\n"[..], std::io::sink()).unwrap();
        assert_eq!(tally, Tally::default());
    }
}
