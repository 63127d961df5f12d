//! One connection: what it sent and was not a whole message yet, what it has not read yet, and whom it speaks for.

use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use ttmon_wire::allocation::{Framing, Request, Size};

use crate::limits::UNREAD_BYTES_MAX;

/// Why a connection is not read for the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It is being found out how its process sees the machine.
    Inspection,
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
    /// A person waits for a dump.
    Dump,
    /// The rest of the message will not come.
    GiveUp,
    /// Go on without knowing.
    Resume,
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
    /// The process that connected; `None` where it cannot be seen from here.
    pub(crate) peer: Option<u64>,
    pub(crate) peer_pid: u32,
    pub(crate) framing: Framing,
    /// The beginning of a message.
    pub(crate) rest: Vec<u8>,
    pub(crate) pause: Option<Pause>,
    pub(crate) due: Option<(Instant, Due)>,
    /// Replies not taken yet.
    pub(crate) unread: Vec<u8>,
    pub(crate) unread_max: usize,
    /// Closed as soon as it has read everything.
    pub(crate) is_ending: bool,
    /// The last speaker first.
    pub(crate) speakers: Vec<Speaker>,
    /// Complaints about it so far: a few are told, all are counted.
    pub(crate) complaints: u32,
    /// What the loop waits for, as the kernel knows it: input, and room for output; `None` where it would only be told of an end
    /// that it knows.
    pub(crate) waits: Option<(bool, bool)>,
    /// Nothing more will come.
    pub(crate) has_ended: bool,
    /// Nobody will read a reply; what it said counts all the same.
    pub(crate) is_deaf: bool,
    /// Its last message was a question: who waits for an answer comes first.
    pub(crate) is_asking: bool,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    On,
    Close,
}

impl Connection {
    pub(crate) fn new(socket: OwnedFd, peer: Option<u64>, peer_pid: u32) -> Self {
        Self {
            socket,
            peer,
            peer_pid,
            framing: Framing::new(),
            rest: Vec::new(),
            pause: None,
            due: None,
            unread: Vec::new(),
            unread_max: UNREAD_BYTES_MAX,
            is_ending: false,
            speakers: Vec::new(),
            complaints: 0,
            waits: Some((true, false)),
            has_ended: false,
            is_deaf: false,
            is_asking: false,
        }
    }

    /// Sends now what the peer takes, and keeps the rest. One that does not read is given up.
    pub(crate) fn reply(&mut self, bytes: &[u8]) -> Flow {
        if self.is_deaf {
            return Flow::On;
        }
        if self.unread.is_empty() {
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

    /// Whether the next complaint is to be told.
    pub(crate) fn may_complain(&mut self) -> bool {
        self.complaints = self.complaints.saturating_add(1);
        self.complaints <= 10
    }
}
