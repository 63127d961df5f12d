//! Which bytes of a stream are a message.
//!
//! Nothing in a stream says how long its messages are. What decides: a type byte is never 0, and behind byte 40 a request is
//! all zero, so that the first byte there that is not is the type of the next message, and its place the size. Only while
//! exactly one message has come can it be a whole short one or the beginning of a longer one. An event is taken as soon as
//! the shortest message of its type is there, since the rest says nothing; a question waits for [`Wait::Grace`], for its sender is silent until it
//! is answered. Once the size is known it holds for good. Nothing ever looks for a new beginning in the middle of a stream.

use std::fmt;

use super::{HEADER_BYTES, MESSAGE_BYTES_MAX, Request, Size, Type};

/// What one connection's stream has shown so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framing {
    state: State,
    /// The caller waited for the grace: the bytes that are there are the message.
    is_settled: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// Nothing was taken yet.
    #[default]
    Unknown,
    /// The first message was taken: `seen` bytes of it, zero at its end. More zeros are its rest, a type byte begins the next.
    Tail { seen: usize, size_min: Size },
    /// Decided.
    Fixed(Size),
}

/// What there is to do with the bytes at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A request; `used` bytes are done with. `size` is that of the reply, if it wants one.
    Request {
        /// What it says.
        request: Request,
        /// How long its reply is.
        size: Size,
        /// Bytes to go on behind.
        used: usize,
    },
    /// `used` bytes are done with, the rest is not enough.
    Wait {
        /// Bytes to go on behind.
        used: usize,
        /// How long to wait for more.
        wait: Wait,
    },
    /// This is not the protocol.
    Malformed(Malformed),
}

/// What is being waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The next message, as long as it takes.
    Message,
    /// The rest of one: who sends half a message and then nothing speaks something else.
    Rest,
    /// A question is complete if no more comes for 20 ms: then call [`Framing::settle`].
    Grace,
    /// One line feed so far. With nothing behind it for 200 ms, it is a person who asks for a dump.
    LineFeed,
}

/// Why a stream is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// No such type.
    Type(u8),
    /// What is zero in every request is not.
    Padding,
    /// A device id below -1.
    Device(i32),
    /// Something stands at this place behind the header where no message of the size, or of any, can begin.
    Trailing(usize),
    /// A type that messages of this size do not have.
    TypeOfSize(Type, Size),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(byte) => write!(f, "no message has type {byte}"),
            Self::Padding => f.write_str("padding that is not zero"),
            Self::Device(device) => write!(f, "device id {device}"),
            Self::Trailing(at) => write!(f, "bytes at offset {at} of a request, where all are zero"),
            Self::TypeOfSize(kind, size) => write!(f, "type {} in a message of {} bytes", *kind as u8, size.bytes()),
        }
    }
}

impl std::error::Error for Malformed {}

impl Framing {
    /// A stream of which nothing is known.
    pub const fn new() -> Self {
        Self { state: State::Unknown, is_settled: false }
    }

    /// The size of its messages, once it is decided.
    pub fn size(&self) -> Option<Size> {
        match self.state {
            State::Fixed(size) => Some(size),
            State::Unknown | State::Tail { .. } => None,
        }
    }

    /// No more bytes came during [`Wait::Grace`]: the next step takes what is there for the message.
    pub fn settle(&mut self) {
        self.is_settled = true;
    }

    /// What to do with `bytes`, which begin where the last step ended.
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
        if !request.kind.is_question() {
            // No size is shorter: all of it that says something is here, and what follows cannot take it back.
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
                match fixed(size, bytes.get(zeros..).unwrap_or_default()) {
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

/// Tails are multiples of eight bytes long.
#[inline]
fn is_zero(tail: &[u8]) -> bool {
    let (words, rest) = tail.as_chunks::<8>();
    words.iter().fold(0, |sum, word| sum | u64::from_le_bytes(*word)) == 0 && rest.iter().all(|byte| *byte == 0)
}
