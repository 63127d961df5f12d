//! Phases of a program, and traces that overwrite buffers.

use std::fmt;

use crate::memory::Kind;
use crate::room::HeldByLine;

/// Kinds of memory that are measured in phases.
pub const PHASE_KINDS: [Kind; 2] = [Kind::Dram, Kind::L1];

/// Bytes by [`PHASE_KINDS`]. Each buffer counts once, with its bytes on one chip.
pub type PhaseBytes = [u64; 2];

/// A named phase of a program, over all its iterations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    /// The name.
    pub name: String,
    /// How often it ran.
    pub count: u64,
    /// Highest live bytes of all iterations.
    pub peak: PhaseBytes,
    /// Highest live bytes of the first iteration.
    pub first_peak: PhaseBytes,
    /// Live bytes at the end minus live bytes at the start, summed over all iterations.
    pub change: [i64; 2],
    /// Number of allocated buffers.
    pub allocations: u64,
    /// The smallest value of the largest free block of a bank at the end of an iteration.
    pub smallest_largest_free: [Option<u64>; 2],
    /// Highest resident bytes of the process at the start or end of an iteration, or 0 if unknown.
    pub host_rss_peak: u64,
    /// Resident bytes at the end minus those at the start, summed over the iterations in which both are known.
    pub host_rss_change: Option<i64>,
    /// Duration of all iterations together.
    pub duration_ns: u64,
    /// Growth per iteration, or `None` if it ran only a few times.
    pub growth: Option<Growth>,
}

/// Average growth per iteration, from the second one on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Additional bytes per iteration.
    pub bytes: [i64; 2],
    /// The lines that leave live buffers in nearly every iteration, most bytes first.
    pub lines: Vec<HeldByLine>,
}

/// A trace that was replayed while buffers that were allocated after its capture were live. The replay overwrites them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsafeTrace {
    /// The program's number for the trace.
    pub id: u64,
    /// Slot of its allocator.
    pub slot: u16,
    /// How often it was replayed.
    pub replays: u64,
    /// The overwritten buffers by line, most bytes first.
    pub lines: Vec<HeldByLine>,
}

/// A point at which the largest free block of a bank is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Point {
    /// A request was refused.
    Refusal,
    /// The program set a mark.
    Mark,
    /// A phase ended.
    Phase(String),
    /// The live bytes reached their peak.
    Peak,
}

impl Point {
    /// Returns the name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Refusal => "refusal",
            Self::Mark => "mark",
            Self::Phase(_) => "phase",
            Self::Peak => "peak",
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refusal => write!(f, "at a refusal"),
            Self::Mark => write!(f, "at a mark"),
            Self::Phase(name) => write!(f, "at the end of phase {name:?}"),
            Self::Peak => write!(f, "at the peak"),
        }
    }
}

/// The smallest value of the largest free block of a bank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tightest {
    /// Bytes of the block.
    pub bytes: u64,
    /// Time, in nanoseconds since 1970.
    pub time: u64,
    /// The point at which the value was measured.
    pub at: Point,
    /// Number of compared points.
    pub points: u64,
}

impl Tightest {
    /// Adds another point, and keeps the smaller value.
    pub fn note(known: &mut Option<Self>, bytes: u64, time: u64, at: Point) {
        match known {
            Some(known) if known.bytes <= bytes => known.points += 1,
            _ => *known = Some(Self { bytes, time, at, points: known.as_ref().map_or(0, |known| known.points) + 1 }),
        }
    }
}

/// Resident bytes of a process during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostMemory {
    /// The first value.
    pub first: u64,
    /// The highest value.
    pub peak: u64,
    /// The last value.
    pub last: u64,
}
