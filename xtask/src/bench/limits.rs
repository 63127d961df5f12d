//! A limit, and the line of a program's output that it applies to.

/// How the lines begin, where the number is in a line, the bound, and the unit.
pub(super) struct Limit(pub(super) &'static [&'static str], pub(super) Part, pub(super) Bound, pub(super) &'static str);

#[derive(Clone, Copy)]
pub(super) enum Bound {
    AtMost(f64),
    AtLeast(f64),
    Below(f64),
}

/// Position of the number in the line.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// A cell of a table with `|`, counted from 0.
    Cell(usize),
    /// The word after this one.
    After(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) key: String,
    pub(super) says: String,
    pub(super) holds: bool,
}

impl Limit {
    pub(super) fn keys(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|line| self.key(line))
    }

    fn key(&self, line: &str) -> String {
        format!("{} {}", line.trim(), self.text())
    }

    fn text(&self) -> String {
        let (words, value) = match self.2 {
            Bound::AtMost(value) => ("at most", value),
            Bound::AtLeast(value) => ("at least", value),
            Bound::Below(value) => ("below", value),
        };
        if self.3 == "ns" { format!("{words} {}", duration(value)) } else { format!("{words} {value} {}", self.3) }
    }

    fn holds(&self, value: f64) -> bool {
        match self.2 {
            Bound::AtMost(limit) => value <= limit,
            Bound::AtLeast(limit) => value >= limit,
            Bound::Below(limit) => value < limit,
        }
    }
}

/// Applies the limits to a line. Returns nothing if no limit applies.
pub(super) fn judge(limits: &[Limit], line: &str) -> Vec<Judged> {
    let mut judged = Vec::new();
    for limit in limits {
        let Some(start) = limit.0.iter().find(|start| line.starts_with(**start)) else { continue };
        if let Some(value) = limit.1.of(line) {
            let holds = limit.holds(value);
            let says = format!("{}: {}", limit.text(), if holds { "holds" } else { "MISSED" });
            judged.push(Judged { key: limit.key(start), says, holds });
        }
    }
    judged
}

impl Part {
    fn of(self, line: &str) -> Option<f64> {
        match self {
            Self::Cell(number) => number_of(line.trim().trim_start_matches('|').split('|').nth(number)?.trim()),
            Self::After(word) => number_of(line.split_whitespace().skip_while(|other| *other != word).nth(1)?),
        }
    }
}

/// Units of durations as Rust prints them, in nanoseconds. Longer unit names come first.
const UNITS: &[(&str, f64)] = &[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("", 1.0)];

/// Parses `12.5`, or `23.1ms` in nanoseconds.
fn number_of(word: &str) -> Option<f64> {
    UNITS.iter().find_map(|(unit, nanoseconds)| Some(word.strip_suffix(unit)?.parse::<f64>().ok()? * nanoseconds))
}

fn duration(nanoseconds: f64) -> String {
    let (unit, size) =
        UNITS.iter().filter(|(_, size)| *size <= nanoseconds).max_by(|one, other| one.1.total_cmp(&other.1)).unwrap_or(&UNITS[0]);
    format!("{} {}", nanoseconds / size, if unit.is_empty() { "ns" } else { unit })
}

#[cfg(test)]
mod tests {
    use super::Bound::{AtLeast, AtMost, Below};
    use super::*;

    const LIMITS: &[Limit] = &[
        Limit(&["| a |", "| b |"], Part::Cell(1), AtMost(100.0), "ns"),
        Limit(&["| a |"], Part::Cell(2), AtLeast(10.0), "x"),
        Limit(&["c "], Part::After("median"), Below(20e3), "ns"),
    ];

    fn says(line: &str) -> Vec<String> {
        judge(LIMITS, line).into_iter().map(|judged| judged.says).collect()
    }

    #[test]
    fn limits_hold_up_to_their_value() {
        assert_eq!(says("| a | 100.0 | 10.0 |"), ["at most 100 ns: holds", "at least 10 x: holds"]);
        assert_eq!(says("| a | 100.1 | 9.9 |"), ["at most 100 ns: MISSED", "at least 10 x: MISSED"]);
        assert_eq!(says("c best 1ns median 19.9µs"), ["below 20 µs: holds"]);
        assert_eq!(says("c best 1ns median 20.0µs\n"), ["below 20 µs: MISSED"]);
    }

    #[test]
    fn other_lines_are_not_judged() {
        assert_eq!(says("| ab | 1 | 1 |"), [""; 0]);
        assert_eq!(says("| a | many | NaN"), ["at least 10 x: MISSED"]);
        assert_eq!(says("c best 1ns"), [""; 0]);
        assert_eq!(says(""), [""; 0]);
    }

    #[test]
    fn a_limit_waits_for_each_of_its_lines() {
        let keys: Vec<String> = LIMITS.iter().flat_map(Limit::keys).collect();
        assert_eq!(keys, ["| a | at most 100 ns", "| b | at most 100 ns", "| a | at least 10 x", "c below 20 µs"]);
        assert_eq!(judge(LIMITS, "| b | 1 |")[0].key, keys[1]);
    }

    #[test]
    fn numbers_have_units_or_none() {
        assert_eq!(["12.5", "5.1µs", "23ms", "1.5s", "7ns"].map(number_of), [12.5, 5100.0, 23e6, 1.5e9, 7.0].map(Some));
        assert_eq!(["", "ms", "1.5x"].map(number_of), [None; 3]);
    }
}
