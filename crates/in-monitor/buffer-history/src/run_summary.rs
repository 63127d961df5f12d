//! The use of device memory by a command, over all its processes: by device and kind, with the buffers at the peaks and those that were not
//! freed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ttmon_ledger_reader::COST_ONE_IN;
use ttmon_model::groups::changes;
use ttmon_model::identity::ranges;
use ttmon_model::ledger::{
    Buffer, BufferKind, HookFeature, LedgerAllocator, LedgerChip, LedgerRefusal, LedgerRow, LedgerShared, LedgerSharedPeak, LedgerWriter,
    PeakGroup,
};
use ttmon_model::limits::grouped;
use ttmon_model::phase::{HostMemory, Tightest};
use ttmon_model::stack::SourceLine;
use ttmon_model::{DeviceId, Sample, Snapshot};

use crate::ledger_summary::LedgerSummary;
use crate::names::{self, Names};

/// A chip: a device of this machine, or an identity, which is the unique id if known. Programs use a shorter id for the chip, which is the
/// one to [show](RunSummary::given).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChipName {
    /// A device of this machine.
    Device(DeviceId),
    /// The identity of a chip that is not a device of this machine.
    Unmapped(u64),
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// The command exited with this code.
    Exit(i32),
    /// This signal killed the command.
    Signal(i32),
}

/// The use of device memory by a command, over all its processes.
#[derive(Debug)]
pub struct RunSummary {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// How the command ended.
    pub end: CommandEnd,
    /// Start and end of the command, in nanoseconds since 1970.
    pub span: (u64, u64),
    /// The summaries of its ledgers.
    pub summaries: Vec<LedgerSummary>,
    /// The chips of the allocators of each ledger, in the order of the allocators.
    pub places: Vec<Vec<Vec<ChipName>>>,
    /// Number of ledgers that could not be read.
    pub unread: u64,
    /// Whether a process of another user sent a ledger.
    pub has_foreign_ledgers: bool,
    /// The memory of each chip.
    pub chips: BTreeMap<ChipName, ChipUsage>,
    names: Names,
    /// Why the program could not be tracked, if known.
    pub untracked: Option<&'static str>,
}

/// The cost of recording.
#[derive(Clone, Copy, Debug)]
pub struct Overhead {
    /// Number of calls.
    pub calls: u64,
    /// Number of measured calls.
    pub measured_calls: u64,
    /// Time of all calls.
    pub nanoseconds: u64,
    /// Share of the command's duration.
    pub ratio: f64,
}

/// Minimum number of measured calls. Fewer are not representative.
const MEASURED_MIN: u64 = 8;

/// Maximum length of a list of chips, in characters.
const LIST_COLUMNS: usize = 40;

/// The memory of one chip.
#[derive(Clone, Debug, Default)]
pub struct ChipUsage {
    /// The memory of each kind.
    pub kinds: BTreeMap<BufferKind, KindUsage>,
    /// Buffers that were not freed: count and bytes.
    pub leaked: (u64, u64),
    /// Buffers of the program cache that were not freed: count and bytes.
    pub cached: (u64, u64),
}

/// One kind of memory on one chip.
#[derive(Clone, Debug, Default)]
pub struct KindUsage {
    /// Highest live bytes, as requested.
    pub peak: u64,
    /// Time of the peak, in nanoseconds since 1970.
    pub peak_time: u64,
    /// Highest live bytes, as allocated, if the banks are known.
    pub peak_allocated: Option<u64>,
    /// Live bytes when the allocator was closed, or when the process ended.
    pub at_end: u64,
    /// Live bytes when a process ended, as requested and as allocated. The peak is at least this high.
    live: (u64, u64),
    /// The sum of the peaks of all allocators, which is an upper bound for their common peak.
    pub peak_at_most: u64,
    /// The allocator's limit.
    capacity: Option<u64>,
    /// The capacity of the chip.
    total: Option<u64>,
    /// The live buffers at the peak.
    pub groups: Vec<PeakGroup>,
    /// Whether several allocators held memory at the same time and their total was not recorded. The peak of the total may be higher than
    /// the peak of each allocator.
    pub is_at_least: bool,
    lifetimes: Vec<Lifetime>,
}

/// The lifetime of an allocator.
#[derive(Clone, Copy, Debug)]
struct Lifetime {
    span: (u64, u64),
    /// The ledger and the origin, if the ledger records the total of all allocators of that origin on the chip.
    sharing: Option<(usize, LedgerWriter)>,
}

impl Lifetime {
    /// Returns whether the two lifetimes overlap and the total of both allocators was not recorded.
    fn hides(&self, other: &Self) -> bool {
        let is_noted = self.sharing.is_some() && self.sharing == other.sharing;
        !is_noted && other.span.0 < self.span.1 && self.span.0 < other.span.1
    }
}

/// A buffer that was not freed, with its chips.
#[derive(Debug)]
pub struct Leftover<'a> {
    /// The ledger with the buffer.
    pub summary: &'a LedgerSummary,
    /// The buffer.
    pub left: &'a Buffer,
    /// The chips.
    pub places: &'a [ChipName],
}

impl RunSummary {
    /// Combines the summaries, and maps their chips to the devices of the machine.
    pub fn new(command: Vec<String>, end: CommandEnd, span: (u64, u64), summaries: Vec<LedgerSummary>, machine: Option<&Sample>) -> Self {
        let places = names::places(&summaries, machine);
        let snapshot = machine.map(|sample| Snapshot::derive(sample, None));
        let mut chips: BTreeMap<ChipName, ChipUsage> = BTreeMap::new();
        for (number, (summary, places)) in summaries.iter().zip(&places).enumerate() {
            // The bytes of one process at its end were live at the same time. The bytes of other processes may have been live at another
            // time.
            chips.values_mut().flat_map(|chip| chip.kinds.values_mut()).for_each(|usage| usage.live = (0, 0));
            for (allocator, places) in summary.ledger.allocators.iter().zip(places) {
                for (at, place) in places.iter().enumerate() {
                    let shared = chip_at(allocator, places, at).and_then(|chip| summary.ledger.shared_on(chip, allocator.origin));
                    let chip = chips.entry(*place).or_default();
                    let life = Lifetime { span: summary.lifetime(allocator), sharing: shared.map(|_| (number, allocator.origin)) };
                    for row in &allocator.rows {
                        chip.add(allocator, row, life, shared, total(snapshot.as_ref(), *place, row.kind));
                    }
                }
            }
        }
        for (summary, places) in summaries.iter().zip(&places) {
            raise_to_leftovers(&mut chips, summary, places);
        }
        let names = Names::of(&summaries);
        Self { command, end, span, summaries, places, unread: 0, has_foreign_ledgers: false, chips, names, untracked: None }
    }

    /// Returns the name of a chip: `device 0`, `simulated chip 0`, or the id that the program uses.
    pub fn name(&self, place: ChipName) -> String {
        self.names(&[place])
    }

    /// Returns the id that the program uses for a chip that is not a device of this machine.
    pub fn given(&self, id: u64) -> u64 {
        self.names.given(id)
    }

    /// Returns the names of chips: `device 0`, `devices 0-3`, `simulated chips 0,1`, `chips 7,8`.
    pub fn names(&self, places: &[ChipName]) -> String {
        let mut devices: Vec<DeviceId> = Vec::new();
        let (mut mock, mut others): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for place in places {
            match place {
                ChipName::Device(id) => devices.push(*id),
                ChipName::Unmapped(id) if self.names.is_mock(*id) => mock.push(self.given(*id).to_string()),
                ChipName::Unmapped(id) => others.push(self.given(*id).to_string()),
            }
        }
        // These texts have only digits and commas.
        let list = |names: &[String]| match names.join(",") {
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

    /// Returns whether a chip is neither a device of this machine nor a simulated chip.
    pub fn has_unknown_chips(&self) -> bool {
        self.chips.keys().any(|place| if let ChipName::Unmapped(id) = place { !self.names.is_mock(*id) } else { false })
    }

    /// Returns whether nothing is known about the command.
    pub fn is_empty(&self) -> bool {
        self.summaries.iter().all(|summary| summary.ledger.events == 0)
    }

    /// Returns the reason why nothing is known about the command.
    pub fn why_empty(&self) -> String {
        let why = self.why_inexact().unwrap_or_else(|| self.untracked.unwrap_or("no call of TT-Metal was seen").to_owned());
        format!("nothing was tracked: {why}")
    }

    /// Returns the reason why the figures are incomplete, or `None` if they are complete.
    pub fn why_inexact(&self) -> Option<String> {
        let inexact = self.summaries.iter().filter(|summary| !summary.is_exact()).count() as u64;
        let several =
            |count: u64, one: &str, many: &str| if count == 1 { format!("1 {one}") } else { format!("{} {many}", grouped(count)) };
        let unread = (self.unread > 0).then(|| format!("{} could not be read", several(self.unread, "ledger", "ledgers")));
        let lost = (inexact > 0).then(|| format!("the figures of {} are not exact", several(inexact, "process", "processes")));
        let reasons: Vec<String> = unread.into_iter().chain(lost).collect();
        (!reasons.is_empty()).then(|| reasons.join(", "))
    }

    /// Returns the cost of recording over all processes, extrapolated from the measured calls. Returns `None` if too few were measured.
    pub fn overhead(&self) -> Option<Overhead> {
        let (measured_calls, nanoseconds) = self.summaries.iter().fold((0_u64, 0_u64), |sum, summary| {
            (sum.0.saturating_add(summary.ledger.cost.0), sum.1.saturating_add(summary.ledger.cost.1))
        });
        let one_in = u64::from(COST_ONE_IN);
        let duration = self.span.1.saturating_sub(self.span.0);
        (measured_calls >= MEASURED_MIN && duration > 0).then(|| {
            let (calls, nanoseconds) = (measured_calls.saturating_mul(one_in), nanoseconds.saturating_mul(one_in));
            Overhead { calls, measured_calls, nanoseconds, ratio: nanoseconds as f64 / duration as f64 }
        })
    }

    /// Returns the number of allocations.
    pub fn allocations(&self) -> u64 {
        self.rows().map(|(_, row, _)| row.allocations).fold(0, u64::saturating_add)
    }

    /// Returns every row with its allocator and its chips.
    fn rows(&self) -> impl Iterator<Item = (&LedgerAllocator, &LedgerRow, &[ChipName])> {
        self.summaries.iter().zip(&self.places).flat_map(|(summary, places)| {
            let allocators = summary.ledger.allocators.iter().zip(places);
            allocators.flat_map(|(allocator, places)| allocator.rows.iter().map(move |row| (allocator, row, places.as_slice())))
        })
    }

    /// Returns the rows of kinds that a program can leak.
    fn banked_rows(&self) -> impl Iterator<Item = (&LedgerAllocator, &LedgerRow, &[ChipName])> {
        self.rows().filter(|(_, row, _)| row.kind.is_banked())
    }

    /// Returns the buffers that were not freed, largest first: those of the program cache if `is_cached`, else all others.
    pub fn left(&self, is_cached: bool) -> Vec<Leftover<'_>> {
        let summaries = self.summaries.iter().zip(&self.places);
        let mut left: Vec<Leftover<'_>> = summaries
            .flat_map(|(summary, places)| {
                let ours = summary.left.iter().filter(move |left| left.is_cached == is_cached && left.kind.is_banked());
                ours.filter_map(move |left| Some(Leftover { summary, left, places: places.get(usize::from(left.allocator))? }))
            })
            .collect();
        left.sort_by_key(|leftover| (Reverse(leftover.left.size), leftover.summary.pid, leftover.left.address));
        left
    }

    /// Returns the count and bytes of buffers that were not freed, without those of the program cache. A buffer of a mesh is on each of its
    /// chips, but counts once.
    pub fn leaked(&self) -> (u64, u64) {
        self.leaked_by_chips().iter().fold((0, 0), |sum, (_, (count, bytes))| (sum.0 + count, sum.1.saturating_add(*bytes)))
    }

    /// Returns the same sums by the chips of the buffers, most bytes first.
    pub fn leaked_by_chips(&self) -> Vec<(&[ChipName], (u64, u64))> {
        let mut groups: BTreeMap<&[ChipName], (u64, u64)> = BTreeMap::new();
        for (_, row, places) in self.banked_rows() {
            let Some(leaked) = row.end.as_ref().map(|end| end.leaked).filter(|leaked| leaked.0 > 0) else { continue };
            let group = groups.entry(places).or_default();
            *group = (group.0 + leaked.0, group.1.saturating_add(leaked.1));
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|(_, (_, bytes))| Reverse(*bytes));
        groups
    }

    /// Returns the change of the live bytes from the program's last mark to the end, or `None` without a mark. Each buffer counts once.
    pub fn growth(&self) -> Option<i64> {
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut rows = self.banked_rows().filter_map(|(allocator, row, _)| Some((row.at_end(allocator), row.marked?.used))).peekable();
        rows.peek()?;
        Some(rows.fold(0, |growth: i64, (at_end, at_mark)| growth.saturating_add(signed(at_end).saturating_sub(signed(at_mark)))))
    }

    /// Returns the lines whose bytes increased since the last mark, highest increase first.
    pub fn growth_by_line(&self) -> Vec<(Option<Arc<SourceLine>>, u64)> {
        let changed = self.summaries.iter().filter_map(|summary| summary.growth.as_ref()).flatten();
        // Only growth is listed.
        let grown = changes(changed.cloned()).into_iter();
        grown.filter_map(|(line, bytes)| Some((line, u64::try_from(bytes).ok().filter(|bytes| *bytes > 0)?))).collect()
    }

    /// Returns the refused requests with their chips, in the order of time.
    pub fn refusals(&self) -> Vec<(&LedgerRefusal, &[ChipName])> {
        let mut refusals = Vec::new();
        for (summary, places) in self.summaries.iter().zip(&self.places) {
            for refused in &summary.refusals {
                let index = summary.ledger.allocators.iter().position(|allocator| allocator.slot == refused.slot);
                refusals.push((refused, index.and_then(|index| places.get(index)).map_or(&[][..], Vec::as_slice)));
            }
        }
        refusals.sort_by_key(|(refused, _)| refused.time);
        refusals
    }

    /// Returns the smallest value of the largest free block of a bank for each row of a device, smallest first.
    pub fn tightest(&self) -> Vec<(BufferKind, &Tightest, &[ChipName])> {
        let mut found: Vec<(BufferKind, &Tightest, &[ChipName])> = Vec::new();
        for (summary, places) in self.summaries.iter().zip(&self.places) {
            let banked = summary.tightest.iter().filter(|(_, kind, _)| kind.is_banked());
            found.extend(banked.filter_map(|(index, kind, tightest)| Some((*kind, tightest, places.get(*index)?.as_slice()))));
        }
        found.sort_by_key(|(kind, tightest, _)| (*kind, tightest.bytes));
        found
    }

    /// Returns the host memory of the process with the highest peak.
    pub fn host_rss(&self) -> Option<HostMemory> {
        self.summaries.iter().filter_map(|summary| summary.host_rss).max_by_key(|host| host.peak)
    }

    /// Returns the features of TT-Metal that could not be tracked, each once, with the reason.
    pub fn not_followed(&self) -> Vec<String> {
        let features = self.summaries.iter().flat_map(|summary| &summary.ledger.coverage);
        let mut texts: Vec<String> = features.filter_map(HookFeature::not_followed).collect();
        texts.sort_unstable();
        texts.dedup();
        texts
    }
}

impl KindUsage {
    /// Returns the allocator's limit if known, else the capacity of the chip.
    pub fn limit(&self) -> Option<u64> {
        self.capacity.or(self.total)
    }

    /// Raises the peak to the common peak of several allocators, if that is higher. The buffers at that peak are unknown.
    fn raise(&mut self, together: LedgerSharedPeak, has_banks: bool) {
        if together.used > self.peak {
            (self.peak, self.peak_time) = (together.used, together.time.0);
            self.groups.clear();
        }
        if has_banks {
            self.peak_allocated = self.peak_allocated.max(Some(together.allocated));
        }
    }
}

impl ChipUsage {
    fn add(&mut self, allocator: &LedgerAllocator, row: &LedgerRow, life: Lifetime, shared: Option<&LedgerShared>, total: Option<u64>) {
        let usage = self.kinds.entry(row.kind).or_default();
        let has_banks = row.capacity.is_some();
        (usage.capacity, usage.total) = (usage.capacity.max(row.capacity), total);
        usage.at_end = usage.at_end.saturating_add(row.at_end(allocator));
        usage.live.0 = usage.live.0.saturating_add(row.used);
        usage.live.1 = usage.live.1.saturating_add(row.allocated.unwrap_or(row.used));
        usage.peak_at_most = usage.peak_at_most.saturating_add(if has_banks { row.peak_allocated } else { row.peak });
        if has_banks {
            usage.peak_allocated = usage.peak_allocated.max(Some(row.peak_allocated)).max(Some(usage.live.1));
        }
        if row.peak > 0 {
            usage.is_at_least |= usage.lifetimes.iter().any(|other| life.hides(other));
            usage.lifetimes.push(life);
        }
        let Some(end) = &row.end else { return };
        if row.peak > usage.peak {
            (usage.peak, usage.peak_time) = (row.peak, row.peak_time.0);
            usage.groups.clone_from(&end.at_peak);
        }
        if let (Some(shared), BufferKind::Of(kind)) = (shared, row.kind) {
            usage.raise(shared.peaks[kind], has_banks);
        }
        usage.peak = usage.peak.max(usage.live.0);
        if row.kind.is_banked() {
            self.leaked = (self.leaked.0 + end.leaked.0, self.leaked.1.saturating_add(end.leaked.1));
            self.cached = (self.cached.0 + end.cached.0, self.cached.1.saturating_add(end.cached.1));
        }
    }
}

/// Raises the peak to the bytes that were not freed. At the end of an allocator, all buffers that were allocated before and never freed
/// were live, so the peak is at least their sum. This matters only if several allocators share a chip.
fn raise_to_leftovers(chips: &mut BTreeMap<ChipName, ChipUsage>, summary: &LedgerSummary, places: &[Vec<ChipName>]) {
    let mut left: BTreeMap<(ChipName, BufferKind), Vec<&Buffer>> = BTreeMap::new();
    for leftover in &summary.left {
        for place in places.get(usize::from(leftover.allocator)).into_iter().flatten() {
            left.entry((*place, leftover.kind)).or_default().push(leftover);
        }
    }
    let allocator_of = |leftover: &Buffer| summary.ledger.allocators.get(usize::from(leftover.allocator));
    let end_of = |leftover: &Buffer| allocator_of(leftover).map_or(0, |allocator| summary.lifetime(allocator).1);
    for ((place, kind), left) in left {
        let Some(usage) = chips.get_mut(&place).and_then(|chip| chip.kinds.get_mut(&kind)).filter(|usage| usage.is_at_least) else {
            continue;
        };
        for moment in left.iter().map(|leftover| end_of(leftover)).collect::<BTreeSet<u64>>() {
            let there = left.iter().filter(|leftover| leftover.time.0 <= moment && end_of(leftover) >= moment);
            usage.peak = usage.peak.max(there.map(|leftover| leftover.size).fold(0, u64::saturating_add));
        }
    }
}

/// Returns the capacity of a chip for a kind, if known.
fn total(snapshot: Option<&Snapshot>, place: ChipName, kind: BufferKind) -> Option<u64> {
    let (ChipName::Device(id), BufferKind::Of(kind)) = (place, kind) else { return None };
    snapshot?.device(id)?.memory.kinds[kind].total.ok()
}

/// Returns the chip of an allocator at index `at` of its places. Places are in the order of the chips, unless only some of the chips are
/// devices.
fn chip_at<'a>(allocator: &'a LedgerAllocator, places: &[ChipName], at: usize) -> Option<&'a LedgerChip> {
    let are_devices = |place: &ChipName| matches!(place, ChipName::Device(_));
    let is_in_order = places.len() == allocator.chips.len() && places.iter().all(|place| are_devices(place) == are_devices(&places[0]));
    allocator.chips.get(at).filter(|_| is_in_order)
}
