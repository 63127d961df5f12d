//! One connection: what it sent and was not a whole message yet, what it has not read yet, and whom it speaks for.

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendFlags, recv, recvmsg, send};

use ttmon_wire::allocation::{Framing, Request, Size};

use crate::limits::{PIDS_PER_CONNECTION_MAX, UNREAD_BYTES_MAX};

/// Why a connection is not read at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It is being found out how its process sees the machine.
    Inspection,
    /// It is being found out whose pid this message names.
    Kin(Request),
    /// Its question waits for what other sources say.
    Sample(Request, Size),
    /// Its dump is being written.
    Dump,
}

/// What happens when a connection's time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The bytes that are there are the question.
    Settle,
    /// A user at a terminal waits for a dump.
    Dump,
    /// The rest of the message will not come.
    GiveUp,
    /// Go on without knowing.
    Resume,
    /// It does not read its replies.
    Drop,
}

/// Whom events under a pid belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speaker {
    pub(crate) pid: i32,
    /// The process's number; `None` where it cannot own anything.
    pub(crate) process: Option<u64>,
    /// The pid is a stranger's: only said, not believed.
    pub(crate) is_label: bool,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    /// No descriptor can come along with what is received.
    pub(crate) is_guarded: bool,
    /// The process that connected; `None` where it cannot be seen from here.
    pub(crate) peer: Option<u64>,
    pub(crate) peer_pid: u32,
    pub(crate) uid: u32,
    pub(crate) framing: Framing,
    /// The beginning of a message.
    pub(crate) rest: Vec<u8>,
    pub(crate) pause: Option<Pause>,
    pub(crate) due: Option<(Instant, Due)>,
    /// Replies not taken yet.
    pub(crate) unread: Vec<u8>,
    /// When the oldest of them was to go.
    pub(crate) unread_since: Instant,
    pub(crate) unread_max: usize,
    /// Closed as soon as it has read everything.
    pub(crate) is_ending: bool,
    /// The last speaker first.
    pub(crate) speakers: Vec<Speaker>,
    /// Number of warnings about it: a few are printed, all are counted.
    pub(crate) complaints: u32,
    /// Devices that it asked for and that are not known.
    pub(crate) unknown_devices: Vec<i32>,
    /// The events that the kernel watches for: input, and room for output; `None` if only an end that is already known would be
    /// reported.
    pub(crate) waits: Option<(bool, bool)>,
    /// Nothing more will come.
    pub(crate) has_ended: bool,
    /// No reply will be read; earlier messages still count.
    pub(crate) is_deaf: bool,
    /// Its last message was a question: who waits for an answer comes first.
    pub(crate) is_asking: bool,
}

/// Why nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// There is nothing now.
    Nothing,
    /// The message has a descriptor.
    Descriptor,
    /// There will be nothing more.
    End,
}

impl From<Errno> for Received {
    fn from(error: Errno) -> Self {
        if matches!(error, Errno::AGAIN | Errno::INTR) { Self::Nothing } else { Self::End }
    }
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    On,
    Close,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd, is_guarded: bool, peer: Option<u64>, (peer_pid, uid): (u32, u32)) -> Self {
        Self {
            socket,
            is_guarded,
            peer,
            peer_pid,
            uid,
            framing: Framing::new(),
            rest: Vec::new(),
            pause: None,
            due: None,
            unread: Vec::new(),
            unread_since: Instant::now(),
            unread_max: UNREAD_BYTES_MAX,
            is_ending: false,
            speakers: Vec::new(),
            complaints: 0,
            unknown_devices: Vec::new(),
            waits: Some((true, false)),
            has_ended: false,
            is_deaf: false,
            is_asking: false,
        }
    }

    /// Reads the input. A descriptor among it is never received: dropping it may take as long as its sender wants. Peeking is
    /// harmless, because a peeked descriptor is not the last reference.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Result<usize, Received> {
        let mut length = buffer.len();
        if !self.is_guarded {
            let mut none = RecvAncillaryBuffer::default();
            let seen = recvmsg(&self.socket, &mut [IoSliceMut::new(buffer)], &mut none, RecvFlags::DONTWAIT | RecvFlags::PEEK)?;
            if seen.flags.contains(ReturnFlags::CTRUNC) {
                return Err(Received::Descriptor);
            }
            length = seen.bytes;
        }
        let buffer = buffer.get_mut(..length).unwrap_or_default();
        Ok(recv(&self.socket, buffer, RecvFlags::DONTWAIT)?.0)
    }

    /// Sends now what the peer takes, and keeps the rest. One that does not read is given up.
    pub(crate) fn reply(&mut self, bytes: &[u8]) -> Flow {
        if self.is_deaf {
            return Flow::On;
        }
        if self.unread.is_empty() {
            self.unread_since = Instant::now();
            match send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) if sent == bytes.len() => return Flow::On,
                Ok(sent) => self.unread.extend_from_slice(bytes.get(sent..).unwrap_or_default()),
                Err(Errno::AGAIN | Errno::INTR) => self.unread.extend_from_slice(bytes),
                Err(_) => self.is_deaf = true,
            }
        } else {
            self.unread.extend_from_slice(bytes);
        }
        if self.unread.len() > self.unread_max { Flow::Close } else { Flow::On }
    }

    /// The peer has read something.
    pub(crate) fn send_on(&mut self) -> Flow {
        while !self.unread.is_empty() {
            match send(&self.socket, &self.unread, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => drop(self.unread.drain(..sent.min(self.unread.len()))),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Flow::On,
                Err(_) => {
                    self.is_deaf = true;
                    self.unread.clear();
                }
            }
        }
        if self.is_ending { Flow::Close } else { Flow::On }
    }

    /// Whom a pid means from now on; the last one to speak comes first.
    pub(crate) fn remember(&mut self, speaker: Speaker) {
        self.speakers.truncate(PIDS_PER_CONNECTION_MAX);
        self.speakers.insert(0, speaker);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Read};
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};

    use super::*;

    fn send_with_descriptor(from: &UnixStream, bytes: &[u8], descriptor: impl AsFd) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor.as_fd()];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(from, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).expect("sent");
    }

    /// As on kernels that do not refuse them: the descriptor stays where it is, and its sender is not waited for.
    #[test]
    fn descriptors_are_seen_and_not_received() {
        let (ours, theirs) = UnixStream::pair().expect("pair");
        let connection = Connection::new(ours.into(), false, None, (1, 0));
        let mut buffer = [0; 64];
        assert_eq!(connection.receive(&mut buffer), Err(Received::Nothing));
        send(&theirs, b"one", SendFlags::empty()).expect("sent");
        send(&theirs, b"two", SendFlags::empty()).expect("sent");
        assert_eq!((connection.receive(&mut buffer), &buffer[..6]), (Ok(6), &b"onetwo"[..]));
        let (mut kept, sent) = UnixStream::pair().expect("pair");
        send(&theirs, b"three", SendFlags::empty()).expect("sent");
        send_with_descriptor(&theirs, b"four", &sent);
        drop(sent);
        assert_eq!(connection.receive(&mut buffer), Err(Received::Descriptor));
        kept.set_nonblocking(true).expect("a socket");
        assert_eq!(kept.read(&mut [0]).map_err(|error| error.kind()), Err(std::io::ErrorKind::WouldBlock), "it is not dropped yet");
        drop(connection);
        assert_eq!(kept.read(&mut [0]).expect("its end"), 0);
    }
}
