//! The final contents of one ledger, in bounded space. A command may start thousands of tracked processes.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use crate::{History, largest_free};
use ttmon_collect::Lines;
use ttmon_collect::ledgers::{self, buffer_kind};
use ttmon_json::run::{HostMemory, RunGroup};
use ttmon_ledger::layout::{flag, status};
use ttmon_ledger_reader::{Entry, Failure, Listing, PeakSet, ReadError, Region, Row};
use ttmon_model::event::Refusal;
use ttmon_model::ledger::{BufferKind, Ledger};
use ttmon_model::phase::{Phase, Point, Tightest, UnsafeTrace};
use ttmon_model::stack::SourceLine;

/// Maximum number of groups for each peak. The rest is one more group.
const GROUPS_MAX: usize = 64;

/// One ledger, read for the last time.
#[derive(Debug)]
pub struct Digest {
    /// The pid of the process on this host.
    pub pid: u32,
    /// The name of the program.
    pub program: String,
    /// Whether the process still runs although the command has ended.
    pub is_running: bool,
    /// Whether no event was lost.
    pub is_exact: bool,
    /// Number of events.
    pub events: u64,
    /// The cost of recording: number of measured calls, and their nanoseconds.
    pub cost: (u64, u64),
    /// Lost events by reason.
    pub lost: [u64; ttmon_ledger::layout::LOST_KINDS],
    /// The ledger in the types of the model, which map its allocators to devices.
    pub places: Ledger,
    /// The allocators, in the order of `places`.
    pub allocators: Vec<DigestAllocator>,
    /// Buffers that were not freed, largest first.
    pub left: Vec<LeftBuffer>,
    /// Refused requests.
    pub failures: Vec<DigestFailure>,
    /// The phases.
    pub phases: Vec<Phase>,
    /// The traces that overwrite buffers.
    pub unsafe_traces: Vec<UnsafeTrace>,
    /// Change of the bytes since the last mark by line, highest first. `None` without a mark.
    pub growth: Option<Vec<(Option<Arc<SourceLine>>, i64)>>,
    /// Events that were overwritten before they were read.
    pub missed: u64,
    /// Host memory of the process, if it was sampled.
    pub host_rss: Option<HostMemory>,
}

/// One allocator of a ledger.
#[derive(Debug)]
pub struct DigestAllocator {
    /// The slot in the ledger.
    pub slot: u16,
    /// How often the slot was used before.
    pub generation: u32,
    /// Start and end of its lifetime, in nanoseconds since 1970.
    pub life: (u64, u64),
    /// The memory by kind.
    pub rows: Vec<DigestRow>,
}

/// One kind of memory of an allocator. Bytes are per chip.
#[derive(Debug)]
pub struct DigestRow {
    /// The kind.
    pub kind: BufferKind,
    /// The figures in the ledger.
    pub row: Row,
    /// Live bytes at the end, or when the allocator was closed.
    pub at_end: u64,
    /// Buffers of the program cache that were not freed: count and bytes.
    pub cached: (u64, u64),
    /// Other buffers that were not freed: count and bytes.
    pub leaked: (u64, u64),
    /// The live buffers at the peak, largest first.
    pub groups: Vec<RunGroup>,
    /// The smallest value of the largest free block of a bank, over the points at which it is known.
    pub tightest: Option<Tightest>,
}

/// The tag of the last group, which has the buffers beyond [`GROUPS_MAX`] groups and those that are not listed.
const OTHER: &str = "(other)";

/// Returns whether a group of buffers has a line, a tag or an operation.
pub fn is_named(group: &RunGroup) -> bool {
    group.line.is_some() || group.operation.is_some() || group.tag.as_deref().is_some_and(|tag| tag != OTHER)
}

/// A buffer that was not freed.
#[derive(Clone, Debug)]
pub struct LeftBuffer {
    /// Index in [`Digest::allocators`].
    pub allocator: usize,
    /// The kind.
    pub kind: BufferKind,
    /// The entry in the ledger.
    pub entry: Entry,
    /// The tag.
    pub tag: Option<String>,
    /// The operation that created it.
    pub operation: Option<String>,
    /// The line that requested it.
    pub line: Option<Arc<SourceLine>>,
    /// Whether it belongs to the program cache, which exists as long as its device.
    pub is_cached: bool,
}

impl Digest {
    /// Reads a ledger whose earlier events are in `history`. Keeps only the `left_max` largest buffers that were not freed.
    pub fn read(region: &Region, mut history: History, pid: Option<u32>, is_running: bool, left_max: usize) -> Result<Self, ReadError> {
        history.follow(region)?;
        let listing = region.list()?;
        let totals = &listing.totals;
        let places = ledgers::without_buffers(region, totals).map_err(|_| ReadError::NotReady)?;
        let identity = region.identity();
        let lines = Lines::read(region)?;
        let left = Leftovers::of(&listing, &lines);
        let mut allocators: Vec<DigestAllocator> = Vec::new();
        for allocator in &totals.allocators {
            // A buffer that is never freed is live until the process ends, and the time of that is not recorded.
            let holds = allocator.rows.iter().any(|row| row.count > 0);
            let end = allocator.closed.unwrap_or(if holds { u64::MAX } else { totals.last_time });
            let life = (allocator.opened, end);
            let rows = allocator.rows.iter().map(|row| {
                let set = listing.peak_sets.iter().find(|set| (set.allocator, set.kind) == (allocator.slot, row.kind));
                let is_torn_down = !allocator.is_open && row.left_time >= allocator.opened;
                let (cached, leaked) = left.of_row(allocator.slot, row);
                DigestRow {
                    kind: buffer_kind(row.kind),
                    row: *row,
                    at_end: if is_torn_down { row.left_last.1 } else { row.used },
                    cached,
                    leaked,
                    groups: set.map_or(Vec::new(), |set| groups(set, &listing, &lines)),
                    tightest: tightest(history.tightest(allocator.slot, row.kind), set, row, &listing),
                }
            });
            let rows = rows.collect();
            allocators.push(DigestAllocator { slot: allocator.slot, generation: allocator.generation, life, rows });
        }
        let is_checked = totals.allocators.iter().all(|allocator| !allocator.self_check.is_inexact);
        Ok(Self {
            pid: pid.unwrap_or(identity.pid),
            program: identity.program.clone(),
            is_running,
            is_exact: totals.status & status::INEXACT == 0 && is_checked,
            events: totals.events,
            cost: totals.cost,
            lost: totals.lost,
            places,
            allocators,
            left: left.largest(left_max),
            failures: failures(region, &history, &lines)?,
            phases: history.phases(&lines),
            unsafe_traces: history.unsafe_traces(&lines),
            growth: history
                .growth_by_line(&lines, |slot| totals.allocators.iter().any(|allocator| allocator.slot == slot && allocator.is_open)),
            missed: history.missed(),
            host_rss: None,
        })
    }
}

/// Returns the smallest value of the largest free block, over the points of the history and the peak.
fn tightest(known: Option<&Tightest>, set: Option<&PeakSet>, row: &Row, listing: &Listing) -> Option<Tightest> {
    let mut tightest = known.cloned();
    let whole = set.filter(|set| set.is_whole() && set.unlisted.0 == 0 && set.lost.0 == 0);
    if let (Some(set), Some(geometry)) = (whole, row.geometry) {
        let members = set.members(&listing.entries).map(|member| (member.address, u64::from(member.per_bank)));
        if let Some(bytes) = largest_free(members, geometry) {
            Tightest::note(&mut tightest, bytes, row.peak_time, Point::Peak);
        }
    }
    tightest
}

/// A refused request, and the buffers whose release would have made room.
#[derive(Clone, Debug)]
pub struct DigestFailure {
    /// The record of the ledger.
    pub failure: Failure,
    /// The refused request in the types of the model.
    pub refusal: Refusal,
}

fn failures(region: &Region, history: &History, lines: &Lines) -> Result<Vec<DigestFailure>, ReadError> {
    let describe = |failure: Failure| {
        let plain = crate::refusal(&failure, lines);
        DigestFailure { refusal: history.complete(failure.event, plain), failure }
    };
    Ok(region.failures()?.into_iter().map(describe).collect())
}

/// The buffers of a ledger that were not freed. There may be a million.
struct Leftovers<'a> {
    listing: &'a Listing,
    lines: &'a Lines,
    /// Count and bytes of the program cache's buffers and of the other buffers, by row.
    sums: HashMap<(u16, u8), (Sum, Sum)>,
}

type Sum = (u64, u64);

impl<'a> Leftovers<'a> {
    fn of(listing: &'a Listing, lines: &'a Lines) -> Self {
        let mut sums: HashMap<(u16, u8), (Sum, Sum)> = HashMap::new();
        for entry in listing.entries.iter().chain(&listing.left) {
            let (cached, others) = sums.entry((entry.allocator, entry.kind)).or_default();
            let sum = if is_cached(entry) { cached } else { others };
            *sum = (sum.0 + 1, sum.1.saturating_add(entry.size));
        }
        Self { listing, lines, sums }
    }

    /// Returns the sums of the program cache's buffers and of the other buffers. Buffers that do not fit into the list count as others.
    fn of_row(&self, slot: u16, row: &Row) -> (Sum, Sum) {
        // A row without buffers in the list has no sums.
        let (cached, others) = self.sums.get(&(slot, row.kind)).copied().unwrap_or_default();
        let all = (row.count.saturating_add(row.left.0), row.used.saturating_add(row.left.1));
        (cached, (others.0.max(all.0.saturating_sub(cached.0)), others.1.max(all.1.saturating_sub(cached.1))))
    }

    fn largest(&self, most: usize) -> Vec<LeftBuffer> {
        let mut entries: Vec<&Entry> = self.listing.entries.iter().chain(&self.listing.left).collect();
        entries.sort_unstable_by_key(|entry| (Reverse(entry.size), entry.allocator, entry.address));
        entries.truncate(most);
        entries.into_iter().filter_map(|entry| leftover(entry, self.listing, self.lines)).collect()
    }
}

fn is_cached(entry: &Entry) -> bool {
    entry.flags & flag::CACHE != 0
}

fn leftover(entry: &Entry, listing: &Listing, lines: &Lines) -> Option<LeftBuffer> {
    Some(LeftBuffer {
        allocator: listing.totals.allocators.iter().position(|allocator| allocator.slot == entry.allocator)?,
        kind: buffer_kind(entry.kind),
        entry: *entry,
        tag: text(&listing.tags, entry.tag),
        operation: text(&listing.tags, entry.operation),
        line: lines.line(entry.stack).cloned(),
        is_cached: is_cached(entry),
    })
}

/// Returns the text of a tag. Number 0 means no tag.
fn text(tags: &[String], id: u32) -> Option<String> {
    ledgers::tag(tags, id).filter(|text| !text.is_empty()).cloned()
}

fn groups(set: &PeakSet, listing: &Listing, lines: &Lines) -> Vec<RunGroup> {
    type GroupNames<'a> = (u32, u32, Option<&'a Arc<SourceLine>>);
    let mut sums: HashMap<GroupNames<'_>, Sum> = HashMap::new();
    for member in set.members(&listing.entries) {
        let sum = sums.entry((member.tag, member.operation, lines.line(member.stack))).or_default();
        *sum = (sum.0.saturating_add(member.size), sum.1 + 1);
    }
    let rest = set.unlisted.1.saturating_add(set.lost.1);
    let mut groups: Vec<RunGroup> = sums
        .into_iter()
        .map(|((tag, operation, line), (bytes, count))| RunGroup {
            line: line.cloned(),
            tag: text(&listing.tags, tag),
            operation: text(&listing.tags, operation),
            bytes,
            count,
        })
        .collect();
    groups.sort_by(|a, b| (b.bytes, &a.line, &a.tag, &a.operation).cmp(&(a.bytes, &b.line, &b.tag, &b.operation)));
    let cut = groups.split_off(groups.len().min(GROUPS_MAX));
    let other = cut.iter().fold((rest, set.unlisted.0 + set.lost.0), |sum, group| (sum.0.saturating_add(group.bytes), sum.1 + group.count));
    if other.1 > 0 {
        groups.push(RunGroup { line: None, tag: Some(OTHER.to_owned()), operation: None, bytes: other.0, count: other.1 });
    }
    groups
}
