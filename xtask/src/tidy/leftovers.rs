//! Finds notes about unfinished work, and tests that never run.

use super::code::{is_word, macro_calls};
use super::{File, Finding};

const MACROS: &[&str] = &["todo", "unimplemented"];

/// Joined from halves, so that this file passes its own rule.
const NOTES: &[&str] = &[concat!("FIX", "ME"), concat!("XX", "X"), concat!("TO", "DO")];

pub(super) fn macros(file: &File) -> Vec<Finding> {
    macro_calls(&file.code, MACROS).map(|(at, word)| file.finding(file.line_of(at), format!("{word}! is not an answer"))).collect()
}

pub(super) fn notes(file: &File) -> Vec<Finding> {
    if file.is_fixture() {
        return Vec::new();
    }
    file.each_line(|line| {
        let notes = line.split(|character| !is_word(character)).filter(|word| NOTES.contains(word));
        notes.map(|note| format!("{note}: do it, or write it where it will be found")).collect::<Vec<_>>()
    })
}

/// The only accepted reason to ignore a test. The stages `root` and `adversary` run these tests.
const RUN_BY_A_STAGE: &str = "#[ignore = \"needs root\"]";

pub(super) fn lost_tests(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, (line, code)) in (1..).zip(file.text.lines().zip(file.code.lines())) {
        let comment = line.trim_start();
        let is_lost_example = (comment.starts_with("///") || comment.starts_with("//!")) && comment.contains("```ignore");
        let is_lost = code.contains("#[ignore") && comment != RUN_BY_A_STAGE;
        if is_lost || is_lost_example {
            findings.push(file.finding(number, "an ignored test is a lost test: give it a fixture, or a stage of xtask ci"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::said;
    use super::*;

    #[test]
    fn unfinished_macros_are_found() {
        let file = File::new("a.rs", "fn a() { todo!() }\nfn b() { unimplemented!(\"later\") }\nlet todo = \"todo!()\";");
        assert_eq!(said(&macros(&file)), ["a.rs:1: todo! is not an answer", "a.rs:2: unimplemented! is not an answer"]);
    }

    #[test]
    fn notes_are_found_in_every_text() {
        for note in NOTES {
            let file = File::new("docs/page.md", format!("one\n({note}: two)\nnot_{note}_three\n"));
            assert_eq!(said(&notes(&file)), [format!("docs/page.md:2: {note}: do it, or write it where it will be found")]);
            assert_eq!(notes(&File::new("fixtures/a.txt", *note)), []);
        }
    }

    #[test]
    fn ignored_tests_are_found() {
        let file = File::new("a.rs", "#[ignore = \"needs root\"]\n#[ignore = \"slow\"]\nfn a() {}\n/// ```ignore\n/// ```\n\"#[ignore]\"");
        let lines: Vec<usize> = lost_tests(&file).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2, 4]);
    }
}
