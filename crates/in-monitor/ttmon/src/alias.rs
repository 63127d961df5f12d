//! `ttmon alias`: creates links with the names of earlier tools. Files that are not links to ttmon are never changed.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::cli::AliasArgs;
use crate::failure::Failure;
use crate::names::NAMES;

#[derive(Debug, PartialEq, Eq)]
enum AtLink {
    Nothing,
    /// A link to this program.
    Ours,
    OtherTtmon,
    Foreign,
}

/// Creates or removes the links. Returns a text that lists the changes.
pub(crate) fn run(args: &AliasArgs) -> Result<String, Failure> {
    let program = env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find my own path: {error}; give --dir and run ttmon by its full path")))?;
    let directory = args.dir.as_deref().or(program.parent()).unwrap_or(Path::new(""));
    let mut text = String::new();
    for name in NAMES {
        let link = directory.join(name.name);
        let verb = if args.remove { remove(&link, &program) } else { make(&link, &program, args.force) }?;
        text.push_str(&format!("{verb} {}\n", link.display()));
    }
    Ok(text)
}

fn make(link: &Path, program: &Path, force: bool) -> Result<&'static str, Failure> {
    match examine_link(link, program).map_err(|error| failure("examine", link, &error))? {
        AtLink::Ours => return Ok("kept"),
        AtLink::Nothing => {}
        AtLink::OtherTtmon if force => fs::remove_file(link).map_err(|error| failure("replace", link, &error))?,
        AtLink::OtherTtmon => return Err(Failure::new(format!("{} leads to another ttmon; replace it with --force", link.display()))),
        AtLink::Foreign => return Err(foreign(link)),
    }
    symlink(program, link).map_err(|error| failure("make", link, &error))?;
    Ok("made")
}

fn remove(link: &Path, program: &Path) -> Result<&'static str, Failure> {
    match examine_link(link, program).map_err(|error| failure("examine", link, &error))? {
        AtLink::Nothing => Ok("not there:"),
        AtLink::Ours | AtLink::OtherTtmon => {
            fs::remove_file(link).map_err(|error| failure("remove", link, &error))?;
            Ok("removed")
        }
        AtLink::Foreign => Err(foreign(link)),
    }
}

fn examine_link(link: &Path, program: &Path) -> io::Result<AtLink> {
    let metadata = match fs::symlink_metadata(link) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(AtLink::Nothing),
        Err(error) => return Err(error),
    };
    if !metadata.is_symlink() {
        return Ok(AtLink::Foreign);
    }
    let target = fs::read_link(link)?;
    let is_same = |a: &Path, b: &Path| matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b);
    Ok(match target.file_name() {
        _ if is_same(link, program) => AtLink::Ours,
        Some(name) if name == "ttmon" => AtLink::OtherTtmon,
        _ => AtLink::Foreign,
    })
}

fn foreign(link: &Path) -> Failure {
    Failure::new(format!("{} is not a link to ttmon and was left alone; choose another folder with --dir", link.display()))
}

fn failure(verb: &str, link: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot {verb} {}: {error}; choose another folder with --dir", link.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_links_are_touched() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let program = path("ttmon");
        fs::write(&program, "").unwrap();
        assert_eq!(make(&path("a"), &program, false).unwrap(), "made");
        assert_eq!(make(&path("a"), &program, false).unwrap(), "kept");

        symlink("/nowhere/ttmon", path("b")).unwrap();
        assert!(make(&path("b"), &program, false).is_err());
        assert_eq!(make(&path("b"), &program, true).unwrap(), "made");

        fs::write(path("c"), "theirs").unwrap();
        symlink("/bin/sh", path("d")).unwrap();
        for foreign in ["c", "d"] {
            assert!(make(&path(foreign), &program, true).is_err());
            assert!(remove(&path(foreign), &program).is_err());
        }
        assert_eq!(fs::read(path("c")).unwrap(), b"theirs");
        assert_eq!(remove(&path("a"), &program).unwrap(), "removed");
        assert_eq!(remove(&path("a"), &program).unwrap(), "not there:");
    }
}
