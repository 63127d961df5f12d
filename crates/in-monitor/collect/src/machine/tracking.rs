//! Ledgers over time: which processes are checked, which ledgers were found, and which are gone.

use std::io;
use std::mem;
use std::sync::Arc;

use ttmon_model::identity::ProcessKey;
use ttmon_model::ledger::LedgerSample;
use ttmon_model::problems::Problems;
use ttmon_model::sample::ProcessSample;
use ttmon_model::units::UnixTime;
use ttmon_model::{Missing, Source};

use super::granted::{self, Granted, ProcessReads};
use super::readers::Readers;
use super::scan::{Scan, note_cut};
use super::{Error, LANE_OF_PROCESS, LANE_OF_SWEEP, LedgerScope, Ledgers, Now, unread};
use crate::budget::{Budget, Resource};
use crate::ledgers::{self, LedgerDetail, LedgerHint, OpenLedger};
use crate::process::{self, ProcessStat, Program};
use crate::reads::{Lane, LaneReply, Request, Sampling};
use crate::root::Root;

/// Every process is checked again within this many samples.
const SWEPT_AGAIN_WITHIN: usize = 60;

impl Scan {
    /// Returns the processes that seem to have a ledger. After the first call, checks known and new ones, and a few of the others in turn.
    pub(super) fn sweep(&mut self, readers: &mut Readers, problems: &mut Problems) -> Result<Vec<u32>, Error> {
        let alive: Vec<u32> = match self.options.ledgers.scope {
            LedgerScope::Process(pid) => {
                // This process is checked every time, because it may begin to track at any time.
                self.swept.clear();
                vec![pid]
            }
            LedgerScope::Holders | LedgerScope::Everybody => match self.root.pids() {
                Ok(pids) => pids,
                // A machine in files may have no processes.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                Err(error) => {
                    problems.list.push(unread(&self.root.proc, error.into()));
                    return Ok(self.ledgers.iter().map(|found| found.owner.pid).collect());
                }
            },
        };
        let is_alive = |pid: &u32| alive.binary_search(pid).is_ok();
        self.swept.retain(|pid, _| is_alive(pid));
        self.denied.retain(is_alive);
        self.unexamined.retain(|pid, _| is_alive(pid));
        let new: Vec<u32> = alive.iter().copied().filter(|pid| !self.swept.contains_key(pid)).collect();
        let mut sought: Vec<(u32, Option<Program>)> = self.changed(readers)?;
        sought.extend(new.into_iter().map(|pid| (pid, None)));
        let Self { root, budget, examined, .. } = self;
        let mut hints: Vec<LedgerHint> = sought.iter().map(|(pid, _)| LedgerHint::among(examined.open_files(root, *pid, budget))).collect();
        let pids: Vec<u32> = sought.iter().map(|(pid, _)| *pid).collect();
        self.read_with_mappings(readers, &pids, &mut hints, |_| Vec::new())?;
        for ((pid, program), hint) in sought.iter().zip(&hints) {
            if *hint == LedgerHint::Denied {
                self.denied.insert(*pid);
            } else {
                self.denied.remove(pid);
            }
            note_cut(&mut self.unexamined, *pid, hint);
            // A process over the limit of this scan counts as new in the next scan.
            if !matches!(hint, LedgerHint::Cut(_, Resource::Processes)) {
                self.swept.insert(*pid, program.filter(|_| *hint == LedgerHint::Nothing));
            }
        }
        let promising = sought.iter().zip(&hints).filter(|(_, hint)| hint.is_promising()).map(|((pid, _), _)| *pid);
        let known = self.ledgers.iter().map(|found| found.owner.pid);
        Ok(promising.chain(known).collect())
    }

    /// Reads files of processes. Also reads the mappings of those without a ledger among their open files.
    pub(super) fn read_with_mappings(
        &mut self,
        readers: &mut Readers,
        pids: &[u32],
        hints: &mut [LedgerHint],
        requests: impl Fn(u32) -> Vec<Request>,
    ) -> Result<Vec<LaneReply>, Error> {
        let Self { root, budget, .. } = self;
        let wanted = pids.iter().zip(&*hints).map(|(pid, hint)| ProcessReads {
            pid: *pid,
            key: LANE_OF_PROCESS + u64::from(*pid),
            requests: requests(*pid),
            long: (*hint == LedgerHint::NoFile).then(|| ledgers::maps_request(root, *pid)),
        });
        let read = granted::read(readers, root, budget, Resource::MapBytes, wanted.collect())?;
        let replies = read.into_iter().zip(hints).map(|(Granted { lane, refused }, hint)| {
            match refused {
                Some(uid) => *hint = LedgerHint::Cut(uid, Resource::MapBytes),
                None if *hint == LedgerHint::NoFile => *hint = LedgerHint::in_mappings(lane.replies.last()),
                None => {}
            }
            lane
        });
        Ok(replies.collect())
    }

    /// Returns the next few checked processes whose mappings may have changed. A program may begin to track at any time.
    fn changed(&mut self, readers: &mut Readers) -> Result<Vec<(u32, Option<Program>)>, Error> {
        let count = self.swept.len().div_ceil(SWEPT_AGAIN_WITHIN);
        let turn: Vec<u32> = self.swept.range(self.next_again..).take(count).map(|(pid, _)| *pid).collect();
        self.next_again = if turn.len() < count { 0 } else { turn.last().map_or(0, |pid| pid + 1) };
        // Changes of remembered processes are detected by their `stat`, which is read every time.
        let turn: Vec<u32> = turn.into_iter().filter(|pid| !self.remembered.contains(*pid)).collect();
        if turn.is_empty() {
            return Ok(Vec::new());
        }
        let requests = turn.iter().map(|pid| process::stat_request(&self.root.proc, *pid, Sampling::Once)).collect();
        let replies = readers.read(vec![Lane { key: LANE_OF_SWEEP, requests }])?;
        // `stat` is read before the files are checked, so a mapping created in between counts as a change.
        let programs = replies.iter().flat_map(|lane| &lane.replies).map(|stat| Program::of(stat.as_deref().ok()?));
        let is_changed = |(pid, now): &(u32, Option<Program>)| now.is_none() || self.swept.get(pid).is_none_or(|before| before != now);
        Ok(turn.into_iter().zip(programs).filter(is_changed).collect())
    }

    pub(super) fn read_ledgers(&mut self, processes: &[ProcessSample], now: Now) -> Vec<LedgerSample> {
        let Ledgers { detail, machine, .. } = self.options.ledgers;
        // The processes are sorted by pid.
        let of = |owner: ProcessKey| processes.binary_search_by_key(&owner, |process| process.key).ok().map(|index| &processes[index]);
        // A process with the same mappings still has the same ledger, so its file need not be checked.
        let has_it = |found: &OpenLedger| {
            let is_mapped = found.source == Source::Ledger && self.unchanged.binary_search(&found.owner.pid).is_ok();
            is_mapped || found.is_still_there()
        };
        let (staying, departed): (Vec<Arc<OpenLedger>>, Vec<Arc<OpenLedger>>) =
            mem::take(&mut self.ledgers).into_iter().partition(|found| of(found.owner).is_some() && has_it(found));
        self.ledgers = staying;
        let Self { root, budget, .. } = self;
        let left = departed.into_iter().map(|found| Arc::new(Departed::new(root, found, detail, now.time, budget)));
        self.departed = left.collect();
        // These ledgers were within the limits before, and their number has not grown.
        self.ledgers.iter().for_each(|found| _ = budget.take(Resource::Ledgers, 1, || found.uid));
        let mut samples = Vec::new();
        for (owner, hint) in mem::take(&mut self.hints) {
            let process = processes.iter().find(|process| process.key == owner);
            match process.and_then(|process| hint.open(&self.root, process, machine)) {
                Some(found) => self.hold(found),
                None if hint == LedgerHint::Denied => samples.push(LedgerSample { owner, content: Err(Missing::NoPermission) }),
                None => {}
            }
        }
        samples.extend(self.open_served(processes));
        let Self { ledgers: open, budget, free_blocks, .. } = self;
        let denied = samples.len();
        samples.extend(open.iter().map(|found| LedgerSample { owner: found.owner, content: ledgers::read(found, detail, budget) }));
        // This comes last, when everything that is needed has been read.
        free_blocks.complete(now.at, open, &mut samples[denied..], budget);
        samples
    }

    /// Holds a ledger open if the limits of its user allow it.
    fn hold(&mut self, found: OpenLedger) {
        if self.budget.take_or_cut(Resource::Ledgers, 1, found.uid) {
            self.ledgers.push(Arc::new(found));
        }
    }

    /// From the next scan on, searches the ledgers of holders and of this process ([`LedgerScope::Process`]).
    pub(super) fn include_process(&mut self, pid: u32) {
        self.options.ledgers.scope = LedgerScope::Process(pid);
        // The ledgers of other processes are no longer read, so they are closed.
        self.ledgers.clear();
        self.denied.clear();
    }

    /// Opens new ledgers of services. Returns those that this user may not read.
    fn open_served(&mut self, processes: &[ProcessSample]) -> Vec<LedgerSample> {
        let mut denied = Vec::new();
        for named in mem::take(&mut self.served) {
            let process = processes.iter().find(|process| process.key == named.owner);
            let Some(process) = process.filter(|_| !self.ledgers.iter().any(|found| found.is_at(&named.path))) else { continue };
            match named.open(process, self.options.ledgers.machine) {
                Ok(found) => self.hold(found),
                Err(Missing::NoPermission) => {
                    denied.push(LedgerSample { owner: process.key, content: Err(Missing::NoPermission) });
                }
                Err(_) => {}
            }
        }
        denied
    }
}

/// A ledger of a program that no longer runs.
#[derive(Debug)]
pub struct Departed {
    /// The ledger.
    pub found: Arc<OpenLedger>,
    /// The last contents of the ledger.
    pub last: LedgerSample,
    /// How the program ended.
    pub end: End,
    /// When the end was detected.
    pub time: UnixTime,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process ended.
    Exited,
    /// The process became another program by `exec`.
    Replaced,
}

impl Departed {
    /// Creates the value for a process that ended a while ago.
    pub fn exited(found: Arc<OpenLedger>, time: UnixTime) -> Self {
        let last = LedgerSample { owner: found.owner, content: ledgers::read(&found, LedgerDetail::Totals, &mut Budget::default()) };
        Self { found, last, end: End::Exited, time }
    }

    fn new(root: &Root, found: Arc<OpenLedger>, detail: LedgerDetail, time: UnixTime, budget: &mut Budget) -> Self {
        let last = LedgerSample { owner: found.owner, content: ledgers::read(&found, detail, budget) };
        let end = if lives_on(root, found.owner) { End::Replaced } else { End::Exited };
        Self { found, last, end, time }
    }
}

/// Returns whether the process exists and is not a zombie.
fn lives_on(root: &Root, owner: ProcessKey) -> bool {
    ProcessStat::of(&root.proc, owner.pid).is_some_and(|stat| stat.is_running(owner.start_ticks))
}
