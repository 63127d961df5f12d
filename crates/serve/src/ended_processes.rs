//! Ended processes with ledgers that are still kept.

use std::fmt;
use std::sync::Arc;

use ttmon_model::ledger::LedgerSample;
use ttmon_model::sample::{ProcessFacts, ProcessSample, Workload};
use ttmon_model::snapshot::Status;
use ttmon_model::units::UnixTime;
use ttmon_model::{Missing, Process, Sample, Snapshot};
use ttmon_source::Departed;
use ttmon_source::budget::Budget;
use ttmon_source::ledgers::{self, Detail, OpenLedger};

use crate::access::View;
use crate::newest::Published;

/// An ended process.
#[derive(Clone, Debug)]
pub struct EndedProcess {
    /// Its last ledger.
    pub departed: Arc<Departed>,
    /// Uid of the process.
    pub uid: u32,
    /// Name of the program.
    pub program: String,
}

/// Receives the ledgers of a sample.
type TakeLedgers = Box<dyn Fn(&[Arc<OpenLedger>]) + Send + Sync>;

/// Functions of the allocation server that the service calls.
pub struct IntakeCallbacks {
    /// Returns the ended processes with this pid.
    pub past: Box<dyn Fn(u32) -> Vec<EndedProcess> + Send + Sync>,
    /// Returns the ledgers of all ended processes that are still kept.
    pub ended: Box<dyn Fn() -> Vec<OpenLedger> + Send + Sync>,
    /// Receives the ledgers of each sample. It must not block.
    pub found: TakeLedgers,
    /// Returns its counters since the start, by name.
    pub counters: Box<dyn Fn() -> Vec<(&'static str, u64)> + Send + Sync>,
}

impl fmt::Debug for IntakeCallbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keeper(..)")
    }
}

impl EndedProcess {
    /// Whether a client may see the process.
    pub(crate) fn is_seen_by(&self, view: View) -> bool {
        match view {
            View::Whole => true,
            View::User(uid) => uid == self.uid,
            View::Public => false,
        }
    }

    fn process(&self) -> ProcessSample {
        let key = self.departed.found.owner;
        let facts = ProcessFacts {
            name: self.program.clone(),
            uid: self.uid,
            user: None,
            parent: 0,
            start_time: UnixTime(0),
            cpu_time: std::time::Duration::ZERO,
            rss: 0,
        };
        ProcessSample {
            key,
            namespace_pid: key.pid,
            facts: Ok(facts),
            command: Err(Missing::Gone),
            workload: Workload::default(),
            fdinfo: Vec::new(),
        }
    }

    /// Returns the current machine with this ended process.
    pub(crate) fn snapshot(&self, newest: &Published, detail: Detail) -> Snapshot {
        let found = &self.departed.found;
        let mut budget = Budget::of_answer();
        let last = LedgerSample { owner: found.owner, content: ledgers::read(found, detail, &mut budget) };
        let sample = Sample { processes: vec![self.process()], ledgers: vec![last], regions: Vec::new(), ..newest.sample.clone() };
        let mut snapshot = Snapshot::derive(&sample, None);
        snapshot.problems.extend(budget.problems(|_| None));
        // The memory of the ended process is not in use any more.
        snapshot.devices.clone_from(&newest.snapshot.devices);
        snapshot.processes.iter_mut().for_each(bury);
        snapshot
    }
}

/// Removes the values that only a live process has.
fn bury(process: &mut Process) {
    process.status = Status::Dead;
    (process.parent, process.rss) = (Err(Missing::Gone), Err(Missing::Gone));
    (process.start_time, process.cpu) = (Err(Missing::Gone), Err(Missing::Gone));
}
