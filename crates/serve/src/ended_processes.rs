//! Processes that ended and whose ledgers are still there, for those who want to know what happened.

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

/// A process that ended.
#[derive(Clone, Debug)]
pub struct EndedProcess {
    /// Its ledger, as it was left.
    pub departed: Arc<Departed>,
    /// Whose it was.
    pub uid: u32,
    /// Its program's name.
    pub program: String,
}

/// Takes the ledgers of a sample.
type TakeLedgers = Box<dyn Fn(&[Arc<OpenLedger>]) + Send + Sync>;

/// Who listens on the allocation socket, as far as others ask.
pub struct IntakeCallbacks {
    /// What it keeps of processes of a pid that ended.
    pub past: Box<dyn Fn(u32) -> Vec<EndedProcess> + Send + Sync>,
    /// Ledgers of all processes that ended and are still kept.
    pub ended: Box<dyn Fn() -> Vec<OpenLedger> + Send + Sync>,
    /// Takes the ledgers of each sample. It must not wait.
    pub found: TakeLedgers,
    /// What it counted since it started, by name.
    pub counters: Box<dyn Fn() -> Vec<(&'static str, u64)> + Send + Sync>,
}

impl fmt::Debug for IntakeCallbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keeper(..)")
    }
}

impl EndedProcess {
    /// Whether a client may see it.
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

    /// The present machine, with this ended process.
    pub(crate) fn snapshot(&self, newest: &Published, detail: Detail) -> Snapshot {
        let found = &self.departed.found;
        let mut budget = Budget::of_answer();
        let last = LedgerSample { owner: found.owner, content: ledgers::read(found, detail, &mut budget) };
        let sample = Sample { processes: vec![self.process()], ledgers: vec![last], regions: Vec::new(), ..newest.sample.clone() };
        let mut snapshot = Snapshot::derive(&sample, None);
        snapshot.problems.extend(budget.problems(|_| None));
        // What it had is not on the devices any more.
        snapshot.devices.clone_from(&newest.snapshot.devices);
        snapshot.processes.iter_mut().for_each(bury);
        snapshot
    }
}

/// What is known of a process that lives is not known of this one.
fn bury(process: &mut Process) {
    process.status = Status::Dead;
    (process.parent, process.rss) = (Err(Missing::Gone), Err(Missing::Gone));
    (process.start_time, process.cpu) = (Err(Missing::Gone), Err(Missing::Gone));
}
