//! `cargo xtask tidy`: rules of this repository that neither the compiler nor clippy can check.
//!
//! A rule of one file is a row of [`RULES`]. The rules read text; none parses Rust.

mod arrows;

use std::fmt;
use std::fs;
use std::path::Path;

use crate::project::{Member, Project, output};
use crate::stop::{Stop, no_arguments};

const FILE_LINES_MAX: usize = 600;

/// The page whose tables name a test for each promise.
const PROMISES: &str = "docs/security.md";

/// Crates with unsafe code. The workspace forbids it, and a forbidden lint cannot be allowed again, so these list their lints themselves.
const UNSAFE_CRATES: [&str; 8] = ["client", "deep", "hook", "ledger", "monitor", "os", "pystack", "ttmon"];

/// Hosts of package registries, joined from halves, so that this file passes its own rule.
const REGISTRY_HOSTS: [&str; 8] = [
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("npm", "js.org"),
    concat!("npm", "js.com"),
    concat!("yarn", "pkg.com"),
    concat!("proxy.", "golang.org"),
    concat!("ruby", "gems.org"),
];

/// The name of cargo's default registry in every Cargo.lock, which is a repository and not a host.
const LOCK_FILE_NAME: &str = concat!("crates", ".io-index");

/// Common directories. A checkout directly below one is found by its own path.
const SHARED: [&str; 12] =
    ["/", "/tmp", "/home", "/root", "/opt", "/srv", "/src", "/mnt", "/usr/src", "/usr/local", "/var/tmp", "/dev/shm"];

const RULES: [fn(&File) -> Vec<Finding>; 2] = [long_file, registry_hosts];

struct File {
    /// Relative to the root of the workspace, with `/`.
    path: String,
    text: String,
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
    let members = project.metadata()?.members;
    let home = std::env::var("HOME").ok();
    let places = places_of_this_machine(&project.root.to_string_lossy(), home.as_deref());

    let mut findings: Vec<Finding> = files.iter().flat_map(|file| RULES.iter().flat_map(|rule| rule(file))).collect();
    findings.extend(files.iter().flat_map(|file| places_named(file, &places)));
    findings.extend(members.iter().filter_map(|member| without_lints(member, &files, &project.root)));
    findings.extend(promises_without_a_test(&files));
    findings.extend(arrows::check(&files, &members));
    findings.sort();

    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("{count} to tidy in {} files", files.len())),
    }
}

/// Returns the text files that git tracks or would track.
fn files(project: &Project) -> Result<Vec<File>, String> {
    // A checkout in a container often belongs to another user, and git refuses to read it by default.
    let trust = format!("safe.directory={}", project.root.display());
    let list = ["-c", trust.as_str(), "ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = output(&mut project.command("git", &list))?;
    let mut files = Vec::new();
    for path in listed.split_terminator('\0') {
        let full = project.root.join(path);
        // Skip links of fixtures and deleted files that are not yet committed.
        if fs::symlink_metadata(&full).is_ok_and(|metadata| metadata.is_file()) {
            let bytes = fs::read(&full).map_err(|error| format!("{path}: {error}"))?;
            files.extend(String::from_utf8(bytes).ok().map(|text| File { path: path.to_owned(), text }));
        }
    }
    Ok(files)
}

impl File {
    fn finding(&self, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.clone(), line, message: message.into() }
    }

    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.message)
    }
}

fn long_file(file: &File) -> Vec<Finding> {
    let lines = file.text.lines().count();
    let is_long = file.path.ends_with(".rs") && lines > FILE_LINES_MAX;
    is_long.then(|| file.finding(1, format!("{lines} lines, over {FILE_LINES_MAX}: split it by topic"))).into_iter().collect()
}

fn registry_hosts(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        let line = line.to_lowercase().replace(LOCK_FILE_NAME, "");
        let hosts = REGISTRY_HOSTS.iter().filter(|host| line.contains(**host));
        findings.extend(hosts.map(|host| file.finding(number, format!("names the package registry {host}: use names of packages only"))));
    }
    findings
}

/// Returns the paths that only this machine has: the parent directory of the checkout, and the user's home.
fn places_of_this_machine(root: &str, home: Option<&str>) -> Vec<String> {
    let above = root.rsplit_once('/').map_or("/", |(above, _)| above);
    let checkout = if above.is_empty() || SHARED.contains(&above) { root } else { above };
    let mut places = vec![checkout.to_owned()];
    match home.map(|home| home.trim_end_matches('/')) {
        None | Some("") => {}
        // Every machine has a home of root. Only the tools below it reveal this machine.
        Some(home) if SHARED.contains(&home) => places.extend([".cargo", ".rustup"].map(|tool| format!("{home}/{tool}"))),
        Some(home) => places.push(home.to_owned()),
    }
    places
}

fn places_named(file: &File, places: &[String]) -> Vec<Finding> {
    let named = |line: &str| places.iter().find(|place| names_path(line, place));
    let lines = file.lines().filter_map(|(number, line)| Some((number, named(line)?)));
    lines.map(|(number, place)| file.finding(number, format!("names {place}, which is a path of this machine"))).collect()
}

/// Whether the line contains the absolute path or one below it. `/proc/1/home/bo` and `/home/bob` do not contain `/home/bo`.
fn names_path(line: &str, path: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + path.len()..].chars().next();
        let goes_on_before = before.is_some_and(|character| is_word(character) || "./~*}])>-$".contains(character));
        let goes_on_after = after.is_some_and(|character| is_word(character) || character == '-');
        !goes_on_before && !goes_on_after
    })
}

/// A member has the workspace's lints, or it is one of the crates with unsafe code and has lints of its own.
fn without_lints(member: &Member, files: &[File], root: &Path) -> Option<Finding> {
    let path = member.manifest.strip_prefix(root).ok()?.to_str()?;
    let file = files.iter().find(|file| file.path == path)?;
    let has_table = |name: &str| file.text.lines().any(|line| line.trim() == name);
    let has_ours = has_table("[lints]") && file.text.contains("[lints]\nworkspace = true");
    let has_its_own = has_table("[lints.rust]") && UNSAFE_CRATES.contains(&member.name.as_str());
    (!has_ours && !has_its_own).then(|| file.finding(1, "has no lints: write [lints] workspace = true"))
}

/// Returns tests that the page of promises names in the last column of a table, and that no Rust file has.
fn promises_without_a_test(files: &[File]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PROMISES) else { return Vec::new() };
    let exists = |name: &str| {
        let (function, case) = (format!("fn {name}("), format!("\"{name}\""));
        files.iter().any(|file| file.path.ends_with(".rs") && (file.text.contains(&function) || file.text.contains(&case)))
    };
    let mut findings = Vec::new();
    let mut is_of_tests = false;
    for (number, line) in page.lines() {
        let Some(last) = line.strip_suffix('|').and_then(|row| row.rsplit('|').next()) else {
            is_of_tests = false;
            continue;
        };
        is_of_tests |= last.trim_start().starts_with("test");
        // Every second part is between backquotes.
        let names = last.split('`').skip(1).step_by(2).map(|name| name.rsplit("::").next().unwrap_or(name));
        let missing = names.filter(|name| is_of_tests && !name.contains('/') && !exists(name));
        findings.extend(missing.map(|name| page.finding(number, format!("no test is called {name}"))));
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_long_file_is_found() {
        let long = "\n".repeat(FILE_LINES_MAX + 1);
        assert_eq!(long_file(&file("a.rs", &long)).len(), 1);
        assert_eq!(long_file(&file("a.md", &long)).len() + long_file(&file("a.rs", &long[1..])).len(), 0);
    }

    #[test]
    fn a_registry_host_is_found_and_the_lock_file_is_not() {
        let text = format!("registry+https://github.com/rust-lang/{LOCK_FILE_NAME}\nhttps://Static.{}/a\n", REGISTRY_HOSTS[0]);
        let lines: Vec<usize> = registry_hosts(&file("a", &text)).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [2]);
    }

    #[test]
    fn paths_of_this_machine_are_found_as_whole_paths() {
        assert_eq!(places_of_this_machine("/w/a/b", Some("/home/bo")), ["/w/a", "/home/bo"]);
        let tools = ["cargo", "rustup"].map(|tool| format!("/srv/.{tool}"));
        assert_eq!(places_of_this_machine("/src/ttmon", Some("/srv/")), ["/src/ttmon", &tools[0], &tools[1]]);
        assert!(names_path("see /home/bo/x", "/home/bo") && names_path("(/home/bo)", "/home/bo"));
        assert!(!names_path("/home/bob", "/home/bo") && !names_path("/proc/1/home/bo", "/home/bo"));
        assert_eq!(places_named(&file("a", "x\n/w/a/c\n"), &["/w/a".to_owned()])[0].line, 2);
    }

    #[test]
    fn a_member_has_lints() {
        let is_missing = |name: &str, manifest: &str| {
            let path = format!("crates/{name}/Cargo.toml");
            let member = Member { name: name.to_owned(), manifest: Path::new("/w").join(&path), needs: BTreeSet::new() };
            without_lints(&member, &[file(&path, manifest)], Path::new("/w")).is_some()
        };
        assert!(!is_missing("model", "[package]\n[lints]\nworkspace = true\n"));
        assert!(is_missing("model", "[package]\n") && is_missing("model", "[lints.rust]\nunsafe_code = \"allow\"\n"));
        assert!(!is_missing("ledger", "[lints.rust]\nmissing_docs = \"warn\"\n") && is_missing("ledger", "[package]\n"));
    }

    #[test]
    fn a_promise_has_a_test() {
        let page = "| promise | test |\n|---|---|\n| a | `one`, `m::two`, `a/b` |\n\n| other | names |\n| x | `three` |\n";
        let files = [file(PROMISES, page), file("a.rs", "fn one() {}\n")];
        let messages: Vec<String> = promises_without_a_test(&files).iter().map(Finding::to_string).collect();
        assert_eq!(messages, ["docs/security.md:3: no test is called two"]);
    }
}
