//! `--csv DIR`: all files or none. They are written under names of their own first, and get theirs when all are there.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;

use ttmon_model::Snapshot;
use ttmon_print::ReportFile;

use crate::failure::Failure;

/// Writes the reports of all allocators into a directory, which is made if it is not there.
pub(super) fn write(snapshot: &Snapshot, directory: &Path) -> Result<(), Failure> {
    let files = ttmon_print::reports(snapshot);
    if files.is_empty() {
        return Err(Failure::new(
            "no process tells the banks of its allocators; start programs with `ttmon run -- CMD`, nothing was written",
        ));
    }
    write_all(directory, &files)
        .map_err(|error| Failure::new(format!("cannot write to {}: {error}; nothing was changed", directory.display())))
}

fn write_all(directory: &Path, files: &[ReportFile]) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let written = Temporary::write(directory, files)?;
    // What can fail now is the directory's end, or somebody who works in it.
    for (temporary, file) in written.0.iter().zip(files) {
        fs::rename(temporary, directory.join(&file.name))?;
    }
    Ok(())
}

/// Files under names of their own; what is left of them goes with this.
struct Temporary(Vec<PathBuf>);

impl Temporary {
    fn write(directory: &Path, files: &[ReportFile]) -> io::Result<Self> {
        let mut written = Self(Vec::with_capacity(files.len()));
        for (number, file) in files.iter().enumerate() {
            let target = directory.join(&file.name);
            if target.is_dir() {
                return Err(io::Error::new(io::ErrorKind::IsADirectory, format!("{} is a directory", target.display())));
            }
            let path = directory.join(format!(".ttmon-{}-{number}", process::id()));
            let mut temporary = File::create_new(&path)?;
            written.0.push(path);
            temporary.write_all(file.text.as_bytes())?;
            temporary.sync_all()?;
        }
        Ok(written)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        for path in &self.0 {
            // Those that got their names are not there any more.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn file(name: &str, text: &str) -> ReportFile {
        ReportFile { name: name.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn all_files_or_none() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("new/reports");
        write_all(&directory, &[file("a.csv", "1"), file("b.csv", "2")]).unwrap();
        assert_eq!(names(&directory), ["a.csv", "b.csv"]);
        // The second cannot be: the first stays what it was.
        fs::create_dir(directory.join("c.csv")).unwrap();
        assert!(write_all(&directory, &[file("a.csv", "other"), file("c.csv", "3")]).is_err());
        assert_eq!(
            (names(&directory), fs::read(directory.join("a.csv")).unwrap()),
            (vec!["a.csv".to_owned(), "b.csv".to_owned(), "c.csv".to_owned()], b"1".to_vec())
        );
        assert!(write_all(&directory.join("a.csv"), &[file("x", "")]).is_err(), "a file is no directory");
    }
}
