//! Reads the text of source lines, from files that have not changed since the command started.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::Value;
use ttmon_buffer_history::RunSummary;
use ttmon_model::stack::SourceLine;
use ttmon_print::text::{Cut, cut};

const BYTES_MAX: u64 = 1 << 20;
/// Maximum number of files of which the text is stored.
const FILES_MAX: usize = 64;
/// Longest text in a report.
const COLUMNS_MAX: usize = 200;

#[derive(Debug)]
pub(crate) struct SourceTexts {
    /// When the command started, in nanoseconds since 1970. The lines of a file that changed later may differ.
    begun: u64,
    files: RefCell<HashMap<String, Option<String>>>,
}

impl SourceTexts {
    fn new(begun: u64) -> Self {
        Self { begun, files: RefCell::default() }
    }

    /// Returns the texts for a run. There are none if another user wrote a ledger, because that user could name files that only this
    /// user may read.
    pub(crate) fn of(run: &RunSummary) -> Self {
        Self::new(if run.has_foreign_ledgers { 0 } else { run.span.0 })
    }

    /// Returns the trimmed text of a line, or `None` if it cannot be read, is empty or may have changed.
    pub(crate) fn line(&self, at: &SourceLine) -> Option<String> {
        self.text(&at.file, at.line.into())
    }

    fn text(&self, file: &str, line: u64) -> Option<String> {
        let number = usize::try_from(line).ok()?.checked_sub(1)?;
        let mut files = self.files.borrow_mut();
        if files.len() >= FILES_MAX && !files.contains_key(file) {
            return None;
        }
        let text = files.entry(file.to_owned()).or_insert_with(|| self.read(Path::new(file)));
        text.as_ref()?.lines().nth(number).map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned)
    }

    fn read(&self, path: &Path) -> Option<String> {
        let file = ttmon_os::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        // A moved file keeps its modification time (mtime), but not its status change time (ctime).
        let changed = (metadata.mtime(), metadata.mtime_nsec()).max((metadata.ctime(), metadata.ctime_nsec()));
        let nanoseconds = i128::from(changed.0) * 1_000_000_000 + i128::from(changed.1);
        let is_small = metadata.is_file() && metadata.len() <= BYTES_MAX;
        let mut text = String::new();
        (nanoseconds <= i128::from(self.begun) && is_small).then(|| file.take(BYTES_MAX).read_to_string(&mut text).ok())??;
        Some(text)
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
    use std::fs;
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
    fn a_ledger_of_another_user_gets_no_text() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("secret.py");
        fs::write(&file, "password = 1\n").expect("written");
        let at = SourceLine { file: file.to_str().expect("UTF-8").into(), line: 1, function: "f".into() };
        let end = ttmon_buffer_history::CommandEnd::Exit(0);
        let mut run = RunSummary::new(Vec::new(), end, (u64::MAX, u64::MAX), Vec::new(), None);
        assert_eq!(SourceTexts::of(&run).line(&at).as_deref(), Some("password = 1"));
        run.has_foreign_ledgers = true;
        assert_eq!(SourceTexts::of(&run).line(&at), None);
    }

    #[test]
    fn every_line_of_a_report_gets_its_text() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("model.py");
        fs::write(&file, format!("x = 1\n{}\n", "y".repeat(300))).expect("written");
        let line = |line: u32| json!({"file": file, "line": line, "function": "f"});
        let mut report = json!({
            "growth_by_line": [{"line": line(1), "bytes": 8}, {"line": null}],
            "oom": [{"line": line(9), "top": [{"line": line(2)}]}],
        });
        SourceTexts::new(u64::MAX).add_to(&mut report);
        let texts = ["/growth_by_line/0/line/text", "/oom/0/line/text", "/oom/0/top/0/line/text"].map(|at| report.pointer(at));
        let cut = Value::from(format!("{}...", "y".repeat(197)));
        assert_eq!(texts, [Some(&"x = 1".into()), None, Some(&cut)]);
    }
}
