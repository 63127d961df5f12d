//! A connection that ends at a deadline, independent of the other side.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::tls::{self, Roots};
use crate::{ServicePlace, Trouble};

/// Reads and writes.
pub(crate) trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// A deadline that can be extended while a connection uses it.
#[derive(Clone, Debug)]
pub(crate) struct Deadline(Rc<Cell<Instant>>);

impl Deadline {
    /// Creates a deadline at this time from now.
    pub(crate) fn after(patience: Duration) -> Self {
        Self(Rc::new(Cell::new(Instant::now() + patience)))
    }

    /// Moves the deadline to this time from now.
    pub(crate) fn put_off(&self, patience: Duration) {
        self.0.set(Instant::now() + patience);
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
pub(crate) fn open(place: &ServicePlace, roots: Option<&Roots>, deadline: Deadline) -> Result<Box<dyn Stream>, Trouble> {
    match place {
        ServicePlace::Unix(path) => Ok(Box::new(Timed { socket: unix(path).map_err(Trouble::unreachable)?, deadline })),
        ServicePlace::Tcp { host, port, is_secret } => {
            let stream = Timed { socket: tcp(host, *port, &deadline).map_err(Trouble::unreachable)?, deadline };
            if *is_secret { tls::wrap(stream, host, roots) } else { Ok(Box::new(stream)) }
        }
    }
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

/// Both types of sockets have these two functions, without a common trait.
pub(crate) trait Timeouts {
    fn reading(&self, left: Duration) -> io::Result<()>;
    fn writing(&self, left: Duration) -> io::Result<()>;
}

impl Timeouts for TcpStream {
    fn reading(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))
    }

    fn writing(&self, left: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(left))
    }
}

impl Timeouts for UnixStream {
    fn reading(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))
    }

    fn writing(&self, left: Duration) -> io::Result<()> {
        self.set_write_timeout(Some(left))
    }
}

impl<S: Read + Timeouts> Read for Timed<S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            self.socket.reading(self.deadline.left()?)?;
            match self.socket.read(bytes) {
                // The kernel does not restart reads of a socket with a timeout. Resizing the terminal must not look like a failure of the
                // service.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

impl<S: Write + Timeouts> Write for Timed<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.writing(self.deadline.left()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}
