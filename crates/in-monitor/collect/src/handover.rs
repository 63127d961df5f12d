//! The receiving end of the hand-over. A program sends a descriptor of its ledger as soon as it has one, so that the ledger of a program
//! that ends between two polls is not lost.
//!
//! A datagram has a [message](ttmon_ledger::handover) and one descriptor. Any user with write permission may send anything, so every
//! message is checked: the descriptor must be a regular file on tmpfs, sealed, and exactly as long as its ledger. The check only calls the
//! kernel. The receiving thread neither reads nor closes a descriptor of any other file system, because a hanging network mount, for
//! example, would block it.
//!
//! The caller checks that the [identity](ttmon_ledger_reader::Identity) in the ledger is that of the [sender](Sender), and limits the
//! number of ledgers.

use std::fs::{self, File, Permissions};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SocketAddrUnix, sockopt};

use ttmon_ledger::handover::{MAGIC, MESSAGE_BYTES};
use ttmon_ledger_reader::Region;
use ttmon_os::{BindError, BoundSocket};

/// Messages with descriptors of other file systems that are still being closed. At this number nothing more is received.
const STUCK_MAX: usize = 4;

/// Upper limit of the messages in the socket's queue (`net.unix.max_dgram_qlen` is far lower).
const QUEUED_MAX: usize = 1024;

/// Longest ledger that is accepted. Ledgers of this version have 71 MiB; later versions may have longer records.
const BYTES_MAX: u64 = 128 << 20;

/// Seals that a ledger must have: its length and its seals cannot change.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Maximum number of descriptors in a message (`SCM_MAX_FD`).
const DESCRIPTORS_MAX: usize = 253;

/// Inode of the initial pid namespace of a machine, from which every process is visible (`PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// A socket that receives ledgers.
#[derive(Debug)]
pub struct Receiver {
    path: PathBuf,
    /// The path, if this process created it and must remove it.
    bound: Option<BoundSocket>,
    socket: OwnedFd,
    refused: u64,
    stuck: Arc<AtomicUsize>,
}

/// A received ledger.
#[derive(Debug)]
pub struct HandedLedger {
    /// The ledger.
    pub region: Region,
    /// The file of the ledger, used to measure its memory.
    pub file: File,
    /// Device and inode of the file.
    pub identity: (u64, u64),
    /// The user who created the file. A program cannot forge it.
    pub uid: u32,
    /// The sender according to the kernel; `None` if this process does not see all pids.
    pub sender: Option<Sender>,
}

/// The sender of a message. The process may have ended since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The pid, as seen by this process.
    pub pid: u32,
    /// The user id.
    pub uid: u32,
}

impl Receiver {
    /// Binds a socket at `path` with the permissions `mode`. An existing socket without a listener is replaced.
    pub fn bind(path: &Path, mode: u32) -> io::Result<Self> {
        let bound = BoundSocket::datagram(path, mode).map_err(|error| match error {
            BindError::Io(_, error) => error,
            _ => Errno::ADDRINUSE.into(),
        });
        let (socket, bound) = bound?;
        ask_for_sender(&socket)?;
        Ok(Self { path: path.to_owned(), bound: Some(bound), socket: socket.into(), refused: 0, stuck: Arc::default() })
    }

    /// Renames the socket to `path` and sets its permissions to `mode`. Every user can read the original name in /proc/net/unix, but not
    /// the new one.
    pub fn hide(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        // Fails if the path is too long for a socket address: no sender could connect to it.
        SocketAddrUnix::new(path)?;
        if let Some(bound) = &mut self.bound {
            bound.rename(path)?;
            path.clone_into(&mut self.path);
        }
        fs::set_permissions(path, Permissions::from_mode(mode))
    }

    /// Wraps a socket that another process bound, such as systemd. Its path is not removed on drop.
    pub fn inherited(socket: UnixDatagram) -> io::Result<Self> {
        // A socket in the abstract namespace has no path.
        let path = socket.local_addr()?.as_pathname().map(Path::to_owned).unwrap_or_default();
        socket.set_nonblocking(true)?;
        ask_for_sender(&socket)?;
        Ok(Self { path, bound: None, socket: socket.into(), refused: 0, stuck: Arc::default() })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of messages so far that carried no valid ledger.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether receiving is suspended because descriptors of file systems that do not respond are still being closed.
    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed) >= STUCK_MAX
    }

    /// Receives at most `most` messages. Never waits; poll the descriptor to wait.
    pub fn receive(&mut self, most: usize) -> Vec<HandedLedger> {
        let mut handed = Vec::new();
        for _ in 0..most {
            if self.is_stuck() {
                break;
            }
            match self.next() {
                Ok(Some(ledger)) => handed.push(ledger),
                Ok(None) => self.refused += 1,
                Err(Errno::INTR) => {}
                // The queue is empty, or the error cannot be handled.
                Err(_) => break,
            }
        }
        handed
    }

    /// Receives one message; `None` if it carries no valid ledger.
    fn next(&self) -> Result<Option<HandedLedger>, Errno> {
        let mut message = [0; MESSAGE_BYTES];
        // Room for every descriptor of a message. The kernel closes descriptors that do not fit, which would block this thread.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX), ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = rustix::net::recvmsg(self, &mut [IoSliceMut::new(&mut message)], &mut control, flags)?;
        let (mut files, mut sender) = (Vec::new(), None);
        for part in control.drain() {
            match part {
                RecvAncillaryMessage::ScmRights(descriptors) => files.extend(descriptors),
                RecvAncillaryMessage::ScmCredentials(credentials) => {
                    // A pid is positive.
                    let pid = u32::try_from(credentials.pid.as_raw_nonzero().get()).ok();
                    sender = pid.map(|pid| Sender { pid, uid: credentials.uid.as_raw() });
                }
                _ => {}
            }
        }
        let is_whole = received.bytes == MESSAGE_BYTES && !received.flags.contains(ReturnFlags::TRUNC);
        // Only files in memory have seals. Reading seals does not call the file system.
        let (in_memory, foreign): (Vec<OwnedFd>, Vec<OwnedFd>) =
            files.into_iter().partition(|file| rustix::fs::fcntl_get_seals(file).is_ok());
        if !foreign.is_empty() {
            self.close_aside(foreign);
        }
        let is_ours = is_whole && message.starts_with(&MAGIC);
        Ok(in_memory.into_iter().next().filter(|_| is_ours).and_then(|file| read(file, sender)))
    }

    /// Closes files in another thread: closing calls their file system, which may not respond.
    fn close_aside(&self, files: Vec<OwnedFd>) {
        self.stuck.fetch_add(1, Ordering::Relaxed);
        let stuck = Arc::clone(&self.stuck);
        let close = move || {
            drop(files);
            stuck.fetch_sub(1, Ordering::Relaxed);
        };
        // If no thread can be started, the files are closed here.
        let _ = thread::Builder::new().name("ttmon-close".to_owned()).spawn(close);
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // Empties the queue, so that descriptors of other file systems are closed in another thread.
        for _ in 0..QUEUED_MAX {
            if self.next().is_err() {
                break;
            }
        }
    }
}

fn ask_for_sender(socket: impl AsFd) -> io::Result<()> {
    // In other pid namespaces the kernel may report the pid 0, which is no process.
    let sees_all_pids = fs::metadata("/proc/self/ns/pid").is_ok_and(|metadata| metadata.ino() == FIRST_PID_NAMESPACE);
    if sees_all_pids { Ok(sockopt::set_socket_passcred(socket, true)?) } else { Ok(()) }
}

/// Opens a ledger in a file with a fixed length; `None` if it is not one, or cannot be read. The file must be exactly as long as the
/// ledger, because it must not grow while it is held.
fn read(file: OwnedFd, sender: Option<Sender>) -> Option<HandedLedger> {
    let file = File::from(file);
    let metadata = file.metadata().ok()?;
    let is_sealed = rustix::fs::fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SEALS));
    if !is_sealed || metadata.len() > BYTES_MAX {
        return None;
    }
    let region = Region::open(file.try_clone().ok()?).ok()?;
    if region.bytes() != metadata.len() {
        return None;
    }
    Some(HandedLedger { region, file, identity: (metadata.dev(), metadata.ino()), uid: metadata.uid(), sender })
}
