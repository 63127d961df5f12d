//! The sockets of the service: a Unix socket, and a TCP port. The TCP port is only on loopback, unless another address is given and
//! permitted.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use ttmon_os::locks;
use ttmon_os::refuse_descriptors;

use crate::StartError;

/// Connections that may wait to be accepted. The kernel drops further ones, and their clients retry a second later.
const BACKLOG: i32 = 4096;

#[derive(Debug)]
pub(crate) struct UnixEndpoint {
    pub(crate) listener: UnixListener,
    /// Whether clients cannot send descriptors. Closing a received descriptor may take as long as its sender wants.
    pub(crate) refuses_descriptors: bool,
    /// The path of the socket, if this process created it and must remove it.
    name: Option<Name>,
}

/// The path of a socket. A lock file beside it shows whether its service is alive.
#[derive(Debug)]
struct Name {
    path: PathBuf,
    identity: (u64, u64),
    _lock: File,
}

impl UnixEndpoint {
    /// Uses a socket that another process, such as systemd, opened. Its path is not removed.
    pub(crate) fn inherited(listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { refuses_descriptors: refuse_descriptors(&listener), listener, name: None })
    }

    /// Creates the socket. The socket of a dead service is replaced; any other file is left unchanged.
    pub(crate) fn open(path: &Path) -> Result<Self, StartError> {
        let wrap = |error| StartError::Socket(path.to_owned(), error);
        let taken = |pid| StartError::Taken { path: path.to_owned(), pid };
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            make(directory).map_err(wrap)?;
        }
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let name = PathBuf::from(name);
        // Opening a FIFO of another user would block.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(flags)
            .open(&name)
            .map_err(|error| StartError::Socket(name.clone(), error))?;
        if !lock.metadata().map_err(wrap)?.is_file() {
            return Err(StartError::Socket(name, io::Error::other("it is no plain file")));
        }
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| taken(locks::holder(&lock)))?;
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.file_type().is_socket() => {
                if is_listened_at(path) {
                    return Err(taken(None));
                }
                fs::remove_file(path).map_err(wrap)?;
            }
            Ok(_) => return Err(StartError::Foreign(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(wrap(error)),
        }
        let listener = UnixListener::bind(path).map_err(wrap)?;
        rustix::net::listen(&listener, BACKLOG).map_err(|error| wrap(error.into()))?;
        // All users may connect. The kernel identifies them, and access control decides what they see.
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(wrap)?;
        listener.set_nonblocking(true).map_err(wrap)?;
        let metadata = fs::symlink_metadata(path).map_err(wrap)?;
        let name = Name { path: path.to_owned(), identity: (metadata.dev(), metadata.ino()), _lock: lock };
        Ok(Self { refuses_descriptors: refuse_descriptors(&listener), listener, name: Some(name) })
    }
}

/// Creates a directory that all users may pass through, with any umask, because the socket is for all users.
fn make(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
}

/// Whether a process listens on a socket. A full queue means yes.
fn is_listened_at(path: &Path) -> bool {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None);
    let (Ok(address), Ok(socket)) = (SocketAddrUnix::new(path), socket) else { return false };
    matches!(rustix::net::connect(&socket, &address), Ok(()) | Err(Errno::AGAIN | Errno::INPROGRESS))
}

impl Drop for UnixEndpoint {
    /// Removes the socket only if it is still the one that was created. The lock file stays, because removing it would let two processes
    /// hold the lock.
    fn drop(&mut self) {
        let Some(name) = &self.name else { return };
        if fs::symlink_metadata(&name.path).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == name.identity) {
            // A socket that stays is replaced at the next start.
            let _ = fs::remove_file(&name.path);
        }
    }
}

pub(crate) fn open_tcp(address: SocketAddr) -> Result<TcpListener, StartError> {
    let wrap = |error| StartError::Port(address, error);
    let listener = TcpListener::bind(address).map_err(wrap)?;
    rustix::net::listen(&listener, BACKLOG).map_err(|error| wrap(error.into()))?;
    listener.set_nonblocking(true).map_err(wrap)?;
    Ok(listener)
}

/// Checks whether a TCP address is permitted. Loopback always is; other addresses need `allow_remote`, a token and TLS.
pub(crate) fn may_listen(address: SocketAddr, allow_remote: bool, has_token: bool, has_tls: bool) -> Result<(), StartError> {
    let needs = [(allow_remote, "--allow-remote"), (has_token, "--token-file FILE"), (has_tls, "--tls-cert FILE --tls-key FILE")];
    let wanted: Vec<&str> = needs.into_iter().filter(|(is_given, _)| !is_given).map(|(_, flag)| flag).collect();
    if address.ip().is_loopback() || wanted.is_empty() {
        return Ok(());
    }
    Err(StartError::Exposed(address, wanted.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    #[test]
    fn other_hosts_need_permission_a_token_and_tls() {
        let check = |address: &str, flags: [bool; 3]| may_listen(address.parse().expect("an address"), flags[0], flags[1], flags[2]);
        assert!(check("127.0.0.1:9477", [false; 3]).is_ok() && check("[::1]:9477", [false; 3]).is_ok());
        for address in ["0.0.0.0:9477", "[::]:9477", "192.168.1.5:9477"] {
            assert!(check(address, [true; 3]).is_ok());
            for lacking in 0..3 {
                let mut flags = [true; 3];
                flags[lacking] = false;
                let why = check(address, flags).expect_err("a reason").to_string();
                assert!(why.contains(["--allow-remote", "--token-file", "--tls-cert"][lacking]), "{why}");
            }
        }
    }

    #[test]
    fn a_socket_path_is_used_once_and_released() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("deep/api.sock");
        let endpoint = UnixEndpoint::open(&path).expect("an endpoint");
        assert!(matches!(UnixEndpoint::open(&path), Err(StartError::Taken { .. })));
        let peer = UnixStream::connect(&path).expect("a connection");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [peer.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let _accepted = endpoint.listener.accept().expect("the connection");
        // Older kernels do not refuse descriptors: see descriptor_guard.rs.
        let sent = sendmsg(&peer, &[io::IoSlice::new(b"GET")], &mut control, SendFlags::NOSIGNAL);
        assert_eq!(sent.is_err(), endpoint.refuses_descriptors, "{sent:?}");
        drop(endpoint);
        assert!(!path.exists());
    }

    #[test]
    fn sockets_of_dead_services_are_replaced_and_foreign_files_are_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let stale = directory.path().join("stale.sock");
        drop(UnixListener::bind(&stale).expect("a socket"));
        assert!(UnixEndpoint::open(&stale).is_ok());
        let file = directory.path().join("file");
        fs::write(&file, "precious").expect("a file");
        assert!(matches!(UnixEndpoint::open(&file), Err(StartError::Foreign(_))));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        assert!(matches!(UnixEndpoint::open(&link), Err(StartError::Foreign(_))));
        assert_eq!(fs::read_to_string(&file).expect("the file"), "precious");
    }

    /// A FIFO as lock file is an error and does not hang. A socket that another process uses without a lock is not taken.
    #[test]
    fn unusable_lock_files_and_live_sockets_are_reported() {
        let directory = tempfile::tempdir().expect("a directory");
        let lock = directory.path().join("fifo.sock.lock");
        rustix::fs::mknodat(rustix::fs::CWD, &lock, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).expect("a pipe");
        let _reader = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&lock).expect("its reader");
        let refusal = UnixEndpoint::open(&directory.path().join("fifo.sock")).expect_err("no lock");
        assert!(refusal.to_string().contains("no plain file"), "{refusal}");
        let live = directory.path().join("live.sock");
        let owner = UnixListener::bind(&live).expect("another's");
        assert!(matches!(UnixEndpoint::open(&live), Err(StartError::Taken { .. })));
        assert!(UnixStream::connect(&live).is_ok() && owner.accept().is_ok());
    }

    #[test]
    fn an_inherited_socket_is_not_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("api.sock");
        let given = UnixListener::bind(&path).expect("a socket");
        let endpoint = UnixEndpoint::inherited(given.try_clone().expect("a copy")).expect("an endpoint");
        let _early = UnixStream::connect(&path).expect("a connection");
        assert!(endpoint.listener.accept().is_ok());
        drop(endpoint);
        assert!(path.exists());
    }

    #[test]
    fn a_later_service_keeps_its_socket() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("api.sock");
        let endpoint = UnixEndpoint::open(&path).expect("an endpoint");
        fs::remove_file(&path).expect("removed by another process");
        let _other = UnixListener::bind(&path).expect("another's");
        drop(endpoint);
        assert!(path.exists());
    }
}
