//! Reads files up to a size limit.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use crate::walk::{Entry, inspect, locate_file};

/// Opens a file for reading. A device, a FIFO or a socket is refused before it is opened.
pub fn open(path: &Path) -> io::Result<File> {
    open_entry(&find(path)?)
}

/// Reads a file of at most `bytes_max` bytes.
pub fn read(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    read_bounded(open(path)?, bytes_max)
}

/// Reads a UTF-8 text file of at most `bytes_max` bytes.
pub fn read_text(path: &Path, bytes_max: usize) -> io::Result<String> {
    String::from_utf8(read(path, bytes_max)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Reads a file that no other user can read, such as a token or a key.
///
/// Its owner must be this user or root. A file of root may be readable by its group.
pub fn read_secret(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let entry = find(path)?;
    let (owner, mode) = (entry.stat.st_uid, entry.stat.st_mode);
    let forbidden = if owner == 0 { 0o037 } else { 0o077 };
    let why = match () {
        () if !entry.is_ours() && owner != 0 => format!("its owner is another user (uid {owner}); make your own copy"),
        () if mode & forbidden != 0 => "other users may read it; make it your own: chmod 600".to_owned(),
        () => return read_bounded(open_entry(&entry)?, bytes_max),
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Reads a regular file that the user did not name. Its owner must be this user or root, and no other user can write it.
pub fn read_trusted(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let entry = find(path)?;
    let (owner, mode) = (entry.stat.st_uid, entry.stat.st_mode);
    let why = match () {
        () if !entry.kind().is_file() => return Err(entry.refused()),
        () if !entry.is_ours() && owner != 0 => format!("its owner is another user (uid {owner})"),
        () if mode & 0o022 != 0 => "other users may write it".to_owned(),
        () => return read_bounded(open_entry(&entry)?, bytes_max),
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Opens a regular file by its name in a directory. Follows no link and opens no device, even if the name changes its target at any time.
pub fn open_regular_at(directory: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let entry = inspect(directory.as_fd(), name, true)?;
    if entry.kind().is_file() { entry.reopen(OFlags::RDONLY | OFlags::NONBLOCK) } else { Err(Errno::INVAL) }
}

fn find(path: &Path) -> io::Result<Entry> {
    locate_file(path)?.found.ok_or_else(|| io::Error::from(Errno::NOENT))
}

fn open_entry(entry: &Entry) -> io::Result<File> {
    let flags = match entry.kind() {
        FileType::RegularFile => OFlags::NONBLOCK,
        // The FIFO is open, so this cannot wait for a writer.
        FileType::Fifo if entry.is_open_file => OFlags::empty(),
        _ if entry.is_harmless_device() => OFlags::empty(),
        _ => return Err(entry.refused()),
    };
    Ok(File::from(entry.reopen(OFlags::RDONLY | flags)?))
}

fn read_bounded(file: File, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {bytes_max} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_files_are_read_and_not_more_than_allowed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), "text").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        assert_eq!(read_text(&at("link"), 4).unwrap(), "text");
        assert_eq!(read(&at("file"), 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        for (name, why) in [("zero", "a device"), ("fifo", "a FIFO"), ("socket", "a socket")] {
            let error = read(&at(name), 1 << 20).unwrap_err().to_string();
            assert!(error.contains(why), "{name}: {error}");
        }
        assert_eq!(read(directory.path(), 4).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(read(&at("none"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(read(Path::new("/dev/null"), 4).unwrap(), b"");
    }

    #[test]
    fn a_secret_is_read_by_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        fs::write(&path, "sesame").unwrap();
        for (mode, is_read) in [(0o600, true), (0o400, true), (0o604, false), (0o620, false), (0o644, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_secret(&path, 99).is_ok(), is_read, "{mode:o}");
        }
    }

    #[test]
    fn a_trusted_file_is_written_by_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "text").unwrap();
        for (mode, is_read) in [(0o600, true), (0o644, true), (0o664, false), (0o646, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_trusted(&path, 99).is_ok(), is_read, "{mode:o}");
        }
        assert!(read_trusted(Path::new("/dev/null"), 99).is_err() && read_trusted(&path, 3).is_err());
        // Only root can give a file to another user.
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            assert!(read_trusted(&path, 99).is_err());
        }
    }

    #[test]
    fn a_name_in_a_directory_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "text").unwrap();
        symlink("file", directory.path().join("link")).unwrap();
        let place = File::open(directory.path()).unwrap();
        assert!(open_regular_at(&place, OsStr::new("file")).is_ok());
        assert_eq!(open_regular_at(&place, OsStr::new("link")).unwrap_err(), Errno::INVAL);
        let devices = File::open("/dev").unwrap();
        assert_eq!(open_regular_at(devices, OsStr::new("null")).unwrap_err(), Errno::INVAL);
    }
}
