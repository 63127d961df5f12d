//! Batches of file reads with a deadline for each read.
//!
//! A *lane* is a list of files that may block together: the files of one device or of one process. A few worker threads take lanes and read
//! their files in order. A read that takes too long is abandoned. Its worker cannot be stopped, so another worker continues with the next
//! file. While the worker is stuck, its file is skipped. If two files are stuck, the whole lane is skipped.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use ttmon_ledger::layout::NAME;
use ttmon_model::{Missing, region};

pub mod descriptors;
pub mod directory;
pub mod faults;
pub mod isolate;
mod kept;
mod pool;
mod restrict;

use faults::{Fault, Faults};

use kept::{KeptFiles, Plan};
pub use pool::Pool;
pub use restrict::restrict_scan;
pub use ttmon_os::time::boot_time;

/// A lane that was in none of this many batches is dropped, because its device left or its process ended.
pub(crate) const IDLE_BATCHES_MAX: u64 = 64;

/// One file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The file.
    pub path: PathBuf,
    /// What to return.
    pub want: Want,
    /// Maximum length of the reply.
    pub bytes_max: usize,
    /// Whether to keep the file open.
    pub sampling: Sampling,
}

impl Request {
    /// Returns the maximum length of the reply.
    pub fn reply_bytes_max(&self) -> usize {
        /// A range of addresses, an inode and a name.
        const LINE_BYTES_MAX: usize = 256;
        match self.want {
            Want::LedgerMapping => LINE_BYTES_MAX,
            Want::PlainFile => Owner::BYTES + self.bytes_max,
            Want::Names => LINE_BYTES_MAX + self.bytes_max,
            Want::Whole | Want::Beginning | Want::Entries | Want::Link => self.bytes_max,
        }
    }
}

/// What a request returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The whole file. If it is longer than the limit, the reply is [`Failure::TooLong`].
    Whole,
    /// The file, or its start if it is longer than the limit.
    Beginning,
    /// The owner and the contents of a regular file. This is for directories that other users can write to.
    PlainFile,
    /// One line with the directory's device, its inode and the total bytes of its names, then the names of regions, one per line. Other
    /// users decide how many names there are.
    Names,
    /// For `/proc/PID/maps`: one line with its length in bytes, then the first line that names a ledger. Other users decide how long the
    /// list is.
    LedgerMapping,
    /// The names in a directory, for [`entries`]. Names beyond the limit are left out.
    Entries,
    /// The target of a symbolic link. A target that ends with `..` is resolved, so that it has a name.
    Link,
}

impl Want {
    pub(crate) const ALL: [Self; 7] =
        [Self::Whole, Self::Beginning, Self::PlainFile, Self::Names, Self::LedgerMapping, Self::Entries, Self::Link];
}

/// Separates names in a reply to [`Want::Entries`]. No name contains it.
const NAME_END: u8 = 0;

/// Returns the names in a reply to [`Want::Entries`].
pub fn entries(reply: &[u8]) -> impl Iterator<Item = &OsStr> {
    reply.split(|byte| *byte == NAME_END).filter(|name| !name.is_empty()).map(OsStr::from_bytes)
}

/// Returns whether a reply to [`Want::Link`] shows that there is a file, which need not be a link.
pub fn is_there(reply: &Reply) -> bool {
    matches!(reply, Ok(_) | Err(Failure::TooLong)) || *reply == Err(failure(Errno::INVAL))
}

/// The owner of a regular file. It is at the start of the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user id.
    pub uid: u32,
    mode: u32,
}

impl Owner {
    const BYTES: usize = 8;

    fn of(file: &OwnedFd) -> Result<Self, Failure> {
        rustix::fs::fstat(file).map(|stat| Self { uid: stat.st_uid, mode: stat.st_mode }).map_err(failure)
    }

    fn encode(self) -> Vec<u8> {
        [self.uid.to_le_bytes(), self.mode.to_le_bytes()].concat()
    }

    /// Splits a reply into the owner and the file's bytes.
    pub fn split(reply: &[u8]) -> (Option<Self>, &[u8]) {
        let Some((owner, content)) = reply.split_at_checked(Self::BYTES) else { return (None, &[]) };
        let word = |at: usize| u32::from_le_bytes([owner[at], owner[at + 1], owner[at + 2], owner[at + 3]]);
        (Some(Self { uid: word(0), mode: word(4) }), content)
    }

    /// Returns the only user who can write to the file (except root and its group), or `None` if all users can.
    pub fn only_writer(self) -> Option<u32> {
        const OTHERS_WRITE: u32 = 0o002;
        (self.mode & OTHERS_WRITE == 0).then_some(self.uid)
    }
}

/// How often a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampling {
    /// The file is opened, read and closed.
    Once,
    /// The file stays open. Later reads are then several times cheaper.
    Repeated,
}

/// Files that may block together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Identifies the lane. The lane is skipped while an earlier read of this key is stuck.
    pub key: u64,
    /// The files, in order. Reuse the `Arc`, because an identical list is then recognized without a comparison.
    pub requests: Arc<[Request]>,
}

impl Lane {
    pub(crate) fn is_repeated(&self) -> bool {
        self.requests.iter().any(|request| request.sampling == Sampling::Repeated)
    }
}

/// The replies of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneReply {
    /// When its first file was read, on the clock of [`boot_time`].
    pub at: Duration,
    /// One reply per request.
    pub replies: Vec<Reply>,
}

/// The bytes, or the reason why they are missing.
pub type Reply = Result<Vec<u8>, Failure>;

/// Why a file could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The kernel's error number.
    Errno(i32),
    /// The read took too long.
    Timeout,
    /// The file is longer than allowed.
    TooLong,
}

/// The directory of the last file. Other files in it are opened relative to it, because resolving a long path costs more than a read.
type Directory = Option<(PathBuf, OwnedFd)>;

fn read_one(kept: &KeptFiles, plan: &Plan, index: usize, faults: &Faults, directory: &mut Directory) -> Reply {
    let request = &plan.requests[index];
    match faults.find(&request.path) {
        Some(Fault::Errno(errno)) => return Err(Failure::Errno(errno)),
        Some(Fault::Hang) => loop {
            thread::park();
        },
        Some(Fault::Slow(delay)) => thread::sleep(delay),
        None => {}
    }
    match request.want {
        Want::Names => return list_names(&request.path, request.bytes_max),
        Want::Entries => return list_entries(&request.path, request.bytes_max),
        Want::Link => return read_link(&request.path, request.bytes_max),
        Want::Whole | Want::Beginning | Want::PlainFile | Want::LedgerMapping => {}
    }
    let open = plan.file(index).filter(|file| request.want != Want::PlainFile || has_name(file));
    let reply = match open.map(|file| read_whole(&file, request.bytes_max, request.want)) {
        Some(reply) if !is_gone(&reply) => reply,
        _ => open_and_read(kept, plan, index, directory),
    };
    if matches!(reply, Err(Failure::Errno(_))) {
        plan.close(index);
    }
    if request.want == Want::LedgerMapping { reply.map(|list| ledger_among(&list)) } else { reply }
}

/// Returns whether the device or process of an open file is gone. The file never answers again, and its name may belong to a new device.
fn is_gone(reply: &Reply) -> bool {
    matches!(reply, Err(Failure::Errno(errno)) if [Errno::NODEV, Errno::SRCH].contains(&Errno::from_raw_os_error(*errno)))
}

fn open_and_read(kept: &KeptFiles, plan: &Plan, index: usize, directory: &mut Directory) -> Reply {
    let request = &plan.requests[index];
    plan.close(index);
    let file = Arc::new(kept.with_room(|| open_beside(directory, &request.path, request.want))?);
    if request.sampling == Sampling::Repeated {
        plan.keep(index, &file);
    }
    read_whole(&file, request.bytes_max, request.want)
}

/// Returns whether a file is still in a directory, and was not removed or replaced since it was opened.
fn has_name(file: &OwnedFd) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| stat.st_nlink > 0)
}

/// Lists a directory: `DEVICE:INODE BYTES`, then the names of regions.
fn list_names(path: &Path, bytes_max: usize) -> Reply {
    let directory = open_directory(path)?;
    let stat = rustix::fs::fstat(&directory).map_err(failure)?;
    let (mut names, mut bytes) = (String::new(), 0);
    directory::names(Path::new(&format!("/proc/self/fd/{}", directory.as_raw_fd())), |name| {
        bytes += name.len() + 1;
        if let Some(name) = name.to_str().filter(|name| region::unique_id_of(name).is_some()) {
            names.extend([name, "\n"]);
        }
        if bytes < bytes_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(format!("{}:{} {}\n{names}", stat.st_dev, stat.st_ino, bytes.min(bytes_max)).into_bytes())
}

fn list_entries(path: &Path, bytes_max: usize) -> Reply {
    let mut bytes = Vec::new();
    directory::names(path, |name| {
        if bytes.len() + name.len() >= bytes_max {
            return ControlFlow::Break(());
        }
        bytes.extend(name.as_bytes());
        bytes.push(NAME_END);
        ControlFlow::Continue(())
    })?;
    Ok(bytes)
}

fn read_link(path: &Path, bytes_max: usize) -> Reply {
    let target = fs::read_link(path)?;
    let target = if target.file_name().is_none() { fs::canonicalize(path)? } else { target };
    let bytes = target.into_os_string().into_vec();
    if bytes.len() > bytes_max { Err(Failure::TooLong) } else { Ok(bytes) }
}

fn open_beside(directory: &mut Directory, path: &Path, want: Want) -> Result<OwnedFd, Failure> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(failure(Errno::ISDIR)) };
    let (_, opened) = match directory {
        Some(known) if known.0 == parent => known,
        other => other.insert((parent.to_owned(), open_directory(parent)?)),
    };
    match want {
        Want::PlainFile => ttmon_os::open_regular_at(opened, name).map_err(failure),
        _ => rustix::fs::openat(opened, name, READ_ONLY, Mode::empty()).map_err(failure),
    }
}

/// Opens a directory. Links behind `/proc/PID/root` are not followed, because they could lead out of the container.
fn open_directory(path: &Path) -> Result<OwnedFd, Failure> {
    const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    let is_pid = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().iter().all(u8::is_ascii_digit));
    let container = path.ancestors().find(|above| above.ends_with("root") && above.parent().is_some_and(is_pid));
    let mut directory = rustix::fs::open(container.unwrap_or(path), DIRECTORY, Mode::empty()).map_err(failure)?;
    for name in container.and_then(|container| path.strip_prefix(container).ok()).into_iter().flatten() {
        directory = rustix::fs::openat(&directory, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()).map_err(failure)?;
    }
    Ok(directory)
}

/// Flags that neither wait for the writer of a FIFO nor follow links: links of other users could lead anywhere.
const READ_ONLY: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::NOFOLLOW);

fn read_whole(file: &OwnedFd, bytes_max: usize, want: Want) -> Reply {
    if want == Want::PlainFile {
        return read_plain(file, bytes_max);
    }
    // One byte more than allowed is read, to detect a file that is too long.
    let mut first = [0; FIRST_READ_BYTES];
    let room = first.len().min(bytes_max + 1);
    let length = read_at(file, &mut first[..room], 0)?;
    // The kernel returns a short file of /sys or /proc in one piece.
    if length < room && length < FIRST_READ_BYTES / 2 {
        return Ok(first[..length].to_vec());
    }
    let mut bytes = first[..length].to_vec();
    let mut chunk = [0; 4096];
    while bytes.len() <= bytes_max {
        let room = chunk.len().min(bytes_max + 1 - bytes.len());
        match read_at(file, &mut chunk[..room], bytes.len())? {
            0 => return Ok(bytes),
            length => bytes.extend(&chunk[..length]),
        }
    }
    bytes.truncate(bytes_max);
    if matches!(want, Want::Beginning | Want::LedgerMapping) { Ok(bytes) } else { Err(Failure::TooLong) }
}

/// Returns the length of the list and the first line that names a ledger. The name of a mapped file begins at the first `/` of a line.
fn ledger_among(list: &[u8]) -> Vec<u8> {
    let named = format!("/memfd:{NAME} (deleted)");
    let names_ledger =
        |line: &&[u8]| line.iter().position(|byte| *byte == b'/').is_some_and(|at| line[at..].trim_ascii_end() == named.as_bytes());
    let mut reply = format!("{}\n", list.len()).into_bytes();
    // Without a ledger, the reply has no second line.
    reply.extend(list.split(|byte| *byte == b'\n').find(names_ledger).unwrap_or_default());
    reply
}

/// Reads a regular file. A short read means the end of the file.
fn read_plain(file: &OwnedFd, bytes_max: usize) -> Reply {
    let mut bytes = Owner::of(file)?.encode();
    let mut chunk = [0; PLAIN_READ_BYTES];
    loop {
        let so_far = bytes.len() - Owner::BYTES;
        let room = chunk.len().min(bytes_max + 1 - so_far);
        let length = read_at(file, &mut chunk[..room], so_far)?;
        bytes.extend(&chunk[..length]);
        if so_far + length > bytes_max {
            return Err(Failure::TooLong);
        }
        if length < room {
            return Ok(bytes);
        }
    }
}

/// Bytes of one read. A region of TT-Metal's statistics is shorter.
const PLAIN_READ_BYTES: usize = 12 * 1024;

/// Bytes of the first read. Most files have less than a hundred. A file shorter than half of this is complete after one read.
const FIRST_READ_BYTES: usize = 1024;

fn read_at(file: &OwnedFd, buffer: &mut [u8], offset: usize) -> Result<usize, Failure> {
    loop {
        match rustix::io::pread(file, &mut *buffer, offset as u64) {
            Err(Errno::INTR) => {}
            read => return read.map_err(failure),
        }
    }
}

fn failure(errno: Errno) -> Failure {
    Failure::Errno(errno.raw_os_error())
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        // An error without a number does not come from the kernel.
        Self::Errno(error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()))
    }
}

impl From<Failure> for Missing {
    fn from(failure: Failure) -> Self {
        /// The error of old drivers for an unsupported sensor. The kernel has no public name for it.
        const ENOTSUPP: i32 = 524;
        let errno = match failure {
            Failure::Timeout => return Self::Timeout,
            Failure::TooLong => return Self::Unparsable,
            Failure::Errno(errno) => errno,
        };
        match Errno::from_raw_os_error(errno) {
            Errno::NOENT | Errno::NOTDIR | Errno::OPNOTSUPP => Self::NotExposed,
            Errno::NODEV | Errno::NXIO => Self::Gone,
            Errno::NODATA => Self::Resetting,
            Errno::ACCESS | Errno::PERM => Self::NoPermission,
            _ if errno == ENOTSUPP => Self::NotExposed,
            _ => Self::IoError,
        }
    }
}

/// Reads a small file directly. The file must be one that cannot block, or one that the user named.
pub fn read_small(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests;
