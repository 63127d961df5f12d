//! Runs an example that measures, and prints its lines. Lines with a limit get the limit and the verdict.

use std::fmt;
use std::io::Write;
use std::process::Command;

use super::limits::{Limit, judge};
use crate::stream::{Voice, listen};

#[derive(Default)]
pub(super) struct Verdicts {
    held: usize,
    missed: usize,
    /// Limits without a matching line.
    open: Vec<String>,
}

impl Verdicts {
    pub(super) fn judge(&mut self, command: &mut Command, limits: &[Limit]) -> Result<(), String> {
        let mut seen = Vec::new();
        listen(command, Voice::Stdout, |line| {
            let line = String::from_utf8_lossy(line);
            let judged = judge(limits, &line);
            let says: Vec<&str> = judged.iter().map(|judged| judged.says.as_str()).collect();
            let arrow = if says.is_empty() { "" } else { "  <- " };
            writeln!(std::io::stdout().lock(), "{}{arrow}{}", line.trim_end(), says.join("; "))?;
            let held = judged.iter().filter(|judged| judged.holds).count();
            self.held += held;
            self.missed += judged.len() - held;
            seen.extend(judged.into_iter().map(|judged| judged.key));
            Ok(())
        })?;
        self.open.extend(limits.iter().flat_map(Limit::keys).filter(|key| !seen.contains(key)));
        Ok(())
    }
}

impl fmt::Display for Verdicts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} limits hold, {} MISSED", self.held, self.missed)?;
        self.open.iter().try_for_each(|open| write!(formatter, "\nNOT JUDGED: {open}: no such line was printed"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::Bound::AtMost;
    use super::super::limits::Part;
    use super::*;

    #[test]
    fn lines_are_judged_and_missing_ones_are_reported() {
        const LIMITS: &[Limit] = &[
            Limit(&["a "], Part::After("a"), AtMost(2.0), "x"),
            Limit(&["b "], Part::After("b"), AtMost(2.0), "x"),
            Limit(&["c "], Part::After("c"), AtMost(2.0), "x"),
        ];
        let mut verdicts = Verdicts::default();
        verdicts.judge(Command::new("printf").arg("a 1\\nb 3\\n"), LIMITS).unwrap();
        assert_eq!(verdicts.to_string(), "1 limits hold, 1 MISSED\nNOT JUDGED: c at most 2 x: no such line was printed");
        assert!(verdicts.judge(&mut Command::new("false"), LIMITS).is_err());
    }
}
