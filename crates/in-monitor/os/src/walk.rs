//! Finds the file of a path without opening it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, fstatfs, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Maximum number of links in a path, as in the kernel.
const LINKS_MAX: usize = 40;
/// Refers to a file without opening it, so that no driver is called.
pub(crate) const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
const UNFOLLOWED: OFlags = PLACE.union(OFlags::NOFOLLOW);

/// A name in an open directory.
pub(crate) struct Located {
    pub(crate) directory: OwnedFd,
    pub(crate) name: OsString,
    pub(crate) found: Option<Entry>,
}

/// The target of a name; never a link.
pub(crate) struct Entry {
    pub(crate) place: OwnedFd,
    pub(crate) stat: Stat,
    /// Reached through `/proc/PID/fd`: `/dev/stdout`, `/dev/fd/N`.
    pub(crate) is_open_file: bool,
}

impl Entry {
    fn new(place: OwnedFd, is_open_file: bool) -> Result<Self, Errno> {
        let stat = fstat(&place)?;
        Ok(Self { place, stat, is_open_file })
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Opens the inspected file itself, even if its name has another target now.
    pub(crate) fn reopen(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        rustix::fs::open(self.path(), flags | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
    }

    pub(crate) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.place.as_raw_fd())
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.stat.st_uid == geteuid().as_raw()
    }

    /// Returns whether this is `/dev/null`, `/dev/full` or a terminal. Opening other devices can have side effects.
    pub(crate) fn is_harmless_device(&self) -> bool {
        let (major, minor) = (rustix::fs::major(self.stat.st_rdev), rustix::fs::minor(self.stat.st_rdev));
        self.kind().is_char_device() && matches!((major, minor), (1, 3 | 7) | (4 | 5 | 136..=143, _))
    }

    /// Returns the error for a file of a kind that is not opened.
    pub(crate) fn refused(&self) -> io::Error {
        let kind = match self.kind() {
            FileType::Directory => return io::ErrorKind::IsADirectory.into(),
            FileType::Fifo => "a FIFO",
            FileType::Socket => "a socket",
            FileType::CharacterDevice | FileType::BlockDevice => "a device",
            _ => "not a regular file",
        };
        io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}; name a regular file"))
    }
}

/// Finds the target of a path. Its last component need not exist.
pub(crate) fn locate(path: &Path) -> io::Result<Located> {
    let mut directory = start(path)?;
    let mut rest = components(path);
    let mut links = 0;
    while let Some(name) = rest.pop() {
        let is_last = rest.is_empty();
        let entry = match inspect(directory.as_fd(), &name, is_last) {
            Err(Errno::NOENT) if is_last && name != ".." => return Ok(Located { directory, name, found: None }),
            inspected => inspected?,
        };
        if !entry.kind().is_symlink() {
            if is_last && name != ".." {
                return Ok(Located { directory, name, found: Some(entry) });
            }
            directory = entry.place;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        check_link(directory.as_fd(), &entry, &name)?;
        if is_on_proc(entry.place.as_fd())? {
            // The text of these links may not be a path, so the kernel has to follow them.
            let entry = Entry::new(openat(&directory, &name, PLACE, Mode::empty())?, true)?;
            if is_last {
                return Ok(Located { directory, name, found: Some(entry) });
            }
            directory = entry.place;
            continue;
        }
        let target = readlinkat(&entry.place, "", Vec::new())?;
        let target = Path::new(OsStr::from_bytes(target.to_bytes()));
        if target.is_absolute() {
            directory = start(target)?;
        }
        rest.extend(components(target));
    }
    let found = Entry::new(directory.try_clone()?, false)?;
    Ok(Located { directory, name: ".".into(), found: Some(found) })
}

/// Like [`locate`], but for a file: a path that ends with a slash is a directory.
pub(crate) fn locate_file(path: &Path) -> io::Result<Located> {
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(Errno::ISDIR.into());
    }
    locate(path)
}

/// Inspects a name in a directory, without following a link.
pub(crate) fn inspect(directory: BorrowedFd<'_>, name: &OsStr, is_last: bool) -> Result<Entry, Errno> {
    let place = if is_last { Err(Errno::NOTDIR) } else { openat(directory, name, UNFOLLOWED | OFlags::DIRECTORY, Mode::empty()) };
    let place = match place {
        // O_DIRECTORY triggers an automount. It fails for a link.
        Err(Errno::NOTDIR | Errno::LOOP) => openat(directory, name, UNFOLLOWED, Mode::empty()),
        opened => opened,
    };
    Entry::new(place?, false)
}

fn start(path: &Path) -> io::Result<OwnedFd> {
    if path.as_os_str().is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let from = if path.is_absolute() { "/" } else { "." };
    Ok(rustix::fs::open(from, PLACE | OFlags::DIRECTORY, Mode::empty())?)
}

/// Returns the components in reverse order.
fn components(path: &Path) -> Vec<OsString> {
    let named = path.components().rev().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    named.map(|part| part.as_os_str().to_owned()).collect()
}

fn is_on_proc(place: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(fstatfs(place)?.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

fn check_link(directory: BorrowedFd<'_>, link: &Entry, name: &OsStr) -> io::Result<()> {
    // In a user namespace that does not map root, root's files have another owner: the owner of the root directory.
    let system = rustix::fs::stat("/")?.st_uid;
    let is_trusted = |uid: u32| uid == geteuid().as_raw() || uid == 0 || uid == system;
    if may_follow(is_trusted, &fstat(directory)?, &link.stat) {
        return Ok(());
    }
    let (name, uid) = (name.display(), link.stat.st_uid);
    let why = format!("{name} is a symbolic link of another user (uid {uid}), which is not followed; name the file it leads to");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

fn may_follow(is_trusted: impl Fn(u32) -> bool, directory: &Stat, link: &Stat) -> bool {
    let is_private = is_trusted(directory.st_uid) && directory.st_mode & 0o022 == 0;
    is_trusted(link.st_uid) || is_private
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_of_others_are_followed_only_where_others_cannot_write() {
        let stat = |uid, mode| {
            let mut stat = rustix::fs::stat("/").unwrap();
            (stat.st_uid, stat.st_mode) = (uid, mode);
            stat
        };
        // Directory (owner, mode), owner of the link.
        for ((owner, mode), link, is_followed) in [
            ((0, 0o41777), 1000, true),
            ((0, 0o41777), 0, true),
            ((0, 0o41777), 1001, false),
            ((0, 0o40755), 1001, true),
            ((0, 0o40775), 1001, false),
            ((1000, 0o40755), 1001, true),
            ((1000, 0o40777), 1001, false),
            ((1001, 0o40755), 1001, false),
            ((1001, 0o40755), 1000, true),
        ] {
            let followed = may_follow(|uid| uid == 1000 || uid == 0, &stat(owner, mode), &stat(link, 0o120_777));
            assert_eq!(followed, is_followed, "{owner} {mode:o} {link}");
        }
    }

    #[test]
    fn paths_lead_where_the_kernel_says() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/file"), "x").unwrap();
        symlink("a/b", at("relative")).unwrap();
        symlink(at("relative/file"), at("absolute")).unwrap();
        symlink("loop", at("loop")).unwrap();
        symlink("a/missing", at("dangling")).unwrap();
        let inode = |path: &Path| locate(path).unwrap().found.map(|entry| entry.stat.st_ino);
        let expected = Some(rustix::fs::stat(at("a/b/file")).unwrap().st_ino);
        for path in ["a/b/file", "relative/file", "absolute", "relative/../b/./file", "a/../absolute"] {
            assert_eq!(inode(&at(path)), expected, "{path}");
        }
        assert_eq!(inode(&at("a/b/..")), Some(rustix::fs::stat(at("a")).unwrap().st_ino));
        assert!(inode(Path::new("/")).is_some() && inode(Path::new("..")).is_some());
        let dangling = locate(&at("dangling")).unwrap();
        assert_eq!((dangling.name.as_os_str(), dangling.found.is_none()), (OsStr::new("missing"), true));
        for (path, error) in [("loop", Errno::LOOP), ("none/file", Errno::NOENT), ("a/b/file/x", Errno::NOTDIR)] {
            let failed = locate(&at(path)).err().and_then(|error| error.raw_os_error());
            assert_eq!(failed, Some(error.raw_os_error()), "{path}");
        }
        assert!(locate(Path::new("")).is_err());
    }
}
