//! `--csv DIR`: writes all files or none. The files are first written under temporary names and renamed when all are complete.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use ttmon_model::Snapshot;
use ttmon_model::groups::GroupBy;
use ttmon_os::{Directory, Existing};
use ttmon_print::{ProgramReports, ReportFile};

use crate::failure::Failure;
use crate::output::Output;
use crate::watch;

/// Writes the reports of all allocators into a directory. Creates the directory if it does not exist.
pub(super) fn write(snapshot: &Snapshot, directory: &Path) -> Result<(), Failure> {
    let files = ttmon_print::reports(snapshot);
    if files.is_empty() {
        return Err(Failure::new(
            "no process reports the banks of its allocators; start programs with `ttmon run -- CMD`, nothing was written",
        ));
    }
    write_all(directory, &files).map_err(|error| unwritten(directory, &error))
}

/// Writes the table of groups into a directory, or to standard output for `-`.
pub(super) fn write_table(place: &Path, by: GroupBy, text: &[u8]) -> Result<(), Failure> {
    if place == Path::new("-") {
        return Output::Stdout.write(text);
    }
    let name = match by {
        GroupBy::Line => "memory_by_line.csv",
        GroupBy::Tag => "memory_by_tag.csv",
        GroupBy::Op => "memory_by_op.csv",
    };
    let text = String::from_utf8_lossy(text).into_owned();
    write_all(place, &[ReportFile { name: name.to_owned(), text }]).map_err(|error| unwritten(place, &error))
}

fn unwritten(directory: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write to {}: {error}; nothing was changed", directory.display()))
}

/// Appends each program to the files by program when it first appears in a snapshot. Returns when a snapshot fails. Files of an earlier run
/// are replaced, as MemoryReporter does.
pub(super) fn follow(
    directory: &Path,
    interval: Duration,
    only: Option<u32>,
    mut next: impl FnMut() -> Result<Snapshot, Failure>,
) -> Result<(), Failure> {
    let cannot = |error: io::Error| Failure::new(format!("cannot write to {}: {error}", directory.display()));
    Directory::create(directory).map_err(cannot)?;
    let mut programs = ProgramReports::default();
    let mut files: BTreeMap<String, File> = BTreeMap::new();
    watch::repeat(interval, || {
        for ReportFile { name, text } in programs.next(&next()?) {
            let file = match files.entry(file_name(&name, only)) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let path = directory.join(new.key());
                    new.insert(ttmon_os::create(&path, Existing::Replace).map_err(cannot)?)
                }
            };
            file.write_all(text.as_bytes()).map_err(cannot)?;
        }
        Ok(())
    })
}

/// Returns the name of a file. If one process was selected, the name is MemoryReporter's own, without the pid as prefix.
fn file_name(name: &str, only: Option<u32>) -> String {
    let prefix = only.map_or_else(String::new, |pid| format!("{pid}_"));
    name.strip_prefix(&prefix).unwrap_or(name).to_owned()
}

fn write_all(path: &Path, files: &[ReportFile]) -> io::Result<()> {
    let directory = Directory::create(path)?;
    let mut drafts = Vec::with_capacity(files.len());
    for file in files {
        if directory.has_directory(&file.name) {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, format!("{} is a directory", path.join(&file.name).display())));
        }
        let mut draft = directory.draft()?;
        draft.write_all(file.text.as_bytes())?;
        drafts.push(draft);
    }
    // From here on, only an error of the directory itself is possible.
    drafts.into_iter().zip(files).try_for_each(|(draft, file)| draft.commit(&file.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn file(name: &str, text: &str) -> ReportFile {
        ReportFile { name: name.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn files_of_one_process_have_the_names_of_memory_reporter() {
        let name = "17_program_l1_usage_summary.csv";
        assert_eq!(file_name(name, Some(17)), "program_l1_usage_summary.csv");
        assert_eq!((file_name(name, None), file_name(name, Some(7))), (name.to_owned(), name.to_owned()));
    }

    #[test]
    fn all_files_or_none() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("new/reports");
        write_all(&directory, &[file("a.csv", "1"), file("b.csv", "2")]).unwrap();
        assert_eq!(names(&directory), ["a.csv", "b.csv"]);
        // The second file cannot be written, so the first file must not change.
        fs::create_dir(directory.join("c.csv")).unwrap();
        assert!(write_all(&directory, &[file("a.csv", "other"), file("c.csv", "3")]).is_err());
        assert_eq!(
            (names(&directory), fs::read(directory.join("a.csv")).unwrap()),
            (vec!["a.csv".to_owned(), "b.csv".to_owned(), "c.csv".to_owned()], b"1".to_vec())
        );
        assert!(write_all(&directory.join("a.csv"), &[file("x", "")]).is_err(), "a file is no directory");
    }
}
