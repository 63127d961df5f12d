//! Files that stay open between batches, by lane. Opening a file costs several times as much as reading it.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use ttmon_os::lock;

use crate::reads::{Failure, IDLE_BATCHES_MAX, Lane, Request};

/// Maximum number of open files: 32 devices and a thousand processes.
const FILES_MAX: usize = 2048;
/// The limit of the process, if the system sets none.
const FILES_USUAL: usize = 1024;

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) requests: Arc<[Request]>,
    /// The open files, by the index of the request.
    files: Mutex<Vec<Option<Arc<OwnedFd>>>>,
    room: Arc<Room>,
}

#[derive(Debug)]
pub(super) struct KeptFiles {
    lanes: Mutex<Lanes>,
    room: Arc<Room>,
}

/// The number of open files in all lanes, and its limit.
#[derive(Debug)]
struct Room {
    open: AtomicUsize,
    most: usize,
}

impl Default for KeptFiles {
    /// Uses half of the files that this process may open.
    fn default() -> Self {
        let limit = getrlimit(Resource::Nofile).current.map_or(FILES_USUAL, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        Self { lanes: Mutex::default(), room: Arc::new(Room { open: AtomicUsize::new(0), most: (limit / 2).min(FILES_MAX) }) }
    }
}

#[derive(Debug, Default)]
struct Lanes {
    plans: HashMap<u64, (Arc<Plan>, u64)>,
    batch: u64,
}

impl Plan {
    pub(super) fn file(&self, index: usize) -> Option<Arc<OwnedFd>> {
        self.files()[index].clone()
    }

    /// Returns the number of open files.
    pub(super) fn open(&self) -> usize {
        self.files().iter().flatten().count()
    }

    fn files(&self) -> MutexGuard<'_, Vec<Option<Arc<OwnedFd>>>> {
        lock(&self.files)
    }

    /// Takes over the open files of another list of this lane.
    fn inherit(&self, other: &Self) {
        let mut files = self.files();
        let mut theirs = other.files();
        let mut from = 0;
        for (request, file) in self.requests.iter().zip(files.iter_mut()) {
            // The lists of a lane rarely differ in order, so the search continues from the last match.
            let Some(found) = other.requests[from..].iter().position(|known| known.path == request.path) else { continue };
            *file = theirs[from + found].take();
            from += found + 1;
        }
    }

    /// Keeps a file open if the limit allows it.
    pub(super) fn keep(&self, index: usize, file: &Arc<OwnedFd>) {
        let is_full = self.room.open.fetch_add(1, Ordering::Relaxed) >= self.room.most;
        if is_full || self.files()[index].replace(Arc::clone(file)).is_some() {
            self.room.open.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn close(&self, index: usize) {
        let closed = usize::from(self.files()[index].take().is_some());
        self.room.open.fetch_sub(closed, Ordering::Relaxed);
    }

    fn close_all(&self) {
        let closed = self.files().iter_mut().filter_map(Option::take).count();
        self.room.open.fetch_sub(closed, Ordering::Relaxed);
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        self.close_all();
    }
}

impl KeptFiles {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        lock(&self.lanes)
    }

    /// Starts a batch. Closes files that no recent batch has used.
    pub(super) fn begin(&self) {
        let mut lanes = self.lanes();
        lanes.batch += 1;
        if lanes.batch.is_multiple_of(IDLE_BATCHES_MAX) {
            let oldest = lanes.batch - IDLE_BATCHES_MAX;
            lanes.plans.retain(|_, (_, used)| *used >= oldest);
        }
    }

    /// Returns the plan of a lane. It is the previous one if the list is unchanged.
    pub(super) fn plan(&self, lane: Lane) -> Arc<Plan> {
        let new = |requests: Arc<[Request]>| {
            let files = Mutex::new(vec![None; requests.len()]);
            Arc::new(Plan { requests, files, room: Arc::clone(&self.room) })
        };
        let mut lanes = self.lanes();
        if !lane.is_repeated() {
            // The open files may belong to a device that left, and another device may get the same names.
            lanes.plans.remove(&lane.key);
            return new(lane.requests);
        }
        let batch = lanes.batch;
        match lanes.plans.get_mut(&lane.key) {
            Some((plan, used)) if Arc::ptr_eq(&plan.requests, &lane.requests) => {
                *used = batch;
                Arc::clone(plan)
            }
            earlier => {
                let plan = new(lane.requests);
                if let Some((earlier, _)) = earlier {
                    plan.inherit(earlier);
                }
                lanes.plans.insert(lane.key, (Arc::clone(&plan), batch));
                plan
            }
        }
    }

    /// Opens a file. When descriptors run out, closes the kept files and tries again.
    pub(super) fn with_room<T>(&self, mut open: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
        match open() {
            Err(Failure::Errno(errno)) if errno == Errno::MFILE.raw_os_error() => {
                self.lanes().plans.values().for_each(|(plan, _)| plan.close_all());
                open()
            }
            opened => opened,
        }
    }
}
