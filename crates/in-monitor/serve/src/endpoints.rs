//! The sockets of the service: a Unix socket, and a TCP port. The TCP port is only on loopback, unless another address is given and
//! permitted.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::io::Errno;
use ttmon_os::{BindError, BoundSocket, refuse_descriptors};

use crate::StartError;

/// Connections that may wait to be accepted. The kernel drops further ones, and their clients retry a second later.
const BACKLOG: i32 = 4096;

#[derive(Debug)]
pub(crate) struct UnixEndpoint {
    pub(crate) listener: UnixListener,
    /// Whether clients cannot send descriptors. Closing a received descriptor may take as long as its sender wants.
    pub(crate) refuses_descriptors: bool,
    /// The path of the socket, if this process created it and must remove it.
    _bound: Option<BoundSocket>,
}

impl UnixEndpoint {
    /// Uses a socket that another process, such as systemd, opened. Its path is not removed.
    pub(crate) fn inherited(listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { refuses_descriptors: refuse_descriptors(&listener), listener, _bound: None })
    }

    /// Creates the socket. The socket of a dead service is replaced; any other file is left unchanged.
    pub(crate) fn open(path: &Path) -> Result<Self, StartError> {
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            make(directory).map_err(|error| StartError::Socket(path.to_owned(), error))?;
        }
        // All users may connect. The kernel identifies them, and access control decides what they see.
        let (listener, bound) = BoundSocket::listen(path, 0o666, BACKLOG).map_err(|error| match error {
            BindError::Io(path, error) => StartError::Socket(path, error),
            BindError::Live(_, pid) | BindError::Locked { holder: pid, .. } => StartError::Taken { path: path.to_owned(), pid },
            BindError::Foreign(found, _) if found == path => StartError::Foreign(found),
            BindError::Foreign(lock, _) => StartError::Socket(lock, io::Error::other("it is no plain file")),
            BindError::Owned(path, _) => StartError::Socket(path, Errno::ACCESS.into()),
        })?;
        Ok(Self { listener, refuses_descriptors: bound.refuses_descriptors(), _bound: Some(bound) })
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
    use std::fs::File;
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd;
    use std::os::unix::fs::OpenOptionsExt;
    use std::os::unix::net::UnixStream;

    use rustix::fs::OFlags;
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
