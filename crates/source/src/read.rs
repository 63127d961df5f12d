//! Batches of file reads with a deadline for each read.
//!
//! A *lane* is a list of files that may block together: those of one device, or of one process. A few worker threads
//! take lanes and read their files one after the other. A read that takes too long is given up: its worker is left
//! alone, since nothing can end it, another one goes on with the next file of the lane, and while the stuck worker has
//! not come back its lane is not read again.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::faults::{Fault, Faults};

/// Workers that read at the same time while all goes well. More would only wait for each other.
const WORKERS: usize = 2;
/// A worker that is this long in one read does not count as one of them: another one takes its place, so that many
/// chips that hang together are given up together.
const SLOW: Duration = Duration::from_millis(5);
/// Reads given up in one batch before the rest of a lane is not tried either.
const GIVEN_UP_PER_LANE_MAX: usize = 2;
/// A lane that is merely slow is cut off after this many read timeouts.
const LANE_TIMEOUTS: u32 = 4;
/// Files kept open for later batches; half of what a process usually may have.
const KEPT_FILES_MAX: usize = 512;

/// One file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which.
    pub path: PathBuf,
    /// A longer file is refused: [`Failure::TooLong`].
    pub bytes_max: usize,
    /// Whether it will be read again and again.
    pub pace: Pace,
}

/// How often a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Opened, read, closed.
    Once,
    /// Kept open, which makes a later read several times cheaper.
    Repeated,
}

/// Files that may block together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// What they have in common: a lane with the same key is not read while an earlier read of it is stuck.
    pub key: u64,
    /// The files, in order.
    pub requests: Vec<Request>,
}

/// The bytes, or why there are none.
pub type Reply = Result<Vec<u8>, Failure>;

/// Why a file could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The kernel said no.
    Errno(i32),
    /// The read did not come back in time.
    Timeout,
    /// It is longer than anything expected there.
    TooLong,
}

/// Worker threads and what they share.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    read_timeout: Duration,
    base: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Signalled when there is a lane to take.
    work: Condvar,
    /// Signalled when a lane is finished.
    done: Condvar,
    kept: Mutex<HashMap<PathBuf, Arc<OwnedFd>>>,
}

#[derive(Debug, Default)]
struct State {
    /// Counts batches, so that a worker that comes back late knows its batch is over.
    batch: u64,
    lanes: Vec<LaneState>,
    waiting: VecDeque<usize>,
    unfinished: usize,
    workers: usize,
    /// Workers stuck in a read, by the key of their lane.
    stuck: HashMap<u64, usize>,
    faults: Arc<Faults>,
    /// The pool is gone: idle workers end.
    is_closed: bool,
}

#[derive(Debug)]
struct LaneState {
    key: u64,
    requests: Arc<[Request]>,
    replies: Vec<Reply>,
    began: Option<Instant>,
    /// When the read now running began. `replies.len()` is its index.
    reading_since: Option<Instant>,
    given_up: usize,
}

impl Pool {
    /// A pool without threads: they start with the first batch.
    pub fn new(read_timeout: Duration, base: Option<PathBuf>) -> Self {
        Self { shared: Arc::default(), read_timeout, base }
    }

    /// Reads all lanes. Comes back when everything was read or given up.
    pub fn read(&self, lanes: Vec<Lane>) -> Vec<Vec<Reply>> {
        let mut state = self.shared.lock();
        state.faults = Arc::new(self.base.as_deref().map(Faults::load).unwrap_or_default());
        state.batch += 1;
        let stuck = state.stuck.clone();
        state.lanes = lanes.into_iter().map(|lane| LaneState::new(lane, &stuck)).collect();
        state.waiting = (0..state.lanes.len()).filter(|index| !state.lanes[*index].is_finished()).collect();
        state.unfinished = state.waiting.len();
        self.shared.work.notify_all();
        while state.unfinished > 0 {
            if !self.start_workers(&mut state) {
                state.give_up_rest(Failure::Errno(Errno::AGAIN.raw_os_error()));
                break;
            }
            let patience = state.until_next_deadline(self.read_timeout);
            (state, _) = self.shared.done.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
            self.give_up_late_reads(&mut state);
        }
        state.waiting.clear();
        state.lanes.drain(..).map(|lane| lane.replies).collect()
    }

    fn give_up_late_reads(&self, state: &mut State) {
        for index in 0..state.lanes.len() {
            let lane = &mut state.lanes[index];
            let Some(since) = lane.reading_since else { continue };
            let is_lane_late = lane.began.is_some_and(|began| began.elapsed() >= self.read_timeout * LANE_TIMEOUTS);
            if since.elapsed() < self.read_timeout && !is_lane_late {
                continue;
            }
            lane.reading_since = None;
            lane.replies.push(Err(Failure::Timeout));
            lane.given_up += 1;
            let key = lane.key;
            if is_lane_late || lane.given_up >= GIVEN_UP_PER_LANE_MAX {
                lane.give_up_rest(Failure::Timeout);
            }
            let is_finished = lane.is_finished();
            *state.stuck.entry(key).or_default() += 1;
            state.workers -= 1;
            if is_finished {
                state.unfinished -= 1;
            } else {
                state.waiting.push_front(index);
                self.shared.work.notify_one();
            }
        }
    }

    /// Sees to it that lanes which wait have somebody to read them. False when there is nobody and can be nobody.
    fn start_workers(&self, state: &mut State) -> bool {
        let slow = state.lanes.iter().filter(|lane| lane.reading_since.is_some_and(|since| since.elapsed() >= SLOW)).count();
        let wanted = slow + state.waiting.len().min(WORKERS);
        while state.workers < wanted {
            if !self.start_worker(state) {
                return state.workers > 0;
            }
        }
        true
    }

    fn start_worker(&self, state: &mut State) -> bool {
        let shared = Arc::clone(&self.shared);
        // A worker runs a read call and little else; the default stack of 2 MiB would only be address space.
        let started = thread::Builder::new().name("reader".to_owned()).stack_size(256 * 1024).spawn(move || work(&shared));
        state.workers += usize::from(started.is_ok());
        started.is_ok()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.work.notify_all();
    }
}

impl Shared {
    /// A worker that panicked leaves data that is still whole: each change is one step.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn until_next_deadline(&self, read_timeout: Duration) -> Duration {
        let running = self.lanes.iter().filter_map(|lane| lane.reading_since);
        let late = running.map(|since| read_timeout.saturating_sub(since.elapsed())).min().unwrap_or(read_timeout);
        let patience = if self.waiting.is_empty() { late } else { late.min(SLOW) };
        patience.max(Duration::from_millis(1))
    }

    fn give_up_rest(&mut self, failure: Failure) {
        for lane in &mut self.lanes {
            lane.give_up_rest(failure);
        }
        self.unfinished = 0;
    }
}

impl LaneState {
    fn new(lane: Lane, stuck: &HashMap<u64, usize>) -> Self {
        let mut state = Self {
            key: lane.key,
            replies: Vec::with_capacity(lane.requests.len()),
            requests: lane.requests.into(),
            began: None,
            reading_since: None,
            given_up: 0,
        };
        if stuck.contains_key(&lane.key) {
            state.give_up_rest(Failure::Timeout);
        }
        state
    }

    fn is_finished(&self) -> bool {
        self.replies.len() == self.requests.len()
    }

    fn give_up_rest(&mut self, failure: Failure) {
        self.replies.resize(self.requests.len(), Err(failure));
    }
}

/// A worker's life: take a lane, read its files, take the next. It ends after having been given up.
fn work(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        if state.is_closed {
            return;
        }
        let Some(index) = state.waiting.pop_front() else {
            state = shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        let batch = state.batch;
        let lane = &mut state.lanes[index];
        let (key, requests, given_up) = (lane.key, Arc::clone(&lane.requests), lane.given_up);
        lane.began.get_or_insert_with(Instant::now);
        let faults = Arc::clone(&state.faults);
        let mut directory = None;
        loop {
            let lane = &mut state.lanes[index];
            if lane.is_finished() {
                state.unfinished -= 1;
                shared.done.notify_one();
                break;
            }
            let request = &requests[lane.replies.len()];
            lane.reading_since = Some(Instant::now());
            drop(state);
            let reply = read_one(shared, &faults, &mut directory, request);
            state = shared.lock();
            let is_current = state.batch == batch && state.lanes.get(index).is_some_and(|lane| lane.given_up == given_up);
            if !is_current {
                state.forget_stuck(key);
                return;
            }
            let lane = &mut state.lanes[index];
            lane.reading_since = None;
            lane.replies.push(reply);
        }
    }
}

impl State {
    fn forget_stuck(&mut self, key: u64) {
        if let Some(count) = self.stuck.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.stuck.remove(&key);
            }
        }
    }
}

/// The directory of the file read last. Its neighbours are opened from there: walking a long path of links anew for
/// each file would cost more than reading it.
type Directory = Option<(PathBuf, OwnedFd)>;

fn read_one(shared: &Shared, faults: &Faults, directory: &mut Directory, request: &Request) -> Reply {
    match faults.find(&request.path) {
        Some(Fault::Errno(errno)) => return Err(Failure::Errno(errno)),
        Some(Fault::Hang) => loop {
            thread::park();
        },
        Some(Fault::Slow(delay)) => thread::sleep(delay),
        None => {}
    }
    let file = match request.pace {
        Pace::Once => Arc::new(open_beside(directory, &request.path)?),
        Pace::Repeated => shared.kept(&request.path)?,
    };
    let reply = read_whole(&file, request.bytes_max);
    if request.pace == Pace::Repeated && matches!(reply, Err(Failure::Errno(_))) {
        // After a reset an open file answers ENODEV for ever: the next read opens it anew.
        shared.kept.lock().unwrap_or_else(PoisonError::into_inner).remove(&request.path);
    }
    reply
}

impl Shared {
    fn kept(&self, path: &Path) -> Result<Arc<OwnedFd>, Failure> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = kept().get(path) {
            return Ok(Arc::clone(file));
        }
        let file = match open(path) {
            // Every file we keep is one the rest of the program cannot open.
            Err(Failure::Errno(errno)) if errno == Errno::MFILE.raw_os_error() => {
                kept().clear();
                Arc::new(open(path)?)
            }
            opened => Arc::new(opened?),
        };
        let mut files = kept();
        if files.len() < KEPT_FILES_MAX {
            files.insert(path.to_owned(), Arc::clone(&file));
        }
        Ok(file)
    }
}

fn open_beside(directory: &mut Directory, path: &Path) -> Result<OwnedFd, Failure> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return open(path) };
    let is_known = directory.as_ref().is_some_and(|(known, _)| known == parent);
    if !is_known {
        let opened = rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(failure)?;
        *directory = Some((parent.to_owned(), opened));
    }
    match directory {
        Some((_, opened)) => rustix::fs::openat(opened, name, READ_ONLY, Mode::empty()).map_err(failure),
        None => open(path),
    }
}

/// Without waiting for a writer, should somebody have put a FIFO there.
const READ_ONLY: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

fn open(path: &Path) -> Result<OwnedFd, Failure> {
    rustix::fs::open(path, READ_ONLY, Mode::empty()).map_err(failure)
}

fn read_whole(file: &OwnedFd, bytes_max: usize) -> Reply {
    // One byte more than allowed tells a file that is too long.
    let mut first = [0; FIRST_READ_BYTES];
    let room = first.len().min(bytes_max + 1);
    let length = read_at(file, &mut first[..room], 0)?;
    // The kernel gives a short file of /sys or /proc in one piece.
    if length < room && length < FIRST_READ_BYTES / 2 {
        return Ok(first[..length].to_vec());
    }
    let mut bytes = first[..length].to_vec();
    let mut chunk = [0; 4096];
    while bytes.len() <= bytes_max {
        let room = chunk.len().min(bytes_max + 1 - bytes.len());
        match read_at(file, &mut chunk[..room], bytes.len())? {
            0 => return Ok(bytes),
            length => bytes.extend(&chunk[..length]),
        }
    }
    Err(Failure::TooLong)
}

/// Most files have less than a hundred bytes.
const FIRST_READ_BYTES: usize = 512;

fn read_at(file: &OwnedFd, buffer: &mut [u8], offset: usize) -> Result<usize, Failure> {
    loop {
        match rustix::io::pread(file, &mut *buffer, offset as u64) {
            Err(Errno::INTR) => {}
            read => return read.map_err(failure),
        }
    }
}

fn failure(errno: Errno) -> Failure {
    Failure::Errno(errno.raw_os_error())
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Errno(errno) => Self::from_raw_os_error(errno),
            Failure::Timeout => io::ErrorKind::TimedOut.into(),
            Failure::TooLong => io::ErrorKind::FileTooLarge.into(),
        }
    }
}

/// Reads a small file of the file system at once: one that is known not to block.
pub(crate) fn read_small(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let file: File = open(path)?.into();
    Ok(read_whole(&file.into(), bytes_max)?)
}

#[cfg(test)]
mod tests;
