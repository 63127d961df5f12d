//! Runs the reading threads in a separate process.
//!
//! A thread that is blocked in a read of a chip under reset cannot be ended, so its process cannot exit, and a shell would wait for it.
//! Therefore the program forks before it starts a thread. The child reads, and the parent sends requests over a socket. If the child is
//! stuck when the parent exits, it is left behind without the parent's terminal and standard files.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use fork::Fork;
use rustix::process::{Pid, WaitOptions, waitpid};
use ttmon_os::frame::{FrameBuffer, FrameInput};

use crate::reads::descriptors;
use crate::reads::restrict::restrict;
use crate::reads::{Failure, IDLE_BATCHES_MAX, Lane, LaneReply, Pool, Reply, Request, Sampling, Want};

/// Longer frames are rejected. A batch of 256 devices and 1,024 processes needs a few MB.
const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Limit for all replies of one frame. It is smaller than a frame, because a frame also has the length of each reply.
pub const REPLY_BYTES_MAX: usize = FRAME_BYTES_MAX - 8 * 1024 * 1024;
/// Time that the parent waits for a reply beyond the read timeouts.
const GRACE: Duration = Duration::from_secs(5);
/// Number of open files that the reading process needs: those of 32 devices and some hundred processes.
const OPEN_FILES: u64 = 4096;
/// Number of descriptors to reserve: the files of 32 devices. The kernel's table for them takes 8 KiB.
const FILE_TABLE: u64 = 1024;

/// The parent's end of a reading process.
#[derive(Debug)]
pub struct Reader {
    stream: UnixStream,
    child: i32,
    is_stuck: bool,
    /// Request lists that the child already has, by the key of their lane, and the batch that last used them.
    sent: HashMap<u64, (Arc<[Request]>, u64)>,
    batch: u64,
    request: FrameBuffer,
    response: FrameBuffer,
}

impl Reader {
    /// Forks. The program must have only one thread.
    pub fn fork(read_timeout: Duration, base: Option<PathBuf>) -> io::Result<Self> {
        // A lock that another thread holds would stay locked in the child.
        debug_assert!(threads().is_none_or(|threads| threads == 1), "the program must have one thread");
        let (ours, theirs) = UnixStream::pair()?;
        match fork::fork()? {
            Fork::Parent(child) => {
                ours.set_read_timeout(Some(read_timeout * 16 + GRACE))?;
                ours.set_write_timeout(Some(GRACE))?;
                Ok(Self::new(ours, child))
            }
            Fork::Child => {
                drop(ours);
                descriptors::allow(OPEN_FILES);
                descriptors::expect(FILE_TABLE, &theirs);
                detach();
                restrict();
                serve(theirs, Pool::new(read_timeout, base));
                process::exit(0);
            }
        }
    }

    /// Returns a reader for the child at the other end of a socket. `child` is its pid, or 0 if there is no process to wait for.
    pub fn new(stream: UnixStream, child: i32) -> Self {
        Self {
            stream,
            child,
            is_stuck: false,
            sent: HashMap::new(),
            batch: 0,
            request: FrameBuffer::default(),
            response: FrameBuffer::default(),
        }
    }

    /// Reads all lanes like [`Pool::read`]. Do not use the reader after an error, because a late reply would be mistaken for the next one.
    pub fn read(&mut self, lanes: Vec<Lane>) -> io::Result<Vec<LaneReply>> {
        let counts: Vec<usize> = lanes.iter().map(|lane| lane.requests.len()).collect();
        self.write_request(&lanes);
        // This frees thousands of paths before the reply arrives.
        drop(lanes);
        let read = self.ask(&counts);
        // If the child does not reply in time, `drop` does not wait for it.
        self.is_stuck |= read.is_err();
        read
    }

    fn write_request(&mut self, lanes: &[Lane]) {
        self.batch += 1;
        let out = &mut self.request;
        out.begin();
        // Both sides drop the same lists.
        let mut forgotten = Vec::new();
        if self.batch.is_multiple_of(IDLE_BATCHES_MAX) {
            let oldest = self.batch - IDLE_BATCHES_MAX;
            forgotten.extend(self.sent.iter().filter(|(_, (_, used))| *used < oldest).map(|(key, _)| *key));
            forgotten.iter().for_each(|key| _ = self.sent.remove(key));
        }
        out.length(forgotten.len());
        forgotten.iter().for_each(|key| out.number(*key));
        out.length(lanes.len());
        for lane in lanes {
            let is_sent = match self.sent.get_mut(&lane.key) {
                Some((requests, used)) if Arc::ptr_eq(requests, &lane.requests) => {
                    *used = self.batch;
                    true
                }
                _ => false,
            };
            if !is_sent && lane.is_repeated() {
                self.sent.insert(lane.key, (Arc::clone(&lane.requests), self.batch));
            }
            encode_lane(out, lane, is_sent);
        }
    }

    fn ask(&mut self, counts: &[usize]) -> io::Result<Vec<LaneReply>> {
        self.request.write_to(&mut self.stream)?;
        let response = self.response.read_from(&mut self.stream, FRAME_BYTES_MAX)?;
        let replies = decode_replies(response).ok_or(io::ErrorKind::InvalidData)?;
        let is_whole = replies.iter().map(|lane| lane.replies.len()).eq(counts.iter().copied());
        if !is_whole {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.is_stuck |= replies.iter().flat_map(|lane| &lane.replies).any(|reply| *reply == Err(Failure::Timeout));
        Ok(replies)
    }
}

impl Drop for Reader {
    /// Waits for a healthy child, so that it leaves no zombie. A stuck child is left behind.
    fn drop(&mut self) {
        // A child that has ended has closed the socket.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let timeout = if self.is_stuck { WaitOptions::NOHANG } else { WaitOptions::empty() };
        if let Some(child) = Pid::from_raw(self.child) {
            // Another part of the program may have waited for it.
            let _ = rustix::io::retry_on_intr(|| waitpid(Some(child), timeout));
        }
    }
}

/// Returns the number of threads of this process, or `None` if `/proc` does not show it.
fn threads() -> Option<usize> {
    fs::read_dir("/proc/self/task").ok().map(Iterator::count)
}

/// Detaches from the terminal, because Ctrl-C is sent to the whole foreground group. The process ends when the socket is closed. It reads
/// as well if a step fails.
fn detach() {
    let _ = fork::redirect_stdio();
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"ttmon-reader");
}

/// Answers the requests of a [`Reader`] until its socket is closed.
pub fn serve(mut stream: UnixStream, mut pool: Pool) {
    let mut known = RequestLists::new();
    let (mut request, mut response) = (FrameBuffer::default(), FrameBuffer::default());
    while let Ok(request) = request.read_from(&mut stream, FRAME_BYTES_MAX) {
        let Some(lanes) = decode_lanes(request, &mut known) else { return };
        encode_replies(&pool.read(lanes), &mut response);
        if response.write_to(&mut stream).is_err() {
            return;
        }
    }
}

type RequestLists = HashMap<u64, Arc<[Request]>>;

/// Encodes a lane. If the child already has the list, only the key is sent.
fn encode_lane(out: &mut FrameBuffer, lane: &Lane, is_sent: bool) {
    out.number(lane.key);
    out.byte(u8::from(is_sent));
    if is_sent {
        return;
    }
    out.length(lane.requests.len());
    for request in &*lane.requests {
        out.length(request.bytes_max);
        out.byte(u8::from(request.sampling == Sampling::Repeated));
        out.byte(request.want as u8);
        out.bytes(request.path.as_os_str().as_bytes());
    }
}

fn decode_lanes(mut input: FrameInput<'_>, known: &mut RequestLists) -> Option<Vec<Lane>> {
    for _ in 0..input.length()? {
        known.remove(&input.number()?);
    }
    let lanes = input.length()?;
    (0..lanes).map(|_| decode_lane(&mut input, known)).collect()
}

fn decode_lane(input: &mut FrameInput<'_>, known: &mut RequestLists) -> Option<Lane> {
    let key = input.number()?;
    if input.byte()? == 1 {
        return Some(Lane { key, requests: Arc::clone(known.get(&key)?) });
    }
    let count = input.length()?;
    let requests = (0..count).map(|_| {
        let bytes_max = input.length()?;
        let sampling = if input.byte()? == 0 { Sampling::Once } else { Sampling::Repeated };
        let want = *Want::ALL.get(usize::from(input.byte()?))?;
        let path = PathBuf::from(std::ffi::OsString::from_vec(input.bytes()?.to_vec()));
        Some(Request { path, want, bytes_max, sampling })
    });
    let lane = Lane { key, requests: requests.collect::<Option<_>>()? };
    if lane.is_repeated() {
        known.insert(key, Arc::clone(&lane.requests));
    }
    Some(lane)
}

fn encode_replies(lanes: &[LaneReply], out: &mut FrameBuffer) {
    out.begin();
    out.length(lanes.len());
    for lane in lanes {
        out.number(u64::try_from(lane.at.as_nanos()).unwrap_or(u64::MAX));
        out.length(lane.replies.len());
        for reply in &lane.replies {
            match reply {
                Ok(bytes) => {
                    out.byte(0);
                    out.bytes(bytes);
                }
                Err(Failure::Errno(errno)) => {
                    out.byte(1);
                    out.number(u64::from(errno.cast_unsigned()));
                }
                Err(Failure::Timeout) => out.byte(2),
                Err(Failure::TooLong) => out.byte(3),
            }
        }
    }
}

fn decode_replies(mut input: FrameInput<'_>) -> Option<Vec<LaneReply>> {
    let lanes = input.length()?;
    (0..lanes)
        .map(|_| {
            let at = Duration::from_nanos(input.number()?);
            let count = input.length()?;
            let replies = (0..count).map(|_| decode_reply(&mut input)).collect::<Option<_>>()?;
            Some(LaneReply { at, replies })
        })
        .collect()
}

fn decode_reply(input: &mut FrameInput<'_>) -> Option<Reply> {
    match input.byte()? {
        0 => input.bytes().map(|bytes| Ok(bytes.to_vec())),
        1 => Some(Err(Failure::Errno(u32::try_from(input.number()?).ok()?.cast_signed()))),
        2 => Some(Err(Failure::Timeout)),
        3 => Some(Err(Failure::TooLong)),
        _ => None,
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
        let sampling = prop_oneof![Just(Sampling::Once), Just(Sampling::Repeated)];
        let want = prop::sample::select(&Want::ALL);
        let request = ("[a-z!/]{0,30}", want, 0usize..100_000, sampling);
        let request = request.prop_map(|(path, want, bytes_max, sampling)| Request { path: path.into(), want, bytes_max, sampling });
        (any::<u64>(), prop::collection::vec(request, 0..5)).prop_map(|(key, requests)| Lane { key, requests: requests.into() })
    }

    fn lane_reply() -> impl Strategy<Value = LaneReply> {
        let replies = prop::collection::vec(reply(), 0..5);
        (any::<u64>(), replies).prop_map(|(nanos, replies)| LaneReply { at: Duration::from_nanos(nanos), replies })
    }

    proptest! {
        #[test]
        fn frames_round_trip(lanes in prop::collection::vec(lane(), 0..5), replies in prop::collection::vec(lane_reply(), 0..5)) {
            let mut frame = FrameBuffer::default();
            frame.begin();
            frame.length(0);
            frame.length(lanes.len());
            lanes.iter().for_each(|lane| encode_lane(&mut frame, lane, false));
            prop_assert_eq!(decode_lanes(frame.body(), &mut RequestLists::new()), Some(lanes));
            encode_replies(&replies, &mut frame);
            prop_assert_eq!(decode_replies(frame.body()), Some(replies));
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode_lanes(FrameInput(&bytes), &mut RequestLists::new());
            let _ = decode_replies(FrameInput(&bytes));
        }
    }

    /// The threads of the test runner are enough.
    #[test]
    #[should_panic = "the program must have one thread"]
    fn a_program_with_threads_may_not_fork() {
        drop(Reader::fork(Duration::from_millis(200), None));
    }

    #[test]
    fn a_list_is_sent_once_and_dropped_on_both_sides() {
        let (stream, _other) = UnixStream::pair().unwrap();
        let mut reader = Reader::new(stream, 0);
        let request = |sampling| Request { path: "/a".into(), want: Want::Whole, bytes_max: 10, sampling };
        let repeated = Lane { key: 7, requests: vec![request(Sampling::Repeated)].into() };
        let mut known = RequestLists::new();
        let mut ask = |reader: &mut Reader, lane: &Lane| {
            reader.write_request(std::slice::from_ref(lane));
            let decoded = decode_lanes(reader.request.body(), &mut known);
            assert_eq!(decoded, Some(vec![lane.clone()]));
            (reader.request.body().0.len(), known.len())
        };
        let (first, _) = ask(&mut reader, &repeated);
        let (second, _) = ask(&mut reader, &repeated);
        assert!(second < first, "{second} {first}");
        let changed = Lane { key: 7, requests: vec![request(Sampling::Repeated), request(Sampling::Once)].into() };
        assert!(ask(&mut reader, &changed).0 > first);
        let once = Lane { key: 8, requests: vec![request(Sampling::Once)].into() };
        let sizes: Vec<(usize, usize)> = (0..3 * IDLE_BATCHES_MAX).map(|_| ask(&mut reader, &once)).collect();
        assert_eq!((sizes[0].1, sizes[sizes.len() - 1].1, reader.sent.len()), (1, 0, 0));
        assert_eq!(ask(&mut reader, &changed).1, 1, "a dropped list is sent again");
    }
}
