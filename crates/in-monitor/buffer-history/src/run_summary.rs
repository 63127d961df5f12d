//! The use of device memory by a command, over all its processes: its chips, leftovers, refusals and checks of completeness.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use ttmon_ledger_reader::COST_ONE_IN;
use ttmon_model::Sample;
use ttmon_model::groups::changes;
use ttmon_model::ledger::{Buffer, BufferKind, HookFeature, LedgerAllocator, LedgerRefusal, LedgerRow};
use ttmon_model::limits::grouped;
use ttmon_model::phase::{HostMemory, Tightest};
use ttmon_model::stack::SourceLine;

use crate::chips::{ChipName, name_chips};
use crate::ledger_summary::LedgerSummary;
use crate::usage::{ChipUsage, add, chip_usage};

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
    /// Number of ledgers that could not be read.
    pub unread: u64,
    /// Whether a process of another user sent a ledger.
    pub has_foreign_ledgers: bool,
    /// The memory of each chip.
    pub chips: BTreeMap<ChipName, ChipUsage>,
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

/// A buffer that was not freed, with its chips.
#[derive(Debug)]
pub struct Leftover<'a> {
    /// The ledger with the buffer.
    pub summary: &'a LedgerSummary,
    /// The buffer.
    pub left: &'a Buffer,
    /// The chips.
    pub chips: &'a [ChipName],
}

impl RunSummary {
    /// Combines the summaries, and maps their chips to the devices of the machine.
    pub fn new(
        command: Vec<String>,
        end: CommandEnd,
        span: (u64, u64),
        mut summaries: Vec<LedgerSummary>,
        machine: Option<&Sample>,
    ) -> Self {
        name_chips(&mut summaries, machine);
        let chips = chip_usage(&summaries, machine);
        Self { command, end, span, summaries, unread: 0, has_foreign_ledgers: false, chips, untracked: None }
    }

    /// Returns whether a chip is neither a device of this machine nor a simulated chip.
    pub fn has_unknown_chips(&self) -> bool {
        self.chips.keys().any(|chip| matches!(chip, ChipName::Unmapped { is_mock: false, .. }))
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
        let allocators = self.summaries.iter().flat_map(|summary| summary.ledger.allocators.iter().zip(&summary.chips));
        allocators.flat_map(|(allocator, chips)| allocator.rows.iter().map(move |row| (allocator, row, chips.as_slice())))
    }

    /// Returns the rows of kinds that a program can leak.
    fn banked_rows(&self) -> impl Iterator<Item = (&LedgerAllocator, &LedgerRow, &[ChipName])> {
        self.rows().filter(|(_, row, _)| row.kind.is_banked())
    }

    /// Returns the buffers that were not freed, largest first: those of the program cache if `is_cached`, else all others.
    pub fn left(&self, is_cached: bool) -> Vec<Leftover<'_>> {
        let all = self.summaries.iter().flat_map(|summary| summary.left.iter().map(move |left| (summary, left)));
        let wanted = all.filter(|(_, left)| left.is_cached == is_cached && left.kind.is_banked());
        let with_chips = wanted.filter_map(|(summary, left)| Some(Leftover { summary, left, chips: summary.chips_of(left)? }));
        let mut left: Vec<Leftover<'_>> = with_chips.collect();
        left.sort_by_key(|leftover| (Reverse(leftover.left.size), leftover.summary.pid, leftover.left.address));
        left
    }

    /// Returns the count and bytes of buffers that were not freed, without those of the program cache. A buffer of a mesh is on each of its
    /// chips, but counts once.
    pub fn leaked(&self) -> (u64, u64) {
        self.leaked_by_chips().into_iter().fold((0, 0), |sum, (_, leaked)| add(sum, leaked))
    }

    /// Returns the same sums by the chips of the buffers, most bytes first.
    pub fn leaked_by_chips(&self) -> Vec<(&[ChipName], (u64, u64))> {
        let mut groups: BTreeMap<&[ChipName], (u64, u64)> = BTreeMap::new();
        for (_, row, chips) in self.banked_rows() {
            let Some(leaked) = row.end.as_ref().map(|end| end.leaked).filter(|leaked| leaked.0 > 0) else { continue };
            let group = groups.entry(chips).or_default();
            *group = add(*group, leaked);
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
        for summary in &self.summaries {
            for refused in &summary.refusals {
                let index = summary.ledger.allocators.iter().position(|allocator| allocator.slot == refused.slot);
                refusals.push((refused, index.and_then(|index| summary.chips.get(index)).map_or(&[][..], Vec::as_slice)));
            }
        }
        refusals.sort_by_key(|(refused, _)| refused.time);
        refusals
    }

    /// Returns the smallest value of the largest free block of a bank for each row of a device, smallest first.
    pub fn tightest(&self) -> Vec<(BufferKind, &Tightest, &[ChipName])> {
        let mut found: Vec<(BufferKind, &Tightest, &[ChipName])> = Vec::new();
        for summary in &self.summaries {
            let banked = summary.tightest.iter().filter(|(_, kind, _)| kind.is_banked());
            found.extend(banked.filter_map(|(index, kind, tightest)| Some((*kind, tightest, summary.chips.get(*index)?.as_slice()))));
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
