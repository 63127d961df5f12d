//! Writes files completely or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::walk::{Entry, Located, PLACE, locate, locate_file};

/// Temporary names to try before giving up.
const NAMES_MAX: u32 = 8;

const BUFFER_BYTES: usize = 64 * 1024;

/// What to do with a file that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Leave it: the error is `AlreadyExists`.
    Keep,
    /// Replace it.
    Replace,
}

/// Writes a file completely or not at all. A regular file of this user keeps its mode. `/dev/null`, a terminal, a FIFO of this user and an
/// open file (`/dev/stdout`) are written to directly.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, |out| out.write_all(bytes))
}

/// Like [`write()`], but `fill` writes the content in pieces, so that it need not be in memory as a whole.
pub fn write_with(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let located = locate_file(path)?;
    if let Some(stream) = located.found.as_ref().map(open_stream).transpose()?.flatten() {
        return fill_buffered(&mut File::from(stream), fill);
    }
    let mut draft = draft_for(&located)?;
    fill_buffered(&mut draft, fill)?;
    draft.commit(&located.name)
}

fn fill_buffered(out: &mut impl Write, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut buffered = BufWriter::with_capacity(BUFFER_BYTES, out);
    fill(&mut buffered)?;
    buffered.flush()
}

/// Creates a file without a name in the directory of `path`, for data that is too large for memory. It is removed when it is closed.
pub fn scratch_beside(path: &Path) -> io::Result<File> {
    let draft = Draft::new(locate_file(path)?.directory, SCRATCH, 0o600)?;
    // Dropping the draft removes its name.
    draft.file.try_clone()
}

/// Writes a regular file completely or not at all. Every user may read it, independent of the umask.
pub fn write_public(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let located = locate(path)?;
    let mut draft = Draft::new(located.directory, NEW, 0o666)?;
    draft.write_all(bytes)?;
    rustix::fs::fchmod(&draft.file, Mode::from_raw_mode(0o644))?;
    draft.commit(&located.name)
}

/// Writes a regular file completely or not at all. Only this user can read it at any time.
pub fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let located = locate(path)?;
    let mut draft = Draft::new(located.directory, NEW, 0o600)?;
    draft.write_all(bytes)?;
    draft.commit(&located.name)
}

/// Checks whether [`write()`] is likely to succeed. Changes nothing.
pub fn check_writable(path: &Path) -> io::Result<()> {
    let located = locate_file(path)?;
    match &located.found {
        // Opening a FIFO would wait for its reader.
        Some(entry) if is_stream(entry)? => Ok(rustix::fs::access(entry.path(), rustix::fs::Access::WRITE_OK)?),
        _ => draft_for(&located).map(drop),
    }
}

/// Creates an empty file to be written in pieces.
pub fn create(path: &Path, existing: Existing) -> io::Result<File> {
    let located = locate_file(path)?;
    match &located.found {
        None => Ok(File::from(openat(&located.directory, &located.name, NEW, Mode::from_raw_mode(0o666))?)),
        Some(_) if existing == Existing::Keep => Err(Errno::EXIST.into()),
        Some(entry) => match open_stream(entry)? {
            Some(stream) => Ok(File::from(stream)),
            None => draft_for(&located)?.place(&located.name),
        },
    }
}

/// Like [`NEW`], but also readable.
const SCRATCH: OFlags = OFlags::RDWR.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NEW: OFlags = OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Returns whether a file is written to directly. Fails if it is neither a stream nor replaceable.
fn is_stream(entry: &Entry) -> io::Result<bool> {
    match entry.kind() {
        FileType::RegularFile => Ok(entry.is_open_file),
        FileType::Fifo if entry.is_open_file || entry.is_ours() => Ok(true),
        _ if entry.is_harmless_device() => Ok(true),
        _ => Err(entry.refused()),
    }
}

fn open_stream(entry: &Entry) -> io::Result<Option<OwnedFd>> {
    // The program that opened the file may have written to it already.
    let flags = if entry.kind().is_file() { OFlags::WRONLY | OFlags::APPEND } else { OFlags::WRONLY };
    Ok(if is_stream(entry)? { Some(entry.reopen(flags)?) } else { None })
}

/// Returns a draft in the directory of a regular file, which need not exist.
fn draft_for(located: &Located) -> io::Result<Draft> {
    let draft = Draft::new(located.directory.try_clone()?, NEW, 0o666)?;
    if let Some(entry) = located.found.as_ref().filter(|entry| entry.is_ours()) {
        rustix::fs::fchmod(&draft.file, Mode::from_raw_mode(entry.stat.st_mode & 0o777))?;
    }
    Ok(draft)
}

/// A directory to write files into.
#[derive(Debug)]
pub struct Directory(OwnedFd);

impl Directory {
    /// Opens a directory; creates it and its parents if they do not exist.
    pub fn create(path: &Path) -> io::Result<Self> {
        let located = match locate(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Self::create(path.parent().ok_or(error)?)?;
                locate(path)?
            }
            located => located?,
        };
        let place = match located.found {
            Some(entry) if entry.kind().is_dir() => entry.place,
            Some(_) => return Err(io::ErrorKind::NotADirectory.into()),
            None => {
                mkdirat(&located.directory, &located.name, Mode::from_raw_mode(0o777))?;
                openat(&located.directory, &located.name, PLACE | OFlags::NOFOLLOW | OFlags::DIRECTORY, Mode::empty())?
            }
        };
        Ok(Self(place))
    }

    /// Creates a file in this directory. It gets its name later.
    pub fn draft(&self) -> io::Result<Draft> {
        Draft::new(self.0.try_clone()?, NEW, 0o666)
    }

    /// Returns whether this directory has a subdirectory with this name.
    pub fn has_directory(&self, name: impl AsRef<OsStr>) -> bool {
        let stat = rustix::fs::statat(&self.0, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
    }
}

/// A file under a temporary name. It is removed unless [`Draft::commit`] is called.
#[derive(Debug)]
pub struct Draft {
    directory: OwnedFd,
    name: OsString,
    file: File,
    is_placed: bool,
}

impl Draft {
    fn new(directory: OwnedFd, flags: OFlags, mode: u32) -> io::Result<Self> {
        for _ in 0..NAMES_MAX {
            // The name is random: another user cannot take all names in advance.
            let name = OsString::from(format!(".ttmon-{:016x}", RandomState::new().build_hasher().finish()));
            match openat(directory.as_fd(), &name, flags, Mode::from_raw_mode(mode)) {
                Err(Errno::EXIST) => {}
                opened => return Ok(Self { file: File::from(opened?), directory, name, is_placed: false }),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Gives the finished file its name. Replaces an existing file.
    pub fn commit(self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.file.sync_all()?;
        self.place(name.as_ref()).map(drop)
    }

    fn place(mut self, name: &OsStr) -> io::Result<File> {
        renameat(&self.directory, &self.name, &self.directory, name)?;
        self.is_placed = true;
        self.file.try_clone()
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_placed {
            // The error that left the draft unplaced was already returned.
            let _ = unlinkat(&self.directory, &self.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_written_piece_by_piece_is_there_whole_or_not_at_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        write_with(&path, |out| (0..3).try_for_each(|_| out.write_all(b"abc"))).unwrap();
        let failed = write_with(&path, |out| out.write_all(&[0; 100_000]).and(Err(Errno::NOSPC.into())));
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!((fs::read(&path).unwrap(), names(directory.path())), (b"abcabcabc".to_vec(), vec!["out".to_owned()]));
    }

    #[test]
    fn a_scratch_file_has_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let mut scratch = scratch_beside(&directory.path().join("out")).unwrap();
        scratch.write_all(b"abc").unwrap();
        let mut bytes = [0; 3];
        std::os::unix::fs::FileExt::read_exact_at(&scratch, &mut bytes, 0).unwrap();
        assert_eq!((&bytes, names(directory.path()).len()), (b"abc", 0));
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let link = directory.path().join("link");
        symlink("out", &link).unwrap();
        write(&link, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(names(directory.path()), ["link", "out"]);
        fs::remove_file(&path).unwrap();
        write(&link, b"again").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"again", "a link without a target stays a link");
    }

    #[test]
    fn trailing_slash_names_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out/");
        for result in [write(&path, b"new"), check_writable(&path), create(&path, Existing::Replace).map(drop)] {
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::IsADirectory);
        }
        assert_eq!(names(directory.path()), [""; 0]);
    }

    #[test]
    fn a_failure_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        assert!(write(&directory.path().join("none/out"), b"x").is_err());
        assert_eq!(write(directory.path(), b"x").unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert!(write(Path::new("/dev/zero"), b"x").unwrap_err().to_string().contains("a device"));
        assert_eq!(names(directory.path()), Vec::<String>::new());
    }

    #[test]
    fn checking_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        symlink("later", directory.path().join("link")).unwrap();
        fs::write(&path, "old").unwrap();
        for good in [path.clone(), directory.path().join("new"), directory.path().join("link"), "/dev/null".into()] {
            check_writable(&good).unwrap();
        }
        for bad in [directory.path().to_owned(), directory.path().join("none/out"), path.join("out")] {
            assert!(check_writable(&bad).is_err(), "{bad:?}");
        }
        assert_eq!((names(directory.path()), fs::read(&path).unwrap()), (vec!["link".to_owned(), "out".to_owned()], b"old".to_vec()));
    }

    #[test]
    fn streams_are_written_to() {
        use std::os::fd::AsRawFd;
        write(Path::new("/dev/null"), b"x").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let (mut reader, writer) = io::pipe().unwrap();
        write(Path::new(&format!("/dev/fd/{}", writer.as_raw_fd())), b"piped").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "piped");
        let directory = tempfile::tempdir().unwrap();
        let mut file = File::create_new(directory.path().join("log")).unwrap();
        file.write_all(b"before ").unwrap();
        write(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), b"after").unwrap();
        assert_eq!(fs::read(directory.path().join("log")).unwrap(), b"before after");
    }

    #[test]
    fn a_file_is_created_empty_or_in_place_of_another() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        create(&path, Existing::Keep).unwrap().write_all(b"1").unwrap();
        assert_eq!(create(&path, Existing::Keep).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let mut earlier = File::open(&path).unwrap();
        create(&path, Existing::Replace).unwrap().write_all(b"22").unwrap();
        let mut text = String::new();
        earlier.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), fs::read(&path).unwrap()), ("1", b"22".to_vec()));
        assert_eq!(names(directory.path()), ["out"]);
    }

    #[test]
    fn directories_are_made_as_deep_as_asked() {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("a/b")).unwrap();
        Directory::create(&parent.path().join("a/b")).unwrap();
        let mut draft = directory.draft().unwrap();
        draft.write_all(b"text").unwrap();
        drop(directory.draft().unwrap());
        draft.commit("file").unwrap();
        assert_eq!(names(&parent.path().join("a/b")), ["file"]);
        assert!(Directory::create(&parent.path().join("a/b/file")).is_err());
        assert!(!directory.has_directory("file"));
    }
}
