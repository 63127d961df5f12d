//! Chips and their names.
//!
//! Processes may number the same chip differently, so chips are identified by their unique ids if known. Users know the numbers that
//! TT-Metal and their programs use, so those are shown.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ttmon_model::identity::ProcessKey;
use ttmon_model::ledger::{Ledger, LedgerAllocator, LedgerChip, LedgerSample};
use ttmon_model::snapshot::Allocator;
use ttmon_model::units::UnixTime;
use ttmon_model::{Sample, Snapshot};

use crate::ledger_summary::LedgerSummary;
use crate::run_summary::ChipName;

/// The names of chips that are not devices of this machine, over all processes.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// The name of each chip, by identity.
    chips: BTreeMap<u64, Name>,
}

#[derive(Clone, Copy, Debug)]
struct Name {
    given: u64,
    is_mock: bool,
}

impl Names {
    pub(crate) fn of(summaries: &[LedgerSummary]) -> Self {
        let mut mock: BTreeMap<u64, bool> = BTreeMap::new();
        let mut given: BTreeSet<(u64, u64)> = BTreeSet::new();
        for ledger in summaries.iter().map(|summary| &summary.ledger) {
            let identities = Identities::of(ledger);
            for allocator in &ledger.allocators {
                for chip in &allocator.chips {
                    let id = identities.id(*chip, allocator);
                    mock.entry(id).or_insert(ledger.is_mock);
                    given.insert((id, chip.metal_id.map_or(id, u64::from)));
                }
            }
        }
        let (mut of_id, mut of_given): (HashMap<u64, u64>, HashMap<u64, u64>) = (HashMap::new(), HashMap::new());
        for (id, given) in &given {
            *of_id.entry(*id).or_default() += 1;
            *of_given.entry(*given).or_default() += 1;
        }
        // Processes that see different devices have different numbers for the same chip, and the same number for different chips.
        let clear = given.iter().filter(|(id, given)| of_id[id] == 1 && of_given[given] == 1);
        let clear: HashMap<u64, u64> = clear.copied().collect();
        let name = |(id, is_mock)| (id, Name { given: clear.get(&id).copied().unwrap_or(id), is_mock });
        Self { chips: mock.into_iter().map(name).collect() }
    }

    /// Returns the programs' number of a chip, by its identity.
    pub(crate) fn given(&self, id: u64) -> u64 {
        self.chips.get(&id).map_or(id, |name| name.given)
    }

    pub(crate) fn is_mock(&self, id: u64) -> bool {
        self.chips.get(&id).is_some_and(|name| name.is_mock)
    }
}

/// The identities of a process's chips.
struct Identities {
    /// Unique ids by TT-Metal's numbers.
    unique_ids: HashMap<u32, u64>,
}

impl Identities {
    fn of(ledger: &Ledger) -> Self {
        let chips = ledger.allocators.iter().flat_map(|allocator| &allocator.chips);
        Self { unique_ids: chips.filter_map(|chip| Some((chip.metal_id?, chip.unique_id?))).collect() }
    }

    fn id(&self, chip: LedgerChip, allocator: &LedgerAllocator) -> u64 {
        // The unique id is unknown if the program itself reports the memory. It is known if the hook tracks memory on the same chip.
        let by_number = || self.unique_ids.get(&chip.metal_id?).copied().or(chip.metal_id.map(u64::from));
        chip.unique_id.or_else(by_number).unwrap_or(u64::from(allocator.given_id))
    }

    /// Returns the chips of each allocator if there is no machine to map them to.
    fn unmapped(&self, ledger: &Ledger) -> Vec<Vec<ChipName>> {
        let chips =
            |allocator: &LedgerAllocator| allocator.chips.iter().map(|chip| ChipName::Unmapped(self.id(*chip, allocator))).collect();
        ledger.allocators.iter().map(chips).collect()
    }

    /// Returns the chips of an allocator, as mapped to the devices of a machine.
    fn places(&self, found: &Allocator, allocator: &LedgerAllocator) -> Vec<ChipName> {
        let is_named = |name: u64, chip: &LedgerChip| chip.metal_id.map(u64::from) == Some(name) || chip.unique_id == Some(name);
        let unmapped = |name: u64| {
            let chip = allocator.chips.iter().find(|chip| is_named(name, chip));
            ChipName::Unmapped(chip.map_or(name, |chip| self.id(*chip, allocator)))
        };
        let mapped = found.devices.iter().map(|id| ChipName::Device(*id));
        mapped.chain(found.unmapped.iter().map(|name| unmapped(*name))).collect()
    }
}

/// Returns the chips of each allocator of each ledger.
pub(crate) fn places(summaries: &[LedgerSummary], machine: Option<&Sample>) -> Vec<Vec<Vec<ChipName>>> {
    let Some(machine) = machine else {
        return summaries.iter().map(|summary| Identities::of(&summary.ledger).unmapped(&summary.ledger)).collect();
    };
    // Each ledger gets its own number, because a program that was started by `exec` has the pid of the previous program.
    let owner = |summary: &LedgerSummary, number| ProcessKey { pid: summary.pid, start_ticks: number };
    let ledgers = summaries.iter().zip(0..);
    let ledgers =
        ledgers.map(|(summary, number)| LedgerSample { owner: owner(summary, number), content: Ok(summary.ledger.clone()) }).collect();
    let sample = Sample { ledgers, processes: Vec::new(), regions: Vec::new(), time: UnixTime(0), ..machine.clone() };
    let derived = Snapshot::derive(&sample, None).allocators;
    let mut by_number: HashMap<u64, Vec<&Allocator>> = HashMap::new();
    for allocator in &derived {
        by_number.entry(allocator.process.start_ticks).or_default().push(allocator);
    }
    let mapped = |(summary, number): (&LedgerSummary, u64)| {
        let identities = Identities::of(&summary.ledger);
        let allocators = by_number.get(&number).map_or(&[][..], Vec::as_slice).iter().zip(&summary.ledger.allocators);
        allocators.map(|(derived, allocator)| identities.places(derived, allocator)).collect()
    };
    summaries.iter().zip(0..).map(mapped).collect()
}
