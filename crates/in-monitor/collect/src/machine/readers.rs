//! Reads files, in a process that can be abandoned or in threads of this process.

use std::io;
use std::mem;
use std::path::PathBuf;
use std::time::Duration;

use super::{Error, Isolation, Options};
use crate::reads::isolate::{REPLY_BYTES_MAX, Reader};
use crate::reads::{Lane, LaneReply, Pool, Reply, Request};
use crate::root::Root;

#[derive(Debug)]
pub(crate) struct Readers {
    place: ReadBy,
    read_timeout: Duration,
    base: Option<PathBuf>,
}

#[derive(Debug)]
enum ReadBy {
    Threads(Pool),
    Process(Reader),
}

impl Readers {
    /// Forks, unless the options select threads.
    pub(crate) fn new(root: &Root, options: &Options) -> Result<Self, Error> {
        let (read_timeout, base) = (options.read_timeout, root.base.clone());
        let place = match options.isolation {
            Isolation::Threads => ReadBy::Threads(Pool::new(read_timeout, base.clone())),
            Isolation::Process => ReadBy::Process(Reader::fork(read_timeout, base.clone()).map_err(Error::Reader)?),
        };
        Ok(Self { place, read_timeout, base })
    }

    /// Reads files that may block together. Returns their replies.
    pub(crate) fn read_lane(&mut self, key: u64, requests: Vec<Request>) -> Result<Vec<Reply>, Error> {
        let replies = self.read(vec![Lane { key, requests: requests.into() }])?;
        Ok(replies.into_iter().flat_map(|lane| lane.replies).collect())
    }

    /// Reads files. After the first failure of the reading process, threads read instead: the process may have died, or may send its late
    /// answer to the next request. This program may have threads, so it cannot fork another process.
    pub(crate) fn read(&mut self, lanes: Vec<Lane>) -> Result<Vec<LaneReply>, Error> {
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        let read = match &mut self.place {
            ReadBy::Threads(pool) => Ok(pool.read(lanes)),
            ReadBy::Process(reader) => read_in_frames(reader, lanes).map_err(Error::Reader),
        };
        if read.is_err() {
            self.place = ReadBy::Threads(Pool::new(self.read_timeout, self.base.clone()));
        }
        read
    }
}

fn read_in_frames(reader: &mut Reader, lanes: Vec<Lane>) -> io::Result<Vec<LaneReply>> {
    let mut replies = Vec::with_capacity(lanes.len());
    for frame in frames(lanes) {
        replies.extend(reader.read(frame)?);
    }
    Ok(replies)
}

/// Splits lanes into groups whose replies fit into one frame each. Other users decide how long their files are.
fn frames(lanes: Vec<Lane>) -> Vec<Vec<Lane>> {
    let (mut frames, mut frame, mut bytes) = (Vec::new(), Vec::with_capacity(lanes.len()), 0);
    for lane in lanes {
        let more: usize = lane.requests.iter().map(Request::reply_bytes_max).sum();
        if bytes > 0 && bytes + more > REPLY_BYTES_MAX {
            frames.push(mem::take(&mut frame));
            bytes = 0;
        }
        bytes += more;
        frame.push(lane);
    }
    frames.push(frame);
    frames
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reads::{Sampling, Want};

    impl Readers {
        pub(in super::super) fn of_reader(reader: Reader) -> Self {
            Self { place: ReadBy::Process(reader), read_timeout: Duration::from_millis(200), base: None }
        }

        pub(in super::super) fn are_threads(&self) -> bool {
            matches!(self.place, ReadBy::Threads(_))
        }
    }

    #[test]
    fn replies_of_a_frame_fit_into_it() {
        let request = |bytes_max| Request { path: "/proc/7/root/dev/shm".into(), want: Want::Names, bytes_max, sampling: Sampling::Once };
        let lane = |key: u64| Lane { key, requests: [request(if key == 900 { 100 << 20 } else { 256 << 10 })].into() };
        let frames = frames((0..1000).map(lane).collect());
        assert!(frames.iter().flatten().map(|lane| lane.key).eq(0..1000));
        for frame in &frames {
            let bytes: usize = frame.iter().flat_map(|lane| &*lane.requests).map(Request::reply_bytes_max).sum();
            assert!(bytes <= REPLY_BYTES_MAX || frame.len() == 1, "{} lanes with {bytes} bytes", frame.len());
        }
        assert!(frames.len() < 10, "{} frames", frames.len());
    }
}
