//! The final contents of one ledger, in bounded space. A command may start thousands of tracked processes.

use std::sync::Arc;

use ttmon_ledger_reader::{FinalLedger, ReadError, Region};
use ttmon_model::ledger::{Buffer, BufferKind, Ledger, LedgerAllocator, LedgerRefusal};
use ttmon_model::phase::{HostMemory, Phase, Point, Tightest, UnsafeTrace};
use ttmon_model::stack::SourceLine;

use crate::History;
use crate::chips::ChipName;

/// One ledger, read for the last time.
#[derive(Debug)]
pub struct LedgerSummary {
    /// The pid of the process on this host.
    pub pid: u32,
    /// The name of the program.
    pub program: String,
    /// Whether the process still runs although the command has ended.
    pub is_running: bool,
    /// The ledger. Its rows have the buffers at the peak and at the end.
    pub ledger: Ledger,
    /// The chips of each allocator. [`crate::RunSummary::new`] finds them.
    pub chips: Vec<Vec<ChipName>>,
    /// The largest buffers that were not freed, largest first.
    pub left: Vec<Buffer>,
    /// Refused requests.
    pub refusals: Vec<LedgerRefusal>,
    /// The smallest values of the largest free blocks of banks, by allocator (index in the ledger) and kind.
    pub tightest: Vec<(usize, BufferKind, Tightest)>,
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

impl LedgerSummary {
    /// Reads a ledger whose earlier events are in `history`. Keeps only the `left_max` largest buffers that were not freed.
    pub fn read(region: &Region, mut history: History, pid: Option<u32>, is_running: bool, left_max: usize) -> Result<Self, ReadError> {
        history.follow(region)?;
        let FinalLedger { ledger, left, lines } = region.final_ledger(left_max)?;
        let identity = region.identity();
        let refused = region.refusals(&lines)?.into_iter();
        let is_open = |slot: u16| ledger.allocators.iter().any(|allocator| allocator.slot == slot && allocator.is_open());
        Ok(Self {
            pid: pid.unwrap_or(identity.pid),
            program: identity.program.clone(),
            is_running,
            chips: Vec::new(),
            left,
            refusals: refused
                .map(|refused| LedgerRefusal { refusal: history.complete(refused.event, refused.refusal), ..refused })
                .collect(),
            tightest: tightest(&history, &ledger),
            phases: history.phases(&lines),
            unsafe_traces: history.unsafe_traces(&lines),
            growth: history.growth_by_line(&lines, is_open),
            missed: history.missed(),
            host_rss: None,
            ledger,
        })
    }

    /// Returns whether no event was lost and the figures agree with the allocators' own.
    pub fn is_exact(&self) -> bool {
        self.ledger.is_exact && self.ledger.allocators.iter().all(|allocator| !allocator.self_check.is_inexact)
    }

    /// Returns the chips of a buffer.
    pub(crate) fn chips_of(&self, buffer: &Buffer) -> Option<&[ChipName]> {
        self.chips.get(usize::from(buffer.allocator)).map(Vec::as_slice)
    }

    /// Returns start and end of an allocator's lifetime, in nanoseconds since 1970.
    pub fn lifetime(&self, allocator: &LedgerAllocator) -> (u64, u64) {
        // A buffer that is never freed is live until the process ends, and the time of that is not recorded.
        let holds = allocator.rows.iter().any(|row| row.count > 0);
        let last = if holds { u64::MAX } else { self.ledger.last_time.0 };
        (allocator.opened.0, allocator.closed.map_or(last, |closed| closed.0))
    }
}

/// Returns the smallest values of the largest free blocks, over the points of the history and the peaks.
fn tightest(history: &History, ledger: &Ledger) -> Vec<(usize, BufferKind, Tightest)> {
    let mut found = Vec::new();
    for (index, allocator) in ledger.allocators.iter().enumerate() {
        for row in &allocator.rows {
            let mut tightest = history.tightest(allocator.slot, row.kind).cloned();
            if let Some(bytes) = row.end.as_ref().and_then(|end| end.largest_free_at_peak) {
                Tightest::note(&mut tightest, bytes, row.peak_time.0, Point::Peak);
            }
            found.extend(tightest.map(|tightest| (index, row.kind, tightest)));
        }
    }
    found
}
