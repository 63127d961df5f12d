//! The receiving end of the hand-over: programs send a descriptor of their ledger as soon as they have one, so that one
//! that lives shorter than a poll is not lost.
//!
//! A datagram is 16 bytes (`TTMONHND`, then the pid as its sender sees it, u64 little endian) and one descriptor. Any user who
//! may write to the socket may send anything, so nothing is believed: a message is taken only when its descriptor is a
//! regular file on tmpfs, sealed and exactly as long as the ledger in it. That test asks the kernel alone: a descriptor of a file system that never
//! answers, a hanging network mount say, is neither looked into nor closed by the thread that receives.
//!
//! Left to the caller: whether the ledger's [identity](ttmon_ledger::reader::Identity) is that of the [sender](Sender),
//! and how many ledgers to keep.

use std::fs::{self, File, Permissions};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

use ttmon_ledger::reader::Region;

/// Begins every message.
pub const MAGIC: [u8; 8] = *b"TTMONHND";
const MESSAGE_BYTES: usize = 16;

/// Messages with foreign descriptors whose closing has not come back; with that many nothing more is received.
const STUCK_MAX: usize = 4;

/// Messages that wait at most, by far (`net.unix.max_dgram_qlen`).
const QUEUED_MAX: usize = 1024;

/// Longest ledger that is taken. Ours have 71 MiB; later versions may have longer records.
const BYTES_MAX: u64 = 128 << 20;

/// Seals that a ledger must have: its length stays, and so do these.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// As many as a message can carry (`SCM_MAX_FD`).
const DESCRIPTORS_MAX: usize = 253;

/// Inode of the first pid namespace of a machine, from which every process is visible (`PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// A socket that ledgers are handed to.
#[derive(Debug)]
pub struct Receiver {
    socket: OwnedFd,
    path: PathBuf,
    /// Of the socket in its directory: what is removed at the end must still be this one.
    identity: (u64, u64),
    refused: u64,
    stuck: Arc<AtomicUsize>,
}

/// A ledger that came.
#[derive(Debug)]
pub struct HandedLedger {
    /// The ledger.
    pub region: Region,
    /// The same as a file: what it takes of memory can be asked.
    pub file: File,
    /// Its device and inode.
    pub identity: (u64, u64),
    /// Who made the file, which a program cannot lie about.
    pub uid: u32,
    /// Who sent it, as the kernel says; `None` where this process does not see all pids.
    pub sender: Option<Sender>,
}

/// Who sent a message. It may have ended since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Its pid, as seen here.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
}

impl Receiver {
    /// A socket at `path` that users with `mode` may write to. A socket that nobody listens at any more gives way.
    pub fn bind(path: &Path, mode: u32) -> io::Result<Self> {
        let socket = open()?;
        let address = SocketAddrUnix::new(path)?;
        match rustix::net::bind(&socket, &address) {
            Err(Errno::ADDRINUSE) if is_abandoned(path, &address)? => {
                fs::remove_file(path)?;
                rustix::net::bind(&socket, &address)?;
            }
            result => result?,
        }
        let metadata = fs::symlink_metadata(path)?;
        let identity = (metadata.dev(), metadata.ino());
        let receiver = Self { socket, path: path.to_owned(), identity, refused: 0, stuck: Arc::default() };
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        if sees_all_pids() {
            // Elsewhere the kernel may name a sender 0, which is no pid.
            sockopt::set_socket_passcred(&receiver, true)?;
        }
        Ok(receiver)
    }

    /// Gives it another name, and lets users with `mode` write to it. Everybody can read in /proc/net/unix by which name a socket was
    /// bound, and nobody what it is called since.
    pub fn hide(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        // A name that no sender could write down is none.
        SocketAddrUnix::new(path)?;
        fs::rename(&self.path, path)?;
        path.clone_into(&mut self.path);
        fs::set_permissions(path, Permissions::from_mode(mode))
    }

    /// A socket that another process bound, such as systemd; its name is not removed at the end.
    pub fn inherited(socket: UnixDatagram) -> io::Result<Self> {
        let path = socket.local_addr()?.as_pathname().map(Path::to_owned).unwrap_or_default();
        socket.set_nonblocking(true)?;
        if sees_all_pids() {
            sockopt::set_socket_passcred(&socket, true)?;
        }
        // No file has this number.
        Ok(Self { socket: socket.into(), path, identity: (0, 0), refused: 0, stuck: Arc::default() })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Messages so far that were no ledger.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether nothing is received for now: descriptors of file systems that do not answer are still being closed.
    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed) >= STUCK_MAX
    }

    /// Receives at most `most` messages. Never waits: poll the descriptor for that.
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
                // Nothing there, or nothing to be done about it.
                Err(_) => break,
            }
        }
        handed
    }

    /// One message; `None` if it is no ledger.
    fn next(&self) -> Result<Option<HandedLedger>, Errno> {
        let mut message = [0; MESSAGE_BYTES];
        // Room for all that can come: what does not fit is closed by the kernel, while we wait.
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX), ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = rustix::net::recvmsg(self, &mut [IoSliceMut::new(&mut message)], &mut control, flags)?;
        let (mut files, mut sender) = (Vec::new(), None);
        for part in control.drain() {
            match part {
                RecvAncillaryMessage::ScmRights(descriptors) => files.extend(descriptors),
                RecvAncillaryMessage::ScmCredentials(credentials) => {
                    let pid = u32::try_from(credentials.pid.as_raw_nonzero().get()).ok();
                    sender = pid.map(|pid| Sender { pid, uid: credentials.uid.as_raw() });
                }
                _ => {}
            }
        }
        let is_whole = received.bytes == MESSAGE_BYTES && !received.flags.contains(ReturnFlags::TRUNC);
        // Only files in memory have seals; asking for them reaches no file system.
        let (in_memory, foreign): (Vec<OwnedFd>, Vec<OwnedFd>) =
            files.into_iter().partition(|file| rustix::fs::fcntl_get_seals(file).is_ok());
        if !foreign.is_empty() {
            self.close_aside(foreign);
        }
        let is_ours = is_whole && message.starts_with(&MAGIC);
        Ok(in_memory.into_iter().next().filter(|_| is_ours).and_then(|file| read(file, sender)))
    }

    /// Closing a file asks its file system, which may not answer.
    fn close_aside(&self, files: Vec<OwnedFd>) {
        self.stuck.fetch_add(1, Ordering::Relaxed);
        let stuck = Arc::clone(&self.stuck);
        let close = move || {
            drop(files);
            stuck.fetch_sub(1, Ordering::Relaxed);
        };
        // Without a thread they are closed here.
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
        // With the socket goes what nobody received: foreign descriptors among it are closed aside.
        for _ in 0..QUEUED_MAX {
            if self.next().is_err() {
                break;
            }
        }
        if fs::symlink_metadata(&self.path).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?)
}

/// Whether a socket is there that nobody listens at.
fn is_abandoned(path: &Path, address: &SocketAddrUnix) -> io::Result<bool> {
    let is_socket = fs::symlink_metadata(path)?.file_type().is_socket();
    Ok(is_socket && rustix::net::connect(&open()?, address) == Err(Errno::CONNREFUSED))
}

/// Removes a socket that nobody listens at any more, as a killed receiver leaves it; false where there is no such.
pub fn remove_abandoned(path: &Path) -> bool {
    SocketAddrUnix::new(path).is_ok_and(|address| is_abandoned(path, &address).unwrap_or(false)) && fs::remove_file(path).is_ok()
}

fn sees_all_pids() -> bool {
    fs::metadata("/proc/self/ns/pid").is_ok_and(|metadata| metadata.ino() == FIRST_PID_NAMESPACE)
}

/// A file whose length is fixed and equals that of the ledger: it must not grow while it is held.
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
