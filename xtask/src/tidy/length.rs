//! Limits the length of files and functions.

use super::code::{block, is_word, words};
use super::{File, Finding};

const FILE_LINES_MAX: usize = 600;
/// The style guide says 70. The limit is higher, so that this rule does not complain about a few extra lines.
const FUNCTION_LINES_MAX: usize = 90;

pub(super) fn long_files(file: &File) -> Vec<Finding> {
    let lines = file.text.lines().count();
    if !file.is_rust() || lines <= FILE_LINES_MAX {
        return Vec::new();
    }
    vec![file.finding(1, format!("{lines} lines, over {FILE_LINES_MAX}: find the second idea's name"))]
}

pub(super) fn long_functions(file: &File) -> Vec<Finding> {
    if file.is_test() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let tests = test_blocks(&file.code);
    for (at, name, lines) in functions(&file.code) {
        let is_test = tests.iter().any(|(start, end)| (*start..*end).contains(&at));
        if lines > FUNCTION_LINES_MAX && !is_test {
            let message = format!("function {name} has {lines} lines, over {FUNCTION_LINES_MAX}: a function fits a screen");
            findings.push(file.finding(file.line_of(at), message));
        }
    }
    findings
}

/// Returns the position, the name and the number of lines of each function with a body, from `fn` to the last brace.
fn functions(code: &str) -> Vec<(usize, &str, usize)> {
    let mut found = Vec::new();
    let mut all = words(code).peekable();
    while let Some((at, word)) = all.next() {
        let rest = &code[at + word.len()..];
        // `fn(u8) -> u8` is a type and has no name.
        if word != "fn" || !rest.trim_start().starts_with(is_word) {
            continue;
        }
        if let (Some((_, name)), Some((_, end))) = (all.peek(), block(rest)) {
            found.push((at, *name, rest[..end].matches('\n').count() + 1));
        }
    }
    found
}

pub(super) fn test_blocks(code: &str) -> Vec<(usize, usize)> {
    let starts = code.match_indices("#[cfg(test)]").map(|(at, attribute)| at + attribute.len());
    starts.filter_map(|start| block(&code[start..]).map(|(_, end)| (start, start + end))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::said;
    use super::*;

    fn function(lines: usize) -> String {
        format!("fn long(table: [u8; 2]) -> u8 {{\n{}}}\n", "    // } \"\n".repeat(lines - 2))
    }

    #[test]
    fn a_long_file_is_found() {
        let file = File::new("crates/model/src/fields.rs", "\n".repeat(FILE_LINES_MAX + 1));
        assert_eq!(said(&long_files(&file)), ["crates/model/src/fields.rs:1: 601 lines, over 600: find the second idea's name"]);
    }

    #[test]
    fn short_files_and_other_languages_pass() {
        assert_eq!(long_files(&File::new("a.rs", "\n".repeat(FILE_LINES_MAX))), []);
        assert_eq!(long_files(&File::new("a.md", "\n".repeat(FILE_LINES_MAX + 1))), []);
    }

    #[test]
    fn a_long_function_is_found_at_its_first_line() {
        let file = File::new("a.rs", format!("// one\n{}", function(FUNCTION_LINES_MAX + 1)));
        assert_eq!(said(&long_functions(&file)), ["a.rs:2: function long has 91 lines, over 90: a function fits a screen"]);
        assert_eq!(long_functions(&File::new("a.rs", function(FUNCTION_LINES_MAX))), []);
    }

    #[test]
    fn tests_and_tables_may_be_long() {
        let long = function(FUNCTION_LINES_MAX + 1);
        assert_eq!(long_functions(&File::new("a.rs", format!("#[cfg(test)]\nmod tests {{\n{long}\n}}\n"))), []);
        assert_eq!(long_functions(&File::new("crates/a/tests/b.rs", long.clone())), []);
        assert_eq!(long_functions(&File::new("crates/a/src/derive/tests.rs", long.clone())), []);
        let table = format!("const A: &[fn(u8)] = &[\n{}];\ntrait B {{ fn c(); }}", "    f,\n".repeat(200));
        assert_eq!(long_functions(&File::new("a.rs", table)), []);
        assert_eq!(long_functions(&File::new("a.rs", format!("#[cfg(test)]\nmod tests;\n{long}"))).len(), 1);
    }
}
