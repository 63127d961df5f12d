//! Writes and removes files that other processes read meanwhile.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use crate::kernel::Extra;

pub(crate) fn link(target: &str, path: &Path) -> io::Result<()> {
    match symlink(target, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text)?;
    fs::rename(&fresh, path)
}

/// Removes a file, a link, or a directory with its contents. A missing path is not an error.
pub(crate) fn vanish(path: impl AsRef<Path>) -> io::Result<()> {
    let path = path.as_ref();
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Writes files into a directory, and creates the directory if needed.
pub(crate) fn put_all(directory: &Path, files: &[Extra]) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    files.iter().try_for_each(|(file, text, mode)| put_line(&directory.join(file), text, *mode))
}

pub(crate) fn put_line(path: &Path, line: &str, mode: u32) -> io::Result<()> {
    put(path, &if line.is_empty() { String::new() } else { format!("{line}\n") }, mode)
}

/// Opens a file for writing even if its mode is read-only.
fn open(path: &Path, mode: u32) -> io::Result<File> {
    let open = || OpenOptions::new().write(true).create(true).truncate(false).mode(mode).open(path);
    match open() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            fs::set_permissions(path, Permissions::from_mode(mode | 0o200))?;
            let file = open();
            fs::set_permissions(path, Permissions::from_mode(mode))?;
            file
        }
        other => other,
    }
}

/// Replaces a file's text in place, because readers hold the file open. A shorter text is padded with blank lines before the file is
/// truncated, so that a reader never sees a mixture of two numbers.
pub(crate) fn put(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let file = open(path, mode)?;
    let bytes_before = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    if bytes_before <= text.len() {
        return file.write_all_at(text.as_bytes(), 0);
    }
    let mut padded = text.as_bytes().to_vec();
    padded.resize(bytes_before, b'\n');
    file.write_all_at(&padded, 0)?;
    file.set_len(text.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::READ_ONLY;

    #[test]
    fn put_replaces_longer_and_shorter_texts_in_place() {
        use std::os::unix::fs::MetadataExt;
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        put(&path, "1\n", READ_ONLY).unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        for text in ["100000\n", "99\n", "", "977\n4242\n"] {
            put(&path, text, READ_ONLY).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
    }
}
