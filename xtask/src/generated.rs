//! Committed files that a command generates: it writes them, or with `--check` lists those that differ.

use std::fs;

use crate::files;
use crate::project::Project;
use crate::stop::{Stop, has_flag};

/// A generated file: its path below the root of the workspace, and its text.
pub(crate) type Generated = (&'static str, String);

pub(crate) fn run(
    project: &Project,
    command: &str,
    arguments: &[String],
    generate: impl FnOnce() -> Result<Vec<Generated>, String>,
) -> Result<(), Stop> {
    let is_check = has_flag(command, "--check", arguments)?;
    let files = generate()?;
    Ok(if is_check { check(project, command, &files) } else { write(project, command, &files) }?)
}

pub(crate) fn write(project: &Project, command: &str, files: &[Generated]) -> Result<(), String> {
    for (path, text) in files {
        let full = project.root.join(path);
        if fs::read_to_string(&full).ok().as_ref() != Some(text) {
            files::write(&full, text)?;
            println!("{command}: wrote {path}");
        }
    }
    Ok(())
}

pub(crate) fn check(project: &Project, command: &str, files: &[Generated]) -> Result<(), String> {
    let mut stale = Vec::new();
    for (path, fresh) in files {
        let written = fs::read_to_string(project.root.join(path)).ok();
        if let Some(difference) = difference(written.as_deref(), fresh) {
            println!("{path}{difference}");
            stale.push(*path);
        }
    }
    if stale.is_empty() { Ok(()) } else { Err(format!("stale: {}; renew with: cargo xtask {command}", stale.join(", "))) }
}

/// Returns the first difference of a generated file, as `:line: what`.
fn difference(written: Option<&str>, fresh: &str) -> Option<String> {
    let Some(written) = written else { return Some(":1: does not exist".to_owned()) };
    if written == fresh {
        return None;
    }
    let same = written.lines().zip(fresh.lines()).take_while(|(old, new)| old == new).count();
    let wanted = fresh.lines().nth(same).map_or_else(|| "the end".to_owned(), |line| format!("{line:?}"));
    Some(format!(":{}: stale, here should be {wanted}", same + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_page_is_reported_by_its_first_wrong_line() {
        assert_eq!(difference(Some("a\nb\n"), "a\nb\n"), None);
        assert_eq!(difference(None, "a\n").unwrap(), ":1: does not exist");
        assert_eq!(difference(Some("a\nb\n"), "a\nc\n").unwrap(), ":2: stale, here should be \"c\"");
        assert_eq!(difference(Some("a\nb\n"), "a\n").unwrap(), ":2: stale, here should be the end");
        assert_eq!(difference(Some("a\n"), "a\nb\n").unwrap(), ":2: stale, here should be \"b\"");
    }
}
