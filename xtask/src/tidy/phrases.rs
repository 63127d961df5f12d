//! Finds unclear phrases in comments, messages, names and documents. Fixtures may have them.
//!
//! Text between backquotes is a quotation and may have any phrase. Only phrases within one line are found.

use super::code::{parts, words};
use super::{File, Finding};

/// This file has every phrase in its tests.
const THIS: &str = "xtask/src/tidy/phrases.rs";

const PRONOUN: &str = "the process, user or caller";
const REPORT: &str = "report, print, show, list";
const NAME_IT: &str = "the noun";

/// Phrases in lower case with one space between words, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    ("`tell`", REPORT),
    ("`tells`", REPORT),
    ("`told`", REPORT),
    ("`telling`", REPORT),
    ("`happening`", "event"),
    ("`happenings`", "event"),
    ("`moment`", "sample, frame, time"),
    ("`moments`", "sample, frame, time"),
    ("`a look`", "sample, read, check"),
    ("`look at`", "read, check, examine"),
    ("`looks at`", "read, check, examine"),
    ("`looked at`", "read, check, examine"),
    ("`looking at`", "read, check, examine"),
    ("`of it`", NAME_IT),
    ("`so much`", NAME_IT),
    ("`as it is`", "unchanged"),
    ("`such as it is`", "unchanged"),
    ("`by now`", "already, since"),
    ("`all the same`", "still"),
    ("`once more`", "again"),
    ("`again and again`", "repeatedly"),
    ("`makes no sense`", "invalid"),
    ("`make no sense`", "invalid"),
    ("`lest`", "so that ... not"),
    ("`ill`", "unhealthy"),
    ("`away`", "missing"),
    ("`whatever`", "any"),
    ("`whoever`", PRONOUN),
    ("`somebody`", PRONOUN),
    ("`somebody's`", PRONOUN),
    ("`anybody`", PRONOUN),
    ("`a person`", PRONOUN),
];

pub(super) fn unclear(file: &File) -> Vec<Finding> {
    if file.is_fixture() || file.path == THIS {
        return Vec::new();
    }
    let mut findings = in_names(file);
    for (index, line) in file.text.lines().enumerate() {
        let prose = format!(" {} ", prose(line, file.code.lines().nth(index)));
        for (text, instead) in PHRASES {
            if prose.contains(&format!(" {} ", text.trim_matches('`'))) {
                findings.push(file.finding(index + 1, format!("{text} is unclear: {instead}")));
            }
        }
    }
    findings
}

/// Returns the words of a line in lower case, without quotations. For Rust, only the words of comments and literals.
fn prose(line: &str, code: Option<&str>) -> String {
    // The code is the text with comments and literals blanked, byte by byte.
    let code = code.unwrap_or_default().as_bytes();
    let is_code = |at: &usize| code.get(*at).is_some_and(|byte| *byte != b' ');
    let mut is_quoted = false;
    let mut prose = String::new();
    for (at, character) in line.char_indices() {
        is_quoted ^= character == '`';
        let is_word = character.is_alphanumeric() || character == '\'' || character == '-';
        let is_end = matches!(character, '.' | ',' | ';' | ':' | '(' | ')' | '`');
        match character {
            _ if is_quoted || is_code(&at) => prose.push('|'),
            _ if is_word => prose.extend(character.to_lowercase()),
            // Words on both sides of a punctuation mark are not a phrase.
            _ if is_end => prose.push_str(" | "),
            _ => prose.push(' '),
        }
    }
    prose.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Finds one-word phrases in the names that a file defines.
fn in_names(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut before = "";
    for (at, name) in words(&file.code) {
        if matches!(before, "mod" | "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static") {
            let parts = parts(name);
            for (text, instead) in PHRASES {
                if parts.iter().any(|part| part == text.trim_matches('`')) {
                    findings.push(file.finding(file.line_of(at), format!("{text} in the name {name} is unclear: {instead}")));
                }
            }
        }
        before = name;
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::said;
    use super::*;

    const PATH: &str = "crates/sys/src/lib.rs";

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        assert_eq!(said(&unclear(&File::new(path, text))), expected);
    }

    #[test]
    fn phrases_in_comments_and_strings_are_found() {
        check(PATH, "/// Told once.\n", &["crates/sys/src/lib.rs:1: `told` is unclear: report, print, show, list"]);
        check(PATH, "fn a() {}\nconst B: &str = \"part of  it\";\n", &["crates/sys/src/lib.rs:2: `of it` is unclear: the noun"]);
        check("crates/sys/README.md", "Away.\n", &["crates/sys/README.md:1: `away` is unclear: missing"]);
    }

    #[test]
    fn quotations_code_and_parts_of_words_are_not() {
        check(PATH, "/// `told` and `it was told` untold, toldness, right-away.\n", &[]);
        check(PATH, "fn a(told: u32) { told.tell() }\n", &[]);
        check(PATH, "// A part of. It is another.\n", &[]);
        check(PATH, "let a = \"of\"; let b = \"it\";\n", &[]);
    }

    #[test]
    fn names_are_checked_where_they_are_defined() {
        let expected = ["crates/sys/src/lib.rs:1: `told` in the name nobody_is_told is unclear: report, print, show, list"];
        check(PATH, "fn nobody_is_told() {}\n", &expected);
        check(PATH, "enum Moment {}\n", &["crates/sys/src/lib.rs:1: `moment` in the name Moment is unclear: sample, frame, time"]);
        check(PATH, "const AWAY: u32 = 1;\n", &["crates/sys/src/lib.rs:1: `away` in the name AWAY is unclear: missing"]);
        check(PATH, "fn still(moments: u32) {}\n", &[]);
    }

    #[test]
    fn fixtures_are_skipped() {
        check("crates/sys/tests/fixtures/log.txt", "told\n", &[]);
    }
}
