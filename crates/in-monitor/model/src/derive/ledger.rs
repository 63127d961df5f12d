//! Memory from ledgers: maps each allocator's chips to rows, and adds up a process's memory there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::allocator::{self, Lists, of_row};
use super::circulars::Work;
use super::device_rows::{DeviceRow, Ids};
use super::launches::{Launches, launches};
use super::process::Target;
use super::steps::Steps;
use super::{overlap, places, user_of};
use crate::identity::{DeviceId, ProcessKey};
use crate::ledger::{BufferKind, Ledger, LedgerAllocator, LedgerChip, LedgerRow, LedgerSample, LedgerWriter, VisibleDevices};
use crate::limits::CIRCULARS_MAX;
use crate::memory::{Figure, Kind, PerKind, Source};
use crate::missing::{Missing, Reading};
use crate::problems::Problems;
use crate::sample::{Problem, Sample};
use crate::snapshot::{Allocator, AllocatorKind, BufferAllocator, Circular, MappedBuffer};

/// The content of all ledgers.
pub(super) struct Tracked {
    /// Sorted by key after all ledgers were added.
    processes: Vec<KnownProcess>,
    pub(super) allocators: Vec<Allocator>,
    pub(super) buffers: Vec<MappedBuffer>,
    pub(super) circulars: Vec<Circular>,
    /// Indices of the open allocators of each device.
    open: HashMap<DeviceId, Vec<usize>>,
    /// The unique id by which a row was found, by row.
    pub(super) confirmed: Vec<Option<u64>>,
    /// Whether this machine has memory that cannot be mapped to a row with certainty.
    unattributed: Option<Unattributed>,
}

/// A process, the writer of its ledger, and the contents.
type KnownProcess = (ProcessKey, LedgerWriter, Reading<ProcessMemory>);

/// Where memory without a row may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unattributed {
    /// On a chip with an unknown number.
    Unnumbered,
    /// On any chip: it is unknown how the process numbers the chips.
    Anywhere,
}

/// One process's memory by target, and its launches.
pub(super) struct ProcessMemory {
    pub(super) places: BTreeMap<Target, PerKind<Option<Figure>>>,
    pub(super) launches: Launches,
    pub(super) overlap_bytes: Reading<u64>,
    /// Unique ids of chips, with the ids that replace them in targets.
    unique_ids: BTreeMap<u64, u64>,
    /// Chips, with the process's own numbers of each.
    metal_ids: BTreeSet<(Target, u64)>,
}

impl Tracked {
    /// Returns a process's ledger, if it has one.
    pub(super) fn of(&self, process: ProcessKey) -> Option<Result<&ProcessMemory, Missing>> {
        let (.., content) = self.find(process)?;
        Some(content.as_ref().map_err(|reason| *reason))
    }

    /// Returns whether the best source for the process is its report to the service.
    pub(super) fn is_served(&self, process: ProcessKey) -> bool {
        self.find(process).is_some_and(|(_, writer, _)| *writer == LedgerWriter::Service)
    }

    fn find(&self, process: ProcessKey) -> Option<&KnownProcess> {
        self.processes.get(self.processes.binary_search_by_key(&process, |(key, ..)| *key).ok()?)
    }

    pub(super) fn open_on(&self, device: DeviceId) -> impl Iterator<Item = &Allocator> {
        self.open.get(&device).into_iter().flatten().filter_map(|index| self.allocators.get(*index))
    }

    /// Returns the refused allocations by device. Refused allocations without an allocator are omitted.
    pub(super) fn refusals(&self) -> HashMap<DeviceId, u64> {
        let mut refusals: HashMap<DeviceId, u64> = HashMap::new();
        for allocator in &self.allocators {
            for device in &allocator.devices {
                let count = refusals.entry(*device).or_default();
                *count = count.saturating_add(allocator.refused);
            }
        }
        refusals
    }

    /// Returns whether reported memory may be on this row without being counted there.
    pub(super) fn may_be_on(&self, row: &DeviceRow<'_>) -> bool {
        match self.unattributed {
            None => false,
            Some(Unattributed::Unnumbered) => row.metal_id.is_err(),
            Some(Unattributed::Anywhere) => true,
        }
    }

    fn note_unattributed(&mut self, ledger: &Ledger, content: &ProcessMemory) {
        // The process's own ledger counts only for devices that the process holds. That is checked elsewhere. Any user may write anything
        // into their own ledger.
        if ledger.writer != LedgerWriter::Service || ledger.is_mock || !content.has_unattributed() {
            return;
        }
        if ledger.visible_devices != VisibleDevices::All {
            self.unattributed = Some(Unattributed::Anywhere);
        }
        self.unattributed.get_or_insert(Unattributed::Unnumbered);
    }

    /// Adds the report that the service received from a process with its own ledger. Both describe the same memory. A reported figure is
    /// used only if the process's own ledger has none, and only for chips that both sources identify with certainty.
    fn complete(&mut self, number: usize, reported: ProcessMemory) {
        let Some((.., Ok(own))) = self.processes.get_mut(number) else { return };
        if own.targets().any(|target| target.row().is_none()) {
            return;
        }
        for (target, kinds) in reported.places.into_iter().filter(|(target, _)| target.row().is_some()) {
            let known = own.entry(target);
            for (kind, figure) in kinds.iter() {
                if known[kind].is_none() {
                    known[kind].clone_from(figure);
                }
            }
        }
    }
}

impl ProcessMemory {
    /// Returns the figures for a target.
    pub(super) fn on(&self, target: Target) -> Option<&PerKind<Option<Figure>>> {
        self.places.get(&target)
    }

    /// Returns the target that replaces a unique id in this ledger.
    pub(super) fn named(&self, target: Target) -> Target {
        let name = target.unmapped().and_then(|unique_id| self.unique_ids.get(&unique_id).copied());
        name.map_or(target, Target::Unmapped)
    }

    /// Returns the process's own numbers of a chip.
    pub(super) fn metal_ids(&self, target: Target) -> Reading<Vec<u64>> {
        let ids: Vec<u64> = self.metal_ids.range((target, 0)..=(target, u64::MAX)).map(|(_, id)| *id).collect();
        if ids.is_empty() { Err(Missing::NotTracked) } else { Ok(ids) }
    }

    /// Returns the unique ids by the id in targets.
    pub(super) fn unique_ids(&self) -> BTreeMap<u64, u64> {
        self.unique_ids.iter().map(|(unique_id, name)| (*name, *unique_id)).collect()
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = Target> {
        self.places.keys().copied()
    }

    /// Returns whether the process has memory that cannot be mapped to a row with certainty.
    fn has_unattributed(&self) -> bool {
        let is_some = |figure: &Option<Figure>| figure.as_ref().is_some_and(|figure| figure.used != Ok(0));
        let unmapped = self.places.iter().filter(|(target, _)| target.row().is_none());
        unmapped.flat_map(|(_, kinds)| kinds.iter()).any(|(_, figure)| is_some(figure))
    }

    pub(super) fn entry(&mut self, target: Target) -> &mut PerKind<Option<Figure>> {
        self.places.entry(target).or_default()
    }
}

pub(super) fn attribute(
    sample: &Sample,
    previous: Option<&Sample>,
    rows: &[DeviceRow<'_>],
    ids: &Ids,
    steps: &mut Steps,
    problems: &mut Problems,
) -> Tracked {
    let mut tracked = Tracked {
        processes: Vec::new(),
        allocators: Vec::new(),
        buffers: Vec::new(),
        circulars: Vec::new(),
        open: HashMap::new(),
        confirmed: vec![None; rows.len()],
        unattributed: None,
    };
    // Only to reserve memory: an unreadable ledger has no content.
    let all = || sample.ledgers.iter().filter_map(|found| found.content.as_ref().ok());
    tracked.processes.reserve(sample.ledgers.len());
    tracked.allocators.reserve(all().map(|ledger| ledger.allocators.len()).sum());
    // The index of each process.
    let mut numbers: HashMap<ProcessKey, usize> = HashMap::with_capacity(sample.ledgers.len());
    let is_served = |(_, found): &(usize, &LedgerSample)| found.content.as_ref().is_ok_and(|ledger| ledger.writer == LedgerWriter::Service);
    // The processes' own ledgers come first, because they are the better source.
    let (served, own): (Vec<_>, Vec<_>) = sample.ledgers.iter().enumerate().partition(is_served);
    for (place, found) in own.into_iter().chain(served) {
        let known = numbers.get(&found.owner).copied();
        let (writer, content) = match &found.content {
            Ok(ledger) => {
                let first = known.filter(|number| tracked.processes[*number].2.is_ok());
                let (allocators, buffers, circulars) = (tracked.allocators.len(), tracked.buffers.len(), tracked.circulars.len());
                let launches = launches(found.owner, ledger, sample, previous, place);
                let user = user_of(sample, found.owner.pid);
                let (content, overlaps) =
                    attribute_ledger(found.owner, ledger, launches, rows, ids, Work::of(ledger, user, steps), &mut tracked);
                for problem in overlaps {
                    problems.push_of(user, "buffers that overlap", problem);
                }
                tracked.note_unattributed(ledger, &content);
                if let Some(number) = first {
                    tracked.allocators.truncate(allocators);
                    tracked.buffers.truncate(buffers);
                    tracked.circulars.truncate(circulars);
                    tracked.complete(number, content);
                    continue;
                }
                report_flaws(sample, found.owner, ledger, problems);
                (ledger.writer, Ok(content))
            }
            Err(reason) => (LedgerWriter::Unknown, Err(*reason)),
        };
        match known {
            Some(number) if content.is_ok() => tracked.processes[number] = (found.owner, writer, content),
            Some(_) => {}
            None => {
                numbers.insert(found.owner, tracked.processes.len());
                tracked.processes.push((found.owner, writer, content));
            }
        }
    }
    tracked.processes.sort_by_key(|(key, ..)| *key);
    for (index, allocator) in tracked.allocators.iter().enumerate().filter(|(_, allocator)| allocator.is_open) {
        for device in &allocator.devices {
            tracked.open.entry(*device).or_default().push(index);
        }
    }
    tracked
}

fn report_flaws(sample: &Sample, owner: ProcessKey, ledger: &Ledger, problems: &mut Problems) {
    let is_wrong = |allocator: &LedgerAllocator| allocator.self_check.is_inexact;
    let is_restored = |allocator: &LedgerAllocator| allocator.is_open() && allocator.self_check.is_restored;
    let flaws = [
        (!ledger.is_exact, "some of its events were lost, so its figures may be off"),
        (ledger.is_changing(), "its buffers change faster than they can be listed; its totals are exact, the list is not"),
        (ledger.allocators.iter().any(is_wrong), "its figures differ from TT-Metal's own statistics"),
        (
            ledger.allocators.iter().any(is_restored),
            "it put back an earlier state of an allocator: blocks without buffers are not in its figures",
        ),
    ];
    for (_, detail) in flaws.into_iter().filter(|(is_so, _)| *is_so) {
        let problem = Problem::new(format!("ledger of process {}", owner.pid), Missing::NotTracked, detail);
        problems.push_of(user_of(sample, owner.pid), detail, problem);
    }
}

/// Returns the memory of a process and the problems of buffers that overlap.
fn attribute_ledger(
    owner: ProcessKey,
    ledger: &Ledger,
    launches: Launches,
    rows: &[DeviceRow<'_>],
    ids: &Ids,
    mut work: Work<'_>,
    tracked: &mut Tracked,
) -> (ProcessMemory, Vec<Problem>) {
    let mut problems = Vec::new();
    let lists = Lists::of(ledger);
    let visible = VisibleRows::of(ledger, rows, &mut work);
    let unmapped_chips = NamedChips::of(ledger);
    let mut process = ProcessMemory {
        places: BTreeMap::new(),
        launches,
        overlap_bytes: Err(Missing::NotTracked),
        unique_ids: unmapped_chips.unique_ids(ledger),
        metal_ids: BTreeSet::new(),
    };
    let targets: Vec<Vec<Target>> = ledger
        .allocators
        .iter()
        .map(|allocator| {
            let chips = allocator.chips.iter();
            chips
                .map(|chip| row_of_chip(*chip, &visible, rows, ids).unwrap_or(Target::Unmapped(unmapped_chips.name(*chip, allocator))))
                .collect()
        })
        .collect();
    for (index, (allocator, targets)) in ledger.allocators.iter().zip(&targets).enumerate() {
        for (chip, target) in allocator.chips.iter().zip(targets) {
            if let (Target::Device(row), Some(id)) = (target, chip.unique_id) {
                tracked.confirmed[*row] = Some(id);
            }
            if let Some(metal_id) = chip.metal_id {
                process.metal_ids.insert((*target, metal_id.into()));
            }
        }
        let kinds = allocator::kinds(ledger, index, &lists, &mut work);
        tracked.allocators.push(mapped_allocator(owner, ledger, allocator, kinds, targets, rows));
    }
    let first = tracked.allocators.len() - ledger.allocators.len();
    places::add_buffers(&mut process, ledger, &targets, &tracked.allocators[first..]);
    places::add_programs(&mut process, ledger, &targets, &lists, &mut work);
    process.overlap_bytes = overlap::find(ledger, &targets, &lists, &mut work).map(|overlaps| {
        problems.extend(overlaps.iter().map(|(target, bytes)| overlap_problem(owner, *target, *bytes, rows)));
        overlaps.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes))
    });
    add_circulars(owner, ledger, &targets, rows, &mut tracked.circulars);
    let Tracked { allocators, buffers, .. } = tracked;
    add_buffers(ledger, &allocators[first..], buffers);
    (process, problems)
}

fn mapped_allocator(
    owner: ProcessKey,
    ledger: &Ledger,
    allocator: &LedgerAllocator,
    mut kinds: PerKind<Option<AllocatorKind>>,
    targets: &[Target],
    rows: &[DeviceRow<'_>],
) -> Allocator {
    let mut others: Vec<(BufferKind, AllocatorKind)> =
        [BufferKind::Host, BufferKind::Other].into_iter().filter_map(|kind| Some((kind, of_row(row_of_kind(allocator, kind)?)))).collect();
    if ledger.writer == LedgerWriter::Service {
        Kind::ALL.into_iter().for_each(|kind| kinds[kind].iter_mut().for_each(|item| item.figure.source = Ok(Source::Server)));
        others.iter_mut().for_each(|(_, item)| item.figure.source = Ok(Source::Server));
    }
    Allocator {
        id: format!("{}.{}.{}", owner.pid, allocator.slot, allocator.generation),
        process: owner,
        slot: allocator.slot,
        is_open: allocator.is_open(),
        mesh: allocator.mesh,
        devices: targets.iter().filter_map(|target| device_of(*target, rows)).collect(),
        unmapped: targets.iter().copied().filter_map(Target::unmapped).collect(),
        // An allocator that the program reports itself has no coverage.
        coverage: if allocator.origin == LedgerWriter::Hook { Ok(ledger.coverage.clone()) } else { Err(Missing::NoSource) },
        self_check: allocator.self_check,
        kinds,
        others,
        buffers_left_out: allocator.buffers_left_out,
        refused: allocator.refused(),
    }
}

fn add_circulars(owner: ProcessKey, ledger: &Ledger, targets: &[Vec<Target>], rows: &[DeviceRow<'_>], circulars: &mut Vec<Circular>) {
    for entry in ledger.circulars.iter().take(CIRCULARS_MAX) {
        let chips = targets.get(entry.allocator).map_or(&[][..], Vec::as_slice);
        let here = |chip: &usize| entry.chip.is_none_or(|at| at == *chip);
        let devices = (0..chips.len()).filter(here).filter_map(|chip| device_of(chips[chip], rows)).collect();
        let slot = ledger.allocators.get(entry.allocator).map_or(0, |allocator| allocator.slot);
        circulars.push(Circular { process: owner, slot, devices, entry: *entry });
    }
}

/// Adds the buffers of a ledger. `allocators` are the allocators of that ledger.
fn add_buffers(ledger: &Ledger, allocators: &[Allocator], buffers: &mut Vec<MappedBuffer>) {
    let shared = |Allocator { id, process, devices, .. }: &Allocator| {
        Arc::new(BufferAllocator { id: id.clone(), process: *process, devices: devices.clone() })
    };
    let allocators: Vec<Arc<BufferAllocator>> = allocators.iter().map(shared).collect();
    buffers.reserve(ledger.buffers.len());
    buffers.extend(ledger.buffers.iter().filter_map(|buffer| {
        let allocator = Arc::clone(allocators.get(usize::from(buffer.allocator))?);
        Some(MappedBuffer { allocator, buffer: buffer.clone() })
    }));
}

fn overlap_problem(owner: ProcessKey, target: Target, bytes: u64, rows: &[DeviceRow<'_>]) -> Problem {
    let place = match (device_of(target, rows), target) {
        (Some(device), _) => format!("device {device}"),
        (None, Target::Unmapped(id)) => format!("chip {id}"),
        (None, Target::Device(_)) => "a chip".to_owned(),
    };
    let detail = format!("{bytes} bytes of {place} belong to two live buffers");
    Problem::new(format!("memory of process {}", owner.pid), Missing::OutOfRange, detail)
}

fn device_of(target: Target, rows: &[DeviceRow<'_>]) -> Option<DeviceId> {
    rows.get(target.row()?).map(|row| row.id)
}

fn row_of_kind(allocator: &LedgerAllocator, kind: BufferKind) -> Option<&LedgerRow> {
    allocator.rows.iter().find(|row| row.kind == kind)
}

/// Returns the row of a chip: by its unique id, or else by its number in a process with these visible devices.
fn row_of_chip(chip: LedgerChip, visible: &VisibleRows, rows: &[DeviceRow<'_>], ids: &Ids) -> Option<Target> {
    let row = match (visible, chip.unique_id, chip.metal_id) {
        (VisibleRows::Mock, ..) => None,
        (_, Some(id), _) => ids.row(id),
        (VisibleRows::All, None, Some(metal_id)) => rows.iter().position(|row| row.metal_id == Ok(u64::from(metal_id))),
        (VisibleRows::Only(seen), None, Some(metal_id)) => seen.get(usize::try_from(metal_id).ok()?).copied(),
        (VisibleRows::Unknown, None, Some(_)) | (_, None, None) => None,
    };
    row.map(Target::Device)
}

/// The rows that a process sees. TT-Metal numbers the local ones in the order of their PCI addresses, then the remote ones.
enum VisibleRows {
    /// No rows: the chips of the process are not real.
    Mock,
    All,
    /// These rows, in the order of their numbers inside the process.
    Only(Vec<usize>),
    Unknown,
}

/// Steps to compare an item of TT_VISIBLE_DEVICES with the address of one device.
const STEPS_PER_ADDRESS: usize = 64;

impl VisibleRows {
    fn of(ledger: &Ledger, rows: &[DeviceRow<'_>], work: &mut Work<'_>) -> Self {
        match &ledger.visible_devices {
            _ if ledger.is_mock => Self::Mock,
            VisibleDevices::All => Self::All,
            VisibleDevices::Cut => Self::Unknown,
            VisibleDevices::Only(text) => {
                let words = text.split(',').count();
                let steps = words.saturating_mul(rows.len()).saturating_mul(STEPS_PER_ADDRESS);
                if work.take(steps) { seen_rows(rows, text).map_or(Self::Unknown, Self::Only) } else { Self::Unknown }
            }
        }
    }
}

/// The chips of one process, named by the process's own numbers, which are those of TT-Metal. Two chips have the same number if the process
/// changed its visible devices. They are then named by unique id.
struct NamedChips {
    /// Numbers that more than one chip has.
    ambiguous: BTreeSet<u32>,
}

impl NamedChips {
    fn of(ledger: &Ledger) -> Self {
        let (mut known, mut ambiguous) = (BTreeMap::new(), BTreeSet::new());
        for chip in ledger.allocators.iter().flat_map(|allocator| &allocator.chips) {
            if let (Some(metal_id), Some(unique_id)) = (chip.metal_id, chip.unique_id)
                && *known.entry(metal_id).or_insert(unique_id) != unique_id
            {
                ambiguous.insert(metal_id);
            }
        }
        Self { ambiguous }
    }

    fn name(&self, chip: LedgerChip, allocator: &LedgerAllocator) -> u64 {
        match (chip.metal_id, chip.unique_id) {
            (Some(metal_id), Some(unique_id)) if self.ambiguous.contains(&metal_id) => unique_id,
            (Some(metal_id), _) => metal_id.into(),
            (None, Some(unique_id)) => unique_id,
            (None, None) => allocator.given_id.into(),
        }
    }

    /// Returns the chips with a known unique id, and their ids in targets.
    fn unique_ids(&self, ledger: &Ledger) -> BTreeMap<u64, u64> {
        let chips = ledger.allocators.iter().flat_map(|allocator| allocator.chips.iter().map(move |chip| (chip, allocator)));
        chips.filter_map(|(chip, allocator)| Some((chip.unique_id?, self.name(*chip, allocator)))).collect()
    }
}

/// Returns the numbers and the devices of the chips that a process sees, or `None` if the numbers cannot be determined. Devices with an
/// unknown number are omitted.
pub fn numbering(sample: &Sample, visible: &VisibleDevices) -> Option<Vec<(u64, DeviceId)>> {
    let rows = super::device_rows::list(sample);
    Some(match visible {
        VisibleDevices::All => rows.iter().filter_map(|row| Some((row.metal_id.ok()?, row.id))).collect(),
        VisibleDevices::Cut => return None,
        VisibleDevices::Only(visible) => (0..).zip(seen_rows(&rows, visible)?).map(|(number, row)| (number, rows[row].id)).collect(),
    })
}

/// Returns the rows in TT_VISIBLE_DEVICES, in the order of their numbers inside the process.
fn seen_rows(rows: &[DeviceRow<'_>], visible: &str) -> Option<Vec<usize>> {
    let mut seen: Vec<usize> = Vec::new();
    for word in visible.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        seen.extend(visible_rows(rows, word)?);
    }
    // The process numbers its devices again, in the order of their addresses.
    seen.sort_by_key(|row| rows[*row].metal_id.unwrap_or(u64::MAX));
    seen.dedup();
    Some(seen)
}

/// Returns the local rows for an item of TT_VISIBLE_DEVICES, or `None` if they are not known. UMD before 0.9.3 interpreted integers as /dev
/// numbers. Later versions interpret them as positions in the order of addresses. If the two differ, the result is unknown.
fn visible_rows(rows: &[DeviceRow<'_>], word: &str) -> Option<Vec<usize>> {
    if word.contains([':', '.']) {
        // UMD cannot see a chip without an address, either.
        let fits = |row: &DeviceRow<'_>| row.local.and_then(|local| local.bdf.ok()).is_some_and(|bdf| bdf.to_string().contains(word));
        return Some((0..rows.len()).filter(|index| fits(&rows[*index])).collect());
    }
    let number: u64 = word.parse().ok()?;
    let by_position = rows.iter().position(|row| row.local.is_some() && row.metal_id == Ok(number))?;
    let by_device = rows.iter().position(|row| row.local.is_some() && u64::from(row.id.0) == number)?;
    (by_position == by_device).then(|| vec![by_position])
}
