//! Reads the text of source lines, from files that have not changed since the command started.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::Value;
use ttmon_model::stack::SourceLine;
use ttmon_print::text::{Cut, cut};

/// Largest file that is read.
const BYTES_MAX: usize = 1 << 20;
/// Maximum number of files of which the text is stored.
const FILES_MAX: usize = 64;
/// Longest text in a report.
const COLUMNS_MAX: usize = 200;

/// Cached texts of source files.
#[derive(Debug)]
pub(crate) struct SourceTexts {
    /// When the command started, in nanoseconds since 1970. The lines of a file that changed later may differ.
    begun: u64,
    /// The lines of each file.
    files: RefCell<HashMap<String, Option<Vec<String>>>>,
}

impl SourceTexts {
    pub(crate) fn new(begun: u64) -> Self {
        Self { begun, files: RefCell::default() }
    }

    /// Returns the trimmed text of a line, or `None` if it cannot be read, is empty or may have changed.
    pub(crate) fn line(&self, at: &SourceLine) -> Option<String> {
        self.text(&at.file, at.line.into())
    }

    fn text(&self, file: &str, line: u64) -> Option<String> {
        let mut files = self.files.borrow_mut();
        if files.len() >= FILES_MAX && !files.contains_key(file) {
            return None;
        }
        let lines = files.entry(file.to_owned()).or_insert_with(|| self.read(Path::new(file)));
        let number = usize::try_from(line).ok()?.checked_sub(1)?;
        lines.as_ref()?.get(number).filter(|line| !line.is_empty()).cloned()
    }

    fn read(&self, path: &Path) -> Option<Vec<String>> {
        let file = fs::metadata(path).ok()?;
        // A moved file keeps its modification time (mtime), but not its status change time (ctime).
        let changed = (file.mtime(), file.mtime_nsec()).max((file.ctime(), file.ctime_nsec()));
        let nanoseconds = i128::from(changed.0) * 1_000_000_000 + i128::from(changed.1);
        let text = (nanoseconds <= i128::from(self.begun)).then(|| ttmon_files::read_text(path, BYTES_MAX).ok())??;
        Some(text.lines().map(|line| line.trim().to_owned()).collect())
    }

    /// Adds `text` to every source line of a report, if its text is known.
    pub(crate) fn add_to(&self, report: &mut Value) {
        match report {
            Value::Array(items) => items.iter_mut().for_each(|item| self.add_to(item)),
            Value::Object(members) => {
                let text = match (members.get("file"), members.get("line")) {
                    (Some(Value::String(file)), Some(Value::Number(line))) => line.as_u64().and_then(|line| self.text(file, line)),
                    _ => None,
                };
                members.values_mut().for_each(|member| self.add_to(member));
                if let Some(text) = text {
                    members.insert("text".to_owned(), cut(&text, COLUMNS_MAX, Cut::End, "...").into());
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_that_was_changed_has_no_lines() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("model.py");
        fs::write(&file, "import ttnn\n\n  x = ttnn.ones(shape)\n").expect("written");
        let at = |line| SourceLine { file: file.to_str().expect("UTF-8").into(), line, function: "f".into() };
        let texts = SourceTexts::new(u64::MAX);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|line| texts.line(&at(line))),
            [None, Some("import ttnn".into()), None, Some("x = ttnn.ones(shape)".into()), None]
        );
        assert_eq!(SourceTexts::new(1).line(&at(1)), None, "changed after the start");
        fs::File::open(&file).expect("open").set_modified(UNIX_EPOCH).expect("set");
        assert_eq!(SourceTexts::new(1).line(&at(1)), None, "an old file that was moved here after the start");
        assert_eq!(texts.line(&SourceLine { file: "<string>".into(), ..at(1) }), None);
    }

    #[test]
    fn every_line_of_a_report_gets_its_text() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("model.py");
        fs::write(&file, format!("x = 1\n{}\n", "y".repeat(300))).expect("written");
        let line = |line: u32| json!({"file": file, "line": line, "function": "f"});
        let mut report = json!({"growth_by_line": [{"line": line(1), "bytes": 8}, {"line": null}], "oom": [{"line": line(9), "top": [{"line": line(2)}]}]});
        SourceTexts::new(u64::MAX).add_to(&mut report);
        let texts = ["/growth_by_line/0/line/text", "/oom/0/line/text", "/oom/0/top/0/line/text"].map(|at| report.pointer(at));
        let cut = Value::from(format!("{}...", "y".repeat(197)));
        assert_eq!(texts, [Some(&"x = 1".into()), None, Some(&cut)]);
    }
}
