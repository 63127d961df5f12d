//! The state of one connection: its partial message, its unread replies, and the processes that it reports for.

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendFlags, recv, recvmsg, send};

use crate::protocol::{Framing, Request, Size};

use crate::limits::{PIDS_PER_CONNECTION_MAX, UNREAD_BYTES_MAX};

/// Why a connection is currently not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The server is finding out how the process sees the machine.
    Inspection,
    /// The server is finding out which process the pid in this message belongs to.
    Descendant(Request),
    /// The query waits for a sample of other sources.
    Sample(Request, Size),
    Dump,
}

/// What to do when the deadline of a connection expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// Treat the received bytes as the complete query.
    Settle,
    /// Send a dump to a user at a terminal.
    Dump,
    /// Give up the rest of the message.
    GiveUp,
    /// Continue without the missing information.
    Resume,
    /// Close the connection because the peer does not read its replies.
    Drop,
}

/// The process that owns events with a pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Speaker {
    pub(crate) pid: i32,
    /// The number of the process; `None` if the process cannot own entries.
    pub(crate) process: Option<u64>,
    /// The pid belongs to an unrelated process. It is recorded only as a label.
    pub(crate) is_label: bool,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: OwnedFd,
    /// Messages can carry no file descriptors.
    pub(crate) is_guarded: bool,
    /// The process that connected; `None` if it is not visible from here.
    pub(crate) peer: Option<u64>,
    pub(crate) peer_pid: u32,
    pub(crate) uid: u32,
    pub(crate) framing: Framing,
    /// The beginning of a partial message.
    pub(crate) rest: Vec<u8>,
    pub(crate) pause: Option<Pause>,
    pub(crate) deadline: Option<(Instant, Deadline)>,
    /// Replies that the socket has not accepted yet.
    pub(crate) unread: Vec<u8>,
    /// When the oldest unread reply was added.
    pub(crate) unread_since: Instant,
    pub(crate) unread_max: usize,
    /// Close the connection when the peer has read everything.
    pub(crate) is_ending: bool,
    /// The speaker of the last event comes first.
    pub(crate) speakers: Vec<Speaker>,
    /// Number of warnings about the connection. Only a few are printed.
    pub(crate) warnings: u32,
    /// Unknown devices that the peer queried.
    pub(crate) unknown_devices: Vec<i32>,
    /// The events that the epoll watches for: input, and room for output. `None` if the socket is not watched, because only its known end
    /// would be reported.
    pub(crate) waits: Option<(bool, bool)>,
    /// The peer will send nothing more.
    pub(crate) has_ended: bool,
    /// The peer will read no reply. Its earlier messages still count.
    pub(crate) ignores_replies: bool,
    /// The last message was a query. Such connections are served first.
    pub(crate) is_querying: bool,
}

/// Why nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Nothing,
    /// The next message has a descriptor.
    Descriptor,
    End,
}

impl From<Errno> for Received {
    fn from(error: Errno) -> Self {
        if matches!(error, Errno::AGAIN | Errno::INTR) { Self::Nothing } else { Self::End }
    }
}

/// Whether a connection stays open.
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
            deadline: None,
            unread: Vec::new(),
            unread_since: Instant::now(),
            unread_max: UNREAD_BYTES_MAX,
            is_ending: false,
            speakers: Vec::new(),
            warnings: 0,
            unknown_devices: Vec::new(),
            waits: Some((true, false)),
            has_ended: false,
            ignores_replies: false,
            is_querying: false,
        }
    }

    /// Reads input. Data with a descriptor is never received, because closing the descriptor may take as long as its sender wants. Peeking
    /// is safe, because a peeked descriptor is not the last reference.
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
        Ok(recv(&self.socket, &mut buffer[..length], RecvFlags::DONTWAIT)?.0)
    }

    /// Sends as much as the socket accepts and stores the rest. Closes the connection of a peer that does not read.
    pub(crate) fn reply(&mut self, bytes: &[u8]) -> Flow {
        if self.ignores_replies {
            return Flow::On;
        }
        if self.unread.is_empty() {
            self.unread_since = Instant::now();
            match send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) if sent == bytes.len() => return Flow::On,
                Ok(sent) => self.unread.extend_from_slice(&bytes[sent..]),
                Err(Errno::AGAIN | Errno::INTR) => self.unread.extend_from_slice(bytes),
                Err(_) => self.ignores_replies = true,
            }
        } else {
            self.unread.extend_from_slice(bytes);
        }
        if self.unread.len() > self.unread_max { Flow::Close } else { Flow::On }
    }

    /// Sends more of the unread replies.
    pub(crate) fn send_on(&mut self) -> Flow {
        while !self.unread.is_empty() {
            match send(&self.socket, &self.unread, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => drop(self.unread.drain(..sent.min(self.unread.len()))),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Flow::On,
                Err(_) => {
                    self.ignores_replies = true;
                    self.unread.clear();
                }
            }
        }
        if self.is_ending { Flow::Close } else { Flow::On }
    }

    /// Adds a speaker as the most recent one.
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

    /// Simulates a kernel that does not reject descriptors: the descriptor is not received, and the sender cannot block the server.
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
