//! The phases of a program: their use of memory, and the buffers that stay live after each iteration.

use std::collections::{BTreeMap, HashMap};

use ttmon_ledger_reader::Lines;
use ttmon_model::phase::{Growth, Phase, PhaseBytes};
use ttmon_model::room::HeldByLine;

use crate::live::LiveBuffer;

/// Maximum depth of nested phases. Deeper ones are not counted.
const DEPTH_MAX: usize = 16;
/// Maximum number of phase names. Later names are not counted.
const NAMES_MAX: usize = 256;
/// Minimum number of iterations that show a trend.
const TREND_MIN: u64 = 3;

#[derive(Debug, Default)]
pub(crate) struct Phases {
    open: Vec<OpenPhase>,
    figures: Vec<Figures>,
    /// The phases and iterations in which a live buffer was allocated, by the event of the allocation.
    born: HashMap<u64, Vec<(usize, u64)>>,
}

#[derive(Debug)]
struct OpenPhase {
    phase: usize,
    began: u64,
    before: PhaseBytes,
    host_rss: u64,
    peak: PhaseBytes,
}

#[derive(Debug, Default)]
struct Figures {
    report: Phase,
    /// Live bytes at the end of the second iteration. The first one is skipped, because it fills caches.
    second_end: PhaseBytes,
    last_end: PhaseBytes,
    /// Buffers that are still live, by stack and iteration: count and bytes.
    retained: HashMap<u32, BTreeMap<u64, (u64, u64)>>,
}

impl Phases {
    pub(crate) fn begin(&mut self, name: &str, time: u64, used: PhaseBytes, host_rss: u64) {
        let known = self.figures.iter().position(|figures| figures.report.name == name);
        if self.open.len() >= DEPTH_MAX || known.is_none() && self.figures.len() >= NAMES_MAX {
            return;
        }
        let phase = known.unwrap_or_else(|| {
            self.figures.push(Figures { report: Phase { name: name.to_owned(), ..Phase::default() }, ..Figures::default() });
            self.figures.len() - 1
        });
        let report = &mut self.figures[phase].report;
        report.host_rss_peak = report.host_rss_peak.max(host_rss);
        self.open.push(OpenPhase { phase, began: time, before: used, host_rss, peak: used });
    }

    /// Ends the innermost phase with that name. `largest_free` is the largest free block of a bank by kind.
    pub(crate) fn end(&mut self, name: &str, time: u64, used: PhaseBytes, host_rss: u64, largest_free: [Option<u64>; 2]) {
        let is_it = |open: &OpenPhase| self.figures[open.phase].report.name == name;
        let Some(at) = self.open.iter().rposition(is_it) else { return };
        let open = self.open.remove(at);
        let figures = &mut self.figures[open.phase];
        let report = &mut figures.report;
        report.count += 1;
        report.duration_ns = report.duration_ns.saturating_add(time.saturating_sub(open.began));
        report.host_rss_peak = report.host_rss_peak.max(host_rss);
        // 0 means unknown.
        if open.host_rss > 0 && host_rss > 0 {
            report.host_rss_change = Some(report.host_rss_change.unwrap_or(0).saturating_add(difference(open.host_rss, host_rss)));
        }
        if report.count == 1 {
            report.first_peak = open.peak;
        }
        if report.count <= 2 {
            figures.second_end = used;
        }
        figures.last_end = used;
        for kind in 0..2 {
            report.peak[kind] = report.peak[kind].max(open.peak[kind]);
            report.change[kind] = report.change[kind].saturating_add(difference(open.before[kind], used[kind]));
            if let Some(bytes) = largest_free[kind] {
                let least = &mut report.smallest_largest_free[kind];
                *least = Some(least.map_or(bytes, |least| least.min(bytes)));
            }
        }
    }

    pub(crate) fn added(&mut self, buffer: &LiveBuffer, used: PhaseBytes) {
        if self.open.is_empty() {
            return;
        }
        for open in &mut self.open {
            open.peak = [open.peak[0].max(used[0]), open.peak[1].max(used[1])];
            let figures = &mut self.figures[open.phase];
            figures.report.allocations += 1;
            let retained = figures.retained.entry(buffer.stack).or_default().entry(figures.report.count).or_default();
            *retained = (retained.0 + 1, retained.1.saturating_add(buffer.size));
        }
        self.born.insert(buffer.event, self.open.iter().map(|open| (open.phase, self.figures[open.phase].report.count)).collect());
    }

    pub(crate) fn removed(&mut self, buffer: &LiveBuffer) {
        for (phase, iteration) in self.born.remove(&buffer.event).into_iter().flatten() {
            let Some(of_stack) = self.figures[phase].retained.get_mut(&buffer.stack) else { continue };
            if let Some((count, bytes)) = of_stack.get_mut(&iteration) {
                (*count, *bytes) = (count.saturating_sub(1), bytes.saturating_sub(buffer.size));
                if *count == 0 {
                    of_stack.remove(&iteration);
                }
            }
        }
    }

    /// Records that a buffer ended with its device without being freed.
    pub(crate) fn torn_down(&mut self, buffer: &LiveBuffer) {
        self.born.remove(&buffer.event);
    }

    /// Records that events are missing, so the current phase is unknown.
    pub(crate) fn interrupt(&mut self) {
        self.open.clear();
    }

    /// Returns the phases in the order of their first start.
    pub(crate) fn report(&self, lines: &Lines) -> Vec<Phase> {
        let whole = self.figures.iter().filter(|figures| figures.report.count > 0);
        whole.map(|figures| Phase { growth: figures.growth(lines), ..figures.report.clone() }).collect()
    }
}

impl Figures {
    /// Returns the growth per iteration, or `None` for a phase that ran only a few times.
    fn growth(&self, lines: &Lines) -> Option<Growth> {
        let count = self.report.count;
        if count < TREND_MIN {
            return None;
        }
        let steps = i64::try_from(count - 2).unwrap_or(i64::MAX).max(1);
        let bytes = [0, 1].map(|kind| difference(self.second_end[kind], self.last_end[kind]) / steps);
        // The first iteration is excluded because it fills caches, and the last because its results may still be in use.
        let middle = 1..count - 1;
        let retained = self.retained.iter().filter_map(|(stack, iterations)| {
            let kept: Vec<(u64, u64)> = iterations.range(middle.clone()).map(|(_, kept)| *kept).collect();
            let of = kept.len() as u64;
            let sum = kept.iter().fold((0_u64, 0_u64), |sum, kept| (sum.0 + kept.0, sum.1.saturating_add(kept.1)));
            // At least four of five iterations must leave buffers, so that it is a trend.
            (of > 0 && of * 5 >= (count - 2) * 4).then(|| (lines.line(*stack), sum.0 / of, sum.1 / of))
        });
        Some(Growth { bytes, lines: HeldByLine::collect(retained) })
    }
}

fn difference(from: u64, to: u64) -> i64 {
    i64::try_from(to).unwrap_or(i64::MAX).saturating_sub(i64::try_from(from).unwrap_or(i64::MAX))
}
