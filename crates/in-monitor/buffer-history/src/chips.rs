//! The names of chips: in the summary of a run, and in a trace.
//!
//! Processes may number the same chip differently, so chips are identified by their unique ids if known. Users know the numbers that
//! TT-Metal and their programs use, so those are shown.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ttmon_model::identity::{ProcessKey, ranges};
use ttmon_model::ledger::{Ledger, LedgerAllocator, LedgerChip, LedgerSample};
use ttmon_model::snapshot::Allocator;
use ttmon_model::units::UnixTime;
use ttmon_model::{DeviceId, Sample, Snapshot};

use crate::ledger_summary::LedgerSummary;

/// Maximum length of a list of chips, in characters.
const LIST_COLUMNS: usize = 40;

/// A chip that a command used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChipName {
    /// A device of this machine.
    Device(DeviceId),
    /// A chip that is not a device of this machine.
    Unmapped {
        /// The unique id if known, else the program's number.
        identity: u64,
        /// The number to show: the program's own if no other chip has it, else the identity.
        number: u64,
        /// Whether TT-Metal simulates the chip.
        is_mock: bool,
    },
}

impl ChipName {
    /// Returns the names of chips: `device 0`, `devices 0-3`, `simulated chips 0,1`, `chips 7,8`.
    pub fn list(chips: &[Self]) -> String {
        let mut devices: Vec<DeviceId> = Vec::new();
        let (mut mock, mut others): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for chip in chips {
            match chip {
                Self::Device(id) => devices.push(*id),
                Self::Unmapped { number, is_mock: true, .. } => mock.push(number.to_string()),
                Self::Unmapped { number, .. } => others.push(number.to_string()),
            }
        }
        // These texts have only digits and commas.
        let list = |numbers: &[String]| match numbers.join(",") {
            long if long.len() > LIST_COLUMNS => format!("{}...", &long[..LIST_COLUMNS - 3]),
            short => short,
        };
        let lists = [
            ("device", devices.len(), ranges(devices.iter().copied())),
            ("simulated chip", mock.len(), list(&mock)),
            ("chip", others.len(), list(&others)),
        ];
        let lists = lists.iter().filter(|(_, count, _)| *count > 0);
        let texts: Vec<String> = lists.map(|(what, count, list)| format!("{what}{} {list}", if *count == 1 { "" } else { "s" })).collect();
        if texts.is_empty() { "an unknown device".to_owned() } else { texts.join(" and ") }
    }
}

/// A chip of a trace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chip {
    /// The identity of the chip: its unique id, or the number that the program uses for it.
    pub id: u64,
    /// The number that the program uses for the chip.
    pub number: u64,
    /// The name in a viewer.
    pub name: String,
}

impl Chip {
    /// Returns a device of the machine of a document.
    pub(crate) fn device(number: u64) -> Self {
        Self { id: number, number, name: format!("device {number}") }
    }

    /// Returns a chip that is not a device of that machine.
    pub(crate) fn unmapped(number: u64) -> Self {
        // The complement avoids a conflict with the ids of devices.
        Self { id: !number, number, name: format!("chip {number}") }
    }

    /// Returns the chips of a ledger's allocator.
    pub(crate) fn of_allocator(allocator: &LedgerAllocator, is_mock: bool) -> Vec<Self> {
        let word = if is_mock { "simulated chip" } else { "chip" };
        let chip = |number: u64, unique: Option<u64>| Self { id: unique.unwrap_or(number), number, name: format!("{word} {number}") };
        let given = u64::from(allocator.given_id);
        let of = |one: &LedgerChip| chip(one.metal_id.map_or(given, u64::from), one.unique_id);
        let chips: Vec<Self> = allocator.chips.iter().map(of).collect();
        if chips.is_empty() { vec![chip(given, None)] } else { chips }
    }
}

/// Returns the identity of a chip of a process.
fn identity_of(chip: LedgerChip, allocator: &LedgerAllocator, ledger: &Ledger) -> u64 {
    // The unique id is unknown if the program itself reports the memory. It is known if the hook tracks memory on the same chip.
    let by_number = || {
        let number = chip.metal_id?;
        let mut same = ledger.allocators.iter().flat_map(|one| &one.chips).filter(|one| one.metal_id == Some(number));
        Some(same.find_map(|one| one.unique_id).unwrap_or(number.into()))
    };
    chip.unique_id.or_else(by_number).unwrap_or(allocator.given_id.into())
}

/// Sets the chips of each allocator of each ledger. Without a machine, no chip is a device.
pub(crate) fn name_chips(summaries: &mut [LedgerSummary], machine: Option<&Sample>) {
    let unmapped = unmapped_chips(summaries);
    let unmapped = |identity: u64| {
        let unknown = ChipName::Unmapped { identity, number: identity, is_mock: false };
        unmapped.get(&identity).copied().unwrap_or(unknown)
    };
    let mapped = machine.map(|machine| mapped_allocators(summaries, machine));
    for (index, summary) in (0..).zip(summaries) {
        let name = |chip: &LedgerChip, allocator: &LedgerAllocator| unmapped(identity_of(*chip, allocator, &summary.ledger));
        let allocators = summary.ledger.allocators.iter();
        let Some(mapped) = &mapped else {
            summary.chips = allocators.map(|one| one.chips.iter().map(|chip| name(chip, one)).collect()).collect();
            continue;
        };
        let found = mapped.get(&index).map_or(&[][..], Vec::as_slice);
        let chips = found.iter().zip(allocators).map(|(found, allocator)| {
            let has_id = |chip: &LedgerChip, id: u64| chip.metal_id.map(u64::from) == Some(id) || chip.unique_id == Some(id);
            let others = found.unmapped.iter().map(|id| {
                let chip = allocator.chips.iter().find(|chip| has_id(chip, *id));
                chip.map_or_else(|| unmapped(*id), |chip| name(chip, allocator))
            });
            found.devices.iter().map(|id| ChipName::Device(*id)).chain(others).collect()
        });
        summary.chips = chips.collect();
    }
}

/// Returns the names of the chips of all ledgers by identity, as of chips that are not devices.
fn unmapped_chips(summaries: &[LedgerSummary]) -> HashMap<u64, ChipName> {
    let mut mock: BTreeMap<u64, bool> = BTreeMap::new();
    let mut numbers: BTreeSet<(u64, u64)> = BTreeSet::new();
    for ledger in summaries.iter().map(|summary| &summary.ledger) {
        for allocator in &ledger.allocators {
            for chip in &allocator.chips {
                let identity = identity_of(*chip, allocator, ledger);
                mock.entry(identity).or_insert(ledger.is_mock);
                numbers.insert((identity, chip.metal_id.map_or(identity, u64::from)));
            }
        }
    }
    let (mut of_chip, mut of_number): (HashMap<u64, u64>, HashMap<u64, u64>) = (HashMap::new(), HashMap::new());
    for (identity, number) in &numbers {
        *of_chip.entry(*identity).or_default() += 1;
        *of_number.entry(*number).or_default() += 1;
    }
    // Processes that see different devices have different numbers for the same chip, and the same number for different chips.
    let clear: HashMap<u64, u64> =
        numbers.into_iter().filter(|(identity, number)| of_chip[identity] == 1 && of_number[number] == 1).collect();
    let name = |(identity, is_mock)| {
        let number = clear.get(&identity).copied().unwrap_or(identity);
        (identity, ChipName::Unmapped { identity, number, is_mock })
    };
    mock.into_iter().map(name).collect()
}

/// Returns the allocators of each ledger as mapped to the devices of a machine, by the index of the ledger.
fn mapped_allocators(summaries: &[LedgerSummary], machine: &Sample) -> HashMap<u64, Vec<Allocator>> {
    // A program that was started by `exec` has the pid of the previous program, so the index stands for the start time.
    let ledger = |(start_ticks, summary): (u64, &LedgerSummary)| LedgerSample {
        owner: ProcessKey { pid: summary.pid, start_ticks },
        content: Ok(summary.ledger.clone()),
    };
    let ledgers = (0..).zip(summaries).map(ledger).collect();
    let sample = Sample { ledgers, processes: Vec::new(), regions: Vec::new(), time: UnixTime(0), ..machine.clone() };
    let mut mapped: HashMap<u64, Vec<Allocator>> = HashMap::new();
    for allocator in Snapshot::derive(&sample, None).allocators {
        mapped.entry(allocator.process.start_ticks).or_default().push(allocator);
    }
    mapped
}
