//! Formats host memory, smallest free blocks, phases and traces.

use std::time::Duration;

use ttmon_buffer_history::{ChipName, buffers};
use ttmon_model::phase::{PHASE_KINDS, Phase};
use ttmon_model::room::HeldByLine;
use ttmon_print::size;

use super::{Writer, clock, cut, duration};

/// Maximum number of phases that are listed. `--report` has all.
const PHASES: usize = 8;
const NAME_COLUMNS: usize = 24;

/// Minimum growth that is printed. Smaller changes may be due to the interpreter itself.
const HOST_CHANGE_MIN: i64 = 16 << 20;

impl Writer<'_> {
    /// `host memory: peak 3.2GB (1.1GB at first, 3.0GB at last)`
    pub(super) fn host(&self) -> Option<String> {
        let host = self.run.host_rss()?;
        Some(format!("  host memory: peak {} ({} at first, {} at last)", size(host.peak), size(host.first), size(host.last)))
    }

    /// For each kind, formats the bank with the smallest largest free block, if more than one point was compared.
    pub(super) fn tightest(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for kind in PHASE_KINDS {
            let found = self.run.tightest().into_iter().filter(|(of, ..)| of.name() == kind.name());
            let Some((_, tightest, chips)) = found.min_by_key(|(_, tightest, _)| tightest.bytes) else { continue };
            if tightest.points > 1 {
                lines.push(format!(
                    "  largest free {} block of a bank: down to {} on {} at {} ({}; {} points compared)",
                    kind.name().to_uppercase(),
                    size(tightest.bytes),
                    ChipName::list(chips),
                    clock(tightest.time.saturating_sub(self.run.span.0)),
                    self.style.clean(&tightest.at.to_string()),
                    tightest.points
                ));
            }
        }
        lines
    }

    pub(super) fn phases(&self) -> Vec<String> {
        let phases: Vec<&Phase> = self.run.summaries.iter().flat_map(|summary| &summary.phases).collect();
        let mut lines: Vec<String> = phases.iter().take(PHASES).flat_map(|phase| self.phase(phase)).collect();
        if phases.len() > PHASES {
            lines.push(format!("  {} more phases", phases.len() - PHASES));
        }
        let missed: u64 = self.run.summaries.iter().map(|summary| summary.missed).fold(0, u64::saturating_add);
        let has_traces = self.run.summaries.iter().any(|summary| !summary.unsafe_traces.is_empty());
        if missed > 0 && (!phases.is_empty() || has_traces) {
            lines.push(format!("  phases and traces are not complete: {missed} events were overwritten before they were read"));
        }
        lines
    }

    /// Formats `phase step: 12 times in 3.1s   DRAM peak 2.1GB (first 2.0GB), +24.0MB   host memory +1.2GB`, and the lines that leave
    /// buffers each time.
    fn phase(&self, phase: &Phase) -> Vec<String> {
        let name = self.style.clean(&cut(&phase.name, NAME_COLUMNS));
        let times = if phase.count == 1 { "once".to_owned() } else { format!("{} times", phase.count) };
        let mut parts = vec![format!("  phase {name}: {times} in {}", duration(Duration::from_nanos(phase.duration_ns)))];
        for (at, kind) in PHASE_KINDS.iter().enumerate().filter(|(at, _)| phase.peak[*at] > 0) {
            let first =
                if phase.first_peak[at] == phase.peak[at] { String::new() } else { format!(" (first {})", size(phase.first_peak[at])) };
            let change = match phase.change[at] {
                0 => String::new(),
                change => format!(", {}", signed(change)),
            };
            parts.push(format!("{} peak {}{first}{change}", kind.name().to_uppercase(), size(phase.peak[at])));
        }
        if let Some(change) = phase.host_rss_change.filter(|change| *change >= HOST_CHANGE_MIN) {
            parts.push(format!("host memory {}", signed(change)));
        }
        let mut lines = vec![parts.join("   ")];
        let growth = phase.growth.iter().filter(|growth| growth.bytes.iter().any(|bytes| *bytes > 0));
        for held in growth.flat_map(|growth| &growth.lines).take(3) {
            let line = held.line.as_ref().map_or_else(|| "no line".to_owned(), ToString::to_string);
            let text =
                format!("{line} keeps {} ({}) per iteration{}", buffers(held.count), size(held.bytes), self.source(held.line.as_deref()));
            lines.push(format!("    {}", self.style.clean(&text)));
        }
        lines
    }

    pub(super) fn traces(&self) -> Vec<String> {
        let traces = self.run.summaries.iter().flat_map(|summary| &summary.unsafe_traces);
        let line = |trace: &ttmon_model::phase::UnsafeTrace| {
            let times = if trace.replays == 1 { "once".to_owned() } else { format!("{} times", trace.replays) };
            let bytes = trace.lines.iter().fold(0_u64, |sum, held| sum.saturating_add(held.bytes));
            let text = format!(
                "UNSAFE trace {}: replayed {times} while {} of buffers were live that came after its capture, and may be overwritten: {}",
                trace.id,
                size(bytes),
                HeldByLine::list(&trace.lines)
            );
            format!("  {}", self.style.clean(&text))
        };
        traces.take(3).map(line).collect()
    }
}

/// Formats a change of bytes: `+24.0MB`.
fn signed(bytes: i64) -> String {
    format!("{}{}", if bytes < 0 { "-" } else { "+" }, size(bytes.unsigned_abs()))
}
