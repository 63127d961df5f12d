//! The thread that scans the machine for processes that use its devices.
//!
//! The duration of a scan depends on other users. The sampler starts a scan, reads the devices, waits a short time, and continues without
//! the result if the scan is late.

use std::collections::BTreeSet;
use std::io;
use std::panic;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ttmon_collect::budget::Budget;
use ttmon_collect::ledgers::{self, LedgerDetail, OpenLedger};
use ttmon_collect::{Departed, DeviceList, Error, Scanned, Scanner};
use ttmon_model::ledger::LedgerSample;
use ttmon_model::units::UnixTime;

use crate::limits::ENDED_PER_SCAN_MAX;
use crate::sampler::thread_time;
use crate::service::Service;

#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) scanned: Scanned,
    pub(crate) ledgers: Vec<Arc<OpenLedger>>,
    pub(crate) departed: Vec<Arc<Departed>>,
    /// Ledgers with refusals of processes that ended since the last scan. Earlier scans may not have seen these processes.
    pub(crate) ended: Vec<LedgerSample>,
    /// Processor time of the thread so far.
    pub(crate) cpu: Duration,
}

/// Finds the refusals of processes that lived too short for a scan. Their ledgers were handed over.
#[derive(Debug, Default)]
pub(crate) struct EndedLedgers {
    /// Identities of the ledgers that were already read.
    known: BTreeSet<(u64, u64)>,
}

impl EndedLedgers {
    /// Reads new ledgers, up to a limit. Returns those with refusals.
    pub(crate) fn read(&mut self, kept: Vec<(Arc<OpenLedger>, UnixTime)>) -> Vec<LedgerSample> {
        let present: BTreeSet<(u64, u64)> = kept.iter().map(|(found, _)| found.identity()).collect();
        self.known.retain(|identity| present.contains(identity));
        let mut budget = Budget::default();
        let mut refused = Vec::new();
        let known = &mut self.known;
        for (found, _) in kept.into_iter().filter(|(found, _)| known.insert(found.identity())).take(ENDED_PER_SCAN_MAX) {
            let content = ledgers::read(&found, LedgerDetail::Totals, &mut budget);
            if content.as_ref().is_ok_and(|ledger| ledger.allocators.iter().any(|allocator| allocator.refused() > 0)) {
                refused.push(LedgerSample { owner: found.owner, content });
            }
        }
        refused
    }
}

/// Freed memory is returned to the system after this many scans, because it takes a millisecond.
const RELEASE_EVERY: usize = 32;

const UNRESTRICTED: &str = "a thread that opens other users' files keeps rights that it does not need: it could not start its helper \
                            thread, or the system call capset or seccomp is refused; allow both in SystemCallFilter= of the unit \
                            (docs/security.md)";

/// Handle of the scan thread for the sampler.
#[derive(Debug)]
pub(crate) struct Scans {
    requests: Sender<DeviceList>,
    results: Receiver<Result<Scan, Error>>,
    is_running: bool,
    thread: Option<JoinHandle<()>>,
}

impl Scans {
    /// Starts the thread. It ends when the handle is dropped, after the current scan.
    pub(crate) fn spawn(mut scanner: Scanner, service: Arc<Service>) -> io::Result<Self> {
        let (requests, requested) = mpsc::channel::<DeviceList>();
        let (found, results) = mpsc::channel();
        let work = move || {
            // The thread opens files that other users wrote.
            if !scanner.restrict_thread() {
                service.complain(UNRESTRICTED);
            }
            let mut ended = EndedLedgers::default();
            for (scan, device_list) in requested.into_iter().enumerate() {
                if scan % RELEASE_EVERY == RELEASE_EVERY - 1 {
                    ttmon_os::release_freed_memory();
                }
                let result = scanner.scan(&device_list).map(|scanned| Scan {
                    scanned,
                    ledgers: scanner.ledgers().to_vec(),
                    departed: scanner.departed().to_vec(),
                    ended: ended.read(service.ended()),
                    cpu: thread_time(),
                });
                if found.send(result).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("scan".to_owned()).spawn(work)?;
        Ok(Self { requests, results, is_running: false, thread: Some(thread) })
    }

    /// Starts a scan, unless one is still running.
    pub(crate) fn start(&mut self, device_list: DeviceList) {
        self.is_running = self.is_running || self.requests.send(device_list).is_ok();
    }

    /// Waits for the result of the started scan. Returns `None` on timeout.
    pub(crate) fn wait(&mut self, timeout: Duration) -> Option<Result<Scan, Error>> {
        match self.results.recv_timeout(if self.is_running { timeout } else { Duration::ZERO }) {
            Ok(result) => {
                self.is_running = false;
                Some(result)
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                // The scan thread panicked. The sampler panics too, which ends the service.
                if let Some(Err(panicked)) = self.thread.take().map(JoinHandle::join) {
                    panic::resume_unwind(panicked);
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use ttmon_ledger::layout::{Refused, WriterKind, kind, origin};
    use ttmon_ledger::writer::{AllocatorSpec, Chip, ClockChoice, Config, Failure, KindGeometry, Writer};
    use ttmon_ledger_reader::Region;
    use ttmon_model::identity::ProcessKey;

    use super::*;

    /// A process can have only one ledger.
    static WRITER: Writer =
        Writer::new(Config { kind: WriterKind::Hook, version: "test", clock: ClockChoice::Auto, machine: 0, on_created: None });

    /// A program gets a refusal and ends between two scans. Its ledger was handed over and is read once.
    #[test]
    fn refusals_of_a_process_that_no_scan_saw_are_counted() {
        let mut session = WRITER.session().expect("a ledger");
        let chips = [Chip { metal_id: 0, unique_id: 0, flags: 0 }];
        let spec = AllocatorSpec { given_id: 0, origin: origin::HOOK, mesh: (0, 0), kinds: [KindGeometry::default(); 6], chips: &chips };
        let allocator = session.open_allocator(&spec).expect("an allocator");
        let failure = Failure {
            what: Refused::OutOfMemory,
            allocator,
            kind: kind::DRAM,
            size: 1 << 30,
            per_bank: 0,
            banks: 0,
            free_per_bank: 0,
            largest_free_per_bank: 0,
            tag: 0,
            operation: 0,
            stack: 0,
            message: "Out of Memory",
        };
        session.failed(&failure);
        session.failed(&failure);
        drop(session);
        let owner = ProcessKey { pid: 4_000_000, start_ticks: 1 };
        let kept = || {
            let file = File::open(format!("/proc/self/fd/{}", WRITER.descriptor().expect("a descriptor"))).expect("a ledger");
            let found = OpenLedger::handed(owner, 1001, Arc::new(Region::open(file).expect("a region")), (1, 7));
            vec![(Arc::new(found), UnixTime(0))]
        };
        let mut ledgers = EndedLedgers::default();
        assert_eq!(ledgers.read(Vec::new()), []);
        let ended = ledgers.read(kept());
        assert_eq!(ended.len(), 1);
        assert_eq!(ledgers.read(kept()), [], "each is read once");

        let (_directory, mut machine) = crate::fixture::in_files("n150,idle");
        let service = crate::fixture::service();
        let refusals = crate::sampler::tests::refusals_after(&service, &mut machine, vec![Vec::new(), ended, Vec::new()]);
        assert_eq!(refusals, [0, 2, 2]);
    }
}
