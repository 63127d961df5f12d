//! What one ledger has to say at the end, in bounded space: a command may start thousands of tracked processes.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use ttmon_ledger::layout::{flag, status};
use ttmon_ledger::reader::{Entry, Failure, Listing, PeakSet, ReadError, Region, Row};
use ttmon_model::event::Refusal;
use ttmon_model::ledger::{BufferKind, Ledger};
use ttmon_model::phase::{Phase, Point, Tightest, UnsafeTrace};
use ttmon_model::stack::SourceLine;
use ttmon_recorder::{History, largest_free};
use ttmon_source::Lines;
use ttmon_source::ledgers::{self, buffer_kind};
use ttmon_wire::run::HostMemory;

/// Groups kept of each peak; the rest is one more.
const GROUPS_MAX: usize = 64;

/// One ledger, read for the last time.
#[derive(Debug)]
pub struct Digest {
    /// The process, as seen from here.
    pub pid: u32,
    /// Its program.
    pub program: String,
    /// It goes on although the command has ended.
    pub is_running: bool,
    /// No event was lost.
    pub is_exact: bool,
    /// Events so far.
    pub events: u64,
    /// What recording cost it: calls that were measured, and their nanoseconds.
    pub cost: (u64, u64),
    /// Lost events by reason.
    pub lost: [u64; ttmon_ledger::layout::LOST_KINDS],
    /// The allocators as the model wants them, to find their devices.
    pub places: Ledger,
    /// In the order of `places`.
    pub allocators: Vec<DigestAllocator>,
    /// Buffers nobody freed, largest first.
    pub left: Vec<LeftBuffer>,
    /// What it was refused.
    pub failures: Vec<DigestFailure>,
    /// Its phases.
    pub phases: Vec<Phase>,
    /// Its traces that overwrite buffers.
    pub unsafe_traces: Vec<UnsafeTrace>,
    /// Bytes more than at the last mark by line, most first; `None` without a mark.
    pub growth: Option<Vec<(Option<Arc<SourceLine>>, i64)>>,
    /// Events that were overwritten before they were read.
    pub missed: u64,
    /// Memory of the host that the process had, where it was watched.
    pub host_rss: Option<HostMemory>,
}

/// One of its allocators.
#[derive(Debug)]
pub struct DigestAllocator {
    /// Its place in the ledger.
    pub slot: u16,
    /// How often that place was used before.
    pub generation: u32,
    /// From when to when it was there, in nanoseconds since 1970.
    pub life: (u64, u64),
    /// By kind.
    pub rows: Vec<DigestRow>,
}

/// One kind of memory of an allocator; bytes are per chip.
#[derive(Debug)]
pub struct DigestRow {
    /// The kind.
    pub kind: BufferKind,
    /// Its figures.
    pub row: Row,
    /// Live bytes at the end, or when the allocator was torn down.
    pub at_end: u64,
    /// Buffers of the program cache that nobody freed: count and bytes.
    pub cached: (u64, u64),
    /// The same of others.
    pub leaked: (u64, u64),
    /// What was there at the peak, largest first.
    pub groups: Vec<Group>,
    /// The smallest largest free block of a bank, at the points where it is known.
    pub tightest: Option<Tightest>,
}

/// Buffers with one tag and one operation, of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Where the program asked for them.
    pub line: Option<Arc<SourceLine>>,
    /// Their tag.
    pub tag: Option<String>,
    /// The operation that made them.
    pub operation: Option<String>,
    /// Their bytes.
    pub bytes: u64,
    /// How many there are.
    pub count: u64,
}

/// The group of all that have no other.
const OTHER: &str = "(other)";

impl Group {
    /// Whether it says who made it.
    pub fn is_named(&self) -> bool {
        self.line.is_some() || self.operation.is_some() || self.tag.as_deref().is_some_and(|tag| tag != OTHER)
    }
}

/// A buffer that nobody freed.
#[derive(Clone, Debug)]
pub struct LeftBuffer {
    /// Index among the allocators.
    pub allocator: usize,
    /// Its kind.
    pub kind: BufferKind,
    /// Its entry in the ledger.
    pub entry: Entry,
    /// Its tag.
    pub tag: Option<String>,
    /// The operation that made it.
    pub operation: Option<String>,
    /// Where the program asked for it.
    pub line: Option<Arc<SourceLine>>,
    /// It belongs to the program cache, which lives as long as its device.
    pub is_cached: bool,
}

impl Digest {
    /// Reads a ledger; of the buffers nobody freed the largest `left_max` are kept.
    pub fn read(region: &Region, pid: Option<u32>, is_running: bool, left_max: usize) -> Result<Self, ReadError> {
        Self::read_followed(region, History::default(), pid, is_running, left_max)
    }

    /// Reads a ledger whose events were followed so far.
    pub fn read_followed(
        region: &Region,
        mut history: History,
        pid: Option<u32>,
        is_running: bool,
        left_max: usize,
    ) -> Result<Self, ReadError> {
        history.follow(region)?;
        read(region, &history, pid, is_running, left_max)
    }
}

fn read(region: &Region, history: &History, pid: Option<u32>, is_running: bool, left_max: usize) -> Result<Digest, ReadError> {
    let listing = region.list()?;
    let totals = &listing.totals;
    let places = ledgers::without_buffers(region, totals).map_err(|_| ReadError::NotReady)?;
    let identity = region.identity();
    let lines = Lines::read(region)?;
    let left = Leftovers::of(&listing, &lines);
    let mut allocators: Vec<DigestAllocator> = Vec::new();
    for allocator in &totals.allocators {
        // What is never freed is there until the process ends, and nobody notes when that is.
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
    Ok(Digest {
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
        failures: failures(region, history, &lines)?,
        phases: history.phases(&lines),
        unsafe_traces: history.unsafe_traces(&lines),
        growth: history
            .growth_by_line(&lines, |slot| totals.allocators.iter().any(|allocator| allocator.slot == slot && allocator.is_open)),
        missed: history.missed(),
        host_rss: None,
    })
}

/// The smallest largest free block at the points of the history, and at the peak.
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

/// A request that was refused, and what would have made room.
#[derive(Clone, Debug)]
pub struct DigestFailure {
    /// The record of the ledger.
    pub failure: Failure,
    /// The same in the types of the model.
    pub refusal: Refusal,
}

fn failures(region: &Region, history: &History, lines: &Lines) -> Result<Vec<DigestFailure>, ReadError> {
    let describe = |failure: Failure| {
        let plain = ttmon_recorder::refusal(&failure, lines);
        DigestFailure { refusal: history.complete(failure.event, plain), failure }
    };
    Ok(region.failures()?.into_iter().map(describe).collect())
}

/// The buffers of a ledger that nobody freed. There may be a million.
struct Leftovers<'a> {
    listing: &'a Listing,
    lines: &'a Lines,
    /// By row: count and bytes of the program cache's, and of others.
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

    /// The program cache's buffers, and the others. Buffers that exceed the list do not count as the cache's.
    fn of_row(&self, slot: u16, row: &Row) -> (Sum, Sum) {
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

/// Text of a tag; 0 is none.
fn text(tags: &[String], id: u32) -> Option<String> {
    ledgers::tag(tags, id).filter(|text| !text.is_empty()).cloned()
}

fn groups(set: &PeakSet, listing: &Listing, lines: &Lines) -> Vec<Group> {
    type GroupNames<'a> = (u32, u32, Option<&'a Arc<SourceLine>>);
    let mut sums: HashMap<GroupNames<'_>, Sum> = HashMap::new();
    for member in set.members(&listing.entries) {
        let sum = sums.entry((member.tag, member.operation, lines.line(member.stack))).or_default();
        *sum = (sum.0.saturating_add(member.size), sum.1 + 1);
    }
    let rest = set.unlisted.1.saturating_add(set.lost.1);
    let mut groups: Vec<Group> = sums
        .into_iter()
        .map(|((tag, operation, line), (bytes, count))| Group {
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
        groups.push(Group { line: None, tag: Some(OTHER.to_owned()), operation: None, bytes: other.0, count: other.1 });
    }
    groups
}
