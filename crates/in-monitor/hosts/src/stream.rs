//! A connection that ends at a deadline, independent of the other side.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::tls::{self, Roots};
use crate::{Credentials, RequestError, ServiceAddress};

/// Reads and writes.
pub(crate) trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// A deadline that can be extended while a connection uses it.
#[derive(Clone, Debug)]
pub(crate) struct Deadline(Rc<Cell<Instant>>);

impl Deadline {
    /// Creates a deadline at this time from now.
    pub(crate) fn after(timeout: Duration) -> Self {
        Self(Rc::new(Cell::new(Instant::now() + timeout)))
    }

    /// Moves the deadline to this time from now.
    pub(crate) fn put_off(&self, timeout: Duration) {
        self.0.set(Instant::now() + timeout);
    }

    /// Returns the time of the deadline.
    pub(crate) fn instant(&self) -> Instant {
        self.0.get()
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.0.get().saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

/// Connects within the deadline.
pub(crate) fn open(address: &ServiceAddress, roots: Option<&Roots>, deadline: Deadline) -> Result<Box<dyn Stream>, RequestError> {
    match address {
        ServiceAddress::Unix(path) => Ok(Box::new(Timed { socket: unix(path).map_err(RequestError::unreachable)?, deadline })),
        ServiceAddress::Tcp { host, port, is_tls } => {
            let stream = Timed { socket: tcp(host, *port, &deadline).map_err(RequestError::unreachable)?, deadline };
            if *is_tls { tls::wrap(stream, host, roots) } else { Ok(Box::new(stream)) }
        }
    }
}

/// Sends a GET request, and returns the connection with the answer.
pub(crate) fn get(
    mut stream: Box<dyn Stream>,
    address: &ServiceAddress,
    path: &str,
    accept: &str,
    credentials: Option<&Credentials>,
) -> Result<Box<dyn Stream>, RequestError> {
    let signed = credentials.map_or_else(String::new, Credentials::header);
    let host = address.host_header();
    let request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: {accept}\r\n{signed}\r\n");
    stream.write_all(request.as_bytes()).and_then(|()| stream.flush()).map_err(RequestError::silent)?;
    Ok(stream)
}

/// Connects to a Unix socket. Does not wait if the service has too many connections.
fn unix(path: &Path) -> io::Result<UnixStream> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Connects to the first of the host's addresses that answers.
fn tcp(host: &str, port: u16, deadline: &Deadline) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, deadline.left()?) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A socket that uses the remaining time as the timeout of each call.
pub(crate) struct Timed<S> {
    socket: S,
    deadline: Deadline,
}

impl<S: Read + AsFd> Read for Timed<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            set_socket_timeout(&self.socket, Timeout::Recv, Some(self.deadline.left()?))?;
            match self.socket.read(bytes) {
                // The kernel does not restart reads of a socket with a timeout. Resizing the terminal must not appear as a failure of the
                // service.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

impl<S: Write + AsFd> Write for Timed<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        set_socket_timeout(&self.socket, Timeout::Send, Some(self.deadline.left()?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}
