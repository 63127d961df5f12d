//! A service of this machine, asked instead of reading the machine here. Whatever is wrong with it, we go on without it.

use std::env;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use ttmon_model::Snapshot;
use ttmon_model::sample::Origin;
use ttmon_source::read::Pace;

use crate::failure::{Failure, complain};
use crate::meant::{Context, Place};
use crate::open::{Opened, choose};
use crate::serve::api_places;

/// A service that lives answers in milliseconds; one that hangs is not waited for much longer than a machine's own files.
const PATIENCE: Duration = Duration::from_millis(500);
/// Longest answer taken: 256 devices and a thousand processes need a tenth of it.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Where snapshots come from: a service while it answers, else the machine itself, opened when it is first needed.
pub(crate) struct Snapshots<'a> {
    context: &'a Context,
    pace: Pace,
    processes: bool,
    server: Option<PathBuf>,
    opened: Option<Opened>,
}

impl<'a> Snapshots<'a> {
    /// Prepares to look; nothing is opened yet.
    pub(crate) fn new(context: &'a Context, pace: Pace, processes: bool) -> Self {
        Self { context, pace, processes, server: place(context), opened: None }
    }

    /// The machine, read here whatever services there are.
    pub(crate) fn read_here(context: &'a Context, pace: Pace, processes: bool) -> Self {
        Self { server: None, ..Self::new(context, pace, processes) }
    }

    /// One snapshot of the devices asked for.
    pub(crate) fn next(&mut self) -> Result<Snapshot, Failure> {
        if let Some(path) = &self.server {
            match ask(path) {
                Ok(mut snapshot) => {
                    if !self.processes {
                        snapshot.processes.clear();
                    }
                    return choose(&self.context.selection, snapshot);
                }
                Err(why) => {
                    // Said once, to whoever watches: the answer is as good as without a service.
                    if io::stderr().is_terminal() {
                        complain(&format!("the service at {} {why}; reading the machine here", path.display()));
                    }
                    self.server = None;
                }
            }
        }
        if self.opened.is_none() {
            self.opened = Some(Opened::new(self.context, self.pace, self.processes)?);
        }
        self.opened.as_mut().map_or_else(|| Err(Failure::new("no machine was opened")), Opened::snapshot)
    }

    /// Whether the next snapshot has its rates by itself: a service has looked before.
    pub(crate) fn has_rates(&self) -> bool {
        self.server.is_some()
    }
}

/// The socket of a service that may be asked: flags that say how to read the machine mean that it is read here.
fn place(context: &Context) -> Option<PathBuf> {
    let may_ask = matches!(context.place, Place::Real) && !context.no_server && context.cluster.is_none();
    let named = env::var_os("TTMON_API").filter(|value| !value.is_empty()).map(PathBuf::from);
    let places = || named.map_or_else(api_places, |path| vec![path]).into_iter().find(|path| path.exists());
    may_ask.then(places)?
}

/// The newest snapshot of a service, or what it does instead of answering.
fn ask(path: &Path) -> Result<Snapshot, String> {
    let deadline = Instant::now() + PATIENCE;
    let mut stream = connect(path).map_err(|error| format!("cannot be reached ({error})"))?;
    let failed = |error: io::Error| format!("does not answer ({error})");
    let request = b"GET /api/v1/snapshot HTTP/1.0\r\nHost: localhost\r\n\r\n";
    stream.set_write_timeout(Some(PATIENCE)).and_then(|()| stream.write_all(request)).map_err(failed)?;
    let mut answer = Vec::new();
    let mut piece = vec![0; 256 * 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || answer.len() as u64 > ANSWER_BYTES_MAX {
            return Err("does not answer in time".to_owned());
        }
        stream.set_read_timeout(Some(left)).map_err(failed)?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    understand(&answer)
}

/// Without waiting where the service has more to do than it can.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn understand(answer: &[u8]) -> Result<Snapshot, String> {
    let text = std::str::from_utf8(answer).map_err(|_| "answers with something that is not text".to_owned())?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or("answers with half of an answer")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    if status != "200" {
        return Err(format!("has nothing to show ({status})"));
    }
    let mut snapshot = ttmon_wire::read(body).map_err(|error| format!("answers in another way than this ttmon knows ({error})"))?;
    if snapshot.origin == Origin::Local {
        snapshot.origin = Origin::Server;
    }
    Ok(snapshot)
}
