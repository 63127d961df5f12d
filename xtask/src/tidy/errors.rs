//! Finds functions of libraries that return errors as texts.

use super::length::test_blocks;
use super::{File, Finding};

/// Only the program may use texts: its errors are printed, and no caller distinguishes them.
const PROGRAM: &str = "crates/ttmon/";

pub(super) fn texts(file: &File) -> Vec<Finding> {
    let is_library = file.path.starts_with("crates/") && file.path.contains("/src/") && !file.path.starts_with(PROGRAM);
    if !is_library || file.path.ends_with("/tests.rs") {
        return Vec::new();
    }
    let tests = test_blocks(&file.code);
    let results = file.code.match_indices("-> Result<").filter(|(at, start)| error(&file.code[at + start.len()..]) == Some("String"));
    let results = results.filter(|(at, _)| !tests.iter().any(|(start, end)| (start..end).contains(&at)));
    results.map(|(at, _)| file.finding(file.line_of(at), "a library returns an enum of causes, not a String")).collect()
}

/// Returns the last parameter of a type, from the text behind its `<`.
fn error(parameters: &str) -> Option<&str> {
    let (mut depth, mut comma) = (0_usize, None);
    for (at, byte) in parameters.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' => depth += 1,
            b',' if depth == 0 => comma = Some(at + 1),
            b'>' if depth == 0 => return Some(parameters[comma?..at].trim()),
            b'>' | b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::said;
    use super::*;

    const TEXT: &str = "\
        fn a() -> Result<Vec<(u8, u8)>, String> {}\n\
        fn b() -> Result<String, ReadError> {}\n\
        // fn c() -> Result<(), String>\n\
        fn d() -> io::Result<String> {}\n\
        #[cfg(test)]\n\
        mod tests {\n    fn e() -> Result<(), String> {}\n}\n";

    #[test]
    fn errors_as_texts_are_found() {
        let found = said(&texts(&File::new("crates/wire/src/read.rs", TEXT)));
        assert_eq!(found, ["crates/wire/src/read.rs:1: a library returns an enum of causes, not a String"]);
    }

    #[test]
    fn the_program_and_tests_may() {
        for path in ["crates/ttmon/src/report.rs", "crates/wire/tests/read.rs", "crates/wire/src/read/tests.rs", "xtask/src/ci.rs"] {
            assert_eq!(texts(&File::new(path, TEXT)), [], "{path}");
        }
    }
}
