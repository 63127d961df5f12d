//! `cargo xtask bench ledger`: measures the cost of an event for the reporting program, and the cost of reading.
//!
//! Examples of the crates do the measurements and print tables. They run one after the other, and each line with a limit is printed with
//! the limit and the verdict.

use super::limits::Bound::{AtLeast, AtMost, Below};
use super::limits::{Limit, Part};
use super::snapshot::load;
use super::verdicts::Verdicts;
use crate::project::{self, Project};

struct Example {
    name: &'static str,
    title: &'static str,
    is_quick: bool,
    limits: &'static [Limit],
}

const EXAMPLES: &[Example] = &[
    Example { name: "ledger_bench", title: "Writer: memory, nanoseconds per event, tails, growth", is_quick: true, limits: WRITER },
    Example { name: "reader_bench", title: "Reader: all live buffers, and the totals of the header", is_quick: false, limits: READER },
    Example { name: "off_bench", title: "A report while tracking is off", is_quick: false, limits: OFF },
];

/// One thread, up to 100,000 live buffers.
const ONE_THREAD: &[&str] = &[
    "| ledger, Auto, 1000 live |",
    "| ledger, clock_gettime, 1000 live |",
    "| ledger, Auto, 10000 live |",
    "| ledger, clock_gettime, 10000 live |",
    "| ledger, Auto, 100000 live |",
    "| ledger, clock_gettime, 100000 live |",
    "| ledger, Auto, 1000 live, read at 10 Hz |",
];

const WRITER: &[Limit] = &[
    Limit(&["idle:"], Part::After("idle:"), Below(64.0), "kB"),
    Limit(&["100000 live:", "1000000 live:"], Part::After("live:"), AtMost(96.0), "B"),
    Limit(ONE_THREAD, Part::Cell(1), AtMost(100.0), "ns"),
    Limit(ONE_THREAD, Part::Cell(2), AtLeast(10.0), "x under the send"),
    Limit(ONE_THREAD, Part::Cell(3), AtMost(4.0), "x (clock + mutex)"),
];

const READER: &[Limit] =
    &[Limit(&["list "], Part::After("median"), AtMost(50.0e6), "ns"), Limit(&["totals "], Part::After("median"), AtMost(20.0e3), "ns")];

const OFF: &[Limit] = &[
    Limit(&["disabled report_allocation "], Part::After("report_allocation"), AtMost(2.0), "ns"),
    Limit(&["disabled ttmon_report_allocation "], Part::After("ttmon_report_allocation"), AtMost(2.0), "ns"),
];

/// Rows without a limit.
const SHOWN_ONLY: &str = "\
Shown as they are: 300,000 and 1,000,000 live, beside one random read in as much memory; 4 threads, as a ratio to clock +
mutex in as many threads; p99.99 beside that of the empty loop; growth, which may not stall by our own making.
";

/// Variables that would enable tracking in the examples.
const TRACKING: &[&str] = &["TT_ALLOC_TRACKING_ENABLED", "TTMON_TRACKING"];

pub(super) fn run(project: &Project, is_quick: bool) -> Result<(), String> {
    let mut build = vec!["build", "--release", "--package", "ttmon-ledger", "--package", "ttmon-client"];
    build.extend(EXAMPLES.iter().flat_map(|example| ["--example", example.name]));
    project::run(&mut project.cargo(&build))?;
    let programs = project.metadata()?.target.join("release/examples");

    println!("# The ledger, beside its limits{}", if is_quick { " (quick: fewer rounds and sizes)" } else { "" });
    println!("load before: {}", load());
    let mut verdicts = Verdicts::default();
    for example in EXAMPLES {
        println!("\n## {}\n", example.title);
        let arguments: &[&str] = if is_quick && example.is_quick { &["--quick"] } else { &[] };
        let mut command = project.command(programs.join(example.name), arguments);
        for variable in TRACKING {
            command.env_remove(variable);
        }
        verdicts.judge(&mut command, example.limits)?;
    }
    println!("\nload after:  {}\n\n{SHOWN_ONLY}\n{verdicts}", load());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::limits::judge;
    use super::*;

    /// Lines in the format of the examples.
    const LINES: &[(&[Limit], &str, usize)] = &[
        (WRITER, "idle: 40 kB more", 1),
        (WRITER, "1000000 live: 85.1 bytes each", 1),
        (WRITER, "| ledger, Auto, 1000 live | 45.1 | 20.3 | 1.90 |", 3),
        (WRITER, "| ledger, Auto, 1000 live, read at 10 Hz | 45.1 | 20.3 | 1.90 |", 3),
        (WRITER, "| ledger, Auto, 300000 live | 145.1 | 7.3 | 5.90 |", 0),
        (WRITER, "| 4 threads: ledger, Auto, 1000 live | 145.1 | 7.3 | 5.90 |", 0),
        (WRITER, "| ledger, 1000 live | 60 | 80 | 120 | 4000 | 1.21 ms |", 0),
        (READER, "list                         best     21.5ms  median     23.1ms", 1),
        (READER, "totals                       best      4.5µs  median      5.1µs", 1),
        (OFF, "disabled report_allocation        0.61 ns,  0.31 more", 1),
        (OFF, "disabled ttmon_report_allocation  1.61 ns,  1.31 more (called through a pointer, as across libraries)", 1),
    ];

    #[test]
    fn lines_of_the_examples_meet_their_limits() {
        for (limits, line, expected) in LINES {
            let judged = judge(limits, line);
            assert_eq!(judged.len(), *expected, "{line}");
            assert!(judged.iter().all(|judged| judged.holds), "{line}");
        }
    }
}
