//! Limits the length of files and functions.

use super::code::{block, is_word, words};
use super::{File, Finding};

const FILE_LINES_MAX: usize = 600;
/// The style guide says 70. The limit is higher, so that this rule does not complain about a few extra lines.
const FUNCTION_LINES_MAX: usize = 90;

/// A file that may be longer.
struct Long {
    path: &'static str,
    reason: &'static str,
}

/// Tables and fixtures may have any length.
const LONG: &[Long] = &[];

pub(super) fn long_files(file: &File) -> Vec<Finding> {
    files_longer_than_allowed(file, LONG)
}

fn files_longer_than_allowed(file: &File, allowed: &[Long]) -> Vec<Finding> {
    let lines = file.text.lines().count();
    let is_allowed = allowed.iter().any(|long| long.path == file.path);
    if !file.is_rust() || lines <= FILE_LINES_MAX || is_allowed {
        return Vec::new();
    }
    let message =
        format!("{lines} lines, over {FILE_LINES_MAX}: find the second idea's name (or allow it, with a reason, in tidy/length.rs)");
    vec![file.finding(1, message)]
}

/// Finds exceptions for files that do not exist or are not long any more.
pub(super) fn needless_exceptions(files: &[File]) -> Vec<Finding> {
    exceptions_without_need(files, LONG)
}

fn exceptions_without_need(files: &[File], allowed: &[Long]) -> Vec<Finding> {
    let is_long = |path: &str| files.iter().any(|file| file.path == path && file.text.lines().count() > FILE_LINES_MAX);
    let needless = allowed.iter().filter(|long| !is_long(long.path));
    needless
        .map(|Long { path, reason }| Finding {
            path: (*path).to_owned(),
            line: 1,
            message: format!("may be long ({reason}) and is not: take it out of tidy/length.rs"),
        })
        .collect()
}

/// Finds long functions. Tests may be longer than other functions.
pub(super) fn long_functions(file: &File) -> Vec<Finding> {
    if file.path.ends_with("tests.rs") || file.path.split('/').any(|part| part == "tests") {
        return Vec::new();
    }
    let tests = test_blocks(&file.code);
    let mut findings = Vec::new();
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
    let attributes = code.match_indices("#[cfg(test)]");
    attributes
        .filter_map(|(at, attribute)| {
            let start = at + attribute.len();
            block(&code[start..]).map(|(_, end)| (start, start + end))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::said;
    use super::*;

    fn function(lines: usize) -> String {
        format!("fn long(table: [u8; 2]) -> u8 {{\n{}}}\n", "    // } \"\n".repeat(lines - 2))
    }

    #[test]
    fn a_long_file_needs_a_reason() {
        let file = File::new("crates/model/src/fields.rs", "\n".repeat(FILE_LINES_MAX + 1));
        assert_eq!(files_longer_than_allowed(&file, &[]).len(), 1);
        assert!(said(&long_files(&file))[0].starts_with("crates/model/src/fields.rs:1: 601 lines, over 600"));
        let allowed = [Long { path: "crates/model/src/fields.rs", reason: "a table" }];
        assert_eq!(files_longer_than_allowed(&file, &allowed), []);
        assert_eq!(exceptions_without_need(&[file], &allowed), []);
    }

    #[test]
    fn short_files_and_other_languages_pass() {
        assert_eq!(long_files(&File::new("a.rs", "\n".repeat(FILE_LINES_MAX))), []);
        assert_eq!(long_files(&File::new("a.md", "\n".repeat(FILE_LINES_MAX + 1))), []);
    }

    #[test]
    fn an_exception_ends_with_its_need() {
        let allowed = [Long { path: "a.rs", reason: "a table" }];
        let said = said(&exceptions_without_need(&[File::new("a.rs", "")], &allowed));
        assert_eq!(said, ["a.rs:1: may be long (a table) and is not: take it out of tidy/length.rs"]);
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
