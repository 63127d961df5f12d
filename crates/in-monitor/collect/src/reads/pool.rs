//! The worker threads: which of them reads which lane, and how a blocked one is replaced.
//!
//! Only [`Pool::read`] gives out work, and it knows each worker: a worker is idle, has the current batch, or was abandoned. A worker with a
//! batch takes lanes until none is waiting, and then reports. A lane is in one place: waiting, with one worker, or finished. A worker whose
//! read takes too long is abandoned: its lane is taken from it, and it is never given another one. Its thread ends when the read returns.

use std::collections::VecDeque;
use std::mem;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use ttmon_os::lock;

use crate::reads::faults::Faults;
use crate::reads::kept::{KeptFiles, Plan};
use crate::reads::{Failure, Lane, LaneReply, Reply, boot_time, read_one};

/// Number of workers that read at the same time if no read blocks. More would only wait for each other.
const WORKERS: usize = 2;
/// Maximum number of lanes that one worker reads if no read blocks.
const LANES_FOR_ONE_MAX: usize = 16;
/// If a worker spends this long in one read, another one is started, so that several blocked chips time out together.
const SLOW: Duration = Duration::from_millis(5);
/// Maximum number of blocked reads of one lane. Then the rest of the lane is skipped.
const STUCK_PER_LANE_MAX: usize = 2;
/// A slow lane is abandoned after this many read timeouts.
const LANE_TIMEOUTS: u32 = 4;

/// The worker threads.
#[derive(Debug)]
pub struct Pool {
    read_timeout: Duration,
    base: Option<PathBuf>,
    kept: Arc<KeptFiles>,
    idle: Vec<Worker>,
    stuck: Vec<StuckRead>,
    /// Each worker sends its id when no lane is waiting.
    reports: (Sender<ThreadId>, Receiver<ThreadId>),
}

/// A worker that can be given a batch. Its thread ends when this is dropped.
#[derive(Debug)]
struct Worker {
    batches: Sender<Arc<Batch>>,
    /// The lane that it reads.
    slot: Arc<Slot>,
    thread: JoinHandle<()>,
}

/// An abandoned read. It has returned when its thread has ended.
#[derive(Debug)]
struct StuckRead {
    key: u64,
    path: PathBuf,
    thread: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Slot(Mutex<Option<RunningLane>>);

#[derive(Debug)]
struct Batch {
    faults: Faults,
    lanes: Mutex<Lanes>,
}

#[derive(Debug, Default)]
struct Lanes {
    waiting: VecDeque<RunningLane>,
    finished: Vec<RunningLane>,
}

#[derive(Debug)]
struct RunningLane {
    /// The position in the batch.
    index: usize,
    key: u64,
    plan: Arc<Plan>,
    /// The files in which reads are stuck.
    stuck: Vec<PathBuf>,
    replies: Vec<Reply>,
    began: Option<(Instant, Duration)>,
    /// When the current read began. The index of its file is `replies.len()`.
    reading_since: Instant,
}

impl Pool {
    /// Creates a pool. Its threads start with the first batch.
    pub fn new(read_timeout: Duration, base: Option<PathBuf>) -> Self {
        Self { read_timeout, base, kept: Arc::default(), idle: Vec::new(), stuck: Vec::new(), reports: mpsc::channel() }
    }

    /// Reads all lanes. Returns when every file was read or abandoned.
    pub fn read(&mut self, lanes: Vec<Lane>) -> Vec<LaneReply> {
        self.stuck.retain(|read| !read.thread.is_finished());
        self.kept.begin();
        let lanes: Vec<RunningLane> = lanes.into_iter().enumerate().map(|(index, lane)| self.running(index, lane)).collect();
        let workers = workers_for(&lanes);
        // No faults are injected on the real machine.
        let faults = self.base.as_deref().map(Faults::load).unwrap_or_default();
        let (finished, waiting): (Vec<_>, Vec<_>) = lanes.into_iter().partition(RunningLane::is_finished);
        let batch = Arc::new(Batch { faults, lanes: Mutex::new(Lanes { waiting: waiting.into(), finished }) });
        let mut busy = Vec::new();
        loop {
            self.give_out(&batch, &mut busy, workers);
            if busy.is_empty() {
                return batch.replies();
            }
            // A worker that was abandoned never reports again.
            if let Ok(id) = self.reports.1.recv_timeout(self.until_next_deadline(&batch, &busy))
                && let Some(index) = busy.iter().position(|worker| worker.thread.thread().id() == id)
            {
                let worker = busy.swap_remove(index);
                self.idle.extend((self.idle.len() < WORKERS).then_some(worker));
            }
            self.abandon_late_reads(&batch, &mut busy);
            // A worker that panicked never reports. If it has a lane, that is late some time later.
            busy.retain(|worker| !worker.thread.is_finished() || worker.slot.elapsed().is_some());
        }
    }

    #[cfg(test)]
    pub(crate) fn stuck_reads(&self) -> usize {
        self.stuck.len()
    }

    fn running(&self, index: usize, Lane { key, requests }: Lane) -> RunningLane {
        let stuck = self.stuck.iter().filter(|read| read.key == key).map(|read| read.path.clone()).collect();
        let replies = Vec::with_capacity(requests.len());
        let plan = self.kept.plan(Lane { key, requests });
        let mut lane = RunningLane { index, key, plan, stuck, replies, began: None, reading_since: Instant::now() };
        lane.pass_over_stuck();
        lane
    }

    /// Gives the batch to so many workers that `workers` of them are in no slow read, if so many lanes are waiting.
    fn give_out(&mut self, batch: &Arc<Batch>, busy: &mut Vec<Worker>, workers: usize) {
        let slow = busy.iter().filter(|worker| worker.slot.elapsed().is_some_and(|elapsed| elapsed >= SLOW)).count();
        let wanted = slow + batch.lanes().waiting.len().min(workers);
        while busy.len() < wanted {
            // If no thread can be started, the busy workers read the waiting lanes.
            let Some(worker) = self.idle.pop().or_else(|| Worker::start(&self.kept, &self.reports.0)) else { return };
            // Only a worker whose thread has panicked refuses a batch.
            busy.extend(worker.batches.send(Arc::clone(batch)).is_ok().then_some(worker));
        }
    }

    fn abandon_late_reads(&mut self, batch: &Batch, busy: &mut Vec<Worker>) {
        let mut index = 0;
        while let Some(worker) = busy.get(index) {
            let Some(mut lane) = worker.slot.take_late(self.read_timeout) else {
                index += 1;
                continue;
            };
            let path = lane.abandon_read(self.read_timeout);
            self.stuck.push(StuckRead { key: lane.key, path, thread: busy.swap_remove(index).thread });
            batch.put_back(lane);
        }
    }

    fn until_next_deadline(&self, batch: &Batch, busy: &[Worker]) -> Duration {
        let left = busy.iter().filter_map(|worker| Some(self.read_timeout.saturating_sub(worker.slot.elapsed()?)));
        let left = left.min().unwrap_or(self.read_timeout);
        let timeout = if batch.lanes().waiting.is_empty() { left } else { left.min(SLOW) };
        timeout.max(Duration::from_millis(1))
    }
}

/// Returns the number of workers for some lanes. Waking a thread costs as much as reading a dozen files, so one worker reads a few lanes.
/// One worker also reads files that are already open. They are read every second, and CPU time matters more than latency.
fn workers_for(lanes: &[RunningLane]) -> usize {
    let files: usize = lanes.iter().map(|lane| lane.plan.requests.len()).sum();
    let open: usize = lanes.iter().map(|lane| lane.plan.open()).sum();
    if lanes.len() > LANES_FOR_ONE_MAX && open * 2 < files { WORKERS } else { 1 }
}

impl Worker {
    fn start(kept: &Arc<KeptFiles>, reports: &Sender<ThreadId>) -> Option<Self> {
        let (batches, work) = mpsc::channel::<Arc<Batch>>();
        let slot = Arc::new(Slot::default());
        let (own, kept, reports) = (Arc::clone(&slot), Arc::clone(kept), reports.clone());
        let run = move || {
            for batch in work {
                while let Some(lane) = batch.next() {
                    if !own.read(lane, &batch, &kept) {
                        return;
                    }
                }
                if reports.send(thread::current().id()).is_err() {
                    return;
                }
            }
        };
        // A worker needs little stack. The default of 2 MiB would waste address space.
        let thread = thread::Builder::new().name("reader".to_owned()).stack_size(256 * 1024).spawn(run).ok()?;
        Some(Self { batches, slot, thread })
    }
}

impl Slot {
    /// Locks the slot. Poisoning is ignored: each change is one step, so a panicked worker leaves valid data.
    fn lock(&self) -> MutexGuard<'_, Option<RunningLane>> {
        lock(&self.0)
    }

    /// Reads the files of a lane in order. Returns false if the lane was taken away, because a read took too long.
    fn read(&self, lane: RunningLane, batch: &Batch, kept: &KeptFiles) -> bool {
        let plan = Arc::clone(&lane.plan);
        let mut directory = None;
        let mut slot = self.lock();
        slot.insert(lane).began.get_or_insert_with(|| (Instant::now(), boot_time()));
        loop {
            let Some(lane) = slot.as_mut() else { return false };
            lane.pass_over_stuck();
            if lane.is_finished() {
                batch.lanes().finished.extend(slot.take());
                return true;
            }
            let index = lane.replies.len();
            lane.reading_since = Instant::now();
            drop(slot);
            let reply = read_one(kept, &plan, index, &batch.faults, &mut directory);
            slot = self.lock();
            if let Some(lane) = slot.as_mut() {
                lane.replies.push(reply);
            }
        }
    }

    /// Returns how long the current read takes. A worker between two lanes does not read.
    fn elapsed(&self) -> Option<Duration> {
        self.lock().as_ref().map(|lane| lane.reading_since.elapsed())
    }

    fn take_late(&self, read_timeout: Duration) -> Option<RunningLane> {
        self.lock().take_if(|lane| lane.reading_since.elapsed() >= read_timeout || lane.is_late(read_timeout))
    }
}

impl Batch {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        lock(&self.lanes)
    }

    fn next(&self) -> Option<RunningLane> {
        self.lanes().waiting.pop_front()
    }

    fn put_back(&self, lane: RunningLane) {
        let mut lanes = self.lanes();
        if lane.is_finished() {
            lanes.finished.push(lane);
        } else {
            lanes.waiting.push_front(lane);
        }
    }

    /// Returns the replies in the order of the lanes. Lanes are still waiting if no thread could be started.
    fn replies(&self) -> Vec<LaneReply> {
        let Lanes { waiting, mut finished } = mem::take(&mut *self.lanes());
        finished.extend(waiting.into_iter().map(|mut lane| {
            lane.give_up_rest(Failure::Errno(Errno::AGAIN.raw_os_error()));
            lane
        }));
        finished.sort_by_key(|lane| lane.index);
        finished.into_iter().map(RunningLane::reply).collect()
    }
}

impl RunningLane {
    fn is_finished(&self) -> bool {
        self.replies.len() == self.plan.requests.len()
    }

    fn is_late(&self, read_timeout: Duration) -> bool {
        self.began.is_some_and(|(began, _)| began.elapsed() >= read_timeout * LANE_TIMEOUTS)
    }

    fn give_up_rest(&mut self, failure: Failure) {
        self.replies.resize(self.plan.requests.len(), Err(failure));
    }

    /// Skips the files in which reads are stuck, or the rest of the lane if there are too many.
    fn pass_over_stuck(&mut self) {
        if self.stuck.len() >= STUCK_PER_LANE_MAX {
            self.give_up_rest(Failure::Timeout);
        }
        while self.plan.requests.get(self.replies.len()).is_some_and(|request| self.stuck.contains(&request.path)) {
            self.replies.push(Err(Failure::Timeout));
        }
    }

    /// Abandons the current read. Returns its file.
    fn abandon_read(&mut self, read_timeout: Duration) -> PathBuf {
        let path = self.plan.requests[self.replies.len()].path.clone();
        self.stuck.push(path.clone());
        self.replies.push(Err(Failure::Timeout));
        if self.is_late(read_timeout) {
            self.give_up_rest(Failure::Timeout);
        }
        self.pass_over_stuck();
        path
    }

    fn reply(self) -> LaneReply {
        LaneReply { at: self.began.map_or_else(boot_time, |(_, at)| at), replies: self.replies }
    }
}
