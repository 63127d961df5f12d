//! Reads the ledger of another process, which may be running, dead, or hostile.
//!
//! Nothing read is believed: [`Region::open`] checks the geometry as if an enemy had written it, each later read is bounded by
//! it and by this version's table sizes, and numbers are added up saturating. Reads are `pread`: a file cut short under us is
//! an error and not a signal. docs/ledger.md section 4 says why what comes out is exact although the writer never stops.
//!
//! Left to the caller: finding the file, opening it without blocking, whether its file system may be trusted to answer
//! (docs/ledger.md: a memfd's, or the service's tmpfs), and whether the process that the [`Identity`] names is the one it was found at.

mod bytes;
mod circulars;
mod clock;
mod coverage;
mod entry;
mod environment;
mod events;
mod failures;
mod header;
mod list;
mod live_at_close;
mod peak;
mod recount;
mod replay;
mod rows;
mod shared;
mod stacks;
mod tags;
mod totals;

use std::fmt;
use std::fs::File;
use std::io;

pub use bytes::ReadAt;
pub use circulars::Circular;
pub use coverage::{Feature, Launches};
pub use entry::Entry;
pub use environment::Environment;
pub use events::{Event, Recorded};
pub use failures::{Failure, Large};
pub use header::Identity;
pub use list::{Listing, Live};
pub use peak::PeakSet;
pub use rows::{Allocator, Chip, Geometry, Marked, Row, SelfCheck};
pub use shared::{SharedChip, SharedPeak};
pub use stacks::{Code, Stacks};
pub use totals::{Mark, Totals};

use crate::layout::VERSION_MAJOR;
use bytes::Source;
use clock::Converter;
use header::Header;

/// An opened ledger.
pub struct Region {
    source: Source,
    header: Header,
}

impl Region {
    /// Opens a ledger that is a whole file: a memfd, or one that the service wrote.
    pub fn open(file: File) -> Result<Self, ReadError> {
        let metadata = file.metadata().map_err(|error| ReadError::Io(error.kind()))?;
        if !metadata.is_file() {
            return Err(ReadError::NotRegular);
        }
        Self::open_at(file, 0, metadata.len())
    }

    /// Opens a ledger that lies somewhere in a file: `/proc/PID/mem` at the address of the mapping.
    pub fn open_at(file: File, base: u64, length: u64) -> Result<Self, ReadError> {
        Self::over(Box::new(file), base, length)
    }

    /// Opens a ledger from any source that can be read at an offset.
    pub fn over(bytes: Box<dyn ReadAt>, base: u64, length: u64) -> Result<Self, ReadError> {
        let source = Source::new(bytes, base, length);
        let header = Header::read(&source)?;
        Ok(Self { source, header })
    }

    /// Who wrote it, as it says itself.
    pub fn identity(&self) -> &Identity {
        &self.header.identity
    }

    /// Its length, as it says itself; no more than there is to read.
    pub fn bytes(&self) -> u64 {
        self.header.region_bytes
    }

    /// The figures, without the single entries: a few short reads, unless the writer is stuck in the middle of an event.
    pub fn totals(&self) -> Result<Totals, ReadError> {
        self.totals_if(|_| true)?.ok_or(ReadError::TooShort)
    }

    /// The same, if `may_count` allows to count so many entries. It is asked where the writer is in the middle of an event: the
    /// owner of the ledger may leave it so for ever.
    pub fn totals_if(&self, may_count: impl FnOnce(u64) -> bool) -> Result<Option<Totals>, ReadError> {
        let converter = self.converter();
        let frame = totals::frame(self, converter)?;
        match () {
            () if frame.is_exact => Ok(Some(frame.into_totals(Exactness::Exact))),
            () if may_count(frame.counters.entries_used.into()) => list::recount(self, converter).map(Some),
            () => Ok(None),
        }
    }

    /// All live entries, the figures of the same time, and the live entries at each row's peak.
    pub fn list(&self) -> Result<Listing, ReadError> {
        list::list(self)
    }

    /// The live entries and the figures of the same time. A ledger may list more than it counts: one with more than `most` live
    /// entries is rejected with [`ReadError::TooMany`] before all are read.
    pub fn live(&self, most: u64) -> Result<Live, ReadError> {
        list::live(self, most)
    }

    /// The live circular and dataflow buffers of programs, for figures that were just read. Each is complete; they are all
    /// of the same time if the writer paused during one read.
    pub fn circulars(&self, totals: &Totals) -> Result<Vec<Circular>, ReadError> {
        circulars::read(self, totals)
    }

    /// The last allocations that the program was refused, oldest first: at most 64.
    pub fn failures(&self) -> Result<Vec<Failure>, ReadError> {
        failures::read(self)
    }

    /// Where the program asked for memory: what the numbers in entries, events and failures that were read before mean.
    pub fn stacks(&self) -> Result<Stacks, ReadError> {
        stacks::read(self)
    }

    /// The recorded events after number `after`; 0 asks for all there are.
    pub fn events(&self, after: u64) -> Result<Recorded, ReadError> {
        events::read(self, after)
    }

    /// The number of the last event: a cheap way to see that nothing is new.
    pub fn last_event(&self) -> Result<u64, ReadError> {
        Ok(self.source.seq()? / 2)
    }

    /// For all times of one reading, so that they are consistent: if clocks were set it takes some milliseconds, and is measured
    /// again.
    fn converter(&self) -> Converter {
        self.header.creation.converter()
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("identity", &self.header.identity).finish_non_exhaustive()
    }
}

/// How far figures may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// The writer's own figures, all of the same time.
    Exact,
    /// The writer was in the middle of an event, perhaps for ever: counted anew from the entries.
    Recounted,
    /// Lists only: more happened during the copy than the recorder holds, so that entries are missing or shown too long.
    Changing,
}

/// Why a file is not read as a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// A directory, a pipe, a device.
    NotRegular,
    /// It ends before its header or its tables do.
    TooShort,
    /// It does not begin with the magic: still being made, or no ledger.
    NotReady,
    /// A major version that this reader does not know.
    Version {
        /// Its major version.
        major: u16,
        /// Its minor version.
        minor: u16,
    },
    /// Tables that cannot be; the text says which rule they break.
    Geometry(&'static str),
    /// More live entries than were asked for.
    TooMany,
    /// Reading failed.
    Io(io::ErrorKind),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRegular => f.write_str("not a regular file"),
            Self::TooShort => f.write_str("shorter than a ledger"),
            Self::NotReady => f.write_str("no ledger yet"),
            Self::TooMany => f.write_str("too many live entries"),
            Self::Version { major, minor } if *major < VERSION_MAJOR => {
                write!(f, "ledger of version {major}.{minor} by an older ttmon (this one reads {VERSION_MAJOR}.x): start the program again")
            }
            Self::Version { major, minor } => {
                write!(f, "ledger of version {major}.{minor} by a newer ttmon (this one reads {VERSION_MAJOR}.x): update ttmon")
            }
            Self::Geometry(rule) => write!(f, "broken ledger: {rule}"),
            Self::Io(kind) => write!(f, "cannot be read: {kind}"),
        }
    }
}

impl std::error::Error for ReadError {}
