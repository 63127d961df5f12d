//! The listening socket of the server.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::SocketFlags;
use ttmon_os::{BoundSocket, refuse_descriptors};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    /// The path of the socket, if this process created it and must remove it.
    _bound: Option<BoundSocket>,
    path: PathBuf,
    /// The kernel rejects messages with descriptors.
    refuses_descriptors: bool,
}

/// Why a path cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}{or} use another --socket", or = if let ttmon_os::BindError::Io(..) = .0 { ";" } else { ", or" })]
pub struct BindError(#[from] ttmon_os::BindError);

impl Listener {
    /// Listens at `path` with the permissions `mode`.
    pub fn bind(path: &Path, mode: u32) -> Result<Self, BindError> {
        let (socket, bound) = BoundSocket::listen(path, mode, BACKLOG)?;
        let refuses_descriptors = bound.refuses_descriptors();
        Ok(Self { socket: socket.into(), _bound: Some(bound), path: path.to_owned(), refuses_descriptors })
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
        Ok(Self { socket: listener.into(), _bound: None, path, refuses_descriptors })
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

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::MetadataExt;

    use rustix::fs::{FlockOperation, flock};
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};

    use super::*;

    #[test]
    fn a_second_server_learns_who_listens() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("a.sock");
        let first = Listener::bind(&path, 0o666).expect("free");
        assert_eq!(fs::symlink_metadata(&path).expect("socket").mode() & 0o777, 0o666, "with any umask");
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
        let _queued: Vec<_> = std::iter::from_fn(|| {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("socket");
            rustix::net::connect(&socket, &SocketAddrUnix::new(&path).expect("path")).ok().map(|()| socket)
        })
        .collect();
        assert!(Listener::bind(&path, 0o666).is_err_and(|why| why.to_string().contains("listens there already;")));
    }

    #[test]
    fn a_lock_without_a_listener_names_no_server() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("a.sock");
        let lock = File::create(directory.path().join("a.sock.lock")).expect("lock");
        io::Write::write_all(&mut &lock, b"1\n").expect("written");
        flock(&lock, FlockOperation::LockExclusive).expect("locked");
        let message = Listener::bind(&path, 0o666).expect_err("locked").to_string();
        assert!(message.contains("holds this lock") && !message.contains("pid 1"), "{message}");
    }

    #[test]
    fn a_server_without_a_lock_is_found() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("a.sock");
        let _other = UnixListener::bind(&path).expect("free");
        assert!(Listener::bind(&path, 0o666).is_err_and(|why| why.to_string().contains("listens there already (pid ")));
        assert!(path.exists());
    }

    #[test]
    fn only_an_abandoned_socket_is_replaced() {
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
