//! The reading threads in a process of their own.
//!
//! A thread that waits in a read of a chip under reset cannot be ended, and a process with such a thread cannot exit:
//! whoever waits for it, a shell for one, waits too. So the program forks before it has any thread; the child reads,
//! the parent asks over a socket, and if the child is stuck when the parent is done, it is left behind, without
//! the parent's terminal and standard files.

use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process;
use std::time::Duration;

use fork::Fork;

use crate::read::{Failure, Lane, LaneReply, Pace, Pool, Reply, Request, Want};

/// Frames longer than this are not ours: a batch of 256 devices and 1,024 processes needs a few MB.
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long the parent waits for an answer beyond what the reads themselves may take.
const GRACE: Duration = Duration::from_secs(5);

/// The parent's end of a reading process.
#[derive(Debug)]
pub struct Reader {
    stream: UnixStream,
    child: i32,
    is_stuck: bool,
}

impl Reader {
    /// Forks. Must be called while the program has only one thread.
    pub fn fork(read_timeout: Duration, base: Option<PathBuf>) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        match fork::fork()? {
            Fork::Parent(child) => {
                ours.set_read_timeout(Some(read_timeout * 16 + GRACE))?;
                ours.set_write_timeout(Some(GRACE))?;
                Ok(Self { stream: ours, child, is_stuck: false })
            }
            Fork::Child => {
                drop(ours);
                serve(theirs, &Pool::new(read_timeout, base));
                process::exit(0);
            }
        }
    }

    /// Reads all lanes, as [`Pool::read`].
    pub fn read(&mut self, lanes: Vec<Lane>) -> io::Result<Vec<LaneReply>> {
        let counts: Vec<usize> = lanes.iter().map(|lane| lane.requests.len()).collect();
        let question = encode_lanes(&lanes);
        // Thousands of paths are not needed while the answer comes.
        drop(lanes);
        let read = self.ask(question, &counts);
        // One that does not answer, or not in time, is not waited for either.
        self.is_stuck |= read.is_err();
        read
    }

    fn ask(&mut self, question: Vec<u8>, counts: &[usize]) -> io::Result<Vec<LaneReply>> {
        write_frame(&mut self.stream, &question)?;
        drop(question);
        let replies = decode_replies(&read_frame(&mut self.stream)?).ok_or(io::ErrorKind::InvalidData)?;
        let is_whole = replies.iter().map(|lane| lane.replies.len()).eq(counts.iter().copied());
        if !is_whole {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.is_stuck |= replies.iter().flat_map(|lane| &lane.replies).any(|reply| *reply == Err(Failure::Timeout));
        Ok(replies)
    }
}

impl Drop for Reader {
    /// A child that is well ends at once, and is waited for so that it leaves no zombie; a stuck one is left behind.
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        if !self.is_stuck {
            let _ = fork::waitpid(self.child);
        }
    }
}

fn serve(mut stream: UnixStream, pool: &Pool) {
    // Ctrl-C goes to the whole foreground group; the parent's end of the socket is what ends this process.
    let _ = fork::redirect_stdio();
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"ttmon-reader");
    while let Ok(frame) = read_frame(&mut stream) {
        let Some(lanes) = decode_lanes(&frame) else { return };
        drop(frame);
        if write_frame(&mut stream, &encode_replies(&pool.read(lanes))).is_err() {
            return;
        }
    }
}

fn write_frame(stream: &mut UnixStream, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&length.to_le_bytes())?;
    stream.write_all(body)
}

fn read_frame(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(body)
}

fn encode_lanes(lanes: &[Lane]) -> Vec<u8> {
    let mut out = Vec::new();
    put_length(&mut out, lanes.len());
    for lane in lanes {
        out.extend(lane.key.to_le_bytes());
        put_length(&mut out, lane.requests.len());
        for request in &lane.requests {
            put_length(&mut out, request.bytes_max);
            out.push(u8::from(request.pace == Pace::Repeated));
            out.push(request.want as u8);
            put_bytes(&mut out, request.path.as_os_str().as_bytes());
        }
    }
    out
}

fn decode_lanes(bytes: &[u8]) -> Option<Vec<Lane>> {
    let mut input = Input(bytes);
    let lanes = input.length()?;
    (0..lanes).map(|_| decode_lane(&mut input)).collect()
}

fn decode_lane(input: &mut Input<'_>) -> Option<Lane> {
    let key = u64::from_le_bytes(input.take(8)?.try_into().ok()?);
    let count = input.length()?;
    let requests = (0..count).map(|_| {
        let bytes_max = input.length()?;
        let pace = if input.byte()? == 0 { Pace::Once } else { Pace::Repeated };
        let want = match input.byte()? {
            0 => Want::Whole,
            1 => Want::Beginning,
            2 => Want::PlainFile,
            3 => Want::Names,
            _ => return None,
        };
        let path = PathBuf::from(std::ffi::OsString::from_vec(input.bytes()?.to_vec()));
        Some(Request { path, want, bytes_max, pace })
    });
    Some(Lane { key, requests: requests.collect::<Option<_>>()? })
}

fn encode_replies(lanes: &[LaneReply]) -> Vec<u8> {
    let mut out = Vec::new();
    put_length(&mut out, lanes.len());
    for lane in lanes {
        out.extend(u64::try_from(lane.at.as_nanos()).unwrap_or(u64::MAX).to_le_bytes());
        put_length(&mut out, lane.replies.len());
        for reply in &lane.replies {
            match reply {
                Ok(bytes) => {
                    out.push(0);
                    put_bytes(&mut out, bytes);
                }
                Err(Failure::Errno(errno)) => {
                    out.push(1);
                    out.extend(errno.to_le_bytes());
                }
                Err(Failure::Timeout) => out.push(2),
                Err(Failure::TooLong) => out.push(3),
            }
        }
    }
    out
}

fn decode_replies(bytes: &[u8]) -> Option<Vec<LaneReply>> {
    let mut input = Input(bytes);
    let lanes = input.length()?;
    (0..lanes)
        .map(|_| {
            let at = Duration::from_nanos(u64::from_le_bytes(input.take(8)?.try_into().ok()?));
            let count = input.length()?;
            let replies = (0..count).map(|_| decode_reply(&mut input)).collect::<Option<_>>()?;
            Some(LaneReply { at, replies })
        })
        .collect()
}

fn decode_reply(input: &mut Input<'_>) -> Option<Reply> {
    match input.byte()? {
        0 => input.bytes().map(|bytes| Ok(bytes.to_vec())),
        1 => Some(Err(Failure::Errno(i32::from_le_bytes(input.take(4)?.try_into().ok()?)))),
        2 => Some(Err(Failure::Timeout)),
        3 => Some(Err(Failure::TooLong)),
        _ => None,
    }
}

fn put_length(out: &mut Vec<u8>, length: usize) {
    out.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.extend(bytes);
}

/// What is left to decode; everything taken is checked against it.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn length(&mut self) -> Option<usize> {
        self.take(4).and_then(|bytes| bytes.try_into().ok()).map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reply() -> impl Strategy<Value = Reply> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40).prop_map(Ok),
            any::<i32>().prop_map(|errno| Err(Failure::Errno(errno))),
            Just(Err(Failure::Timeout)),
            Just(Err(Failure::TooLong)),
        ]
    }

    fn lane() -> impl Strategy<Value = Lane> {
        let pace = prop_oneof![Just(Pace::Once), Just(Pace::Repeated)];
        let want = prop_oneof![Just(Want::Whole), Just(Want::Beginning), Just(Want::PlainFile), Just(Want::Names)];
        let request = ("[a-z!/]{0,30}", want, 0usize..100_000, pace);
        let request = request.prop_map(|(path, want, bytes_max, pace)| Request { path: path.into(), want, bytes_max, pace });
        (any::<u64>(), prop::collection::vec(request, 0..5)).prop_map(|(key, requests)| Lane { key, requests })
    }

    fn lane_reply() -> impl Strategy<Value = LaneReply> {
        let replies = prop::collection::vec(reply(), 0..5);
        (any::<u64>(), replies).prop_map(|(nanos, replies)| LaneReply { at: Duration::from_nanos(nanos), replies })
    }

    proptest! {
        #[test]
        fn frames_round_trip(lanes in prop::collection::vec(lane(), 0..5), replies in prop::collection::vec(lane_reply(), 0..5)) {
            prop_assert_eq!(decode_lanes(&encode_lanes(&lanes)), Some(lanes));
            prop_assert_eq!(decode_replies(&encode_replies(&replies)), Some(replies));
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_lanes(&bytes);
            let _ = decode_replies(&bytes);
        }
    }
}
