//! Where files are read: in a process that can be left behind, or in threads of this one.

use std::io;
use std::mem;
use std::path::PathBuf;
use std::time::Duration;

use super::{Error, Isolation, Options};
use crate::isolate::{REPLY_BYTES_MAX, Reader};
use crate::read::{Lane, LaneReply, Pool, Request};
use crate::root::Root;

#[derive(Debug)]
pub(super) struct Files {
    place: Place,
    read_timeout: Duration,
    base: Option<PathBuf>,
}

#[derive(Debug)]
enum Place {
    Threads(Pool),
    Process(Reader),
}

impl Files {
    /// Forks, unless threads are asked for.
    pub(super) fn new(root: &Root, options: &Options) -> Result<Self, Error> {
        let (read_timeout, base) = (options.read_timeout, root.base.clone());
        let place = match options.isolation {
            Isolation::Threads => Place::Threads(Pool::new(read_timeout, base.clone())),
            Isolation::Process => Place::Process(Reader::fork(read_timeout, base.clone()).map_err(Error::Reader)?),
        };
        Ok(Self { place, read_timeout, base })
    }

    /// Reads, and after the first failure of the reading process without it: it may have died, or it answers when the next
    /// question is asked. This program may have threads, so no other process can be forked.
    pub(super) fn read(&mut self, lanes: Vec<Lane>) -> Result<Vec<LaneReply>, Error> {
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        let read = match &mut self.place {
            Place::Threads(pool) => Ok(pool.read(lanes)),
            Place::Process(reader) => read_in_frames(reader, lanes).map_err(Error::Reader),
        };
        if read.is_err() {
            self.place = Place::Threads(Pool::new(self.read_timeout, self.base.clone()));
        }
        read
    }
}

fn read_in_frames(reader: &mut Reader, lanes: Vec<Lane>) -> io::Result<Vec<LaneReply>> {
    let mut replies = Vec::with_capacity(lanes.len());
    let (mut frame, mut bytes) = (Vec::with_capacity(lanes.len()), 0);
    for lane in lanes {
        let more: usize = lane.requests.iter().map(Request::reply_bytes_max).sum();
        if bytes + more > REPLY_BYTES_MAX && !frame.is_empty() {
            replies.extend(reader.read(mem::take(&mut frame))?);
            bytes = 0;
        }
        bytes += more;
        frame.push(lane);
    }
    replies.extend(reader.read(frame)?);
    Ok(replies)
}

#[cfg(test)]
impl Files {
    pub(super) fn of_reader(reader: Reader) -> Self {
        Self { place: Place::Process(reader), read_timeout: Duration::from_millis(200), base: None }
    }

    pub(super) fn are_threads(&self) -> bool {
        matches!(self.place, Place::Threads(_))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;
    use crate::isolate::answer;
    use crate::read::{Pace, Want};

    /// Other users decide how long their directories are.
    #[test]
    fn long_directories_of_many_processes_are_read_in_several_frames() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..1100 {
            fs::write(directory.path().join(format!("{number:0>240}")), "").unwrap();
        }
        let (ours, theirs) = UnixStream::pair().unwrap();
        let reading = thread::spawn(move || answer(theirs, &Pool::new(Duration::from_secs(60), None)));
        let mut files = Files::of_reader(Reader::new(ours, 0));
        let path = directory.path().to_owned();
        let request = Request { path, want: Want::Names, bytes_max: 256 * 1024, pace: Pace::Once };
        let replies = files.read((0..300).map(|key| Lane { key, requests: [request.clone()].into() }).collect()).unwrap();
        assert!(replies.len() == 300 && replies.iter().all(|lane| lane.replies[0].as_ref().is_ok_and(|names| names.len() > 200_000)));
        assert!(!files.are_threads());
        drop(files);
        reading.join().unwrap();
    }
}
