//! Reads the text of source lines, from files that have not changed since the command started.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use ttmon_model::stack::SourceLine;

/// Largest file that is read.
const BYTES_MAX: usize = 1 << 20;
/// Most files of which the text is stored.
const FILES_MAX: usize = 64;

/// Cached texts of source files.
#[derive(Debug)]
pub(crate) struct SourceTexts {
    /// When the command started, in nanoseconds since 1970. The lines of a file that changed later may differ.
    begun: u64,
    files: RefCell<HashMap<String, Option<String>>>,
}

impl SourceTexts {
    pub(crate) fn new(begun: u64) -> Self {
        Self { begun, files: RefCell::default() }
    }

    /// Returns the trimmed text of a line, or `None` if it cannot be read, is empty or may have changed.
    pub(crate) fn line(&self, at: &SourceLine) -> Option<String> {
        let mut files = self.files.borrow_mut();
        if files.len() >= FILES_MAX && !files.contains_key(&*at.file) {
            return None;
        }
        let text = files.entry(at.file.to_string()).or_insert_with(|| self.read(Path::new(&*at.file)));
        let number = usize::try_from(at.line).ok()?.checked_sub(1)?;
        let line = text.as_ref()?.lines().nth(number)?.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }

    fn read(&self, path: &Path) -> Option<String> {
        let changed = fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        (changed.as_nanos() <= u128::from(self.begun)).then(|| ttmon_files::read_text(path, BYTES_MAX).ok()).flatten()
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(texts.line(&SourceLine { file: "<string>".into(), ..at(1) }), None);
    }
}
