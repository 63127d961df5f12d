//! The worker threads: which of them reads which lane, and how a blocked one is replaced.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::faults::Faults;
use crate::{Failure, KeptFiles, Lane, LaneReply, Plan, Reply, boot_time, read_one};

/// Number of workers that read at the same time if no read blocks. More would only wait for each other.
const WORKERS: usize = 2;
/// Maximum number of lanes that one worker reads if no read blocks.
const LANES_FOR_ONE_MAX: usize = 16;
/// If a worker spends this long in one read, another one is started, so that several blocked chips time out together.
const SLOW: Duration = Duration::from_millis(5);
/// Maximum number of abandoned reads in one batch. Then the rest of the lane is skipped.
const GIVEN_UP_PER_LANE_MAX: usize = 2;
/// A slow lane is abandoned after this many read timeouts.
const LANE_TIMEOUTS: u32 = 4;

/// The worker threads and their shared data.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    read_timeout: Duration,
    base: Option<PathBuf>,
}

/// Shared data. Locks are taken in this order: `state`, then a lane's `progress`.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Signalled when a lane is waiting.
    work: Condvar,
    /// Signalled when the last lane is finished.
    done: Condvar,
    kept: KeptFiles,
}

#[derive(Debug, Default)]
struct State {
    lanes: Vec<Arc<Running>>,
    waiting: VecDeque<usize>,
    unfinished: usize,
    workers: usize,
    /// Paths that workers are stuck in, by the key of their lane.
    stuck: HashMap<u64, Vec<PathBuf>>,
    /// Whether the pool was dropped. Idle workers then end.
    is_closed: bool,
}

/// A lane of the current batch. A worker that returns late still has the lane of its own batch.
#[derive(Debug)]
struct Running {
    key: u64,
    plan: Arc<Plan>,
    /// Files of this lane in which an earlier read is stuck.
    stuck: Vec<PathBuf>,
    faults: Arc<Faults>,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    replies: Vec<Reply>,
    began: Option<(Instant, Duration)>,
    /// When the current read began. The index of its file is `replies.len()`.
    reading_since: Option<Instant>,
    /// Number of abandoned reads. If a worker finds more than before its read, it was abandoned itself.
    given_up: usize,
}

impl Pool {
    /// Creates a pool. Its threads start with the first batch.
    pub fn new(read_timeout: Duration, base: Option<PathBuf>) -> Self {
        Self { shared: Arc::default(), read_timeout, base }
    }

    /// Reads all lanes. Returns when every file was read or abandoned.
    pub fn read(&self, lanes: Vec<Lane>) -> Vec<LaneReply> {
        let faults = Arc::new(self.base.as_deref().map(Faults::load).unwrap_or_default());
        let mut state = self.shared.lock();
        let stuck = |key: u64| state.stuck.get(&key).cloned().unwrap_or_default();
        let kept = &self.shared.kept;
        kept.begin();
        let running = |lane: Lane| Arc::new(Running::new(stuck(lane.key), lane.key, kept.plan(lane), Arc::clone(&faults)));
        state.lanes = lanes.into_iter().map(running).collect();
        let workers = workers_for(&state.lanes);
        state.waiting = (0..state.lanes.len()).filter(|index| !state.lanes[*index].is_finished()).collect();
        state.unfinished = state.waiting.len();
        if workers > 1 {
            self.shared.work.notify_all();
        } else {
            self.shared.work.notify_one();
        }
        while state.unfinished > 0 {
            if !self.start_workers(&mut state, workers) {
                state.lanes.iter().for_each(|lane| lane.give_up_rest(&mut lane.progress(), Failure::Errno(Errno::AGAIN.raw_os_error())));
                break;
            }
            let patience = state.until_next_deadline(self.read_timeout);
            let waited;
            (state, waited) = self.shared.done.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
            // Idle workers should have taken these lanes. A batch that waited forever next to idle workers has been seen.
            if waited.timed_out() && !state.waiting.is_empty() {
                self.shared.work.notify_all();
            }
            self.give_up_late_reads(&mut state);
        }
        state.waiting.clear();
        state.lanes.drain(..).map(|lane| lane.reply()).collect()
    }

    fn give_up_late_reads(&self, state: &mut State) {
        for index in 0..state.lanes.len() {
            let lane = Arc::clone(&state.lanes[index]);
            let Some(path) = lane.give_up_late_read(self.read_timeout) else { continue };
            state.stuck.entry(lane.key).or_default().push(path);
            state.workers -= 1;
            if lane.is_finished() {
                state.unfinished -= 1;
            } else {
                state.waiting.push_front(index);
                self.shared.work.notify_one();
            }
        }
    }

    /// Starts workers for the waiting lanes. Returns false if no worker runs and none can be started.
    fn start_workers(&self, state: &mut State, workers: usize) -> bool {
        let slow = state.lanes.iter().filter(|lane| lane.progress().reading_since.is_some_and(|since| since.elapsed() >= SLOW)).count();
        let wanted = slow + state.waiting.len().min(workers);
        while state.workers < wanted {
            let shared = Arc::clone(&self.shared);
            // A worker needs little stack. The default of 2 MiB would waste address space.
            let builder = thread::Builder::new().name("reader".to_owned()).stack_size(256 * 1024);
            if builder.spawn(move || work(&shared)).is_err() {
                return state.workers > 0;
            }
            state.workers += 1;
        }
        true
    }
}

/// Returns the number of workers for some lanes. Waking a thread costs as much as reading a dozen files, so one worker reads a few lanes.
/// One worker also reads files that are already open. They are read every second, and CPU time matters more than latency.
fn workers_for(lanes: &[Arc<Running>]) -> usize {
    let files: usize = lanes.iter().map(|lane| lane.plan.requests.len()).sum();
    let open: usize = lanes.iter().map(|lane| lane.plan.open()).sum();
    if lanes.len() > LANES_FOR_ONE_MAX && open * 2 < files { WORKERS } else { 1 }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.work.notify_all();
    }
}

impl Shared {
    /// Locks the state. Poisoning is ignored: each change is one step, so a panicked worker leaves valid data.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn until_next_deadline(&self, read_timeout: Duration) -> Duration {
        let running = self.lanes.iter().filter_map(|lane| lane.progress().reading_since);
        let late = running.map(|since| read_timeout.saturating_sub(since.elapsed())).min().unwrap_or(read_timeout);
        let patience = if self.waiting.is_empty() { late } else { late.min(SLOW) };
        patience.max(Duration::from_millis(1))
    }

    fn forget_stuck(&mut self, key: u64, path: &Path) {
        if let Some(paths) = self.stuck.get_mut(&key) {
            paths.retain(|stuck| stuck != path);
            if paths.is_empty() {
                self.stuck.remove(&key);
            }
        }
    }
}

impl Running {
    fn new(stuck: Vec<PathBuf>, key: u64, plan: Arc<Plan>, faults: Arc<Faults>) -> Self {
        let replies = Vec::with_capacity(plan.requests.len());
        let progress = Mutex::new(Progress { replies, began: None, reading_since: None, given_up: 0 });
        let running = Self { key, plan, stuck, faults, progress };
        if running.stuck.len() >= GIVEN_UP_PER_LANE_MAX {
            running.give_up_rest(&mut running.progress(), Failure::Timeout);
        }
        running.pass_over_stuck(&mut running.progress());
        running
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_finished(&self) -> bool {
        self.progress().replies.len() == self.plan.requests.len()
    }

    fn pass_over_stuck(&self, progress: &mut Progress) {
        while self.plan.requests.get(progress.replies.len()).is_some_and(|request| self.stuck.contains(&request.path)) {
            progress.replies.push(Err(Failure::Timeout));
        }
    }

    fn give_up_rest(&self, progress: &mut Progress, failure: Failure) {
        progress.replies.resize(self.plan.requests.len(), Err(failure));
    }

    /// Abandons a read that takes too long. Returns its file.
    fn give_up_late_read(&self, read_timeout: Duration) -> Option<PathBuf> {
        let mut progress = self.progress();
        let since = progress.reading_since?;
        let is_lane_late = progress.began.is_some_and(|(began, _)| began.elapsed() >= read_timeout * LANE_TIMEOUTS);
        if since.elapsed() < read_timeout && !is_lane_late {
            return None;
        }
        let path = self.plan.requests.get(progress.replies.len())?.path.clone();
        progress.reading_since = None;
        progress.replies.push(Err(Failure::Timeout));
        progress.given_up += 1;
        if is_lane_late || progress.given_up >= GIVEN_UP_PER_LANE_MAX {
            self.give_up_rest(&mut progress, Failure::Timeout);
        }
        self.pass_over_stuck(&mut progress);
        Some(path)
    }

    fn reply(&self) -> LaneReply {
        let mut progress = self.progress();
        let at = progress.began.map_or_else(boot_time, |(_, at)| at);
        LaneReply { at, replies: std::mem::take(&mut progress.replies) }
    }

    /// Reads the files in order. If this worker was abandoned, the error is the file of its read.
    fn run(&self, kept: &KeptFiles) -> Result<(), PathBuf> {
        let mut directory = None;
        let mut progress = self.progress();
        let given_up = progress.given_up;
        progress.began.get_or_insert_with(|| (Instant::now(), boot_time()));
        while let Some(request) = self.plan.requests.get(progress.replies.len()) {
            let index = progress.replies.len();
            progress.reading_since = Some(Instant::now());
            drop(progress);
            let reply = read_one(kept, &self.plan, index, &self.faults, &mut directory);
            progress = self.progress();
            if progress.given_up != given_up {
                return Err(request.path.clone());
            }
            progress.reading_since = None;
            progress.replies.push(reply);
            self.pass_over_stuck(&mut progress);
        }
        Ok(())
    }
}

/// The loop of a worker: takes a lane, reads its files, takes the next. It ends if the worker was abandoned.
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
        let lane = Arc::clone(&state.lanes[index]);
        drop(state);
        let ran = lane.run(&shared.kept);
        state = shared.lock();
        match ran {
            Ok(()) => {
                state.unfinished -= 1;
                if state.unfinished == 0 {
                    shared.done.notify_one();
                }
            }
            Err(path) => {
                state.forget_stuck(lane.key, &path);
                return;
            }
        }
    }
}
