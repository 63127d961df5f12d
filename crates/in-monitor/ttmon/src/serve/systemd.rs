//! Notifies systemd, and takes the sockets that it opened for the service.

use std::env;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;

use listenfd::ListenFd;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sendto, socket_with};

use crate::failure::Failure;

/// Sends a state to the service manager, if there is one.
pub(super) fn notify(state: &str) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else { return };
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name),
        path => SocketAddrUnix::new(path),
    };
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    if let (Ok(address), Ok(socket)) = (address, socket) {
        // A service manager that does not listen misses only the state.
        let _ = sendto(&socket, state.as_bytes(), SendFlags::NOSIGNAL, &address);
    }
}

/// Sockets of the service manager: streams for allocations or the API, a datagram socket for ledgers, a port for HTTP and one only for
/// metrics.
#[derive(Debug, Default)]
pub(super) struct InheritedSockets {
    pub(super) streams: Vec<UnixListener>,
    pub(super) datagram: Option<UnixDatagram>,
    pub(super) http: Option<TcpListener>,
    /// A port with `FileDescriptorName=metrics`.
    pub(super) metrics: Option<TcpListener>,
}

/// Takes the sockets of the service manager. Refuses a second port, because only one would be served.
pub(super) fn opened() -> Result<InheritedSockets, Failure> {
    // Names are optional.
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':').map(str::to_owned);
    let mut found = ListenFd::from_env();
    let mut opened = InheritedSockets::default();
    for index in 0..found.len() {
        let name = names.next().unwrap_or_default();
        // Each call fails for a socket of another type.
        if let Ok(Some(listener)) = found.take_unix_listener(index) {
            opened.streams.push(listener);
        } else if let Ok(Some(socket)) = found.take_unix_datagram(index) {
            put_once(&mut opened.datagram, socket, "datagram sockets")?;
        } else if let Ok(Some(listener)) = found.take_tcp_listener(index) {
            let place = if name == "metrics" { &mut opened.metrics } else { &mut opened.http };
            put_once(place, listener, "ports")?;
        }
    }
    Ok(opened)
}

fn put_once<T>(place: &mut Option<T>, found: T, what: &str) -> Result<(), Failure> {
    match place.replace(found) {
        None => Ok(()),
        Some(_) => Err(Failure::usage(format!("the service manager opened several {what}, and ttmon serve takes one; remove the others"))),
    }
}

impl InheritedSockets {
    pub(super) fn take_stream(&mut self, path: &Path) -> Option<UnixListener> {
        let is_at = |listener: &UnixListener| listener.local_addr().is_ok_and(|address| address.as_pathname() == Some(path));
        let index = self.streams.iter().position(is_at)?;
        Some(self.streams.remove(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_port_is_refused() {
        let port = || TcpListener::bind("127.0.0.1:0").unwrap();
        let mut http = None;
        assert!(put_once(&mut http, port(), "ports").is_ok());
        assert!(put_once(&mut http, port(), "ports").is_err());
    }
}
