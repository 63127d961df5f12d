//! Processes from one sample to the next: of many, a few are read in full each time and the rest only where they change.
//!
//! A process's `stat` tells whether it is still the same one, and how it fares. Its owner, command and cgroup, and whether
//! it began to track its memory, hardly ever change: with a handful of processes they are read every time, with hundreds
//! in turns, so that a sample stays cheap.

use std::collections::{BTreeMap, BTreeSet};

use ttmon_model::sample::ProcessSample;

/// Known processes read in full in one sample, those whose turn is longest ago first.
const IN_FULL_PER_SAMPLE: usize = 16;

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    /// Samples so far.
    turn: u64,
    processes: BTreeMap<u32, Process>,
}

#[derive(Debug)]
struct Process {
    sample: ProcessSample,
    /// Whether this user may not look for its ledger.
    is_denied: bool,
    /// The turn it was last read in full.
    read_at: u64,
}

impl Remembered {
    /// Begins a sample of these processes, and says which of them need not be read in full.
    pub(super) fn begin(&mut self, pids: &[u32]) -> BTreeSet<u32> {
        self.turn += 1;
        self.processes.retain(|pid, _| pids.binary_search(pid).is_ok());
        let mut known: Vec<(u64, u32)> = self.processes.iter().map(|(pid, process)| (process.read_at, *pid)).collect();
        known.sort_unstable();
        known.into_iter().skip(IN_FULL_PER_SAMPLE).map(|(_, pid)| pid).collect()
    }

    /// A process as it was, and whether this user may not look for its ledger.
    pub(super) fn get(&self, pid: u32) -> Option<(&ProcessSample, bool)> {
        self.processes.get(&pid).map(|process| (&process.sample, process.is_denied))
    }

    /// Keeps one that was read in full.
    pub(super) fn keep(&mut self, sample: &ProcessSample, is_denied: bool) {
        if sample.facts.is_ok() {
            self.processes.insert(sample.key.pid, Process { sample: sample.clone(), is_denied, read_at: self.turn });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ttmon_model::identity::ProcessKey;
    use ttmon_model::sample::{ProcessFacts, Workload};
    use ttmon_model::units::UnixTime;
    use ttmon_model::{Missing, Reading};

    use super::*;

    fn sample(pid: u32) -> ProcessSample {
        let facts =
            ProcessFacts { name: "a".to_owned(), uid: 0, user: None, parent: 1, start_time: UnixTime(0), cpu_time: Duration::ZERO, rss: 0 };
        let command: Reading<String> = Err(Missing::NoSource);
        ProcessSample {
            key: ProcessKey { pid, start_ticks: 1 },
            namespace_pid: pid,
            facts: Ok(facts),
            command,
            workload: Workload::default(),
            fdinfo: Vec::new(),
        }
    }

    #[test]
    fn each_has_its_turn() {
        let pids: Vec<u32> = (1..=100).collect();
        let mut remembered = Remembered::default();
        let mut last = vec![0; 101];
        for turn in 1..=50 {
            let quick = remembered.begin(&pids);
            let full: Vec<u32> = pids.iter().copied().filter(|pid| !quick.contains(pid)).collect();
            assert_eq!(full.len(), if turn == 1 { 100 } else { IN_FULL_PER_SAMPLE });
            for pid in full {
                remembered.keep(&sample(pid), false);
                last[pid as usize] = turn;
            }
        }
        assert!(last[1..].iter().all(|turn| *turn >= 43), "{last:?}");
    }

    #[test]
    fn a_few_are_read_in_full_every_time() {
        let mut remembered = Remembered::default();
        for _ in 0..3 {
            assert!(remembered.begin(&[1, 2, 3]).is_empty());
            (1..=3).for_each(|pid| remembered.keep(&sample(pid), false));
        }
        assert!(remembered.begin(&[2]).is_empty() && remembered.get(1).is_none());
    }
}
