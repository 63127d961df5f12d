//! Splits a stream into messages.
//!
//! A stream does not state the length of its messages. Two rules determine it: a type byte is never 0, and a request is zero after byte 40.
//! So the first nonzero byte after byte 40 is the type of the next message, and its offset is the size. Only the first message is
//! ambiguous: it may be a complete short message or the start of a longer one. An event is accepted as soon as the shortest message of its
//! type has arrived, because the other bytes are zero. A query waits for [`Wait::Grace`], because its sender sends nothing until it has the
//! reply. Once the size is known, it never changes. The decoder never searches for the start of a message in the middle of a stream.

use super::{HEADER_BYTES, MESSAGE_BYTES_MAX, Request, Size, Type};

/// State of one connection's stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framing {
    state: State,
    /// Whether the caller has waited for the grace period, so that the bytes so far are the message.
    is_settled: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// No message was accepted yet.
    #[default]
    Unknown,
    /// The first message was accepted after `seen` bytes, which end with zeros. More zeros belong to it. A type byte starts the next
    /// message.
    Tail { seen: usize, size_min: Size },
    /// The size is known.
    Fixed(Size),
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A request of `used` bytes. If a reply is expected, it has the size `size`.
    Request {
        /// The request.
        request: Request,
        /// Size of the reply.
        size: Size,
        /// Bytes that were consumed.
        used: usize,
    },
    /// `used` bytes were consumed. The remaining bytes are not a complete message.
    Wait {
        /// Bytes that were consumed.
        used: usize,
        /// What to wait for.
        wait: Wait,
    },
    /// The stream does not follow the protocol.
    Malformed(Malformed),
}

/// Reason for waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Wait for the next message, without a limit.
    Message,
    /// Wait for the rest of a message. A sender that stops in the middle uses another protocol.
    Rest,
    /// Wait 20 ms. If nothing follows, the query is complete, and the caller must call [`Framing::settle`].
    Grace,
    /// A single line feed arrived. If nothing follows for 200 ms, a user at a terminal requests a dump.
    LineFeed,
}

/// Why a stream is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum Malformed {
    #[error("no message has type {0}")]
    Type(u8),
    #[error("padding that is not zero")]
    Padding,
    /// A device id below -1.
    #[error("device id {0}")]
    Device(i32),
    /// A nonzero byte after the header at an offset where no message can begin.
    #[error("bytes at offset {0} of a request, where all are zero")]
    Trailing(usize),
    /// A type that messages of this size do not support.
    #[error("type {} in a message of {} bytes", *.0 as u8, .1.bytes())]
    TypeOfSize(Type, Size),
}

impl Framing {
    /// Creates the state of a stream with an unknown size.
    pub const fn new() -> Self {
        Self { state: State::Unknown, is_settled: false }
    }

    /// Returns the size of the messages, once known.
    pub fn size(&self) -> Option<Size> {
        match self.state {
            State::Fixed(size) => Some(size),
            State::Unknown | State::Tail { .. } => None,
        }
    }

    /// Records that nothing arrived during [`Wait::Grace`]. The next step accepts the bytes so far as the message.
    pub fn settle(&mut self) {
        self.is_settled = true;
    }

    /// Decodes `bytes`, which start where the last step ended.
    #[inline]
    pub fn next(&mut self, bytes: &[u8]) -> Step {
        match self.state {
            State::Fixed(size) => fixed(size, bytes),
            State::Unknown => self.first(bytes),
            State::Tail { seen, size_min } => self.tail(seen, size_min, bytes),
        }
    }

    fn first(&mut self, bytes: &[u8]) -> Step {
        match bytes {
            [] => return Step::Wait { used: 0, wait: Wait::Message },
            [b'\n'] => return Step::Wait { used: 0, wait: Wait::LineFeed },
            [byte, ..] if Type::from_byte(*byte).is_none() => return Step::Malformed(Malformed::Type(*byte)),
            _ => {}
        }
        let rest = Step::Wait { used: 0, wait: Wait::Rest };
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else { return rest };
        let request = match Request::decode(header) {
            Ok(request) => request,
            Err(malformed) => return Step::Malformed(malformed),
        };
        let size_min = request.kind.size_min();
        if !request.kind.is_query() {
            // No supported size is shorter. All contents have arrived, and later bytes cannot change them.
            let used = size_min.bytes();
            let behind = bytes.iter().take(used).skip(HEADER_BYTES);
            if let Some(offset) = behind.clone().position(|byte| *byte != 0) {
                return Step::Malformed(Malformed::Trailing(HEADER_BYTES + offset));
            }
            if bytes.len() < used {
                return rest;
            }
            self.state = State::Tail { seen: used, size_min };
            return Step::Request { request, size: size_min, used };
        }
        let behind = bytes.iter().take(MESSAGE_BYTES_MAX).skip(HEADER_BYTES).position(|byte| *byte != 0);
        let here = Size::from_bytes(bytes.len()).filter(|size| *size >= size_min);
        let size = match (behind.map(|offset| HEADER_BYTES + offset), here) {
            (Some(place), _) => match Size::from_bytes(place) {
                Some(size) if size >= size_min => size,
                _ => return Step::Malformed(Malformed::Trailing(place)),
            },
            (None, _) if bytes.len() >= MESSAGE_BYTES_MAX => Size::B144,
            (None, Some(size)) if self.is_settled => {
                let used = size.bytes();
                self.state = State::Tail { seen: used, size_min };
                return Step::Request { request, size, used };
            }
            (None, Some(_)) => return Step::Wait { used: 0, wait: Wait::Grace },
            (None, None) => return rest,
        };
        self.state = State::Fixed(size);
        Step::Request { request, size, used: size.bytes() }
    }

    fn tail(&mut self, seen: usize, size_min: Size, bytes: &[u8]) -> Step {
        let most = MESSAGE_BYTES_MAX - seen;
        let zeros = bytes.iter().take(most).take_while(|byte| **byte == 0).count();
        let seen = seen + zeros;
        let here = Size::from_bytes(seen).filter(|size| *size >= size_min);
        match here {
            Some(size) if zeros < bytes.len() || size == Size::B144 => {
                self.state = State::Fixed(size);
                match fixed(size, &bytes[zeros..]) {
                    Step::Request { request, size, used } => Step::Request { request, size, used: used + zeros },
                    Step::Wait { used, wait } => Step::Wait { used: used + zeros, wait },
                    malformed @ Step::Malformed(_) => malformed,
                }
            }
            None if zeros < bytes.len() => Step::Malformed(Malformed::Trailing(seen)),
            here => {
                self.state = State::Tail { seen, size_min };
                Step::Wait { used: zeros, wait: if here.is_some() { Wait::Message } else { Wait::Rest } }
            }
        }
    }
}

#[inline]
fn fixed(size: Size, bytes: &[u8]) -> Step {
    let Some(message) = bytes.get(..size.bytes()) else {
        let wait = match bytes {
            [] => Wait::Message,
            [byte, ..] if Type::from_byte(*byte).is_none() => return Step::Malformed(Malformed::Type(*byte)),
            _ => Wait::Rest,
        };
        return Step::Wait { used: 0, wait };
    };
    let (Some(header), tail) = (message.first_chunk::<HEADER_BYTES>(), &message[HEADER_BYTES..]) else {
        return Step::Wait { used: 0, wait: Wait::Rest };
    };
    match Request::decode(header) {
        Err(malformed) => Step::Malformed(malformed),
        Ok(request) if !size.has(request.kind) => Step::Malformed(Malformed::TypeOfSize(request.kind, size)),
        Ok(request) if is_zero(tail) => Step::Request { request, size, used: size.bytes() },
        Ok(_) => Step::Malformed(Malformed::Trailing(HEADER_BYTES + tail.iter().take_while(|byte| **byte == 0).count())),
    }
}

/// Returns whether all bytes are zero. The length of a tail is a multiple of eight bytes.
#[inline]
fn is_zero(tail: &[u8]) -> bool {
    let (words, rest) = tail.as_chunks::<8>();
    words.iter().fold(0, |sum, word| sum | u64::from_le_bytes(*word)) == 0 && rest.iter().all(|byte| *byte == 0)
}
