//! The programs on the machine: their chips and names.

use std::sync::OnceLock;

use crate::chip::{Layout, Location};
use crate::load::{Rhythm, Trace};
use crate::random::{Purpose, Random};
use crate::region::STALE_SLOT;
use crate::spec::Spec;

/// A program, as shown by `ps`.
#[derive(Debug)]
pub(crate) struct Job {
    /// `argv[0]`. The `comm` is truncated to the kernel's limit.
    pub(crate) program: &'static str,
    pub(crate) arguments: &'static [&'static str],
    pub(crate) rhythm: Rhythm,
}

static JOBS: [Job; 6] = [
    Job { program: "python3", arguments: &["serve.py", "--model", "llama-3-8b", "--port", "8000"], rhythm: Rhythm::Serve },
    Job { program: "python3", arguments: &["train.py", "--config", "configs/gpt2.yaml"], rhythm: Rhythm::Train },
    Job { program: "python3", arguments: &["bert_bench.py", "--batch", "8"], rhythm: Rhythm::Bench },
    Job { program: "python3", arguments: &["-m", "vllm.entrypoints.openai.api_server", "--model", "mistral-7b"], rhythm: Rhythm::Serve },
    Job { program: "resnet50_test", arguments: &["--iterations", "100000"], rhythm: Rhythm::Bench },
    Job { program: "python3", arguments: &["finetune.py", "--lora", "--dataset", "alpaca"], rhythm: Rhythm::Train },
];

/// A program that has a device open but reports nothing.
static UNTRACKED: Job = Job { program: "python3", arguments: &["-m", "ipykernel_launcher", "-f", "kernel.json"], rhythm: Rhythm::Explore };
/// If there are at least this many processes, one is untracked.
const UNTRACKED_FROM: usize = 3;

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) index: u64,
    pub(crate) job: &'static Job,
    /// The chips of the process. It holds the local ones open.
    pub(crate) uses: Vec<Use>,
    /// Number of open files on each local chip.
    pub(crate) files: usize,
    seed: u64,
    trace: OnceLock<Trace>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) chip: u32,
    /// The slot in the chip's statistics, or `None` if the process reports nothing.
    pub(crate) slot: Option<usize>,
}

impl Process {
    /// Returns the load over time. It is computed on first use, because a worker never needs it.
    pub(crate) fn trace(&self) -> &Trace {
        self.trace.get_or_init(|| Trace::new(self.seed, self.index, self.job.rhythm))
    }
}

pub(crate) fn plan(spec: &Spec, seed: u64, layout: &Layout) -> Vec<Process> {
    let units = layout.units.len();
    let count = spec.processes.unwrap_or_else(|| (2 * units).div_ceil(3).clamp(1, 8));
    let mut slots_taken = vec![0; layout.chips.len()];
    let mut processes = Vec::new();
    for index in 0..count {
        let is_untracked = count >= UNTRACKED_FROM && index == count - 1;
        let job = if is_untracked { &UNTRACKED } else { &JOBS[index % JOBS.len()] };
        let random = Random::new(seed, Purpose::Chips, index as u64);
        let mut chips = chips(layout, index, count, is_untracked);
        // Some programs use only the first chips.
        if random.at(0).is_multiple_of(4) {
            chips.retain(|chip| matches!(layout.chips[*chip as usize].location, Location::Local(_)));
        }
        let uses = chips.into_iter().map(|chip| {
            let taken = &mut slots_taken[chip as usize];
            // TT-Metal gives no slot to a process if all slots are taken. The last slot is for dead processes.
            let slot = (!is_untracked && *taken < STALE_SLOT).then_some(*taken);
            *taken += usize::from(slot.is_some());
            Use { chip, slot }
        });
        let files = if random.at(1).is_multiple_of(3) { 2 } else { 1 };
        processes.push(Process { index: index as u64, job, uses: uses.collect(), files, seed, trace: OnceLock::new() });
    }
    processes
}

/// Returns the chips of a process. The units are divided evenly, or shared if there are fewer units than processes.
fn chips(layout: &Layout, index: usize, count: usize, is_untracked: bool) -> Vec<u32> {
    let units = layout.units.len();
    let first = if count <= units { index * units / count } else { index % units };
    // An untracked program takes only one unit, so that larger machines have idle chips.
    let end = if count <= units && !is_untracked { (index + 1) * units / count } else { first + 1 };
    layout.units[first..end].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(spec: &str) -> (Layout, Vec<Process>) {
        let spec = Spec::parse(spec).unwrap();
        let layout = Layout::new(&spec, 1);
        let processes = plan(&spec, 1, &layout);
        (layout, processes)
    }

    #[test]
    fn about_one_process_for_one_or_two_boards() {
        for (spec, count) in [("n300", 1), ("n150x2", 2), ("t3k", 3), ("galaxy", 6), ("p150x32", 8), ("t3k,idle", 0), ("n150,procs=9", 9)] {
            assert_eq!(plan_of(spec).1.len(), count, "{spec}");
        }
    }

    #[test]
    fn the_last_of_three_reports_nothing() {
        let untracked = |spec| {
            let (_, processes) = plan_of(spec);
            processes.iter().filter(|process| process.uses.iter().all(|one| one.slot.is_none())).count()
        };
        assert_eq!((untracked("n150,procs=2"), untracked("t3k"), untracked("galaxy-bh")), (0, 1, 1));
    }

    #[test]
    fn every_process_holds_a_local_chip_and_slots_are_its_own() {
        for spec in ["n150,procs=200", "t3k,procs=7", "galaxy", "n300x3,p300x2,procs=4"] {
            let (layout, processes) = plan_of(spec);
            let mut slots = Vec::new();
            for process in &processes {
                assert!(process.uses.iter().any(|one| matches!(layout.chips[one.chip as usize].location, Location::Local(_))), "{spec}");
                slots.extend(process.uses.iter().filter_map(|one| Some((one.chip, one.slot?))));
            }
            let before = slots.len();
            slots.sort_unstable();
            slots.dedup();
            assert_eq!(slots.len(), before, "{spec}");
            assert!(slots.iter().all(|(_, slot)| *slot < STALE_SLOT), "{spec}");
        }
    }

    #[test]
    fn names_fit_the_kernel() {
        for job in JOBS.iter().chain([&UNTRACKED]) {
            assert!(job.program.len() <= 15, "{}", job.program);
        }
    }
}
