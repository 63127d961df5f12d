//! The thread that scans the machine for those who use its devices.
//!
//! Other users decide how long a scan takes. The sampler starts one, reads the devices, waits a little, and goes on without the
//! result if it is late.

use std::io;
use std::panic;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ttmon_source::ledgers::Found;
use ttmon_source::{Departed, Error, Scanned, Scanner, Scope};

use crate::sampler::thread_time;

/// The result of a scan.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) scanned: Scanned,
    pub(crate) ledgers: Vec<Arc<Found>>,
    pub(crate) departed: Vec<Arc<Departed>>,
    /// Processor time of the thread so far.
    pub(crate) cpu: Duration,
}

/// Freed memory is given back after so many scans: it takes a millisecond.
const RELEASE_EVERY: usize = 32;

/// The thread, as the sampler sees it.
#[derive(Debug)]
pub(crate) struct Scans {
    ask: Sender<Scope>,
    results: Receiver<Result<Scan, Error>>,
    is_running: bool,
    thread: Option<JoinHandle<()>>,
}

impl Scans {
    /// Starts the thread. It ends when the value is dropped, after the scan that runs.
    pub(crate) fn spawn(mut scanner: Scanner) -> io::Result<Self> {
        let (ask, asked) = mpsc::channel::<Scope>();
        let (found, results) = mpsc::channel();
        let work = move || {
            for (scan, scope) in asked.into_iter().enumerate() {
                if scan % RELEASE_EVERY == RELEASE_EVERY - 1 {
                    ttmon_sys::release_freed_memory();
                }
                let result = scanner.scan(&scope).map(|scanned| Scan {
                    scanned,
                    ledgers: scanner.ledgers().to_vec(),
                    departed: scanner.departed().to_vec(),
                    cpu: thread_time(),
                });
                if found.send(result).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("scan".to_owned()).spawn(work)?;
        Ok(Self { ask, results, is_running: false, thread: Some(thread) })
    }

    /// Starts a scan, unless one still runs.
    pub(crate) fn start(&mut self, scope: Scope) {
        self.is_running = self.is_running || self.ask.send(scope).is_ok();
    }

    /// The result of the scan that was started, if it comes in time.
    pub(crate) fn wait(&mut self, patience: Duration) -> Option<Result<Scan, Error>> {
        let result = match self.results.try_recv() {
            Err(TryRecvError::Empty) if self.is_running => self.results.recv_timeout(patience),
            Err(TryRecvError::Empty) => Err(RecvTimeoutError::Timeout),
            Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
            Ok(result) => Ok(result),
        };
        match result {
            Ok(result) => {
                self.is_running = false;
                Some(result)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                // It panicked: so does the sampler, which ends the service.
                if let Some(Err(panicked)) = self.thread.take().map(JoinHandle::join) {
                    panic::resume_unwind(panicked);
                }
                None
            }
        }
    }
}
