//! Binds a Unix socket to a path, and removes the path only while this process still owns it.
//!
//! Two servers never share a path. A lock file beside a listening socket decides between two servers that start at once. A socket with a
//! listener is left unchanged and a socket without one is replaced. Any other file is neither followed nor removed.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::{locks, refuse_descriptors};

/// The path of a socket that this process bound. Dropping it removes the path.
#[derive(Debug)]
pub struct BoundSocket {
    path: PathBuf,
    identity: (u64, u64),
    lock: Option<(PathBuf, File)>,
    refuses_descriptors: bool,
}

/// Why a path cannot be used, and what to do other than to use another path.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum BindError {
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
    #[error("{}: a server listens there already{}; stop it", .0.display(), of_pid(*.1))]
    Live(PathBuf, Option<u32>),
    /// The lock is beside the socket.
    #[error("{lock}: a process holds this lock of user {uid}, and nobody listens: a server that starts or ends, or a mischief; try again")]
    Locked { lock: PathBuf, uid: u32, holder: Option<u32> },
    #[error("{0} is {1} and not a socket: it is left alone; move it")]
    Foreign(PathBuf, &'static str),
    #[error("{0}: an abandoned socket of user {1}, which this user may not remove; remove it as that user or as root")]
    Owned(PathBuf, u32),
}

/// Formats the pid of another server, if it is known.
pub fn of_pid(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}

impl BoundSocket {
    /// Listens at `path` with the permissions `mode`. At most `backlog` connections wait to be accepted. The socket does not block.
    pub fn listen(path: &Path, mode: u32, backlog: i32) -> Result<(UnixListener, Self), BindError> {
        let lock = take_lock(path)?;
        let (socket, mut bound) = Self::bind(path, mode, SocketType::STREAM, Some(lock))?;
        // Before the first connection, which takes the option over.
        bound.refuses_descriptors = refuse_descriptors(&socket);
        rustix::net::listen(&socket, backlog).map_err(|error| BindError::Io(path.to_owned(), error.into()))?;
        Ok((socket.into(), bound))
    }

    /// Receives datagrams at `path`, with the permissions `mode`. The socket does not block.
    pub fn datagram(path: &Path, mode: u32) -> Result<(UnixDatagram, Self), BindError> {
        let (socket, bound) = Self::bind(path, mode, SocketType::DGRAM, None)?;
        Ok((socket.into(), bound))
    }

    fn bind(path: &Path, mode: u32, kind: SocketType, lock: Option<(PathBuf, File)>) -> Result<(OwnedFd, Self), BindError> {
        clear(path, kind)?;
        let io = |error: io::Error| BindError::Io(path.to_owned(), error);
        let socket = bind_with_mode(path, mode, kind).map_err(|error| io(error.into()))?;
        let identity = identity(&fs::symlink_metadata(path).map_err(io)?);
        Ok((socket, Self { path: path.to_owned(), identity, lock, refuses_descriptors: false }))
    }

    /// Returns whether peers cannot send descriptors to the listening socket.
    pub fn refuses_descriptors(&self) -> bool {
        self.refuses_descriptors
    }

    /// Gives the socket another path.
    pub fn rename(&mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        path.clone_into(&mut self.path);
        Ok(())
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        let remove = |path: &Path, of: (u64, u64)| {
            if fs::symlink_metadata(path).is_ok_and(|metadata| identity(&metadata) == of) {
                // A file that stays is replaced at the next start.
                let _ = fs::remove_file(path);
            }
        };
        remove(&self.path, self.identity);
        if let Some((path, metadata)) = self.lock.as_ref().and_then(|(path, file)| Some((path, file.metadata().ok()?))) {
            remove(path, identity(&metadata));
        }
    }
}

/// Removes a datagram socket that nobody receives from, as a killed process leaves it. Returns false if there was no such socket.
pub fn remove_abandoned_datagram(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok() && clear(path, SocketType::DGRAM).is_ok()
}

fn open(kind: SocketType) -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

fn bind_with_mode(path: &Path, mode: u32, kind: SocketType) -> Result<OwnedFd, Errno> {
    let (address, socket) = (SocketAddrUnix::new(path)?, open(kind)?);
    // The path gets the mode of the socket minus the umask, so that it never has another mode.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(mode))?;
    let before = rustix::process::umask(Mode::empty());
    let bound = rustix::net::bind(&socket, &address);
    rustix::process::umask(before);
    bound.map(|()| socket)
}

/// Device and inode.
fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn take_lock(path: &Path) -> Result<(PathBuf, File), BindError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock = PathBuf::from(name);
    let io = |error: io::Error| BindError::Io(lock.clone(), error);
    loop {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        // Any user who can open the file can lock it, so only the owner may open it.
        let mode = Mode::from_raw_mode(0o600);
        // The first attempts do not pass CREATE: in a sticky directory the kernel may reject it for another user's file.
        let opened = rustix::fs::open(&lock, flags, mode)
            .or_else(|_| rustix::fs::open(&lock, flags - OFlags::RDWR, mode))
            .or_else(|_| rustix::fs::open(&lock, flags | OFlags::CREATE, mode));
        let file = match opened {
            Ok(file) => File::from(file),
            Err(Errno::LOOP) => return Err(BindError::Foreign(lock, "a symbolic link")),
            Err(error) => {
                // Without a listener, the first error is the reason.
                let there = listener(path, SocketType::STREAM).ok().filter(|_| error == Errno::ACCESS);
                return Err(there.map_or_else(|| io(error.into()), |pid| BindError::Live(path.to_owned(), pid)));
            }
        };
        let metadata = file.metadata().map_err(io)?;
        if !metadata.is_file() {
            return Err(BindError::Foreign(lock, "no plain file"));
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            // Any user may have written the content of the file, so the pid comes from the kernel.
            Err(Errno::WOULDBLOCK) => {
                return Err(match listener(path, SocketType::STREAM) {
                    Ok(pid) => BindError::Live(path.to_owned(), pid),
                    Err(_) => BindError::Locked { lock, uid: metadata.uid(), holder: locks::holder(&file) },
                });
            }
            Err(error) => return Err(io(error.into())),
        }
        // The previous owner may have removed the file between `open` and the lock.
        if fs::symlink_metadata(&lock).is_ok_and(|now| identity(&now) == identity(&metadata)) {
            return Ok((lock, file));
        }
    }
}

/// Returns the pid of the process that listens at a path, if known. Never waits; a full queue means that there is one.
fn listener(path: &Path, kind: SocketType) -> Result<Option<u32>, Errno> {
    let socket = open(kind)?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => {
            // The credentials of the process that called `listen`. A pid of another namespace is 0, which rustix cannot represent.
            let pid = getsockopt(&socket, PeerCredentials).ok().and_then(|peer| u32::try_from(peer.pid()).ok());
            Ok(pid.filter(|pid| *pid != 0))
        }
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes the socket at a path if no process listens on it.
fn clear(path: &Path, kind: SocketType) -> Result<(), BindError> {
    let io = |error: io::Error| BindError::Io(path.to_owned(), error);
    let before = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
    };
    let file_type = before.file_type();
    if !file_type.is_socket() {
        let what = match () {
            () if file_type.is_symlink() => "a symbolic link",
            () if file_type.is_dir() => "a directory",
            () => "a file",
        };
        return Err(BindError::Foreign(path.to_owned(), what));
    }
    match listener(path, kind) {
        Ok(pid) => return Err(BindError::Live(path.to_owned(), pid)),
        // No process listens, or the socket is of the other kind.
        Err(Errno::CONNREFUSED) => {}
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ACCESS | Errno::PERM) => return Err(BindError::Owned(path.to_owned(), before.uid())),
        Err(error) => return Err(io(error.into())),
    }
    if identity(&fs::symlink_metadata(path).map_err(io)?) != identity(&before) {
        return Err(BindError::Live(path.to_owned(), None));
    }
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(BindError::Owned(path.to_owned(), before.uid())),
        Err(error) => Err(io(error)),
    }
}
