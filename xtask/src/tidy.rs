//! `cargo xtask tidy`: automatic checks for frequent review comments.
//!
//! Checks every file that git tracks or would track. A rule is a row of [`RULES`] and checks one file. Rules for the whole workspace (crate
//! arrows, lints of manifests, paths of this machine) are in [`check`]. The rules use only the text, without comments and strings if
//! needed; none parses Rust.

mod arrows;
mod code;
mod errors;
mod fields;
mod leftovers;
mod length;
mod manifests;
mod names;
mod phrases;
mod program;
mod promises;
mod unsafe_home;
mod words;

use std::fmt;
use std::fs;

use crate::project::{Project, output};
use crate::stop::{Stop, no_arguments};

const RULES: &[fn(&File) -> Vec<Finding>] = &[
    errors::texts,
    length::long_files,
    length::long_functions,
    names::nameless_paths,
    names::nameless_items,
    phrases::unclear,
    leftovers::macros,
    leftovers::notes,
    leftovers::lost_tests,
    unsafe_home::unsafe_outside,
    program::panicking_macros,
    program::commands_reading_the_command_line,
    words::registry_hosts,
];

struct File {
    /// Relative to the root of the workspace, with `/`.
    path: String,
    text: String,
    /// For Rust files, the text with comments and literals blanked, with the same lines. Empty for other files.
    code: String,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    message: String,
}

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    no_arguments(arguments)?;
    Ok(check(project)?)
}

pub(crate) fn check(project: &Project) -> Result<(), String> {
    let files = files(project)?;
    let metadata = project.metadata()?;
    let home = std::env::var("HOME").ok();
    let places = words::places(&project.root.to_string_lossy(), home.as_deref());

    let mut findings: Vec<Finding> = files.iter().flat_map(|file| RULES.iter().flat_map(|rule| rule(file))).collect();
    findings.extend(files.iter().flat_map(|file| words::places_of_this_machine(file, &places)));
    findings.extend(manifests::without_our_lints(&files, &metadata.members, &project.root));
    findings.extend(fields::accesses(&files));
    findings.extend(arrows::check(&files, &metadata.members));
    findings.extend(promises::without_a_test(&files));
    findings.sort();

    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("{count} to tidy in {} files", files.len())),
    }
}

fn files(project: &Project) -> Result<Vec<File>, String> {
    // A checkout in a container often belongs to another user, and git refuses to read it by default.
    let trust = format!("safe.directory={}", project.root.display());
    let list = ["-c", trust.as_str(), "ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = output(&mut project.command("git", &list))?;
    let mut files = Vec::new();
    for path in listed.split_terminator('\0') {
        let full = project.root.join(path);
        // Skip links of fixtures, deleted files that are not yet committed, and files that are not text.
        if fs::symlink_metadata(&full).is_ok_and(|metadata| metadata.is_file()) {
            let bytes = fs::read(&full).map_err(|error| format!("{path}: {error}"))?;
            files.extend(String::from_utf8(bytes).ok().map(|text| File::new(path, text)));
        }
    }
    Ok(files)
}

impl File {
    fn new(path: &str, text: impl Into<String>) -> Self {
        let text = text.into();
        let code = if path.ends_with(".rs") { code::blank(&text) } else { String::new() };
        Self { path: path.to_owned(), text, code }
    }

    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.split('/').any(|part| part == "tests")
    }

    /// Whether the file was captured on a real machine or copied from another project. Its words are not checked.
    fn is_fixture(&self) -> bool {
        self.path.split('/').any(|part| part == "fixtures")
    }

    /// Returns a finding for each message about a line.
    fn each_line<I: IntoIterator<Item = String>>(&self, messages: impl Fn(&str) -> I) -> Vec<Finding> {
        let lines = (1..).zip(self.text.lines());
        lines.flat_map(|(number, line)| messages(line).into_iter().map(move |message| self.finding(number, message))).collect()
    }

    fn finding(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, message: message.into() }
    }

    /// Returns the number of the line with the byte `at` of the code (or of the text: both have the same length).
    fn line_of(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// For the tests of the rules: returns the findings of a file as lines.
#[cfg(test)]
fn said(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(Finding::to_string).collect()
}
