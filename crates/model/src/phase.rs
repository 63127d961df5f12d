//! Phases of a program, and traces with buffers in their way.

use std::fmt;

use crate::memory::Kind;
use crate::room::HeldByLine;

/// The kinds of memory that phases are measured by.
pub const PHASE_KINDS: [Kind; 2] = [Kind::Dram, Kind::L1];

/// Bytes by [`PHASE_KINDS`]; each buffer counts once, by its bytes on a chip.
pub type PhaseBytes = [u64; 2];

/// A phase that the program named, all its iterations together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// How often it ran.
    pub count: u64,
    /// Most live bytes in any iteration.
    pub peak: PhaseBytes,
    /// Most live bytes in the first iteration.
    pub first_peak: PhaseBytes,
    /// Live bytes at the end minus those at the beginning, all iterations added up.
    pub change: [i64; 2],
    /// Buffers allocated.
    pub allocations: u64,
    /// The smallest of the largest free blocks of a bank at the ends of iterations.
    pub smallest_largest_free: [Option<u64>; 2],
    /// Most resident bytes of the process at a begin or an end; 0 is unknown.
    pub host_rss_peak: u64,
    /// Time of all iterations together.
    pub duration_ns: u64,
    /// What stays with each iteration; `None` where it ran only a few times.
    pub growth: Option<Growth>,
}

/// What an iteration leaves behind, on average from the second one on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Bytes more with each iteration.
    pub bytes: [i64; 2],
    /// The lines that leave buffers behind in nearly every iteration, most bytes first.
    pub lines: Vec<HeldByLine>,
}

/// A trace that was replayed while buffers were live that came after its capture. It overwrites them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsafeTrace {
    /// The program's number of the trace.
    pub id: u64,
    /// Slot of its allocator.
    pub slot: u16,
    /// How often it was replayed.
    pub replays: u64,
    /// Those buffers by line, most bytes first.
    pub lines: Vec<HeldByLine>,
}

/// An event at which the largest free block of a bank is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Point {
    /// A request was refused.
    Refusal,
    /// The program set a mark.
    Mark,
    /// A phase ended.
    Phase(String),
    /// The live bytes were at their peak.
    Peak,
}

impl Point {
    /// The name in JSON.
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

/// The smallest of the largest free blocks of a bank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tightest {
    /// Bytes of the block.
    pub bytes: u64,
    /// When, in nanoseconds since 1970.
    pub time: u64,
    /// At what.
    pub at: Point,
    /// How many points were compared.
    pub points: u64,
}

impl Tightest {
    /// Compares with one more point.
    pub fn note(known: &mut Option<Self>, bytes: u64, time: u64, at: Point) {
        match known {
            Some(known) if known.bytes <= bytes => known.points += 1,
            _ => *known = Some(Self { bytes, time, at, points: known.as_ref().map_or(0, |known| known.points) + 1 }),
        }
    }
}
