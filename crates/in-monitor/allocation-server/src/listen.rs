//! Binds the socket's path, and removes it only while this process still owns it.
//!
//! Two servers never share a path. A lock file beside the socket decides between two servers that start at once. A socket with a listener
//! is left unchanged and a socket without one is replaced. Any other file is neither followed nor removed.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use ttmon_os::refuse_descriptors;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// The path of the socket, if this process created it and must remove it.
    _place: Option<BoundSocket>,
    path: PathBuf,
    /// The kernel rejects messages with descriptors.
    refuses_descriptors: bool,
}

#[derive(Debug)]
struct BoundSocket {
    path: PathBuf,
    identity: (u64, u64),
    lock: PathBuf,
    locked: File,
}

/// Why a path cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum BindError {
    #[error("{0}: {1}; use another --socket")]
    Io(PathBuf, io::Error),
    #[error("{}: a server listens there already{}; stop it, or use another --socket", .0.display(), of_pid(*.1))]
    Live(PathBuf, Option<u32>),
    /// The lock is beside the socket.
    #[error(
        "{0}: a process holds this lock of user {1}, and nobody listens: \
         a server that starts or ends, or a mischief; try again, or use another --socket"
    )]
    Locked(PathBuf, u32),
    #[error("{0} is {1} and not a socket: it is left alone; move it, or use another --socket")]
    Foreign(PathBuf, &'static str),
    #[error(
        "{0}: an abandoned socket of user {1}, which this user may not remove; \
         remove it as that user or as root, or use another --socket"
    )]
    Owned(PathBuf, u32),
}

/// Formats the pid of another server, if it is known.
pub(crate) fn of_pid(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}

impl Listener {
    /// Listens at `path` with the permissions `mode`.
    pub fn bind(path: &Path, mode: u32) -> Result<Self, BindError> {
        let io = |error: io::Error| BindError::Io(path.to_owned(), error);
        let (lock, locked) = take_lock(path)?;
        clear(path)?;
        let address = SocketAddrUnix::new(path).map_err(|error| io(error.into()))?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(|error| io(error.into()))?;
        // The path gets the mode of the socket minus the umask, so that it never has another mode.
        let bound = rustix::fs::fchmod(&socket, Mode::from_raw_mode(mode)).and_then(|()| {
            let before = rustix::process::umask(Mode::empty());
            let bound = rustix::net::bind(&socket, &address);
            rustix::process::umask(before);
            bound
        });
        bound.map_err(|error| io(error.into()))?;
        let metadata = fs::symlink_metadata(path).map_err(io)?;
        let refuses_descriptors = refuse_descriptors(&socket);
        rustix::net::listen(&socket, BACKLOG).map_err(|error| io(error.into()))?;
        let identity = (metadata.dev(), metadata.ino());
        let place = BoundSocket { path: path.to_owned(), identity, lock, locked };
        Ok(Self { socket, _place: Some(place), path: path.to_owned(), refuses_descriptors })
    }

    /// Uses a socket that another process, such as systemd, bound and listens on. Its path is not removed on drop.
    pub fn inherited(listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        // A socket in the abstract namespace has no path.
        let path = address.as_pathname().map(Path::to_owned).unwrap_or_default();
        let refuses_descriptors = refuse_descriptors(&listener);
        // From now on the kernel reports this process as the listener, instead of the one that opened the socket.
        rustix::net::listen(&listener, BACKLOG)?;
        Ok(Self { socket: listener.into(), _place: None, path, refuses_descriptors })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether messages can carry no file descriptors.
    pub(crate) fn refuses_descriptors(&self) -> bool {
        self.refuses_descriptors
    }

    /// Accepts the next connection, if one waits.
    pub(crate) fn accept(&self) -> Result<OwnedFd, Errno> {
        rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        let is_ours = |path: &Path, identity: (u64, u64)| {
            fs::symlink_metadata(path).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == identity)
        };
        // Files that stay are replaced at the next start.
        if is_ours(&self.path, self.identity) {
            let _ = fs::remove_file(&self.path);
        }
        if self.locked.metadata().is_ok_and(|metadata| is_ours(&self.lock, (metadata.dev(), metadata.ino()))) {
            let _ = fs::remove_file(&self.lock);
        }
    }
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
                let there = listening(path).ok().filter(|_| error == Errno::ACCESS);
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
                return Err(match listening(path) {
                    Ok(pid) => BindError::Live(path.to_owned(), pid),
                    Err(_) => BindError::Locked(lock, metadata.uid()),
                });
            }
            Err(error) => return Err(io(error.into())),
        }
        // The previous owner may have removed the file between `open` and the lock.
        let is_there = fs::symlink_metadata(&lock).is_ok_and(|now| (now.dev(), now.ino()) == (metadata.dev(), metadata.ino()));
        if is_there {
            return Ok((lock, file));
        }
    }
}

/// Returns the pid of the listener, if known. Never waits; a full queue means that there is a listener.
fn listening(path: &Path) -> Result<Option<u32>, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => {
            // The credentials of the process that called `listen`.
            let pid = getsockopt(&socket, PeerCredentials).ok().and_then(|peer| u32::try_from(peer.pid()).ok());
            Ok(pid.filter(|pid| *pid != 0))
        }
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes the socket at a path if no process listens on it.
fn clear(path: &Path) -> Result<(), BindError> {
    let io = |error: io::Error| BindError::Io(path.to_owned(), error);
    let before = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
    };
    let kind = before.file_type();
    if !kind.is_socket() {
        let what = if kind.is_symlink() {
            "a symbolic link"
        } else if kind.is_dir() {
            "a directory"
        } else {
            "a file"
        };
        return Err(BindError::Foreign(path.to_owned(), what));
    }
    match listening(path) {
        Ok(pid) => return Err(BindError::Live(path.to_owned(), pid)),
        // No process listens, or the socket was for datagrams.
        Err(Errno::CONNREFUSED) => {}
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ACCESS | Errno::PERM) => return Err(BindError::Owned(path.to_owned(), before.uid())),
        Err(error) => return Err(io(error.into())),
    }
    let now = fs::symlink_metadata(path).map_err(io)?;
    if (now.dev(), now.ino()) != (before.dev(), before.ino()) {
        return Err(BindError::Live(path.to_owned(), None));
    }
    match fs::remove_file(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(BindError::Owned(path.to_owned(), before.uid())),
        Err(error) => Err(io(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p1_a_second_one_learns_the_listener() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("a.sock");
        let first = Listener::bind(&path, 0o666).expect("free");
        assert_eq!(fs::symlink_metadata(&path).expect("socket").mode() & 0o777, 0o666, "p3: with any umask");
        let lock = fs::symlink_metadata(directory.path().join("a.sock.lock")).expect("lock");
        assert_eq!(lock.mode() & 0o777, 0o600, "a user who could open it could hold it");
        let second = Listener::bind(&path, 0o666).expect_err("taken");
        assert!(second.to_string().contains(&format!("pid {}", std::process::id())), "{second}");
        drop(first);
        assert_eq!(fs::read_dir(directory.path()).expect("directory").count(), 0, "nothing is left");
        Listener::bind(&path, 0o600).expect("free again");
    }

    #[test]
    fn a_full_queue_has_a_listener() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("a.sock");
        let other = UnixListener::bind(&path).expect("free");
        rustix::net::listen(&other, 0).expect("a shorter queue");
        let _crowd: Vec<_> = std::iter::from_fn(|| {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("socket");
            rustix::net::connect(&socket, &SocketAddrUnix::new(&path).expect("path")).ok().map(|()| socket)
        })
        .collect();
        assert!(Listener::bind(&path, 0o666).is_err_and(|why| why.to_string().contains("listens there already;")));
    }

    #[test]
    fn a_lock_of_nobody_who_listens_names_no_server() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("a.sock");
        let lock = File::create(directory.path().join("a.sock.lock")).expect("lock");
        io::Write::write_all(&mut &lock, b"1\n").expect("written");
        flock(&lock, FlockOperation::LockExclusive).expect("locked");
        let message = Listener::bind(&path, 0o666).expect_err("locked").to_string();
        assert!(message.contains("holds this lock") && !message.contains("pid 1"), "{message}");
    }

    #[test]
    fn a_server_without_a_lock_is_found_by_asking() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("a.sock");
        let _other = UnixListener::bind(&path).expect("free");
        assert!(Listener::bind(&path, 0o666).is_err_and(|why| why.to_string().contains("listens there already (pid ")));
        assert!(path.exists());
    }

    #[test]
    fn p1_an_abandoned_socket_is_replaced_and_another_s_is_not_removed() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("a.sock");
        drop(UnixListener::bind(&path).expect("free"));
        let listener = Listener::bind(&path, 0o666).expect("abandoned");
        fs::remove_file(&path).expect("ours");
        let _next = UnixListener::bind(&path).expect("free");
        drop(listener);
        assert!(path.exists(), "it is not ours any more");
    }

    #[test]
    fn links_and_files_are_left_alone() {
        let directory = tempfile::tempdir().expect("directory");
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), "mine").expect("file");
        fs::create_dir(at("folder")).expect("directory");
        std::os::unix::fs::symlink(at("file"), at("link")).expect("link");
        std::os::unix::fs::symlink(at("nowhere"), at("dangling")).expect("link");
        for name in ["file", "folder", "link", "dangling"] {
            assert!(Listener::bind(&at(name), 0o666).is_err_and(|why| why.to_string().contains("and not a socket")), "{name}");
        }
        assert_eq!(fs::read_to_string(at("file")).expect("file"), "mine");
        assert!(!at("nowhere").exists() && at("dangling").is_symlink());
        std::os::unix::fs::symlink(at("file"), at("other.lock")).expect("link");
        let other = Listener::bind(&at("other"), 0o666);
        assert!(other.is_err_and(|why| why.to_string().contains("and not a socket")), "nor is a link for the lock followed");
    }
}
