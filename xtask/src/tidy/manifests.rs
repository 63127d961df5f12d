//! Checks that every member of the workspace uses the workspace's lints.

use std::path::Path;

use super::unsafe_home::is_home;
use super::{File, Finding};
use crate::project::Member;

pub(super) fn without_our_lints(files: &[File], members: &[Member], root: &Path) -> Vec<Finding> {
    let manifests = members.iter().filter_map(|member| {
        let path = member.manifest.strip_prefix(root).ok()?.to_str()?;
        files.iter().find(|file| file.path == path)
    });
    manifests.flat_map(lints).collect()
}

fn lints(file: &File) -> Vec<Finding> {
    let sections = sections(&file.text);
    let takes_ours = sections.contains(&("lints", "workspace = true")) || sections.contains(&("", "lints.workspace = true"));
    // The workspace forbids unsafe code, and a forbidden lint cannot be allowed again. So crates with unsafe code have their own lints.
    let has_its_own = is_home(&file.path) && sections.iter().any(|(section, _)| section.starts_with("lints."));
    if takes_ours || has_its_own {
        return Vec::new();
    }
    vec![file.finding(1, "takes no lints: write [lints] workspace = true")]
}

/// Returns each `key = value` line with its table.
fn sections(manifest: &str) -> Vec<(&str, &str)> {
    let mut section = "";
    let mut lines = Vec::new();
    for line in manifest.lines() {
        let line = line.split('#').next().unwrap_or(line).trim();
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.trim();
        } else if !line.is_empty() {
            lines.push((section, line));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::said;
    use super::*;

    #[track_caller]
    fn check(path: &str, manifest: &str, expected: &[&str]) {
        let member = Member { name: "a".to_owned(), manifest: Path::new("/w").join(path), needs: BTreeSet::new() };
        let files = [File::new("Cargo.toml", "[workspace]"), File::new(path, manifest)];
        assert_eq!(said(&without_our_lints(&files, &[member], Path::new("/w"))), expected);
    }

    #[test]
    fn a_member_takes_the_lints() {
        let missing = ["crates/model/Cargo.toml:1: takes no lints: write [lints] workspace = true"];
        check("crates/model/Cargo.toml", "[package]\nname = \"a\"\n[lints]\nworkspace = true # all\n", &[]);
        check("crates/model/Cargo.toml", "lints.workspace = true\n[package]\n", &[]);
        check("crates/model/Cargo.toml", "[package]\n", &missing);
        check("crates/model/Cargo.toml", "[dependencies.b]\nworkspace = true\n[lints]\n", &missing);
        check("crates/model/Cargo.toml", "[lints.rust]\nunsafe_code = \"allow\"\n", &missing);
    }

    #[test]
    fn a_home_of_unsafe_code_may_write_its_own() {
        check("crates/ledger/Cargo.toml", "[lints.rust]\nmissing_docs = \"warn\"\n", &[]);
        check("crates/ledger/Cargo.toml", "[package]\n", &["crates/ledger/Cargo.toml:1: takes no lints: write [lints] workspace = true"]);
    }
}
