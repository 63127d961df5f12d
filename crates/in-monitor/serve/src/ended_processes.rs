//! Ended processes with ledgers that are still kept.

use std::fmt;
use std::sync::Arc;

use ttmon_collect::budget::Budget;
use ttmon_collect::ledgers::{self, LedgerDetail, OpenLedger};
use ttmon_model::ledger::LedgerSample;
use ttmon_model::sample::{ProcessFacts, ProcessSample, Workload};
use ttmon_model::snapshot::Status;
use ttmon_model::units::UnixTime;
use ttmon_model::{Missing, Process, Sample, Snapshot};

use crate::newest::Published;

/// Receives the ledgers of a sample.
type TakeLedgers = Box<dyn Fn(&[Arc<OpenLedger>]) + Send + Sync>;

/// Functions of the allocation server that the service calls.
pub struct IntakeCallbacks {
    /// Returns the ledgers of all ended processes that are still kept, and when the processes ended.
    pub ended: Box<dyn Fn() -> Vec<(Arc<OpenLedger>, UnixTime)> + Send + Sync>,
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

/// Returns the current machine with this ended process.
pub(crate) fn snapshot(found: &OpenLedger, newest: &Published, detail: LedgerDetail) -> Snapshot {
    let mut budget = Budget::of_answer();
    let last = LedgerSample { owner: found.owner, content: ledgers::read(found, detail, &mut budget) };
    let sample = Sample { processes: vec![process(found)], ledgers: vec![last], regions: Vec::new(), ..newest.sample.clone() };
    let mut snapshot = Snapshot::derive(&sample, None);
    snapshot.problems.extend(budget.problems(|_| None));
    // The memory of the ended process is not in use any more.
    snapshot.devices.clone_from(&newest.snapshot.devices);
    snapshot.processes.iter_mut().for_each(bury);
    snapshot
}

fn process(found: &OpenLedger) -> ProcessSample {
    let facts = ProcessFacts {
        name: found.region.identity().program.clone(),
        uid: found.uid,
        user: None,
        parent: 0,
        start_time: UnixTime(0),
        cpu_time: std::time::Duration::ZERO,
        rss: 0,
    };
    ProcessSample {
        key: found.owner,
        namespace_pid: found.owner.pid,
        facts: Ok(facts),
        command: Err(Missing::Gone),
        workload: Workload::default(),
        fdinfo: Vec::new(),
    }
}

/// Removes the values that only a live process has.
fn bury(process: &mut Process) {
    process.status = Status::Dead;
    (process.parent, process.rss) = (Err(Missing::Gone), Err(Missing::Gone));
    (process.start_time, process.cpu) = (Err(Missing::Gone), Err(Missing::Gone));
}
