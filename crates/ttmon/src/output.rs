//! Where the output goes: standard output, or a file that is written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;

use rustix::fs::{Access, access};

use crate::failure::Failure;

/// What a stream writes at once.
const STREAM_BYTES: usize = 64 * 1024;

/// Where to.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    Stdout,
    File(PathBuf),
}

impl Output {
    /// Writes one complete text.
    pub(crate) fn write(&self, text: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(text)?;
                stdout.flush()?;
                Ok(())
            }
            Self::File(path) => write_file(path, text)
                .map_err(|error| Failure::new(format!("cannot write {}: {error}; nothing was changed", path.display()))),
        }
    }

    /// Whether a text is likely to be written, for those who will have one only after a long time.
    pub(crate) fn try_out(&self) -> io::Result<()> {
        match self {
            Self::Stdout => Ok(()),
            Self::File(path) => try_file(path),
        }
    }
}

/// Standard output for a text that is better not held in memory as a whole.
pub(crate) fn stream(write: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut stdout = BufWriter::with_capacity(STREAM_BYTES, io::stdout().lock());
    write(&mut stdout)?;
    stdout.flush()?;
    Ok(())
}

/// Beside the file first, then in its place. A pipe or a device is written to as it is.
fn write_file(path: &Path, text: &[u8]) -> io::Result<()> {
    let (target, existing) = resolve(path)?;
    if existing.as_ref().is_some_and(|metadata| !metadata.is_file()) {
        return OpenOptions::new().write(true).open(&target)?.write_all(text);
    }
    let temporary = beside(&target);
    let written =
        write_new(&temporary, text, existing.map(|metadata| metadata.permissions())).and_then(|()| fs::rename(&temporary, &target));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Whether [`write_file`] is likely to succeed; changes nothing.
fn try_file(path: &Path) -> io::Result<()> {
    let (target, existing) = resolve(path)?;
    match existing {
        Some(metadata) if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // Opening a pipe would wait for its reader.
        Some(metadata) if !metadata.is_file() => Ok(access(&target, Access::WRITE_OK)?),
        _ => {
            let temporary = beside(&target);
            File::create_new(&temporary)?;
            fs::remove_file(&temporary)
        }
    }
}

/// The file itself, behind links, and what is there now.
fn resolve(path: &Path) -> io::Result<(PathBuf, Option<fs::Metadata>)> {
    // A pipe or a terminal has no file of its own behind the link in /dev/fd that names it.
    if let Ok(metadata) = fs::metadata(path)
        && !metadata.is_file()
    {
        return Ok((path.to_owned(), Some(metadata)));
    }
    let target = match fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => where_link_leads(path),
        Err(error) => return Err(error),
    };
    let existing = fs::metadata(&target).ok();
    Ok((target, existing))
}

fn beside(target: &Path) -> PathBuf {
    target.with_file_name(format!(".ttmon-{}", process::id()))
}

/// The file a link without a target would be; the path itself if it is no link.
fn where_link_leads(path: &Path) -> PathBuf {
    match fs::read_link(path) {
        Ok(target) => path.parent().unwrap_or(Path::new("")).join(target),
        Err(_) => path.to_owned(),
    }
}

fn write_new(path: &Path, text: &[u8], permissions: Option<fs::Permissions>) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.write_all(text)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let link = directory.path().join("link");
        symlink("out", &link).unwrap();
        write_file(&link, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(directory.path()), ["link", "out"]);
        fs::remove_file(&path).unwrap();
        write_file(&link, b"again").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"again", "a link without a target stays a link");
    }

    #[test]
    fn a_failure_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        assert!(write_file(&directory.path().join("none/out"), b"x").is_err());
        assert!(write_file(directory.path(), b"x").is_err());
        assert_eq!(names(directory.path()), Vec::<String>::new());
    }

    #[test]
    fn trying_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        symlink("later", directory.path().join("link")).unwrap();
        fs::write(&path, "old").unwrap();
        for good in [path.clone(), directory.path().join("new"), directory.path().join("link"), PathBuf::from("/dev/null")] {
            try_file(&good).unwrap();
        }
        for bad in [directory.path().to_owned(), directory.path().join("none/out"), path.join("out")] {
            assert!(try_file(&bad).is_err(), "{bad:?}");
        }
        assert_eq!((names(directory.path()), fs::read(&path).unwrap()), (vec!["link".to_owned(), "out".to_owned()], b"old".to_vec()));
    }

    #[test]
    fn a_device_stays_a_device() {
        write_file(Path::new("/dev/null"), b"x").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
