//! Remembers processes from one sample to the next. Most are read in full only occasionally, and only their `stat` in every sample.
//!
//! The `stat` of a process shows whether the process is the same one, its state, and whether its mappings may have changed. New mappings
//! show that tracking may have begun. The owner, command and cgroup of a running process rarely change. They are read in the first sample
//! and then 1, 2, 4, ... samples later, and finally in every 32nd sample. They are read immediately when `stat` shows another name, start
//! time or shape. If hundreds of processes change at once, those with the oldest full read come first.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ttmon_model::sample::ProcessSample;

use crate::process::{self, Scale, Shape};
use crate::reads::{Reply, Request, Sampling};

/// Maximum number of known processes that are read in full in one sample.
const IN_FULL_PER_SAMPLE: usize = 16;
/// Samples between two full reads of a process that does not seem to change.
const IN_FULL_EVERY: u64 = 32;

#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// The number of samples so far.
    turn: u64,
    processes: BTreeMap<u32, RememberedProcess>,
    /// The requests for the `stat` files of all processes, in order. `None` if the list must be built again.
    stats: Option<Arc<[Request]>>,
    /// Pids, in order, of processes that are read in full in this sample but need no search for a ledger.
    without_ledger: Vec<u32>,
}

#[derive(Debug)]
struct RememberedProcess {
    sample: ProcessSample,
    shape: Shape,
    ledger_search: LedgerSearch,
    /// The shape in `stat` before the search for its ledger.
    seen: Option<Shape>,
    /// How often the process was read in full, and the turn of the last full read.
    full_reads: u32,
    read_at: u64,
}

/// Results about a process besides its facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LedgerSearch {
    /// Whether this user may not search for its ledger.
    pub(super) is_denied: bool,
    /// Whether no ledger was found with its current mappings.
    pub(super) has_no_ledger: bool,
    /// The mount namespace, if that differs from ours.
    pub(super) mounts: Option<u64>,
}

/// A process that was not read in full.
#[derive(Debug)]
pub(super) struct Refreshed {
    pub(super) sample: ProcessSample,
    pub(super) ledger_search: LedgerSearch,
    /// Whether the program and its mappings are the same as at the last full read.
    pub(super) is_same: bool,
}

impl Remembered {
    /// Returns whether the `stat` of a process is read in every sample.
    pub(super) fn contains(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// Returns the requests for the `stat` of each process, to be read in every sample.
    pub(super) fn stats(&mut self, proc: &Path) -> Arc<[Request]> {
        let pids = || self.processes.keys().map(|pid| process::stat_request(proc, *pid, Sampling::Repeated)).collect();
        Arc::clone(self.stats.get_or_insert_with(pids))
    }

    /// Begins a sample of the processes `pids`, in order. Returns those that `stats`, the replies to [`Self::stats`], show unchanged.
    pub(super) fn begin(&mut self, pids: &[u32], stats: &[Reply], scale: Scale) -> Vec<Refreshed> {
        self.turn += 1;
        let mut known = Vec::with_capacity(self.processes.len());
        let mut wanting = Vec::new();
        for ((pid, process), stat) in self.processes.iter_mut().zip(stats) {
            let stat = stat.as_deref().ok().filter(|_| pids.binary_search(pid).is_ok());
            let Some((sample, shape)) = stat.and_then(|stat| process::refresh(&process.sample, stat, scale)) else { continue };
            let is_same = shape == process.shape;
            if !is_same || self.turn >= process.due() {
                wanting.push((process.read_at, *pid, is_same && process.ledger_search.has_no_ledger));
            }
            process.seen = Some(shape);
            known.push(Refreshed { sample, ledger_search: process.ledger_search, is_same });
        }
        wanting.sort_unstable();
        wanting.truncate(IN_FULL_PER_SAMPLE);
        known.retain(|refreshed| !wanting.iter().any(|(_, pid, _)| *pid == refreshed.sample.key.pid));
        self.without_ledger = wanting.iter().filter(|(.., has_none)| *has_none).map(|(_, pid, _)| *pid).collect();
        self.without_ledger.sort_unstable();
        let count = self.processes.len();
        self.processes.retain(|pid, _| pids.binary_search(pid).is_ok());
        if self.processes.len() != count {
            self.stats = None;
        }
        known
    }

    /// Returns whether a process that is read in full now is known to have no ledger.
    pub(super) fn is_without_ledger(&self, pid: u32) -> bool {
        self.without_ledger.binary_search(&pid).is_ok()
    }

    pub(super) fn keep(&mut self, sample: &ProcessSample, shape: Shape, mut ledger_search: LedgerSearch) {
        if sample.facts.is_err() {
            return;
        }
        let earlier = self.processes.get(&sample.key.pid).filter(|earlier| earlier.sample.key == sample.key);
        let full_reads = earlier.map_or(0, |earlier| earlier.full_reads);
        // Memory that was mapped between the two reads of `stat` may be a ledger.
        ledger_search.has_no_ledger &= earlier.is_some_and(|earlier| earlier.seen == Some(shape));
        let process = RememberedProcess {
            sample: sample.clone(),
            shape,
            ledger_search,
            seen: None,
            full_reads: full_reads.saturating_add(1),
            read_at: self.turn,
        };
        if self.processes.insert(sample.key.pid, process).is_none() {
            self.stats = None;
        }
    }
}

impl RememberedProcess {
    /// Returns the turn of the next full read. A young process is read more often.
    fn due(&self) -> u64 {
        let distance = 1_u64.checked_shl(self.full_reads.saturating_sub(1)).unwrap_or(IN_FULL_EVERY);
        self.read_at + distance.min(IN_FULL_EVERY)
    }
}

#[cfg(test)]
mod tests {
    use ttmon_model::units::UnixTime;

    use super::*;

    const SCALE: Scale = Scale { boot: UnixTime(0), ticks_per_second: 100, page_bytes: 4096 };

    fn stat(pid: u32, name: &str, start: u32, size: u32) -> Vec<u8> {
        format!("{pid} ({name}) S 1 1 1 0 -1 0 1 0 0 0 3 4 0 0 20 0 1 0 {start} {size} 2 3 10 11 12").into_bytes()
    }

    /// Takes a sample of these processes. Returns those that were read in full.
    fn sample(remembered: &mut Remembered, pids: &[u32], now: impl Fn(u32) -> Vec<u8>) -> Vec<u32> {
        let stats = remembered.stats(Path::new("/proc"));
        let asked = |request: &Request| request.path.parent().unwrap().file_name().unwrap().to_str().unwrap().parse().unwrap();
        let replies: Vec<Reply> = stats.iter().map(|request| Ok(now(asked(request)))).collect();
        let quick: Vec<u32> = remembered.begin(pids, &replies, SCALE).iter().map(|refreshed| refreshed.sample.key.pid).collect();
        let full: Vec<u32> = pids.iter().copied().filter(|pid| !quick.contains(pid)).collect();
        for pid in &full {
            let replies = [Ok(now(*pid)), Ok(b"Uid:\t0\t0\t0\t0\n".to_vec()), Ok(Vec::new()), Ok(b"a\0".to_vec()), Ok(Vec::new())];
            let (sample, shape) = process::take(*pid, &[], &replies, SCALE, |_| None);
            remembered.keep(&sample, shape, LedgerSearch::default());
        }
        full
    }

    #[test]
    fn young_ones_are_looked_at_more_often_and_all_again_and_again() {
        let mut remembered = Remembered::default();
        let full: Vec<usize> = (1..=100).filter(|_| !sample(&mut remembered, &[7], |pid| stat(pid, "a", 1, 5)).is_empty()).collect();
        assert_eq!(full, [1, 2, 4, 8, 16, 32, 64, 96]);
    }

    #[test]
    fn one_that_changes_is_read_at_once() {
        let mut remembered = Remembered::default();
        let pids = [1, 2, 3];
        (0..63).for_each(|_| _ = sample(&mut remembered, &pids, |pid| stat(pid, "a", 1, 5)));
        assert!(sample(&mut remembered, &pids, |pid| stat(pid, "a", 1, 5)).len() == 3);
        assert!(sample(&mut remembered, &pids, |pid| stat(pid, "a", 1, 5)).is_empty());
        assert_eq!(sample(&mut remembered, &pids, |pid| stat(pid, "a", 1, if pid == 2 { 6 } else { 5 })), [2], "its memory grew");
        let name = |pid| if pid == 3 { "b" } else { "a" };
        assert_eq!(sample(&mut remembered, &[3], |pid| stat(pid, name(pid), 1, 5)), [3], "another name");
        assert_eq!(remembered.processes.len(), 1, "those that are gone are forgotten");
    }

    #[test]
    fn a_ledger_is_looked_for_until_none_was_found_with_the_same_mappings() {
        let none = LedgerSearch { has_no_ledger: true, ..LedgerSearch::default() };
        let mut remembered = Remembered::default();
        // The sizes in `stat` before and after the search for a ledger, at each full read.
        let mut is_searched = |before: u32, after: u32| {
            remembered.turn += 64;
            remembered.stats(Path::new("/proc"));
            remembered.begin(&[7], &[Ok(stat(7, "a", 1, before))], SCALE);
            let replies =
                [Ok(stat(7, "a", 1, after)), Ok(b"Uid:\t0\t0\t0\t0\n".to_vec()), Ok(Vec::new()), Ok(b"a\0".to_vec()), Ok(Vec::new())];
            let (sample, shape) = process::take(7, &[], &replies, SCALE, |_| None);
            let is_searched = !remembered.is_without_ledger(7);
            remembered.keep(&sample, shape, none);
            is_searched
        };
        assert!(is_searched(5, 5), "the first time");
        assert!(is_searched(5, 6), "nothing was known before the first search");
        assert!(is_searched(6, 6), "it grew after the search");
        assert!(!is_searched(6, 6));
        assert!(is_searched(7, 7), "it grew");
        assert!(!is_searched(7, 7));
    }

    #[test]
    fn hundreds_that_change_have_their_turns() {
        let pids: Vec<u32> = (1..=100).collect();
        let mut remembered = Remembered::default();
        let mut last = vec![0; 101];
        for turn in 1..=50 {
            let full = sample(&mut remembered, &pids, |pid| stat(pid, "a", 1, turn));
            assert_eq!(full.len(), if turn == 1 { 100 } else { IN_FULL_PER_SAMPLE });
            full.iter().for_each(|pid| last[*pid as usize] = turn);
        }
        assert!(last[1..].iter().all(|turn| *turn >= 43), "{last:?}");
    }
}
