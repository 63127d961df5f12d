//! The checks for a continuous-integration job: no leaks, no growth, a limit on the peaks.

use ttmon_model::ledger::BufferKind;
use ttmon_model::limits::grouped;
use ttmon_model::memory::Kind;
use ttmon_model::units::size;

use crate::chips::ChipName;
use crate::run_summary::RunSummary;
use crate::size::Limit;

/// The requested checks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checks {
    /// Maximum bytes of buffers that were not freed.
    pub leak: Option<u64>,
    /// Maximum increase in bytes since the last mark.
    pub growth: Option<u64>,
    /// Maximum peak of DRAM on a chip.
    pub max_dram: Option<Limit>,
    /// Maximum peak of L1 on a chip.
    pub max_l1: Option<Limit>,
    /// Minimum size of the largest free block of a DRAM bank.
    pub min_largest_free: Option<u64>,
    /// Whether checks that could not be evaluated pass.
    pub allow_untracked: bool,
}

impl Checks {
    /// Returns whether no check was requested.
    pub fn is_empty(&self) -> bool {
        self.leak.is_none() && self.growth.is_none() && self.max_dram.is_none() && self.max_l1.is_none() && self.min_largest_free.is_none()
    }

    /// Returns a message if not everything could be checked: there was no call of TT-Metal, or tracking did not work, or some tracked
    /// values are unknown. The first two cannot be distinguished.
    pub fn not_judged(&self, run: &RunSummary) -> Option<String> {
        let what = match run.why_inexact() {
            _ if self.is_empty() => return None,
            _ if run.is_empty() => format!("had nothing to judge: {}", run.why_empty()),
            why => format!("did not judge everything: {}", why?),
        };
        let advice = if self.allow_untracked { "" } else { "; --allow-untracked takes that for success" };
        Some(format!("the checks {what}{advice}"))
    }

    /// Returns the failed checks and those that could not be evaluated, one line for each.
    pub fn failures(&self, run: &RunSummary) -> Vec<String> {
        let mut failures: Vec<String> = self.not_judged(run).into_iter().filter(|_| !self.allow_untracked).collect();
        if run.is_empty() {
            return failures;
        }
        if let Some(most) = self.leak {
            let (count, bytes) = run.leaked();
            if bytes > most {
                failures.push(format!("--fail-on-leak: {} left in {}, {} allowed", size(bytes), buffers(count), size(most)));
            }
        }
        match (self.growth, run.growth()) {
            (Some(most), Some(growth)) => {
                let growth = u64::try_from(growth).unwrap_or(0);
                if growth > most {
                    let (growth, most) = (size(growth), size(most));
                    failures.push(format!(
                        "--fail-on-growth: {growth} more at the end than at the last mark, {most} allowed{}",
                        grown_lines(run)
                    ));
                }
            }
            (Some(_), None) => {
                failures.push("--fail-on-growth: the program set no mark to compare with; call ttmon.mark() once it is warm".to_owned());
            }
            _ => {}
        }
        for (flag, limit, kind) in [("--max-dram", self.max_dram, Kind::Dram), ("--max-l1", self.max_l1, Kind::L1)] {
            if let Some(limit) = limit {
                failures.extend(above(run, flag, limit, kind));
            }
        }
        failures.extend(self.min_largest_free.and_then(|least| tight(run, least)));
        failures
    }
}

/// Maximum number of source lines in a message.
const LINES: usize = 3;

/// Returns the source lines with the highest increase, if known.
fn grown_lines(run: &RunSummary) -> String {
    let grown = run.growth_by_line();
    let lines = grown.iter().filter_map(|(line, bytes)| Some(format!("{} by {}", size(*bytes), line.as_ref()?)));
    let lines: Vec<String> = lines.take(LINES).collect();
    if lines.is_empty() { String::new() } else { format!(": {}", lines.join(", ")) }
}

/// Returns a message if the largest free block of a DRAM bank was smaller than `least`.
fn tight(run: &RunSummary, least: u64) -> Option<String> {
    let dram = BufferKind::Of(Kind::Dram);
    let found = run.tightest().into_iter().filter(|(kind, ..)| *kind == dram).min_by_key(|(_, tightest, _)| tightest.bytes);
    let Some((_, tightest, chips)) = found else {
        return Some("--min-largest-free: the free blocks of no DRAM bank are known".to_owned());
    };
    (tightest.bytes < least).then(|| {
        format!(
            "--min-largest-free: the largest free DRAM block of a bank on {} was down to {} ({}), {} wanted",
            ChipName::list(chips),
            size(tightest.bytes),
            tightest.at,
            size(least)
        )
    })
}

/// Returns a message for each chip whose peak is above a limit.
fn above(run: &RunSummary, flag: &str, limit: Limit, kind: Kind) -> Vec<String> {
    let chips = run.chips.iter().filter_map(|(name, chip)| Some((*name, chip.kinds.get(&BufferKind::Of(kind))?)));
    chips
        .filter_map(|(name, usage)| {
            let name = ChipName::list(&[name]);
            // If the banks are unknown, the requested bytes are a lower bound of the allocated bytes.
            let peak = usage.peak_allocated.unwrap_or(usage.peak);
            let (most, limit_text) = match (limit, usage.limit()) {
                (Limit::Bytes(most), _) => (most as f64, size(most)),
                (Limit::Share(share), Some(capacity)) => (share * capacity as f64, format!("{:.0}% of {}", share * 100.0, size(capacity))),
                (Limit::Share(_), None) => {
                    return Some(format!("{flag}: the size of {} is unknown, so a share cannot be checked; give a size", name));
                }
            };
            if peak as f64 > most {
                return Some(format!("{flag}: the peak on {} was {}, {limit_text} allowed", name, size(peak)));
            }
            // Several allocators existed at once and their common peak is unknown, so the limit cannot be checked.
            (usage.is_at_least && usage.peak_at_most as f64 > most).then(|| {
                format!(
                    "{flag}: several allocators held {} at once, together between {} and {}, {limit_text} allowed: cannot be checked",
                    name,
                    size(peak),
                    size(usage.peak_at_most)
                )
            })
        })
        .collect()
}

/// Formats a number of buffers: `3 buffers`.
pub fn buffers(count: u64) -> String {
    if count == 1 { "1 buffer".to_owned() } else { format!("{} buffers", grouped(count)) }
}
