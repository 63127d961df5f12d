//! Ended processes with ledgers that are still kept.

use ttmon_collect::budget::Budget;
use ttmon_collect::ledgers::{self, LedgerDetail, OpenLedger};
use ttmon_model::ledger::LedgerSample;
use ttmon_model::sample::{ProcessFacts, ProcessSample, Workload};
use ttmon_model::snapshot::Status;
use ttmon_model::units::UnixTime;
use ttmon_model::{Missing, Process, Sample, Snapshot};

use crate::newest::Published;

/// Returns the current machine with this ended process.
pub(crate) fn snapshot(found: &OpenLedger, newest: &Published, detail: LedgerDetail) -> Snapshot {
    let mut budget = Budget::of_answer();
    let last = LedgerSample { owner: found.owner, content: ledgers::read(found, detail, &mut budget) };
    let sample = Sample { processes: vec![ended_process(found)], ledgers: vec![last], regions: Vec::new(), ..newest.sample.clone() };
    let mut snapshot = Snapshot::derive(&sample, None);
    snapshot.problems.extend(budget.problems(|_| None));
    // The memory of the ended process is not in use any more.
    snapshot.devices.clone_from(&newest.snapshot.devices);
    snapshot.processes.iter_mut().for_each(clear_live_values);
    snapshot
}

fn ended_process(found: &OpenLedger) -> ProcessSample {
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
fn clear_live_values(process: &mut Process) {
    process.status = Status::Dead;
    (process.parent, process.rss) = (Err(Missing::Gone), Err(Missing::Gone));
    (process.start_time, process.cpu) = (Err(Missing::Gone), Err(Missing::Gone));
}
