//! Where files are read: in a process that can be left behind, or in threads of this one.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::{Error, Isolation, Options};
use crate::isolate::Reader;
use crate::read::{Lane, LaneReply, Pool};
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

/// Lanes in one frame: a process has some 10 KB at most, so that these stay far below the longest frame.
const LANES_PER_FRAME: usize = 1024;

fn read_in_frames(reader: &mut Reader, mut lanes: Vec<Lane>) -> io::Result<Vec<LaneReply>> {
    if lanes.len() <= LANES_PER_FRAME {
        return reader.read(lanes);
    }
    let mut replies = Vec::with_capacity(lanes.len());
    while !lanes.is_empty() {
        let rest = lanes.split_off(LANES_PER_FRAME.min(lanes.len()));
        replies.extend(reader.read(lanes)?);
        lanes = rest;
    }
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
