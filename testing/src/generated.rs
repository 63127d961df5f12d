//! Committed files that are made from tables of the program.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// How much of a file an error message shows.
const SHOWN_CHARACTERS: usize = 80;

/// Asserts that a committed file is the text that the tables make. With `UPDATE=1` in the environment it writes the file.
///
/// The path begins at the root of the workspace. Tests that call this have `generated` in their names, so that one command updates all
/// files.
#[track_caller]
pub fn generated(path: &str, text: &str) {
    generated_part(path, ["", ""], text);
}

/// The same for a part of a file: what is between two texts, or up to the end if the second text is empty.
#[track_caller]
pub fn generated_part(path: &str, between: [&str; 2], text: &str) {
    // Tests run at the same time, and several may write parts of one file.
    static WRITING: Mutex<()> = Mutex::new(());
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let is_update = std::env::var_os("UPDATE").is_some_and(|value| value == "1");
    if let Err(difference) = compare(&crate::repository(path), between, text, is_update) {
        // Cargo sets the variable for the tests of each package.
        let package = std::env::var("CARGO_PKG_NAME").map_or(String::new(), |name| format!("--package {name} "));
        panic!("{path}{difference}\nto write it: UPDATE=1 cargo test {package}generated");
    }
}

/// Returns the first difference, as `:line: what`, unless the part is to be written.
fn compare(file: &Path, between: [&str; 2], text: &str, is_update: bool) -> Result<(), String> {
    let committed = match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        read => read.map_err(|error| format!(": {error}"))?,
    };
    let missing = |mark: &str| format!(":1: {mark:?} is missing");
    let [begin, end] = between;
    let from = committed.find(begin).ok_or_else(|| missing(begin))? + begin.len();
    let rest = &committed[from..];
    let part = if end.is_empty() { rest } else { &rest[..rest.find(end).ok_or_else(|| missing(end))?] };
    if part == text {
        return Ok(());
    }
    if is_update {
        let written = [&committed[..from], text, &rest[part.len()..]].concat();
        return fs::write(file, written).map_err(|error| format!(": {error}"));
    }
    let same: usize = part.chars().zip(text.chars()).take_while(|(old, new)| old == new).map(|(character, _)| character.len_utf8()).sum();
    let line = committed[..from + same].matches('\n').count() + 1;
    Err(format!(":{line}: stale: the file has {:?}, the tables make {:?}", excerpt(part, same), excerpt(text, same)))
}

/// Returns the text around a byte, within its line.
fn excerpt(text: &str, at: usize) -> String {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let before: Vec<char> = text[start..at].chars().rev().take(SHOWN_CHARACTERS / 2).collect();
    let line = text[at..].lines().next().unwrap_or_default();
    before.into_iter().rev().chain(line.chars()).take(SHOWN_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn the_first_difference_is_reported_with_its_line() {
        let file = file("one\ntwo\nthree\n");
        let check = |text: &str| compare(file.path(), ["", ""], text, false);
        assert_eq!(check("one\ntwo\nthree\n"), Ok(()));
        assert_eq!(check("one\ntoo\nthree\n").unwrap_err(), ":2: stale: the file has \"two\", the tables make \"too\"");
        assert_eq!(check("one\ntwo\n").unwrap_err(), ":3: stale: the file has \"three\", the tables make \"\"");
        assert_eq!(check("one\ntwo\nthree\nfour\n").unwrap_err(), ":4: stale: the file has \"\", the tables make \"four\"");
    }

    #[test]
    fn a_long_line_is_shown_around_its_difference() {
        let (old, new) = ("é".repeat(50_000) + "x", "é".repeat(50_000) + "y" + &"é".repeat(100));
        let message = compare(file(&old).path(), ["", ""], &new, false).unwrap_err();
        assert!(message.contains("éx\"") && message.contains("éyé") && message.chars().count() < 250, "{message}");
    }

    #[test]
    fn only_the_part_between_two_texts_is_compared_and_written() {
        let file = file("# Keys\n\nold\n\n# Others\n\nold\n");
        let check = |is_update| compare(file.path(), ["# Keys\n\n", "\n# Others\n"], "new\n", is_update);
        assert_eq!(check(false).unwrap_err(), ":3: stale: the file has \"old\", the tables make \"new\"");
        assert_eq!(check(true), Ok(()));
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "# Keys\n\nnew\n\n# Others\n\nold\n");
        assert_eq!(check(false), Ok(()));
        assert_eq!(compare(file.path(), ["# Values\n", ""], "new\n", true).unwrap_err(), ":1: \"# Values\\n\" is missing");
    }

    #[test]
    fn a_missing_file_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.md");
        assert!(compare(&path, ["", ""], "text\n", false).is_err());
        assert_eq!(compare(&path, ["", ""], "text\n", true), Ok(()));
        assert_eq!(fs::read_to_string(&path).unwrap(), "text\n");
    }
}
