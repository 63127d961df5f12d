//! Reads the ledger of another process, which may be running, dead, or hostile.
//!
//! The content is not trusted. [`Region::open`] validates the geometry, each later read is bounded by it and by this version's table sizes,
//! and sums saturate. All reads use `pread`, so a truncated file is an error and not a signal. docs/ledger.md section 4 explains why the
//! result is exact although the writer never stops.
//!
//! The caller finds the file and opens it without blocking. The caller also checks that its file system always responds (docs/ledger.md: a
//! memfd's, or the service's tmpfs), and that the [`Identity`] is that of the process at which the file was found.

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
pub use rows::{Allocator, Chip, Marked, Row, SelfCheck};
pub use shared::{SharedChip, SharedPeak};
pub use stacks::{Code, Stacks};
pub use totals::{Mark, Totals};
pub use ttmon_ledger::layout::Geometry;

use bytes::Source;
use clock::Converter;
use header::Header;
use ttmon_ledger::layout::VERSION_MAJOR;

/// An opened ledger.
pub struct Region {
    source: Source,
    header: Header,
}

impl Region {
    /// Opens a ledger that is a whole file: a memfd, or a file of the service.
    pub fn open(file: File) -> Result<Self, ReadError> {
        let metadata = file.metadata().map_err(|error| ReadError::Io(error.kind()))?;
        if !metadata.is_file() {
            return Err(ReadError::NotRegular);
        }
        Self::open_at(file, 0, metadata.len())
    }

    /// Opens a ledger within a file: `/proc/PID/mem` at the address of the mapping.
    pub fn open_at(file: File, base: u64, length: u64) -> Result<Self, ReadError> {
        Self::over(Box::new(file), base, length)
    }

    /// Opens a ledger from any source that can be read at an offset.
    pub fn over(bytes: Box<dyn ReadAt>, base: u64, length: u64) -> Result<Self, ReadError> {
        let source = Source::new(bytes, base, length);
        let header = Header::read(&source)?;
        Ok(Self { source, header })
    }

    /// The writer, as recorded in the ledger.
    pub fn identity(&self) -> &Identity {
        &self.header.identity
    }

    /// The length recorded in the ledger, which is at most that of the source.
    pub fn bytes(&self) -> u64 {
        self.header.region_bytes
    }

    /// Returns the figures without the individual entries. This takes a few short reads, unless the writer is stuck in the middle of an
    /// event.
    pub fn totals(&self) -> Result<Totals, ReadError> {
        self.totals_if(|_| true)?.ok_or(ReadError::TooShort)
    }

    /// Like [`Region::totals`], but counts entries only if `may_count` accepts their number. Entries are counted when the writer is in the
    /// middle of an event, which the owner of the ledger may prolong forever.
    pub fn totals_if(&self, may_count: impl FnOnce(u64) -> bool) -> Result<Option<Totals>, ReadError> {
        let converter = self.converter();
        let frame = totals::frame(self, converter)?;
        if frame.is_exact {
            Ok(Some(frame.totals))
        } else if may_count(frame.counters.entries_used.into()) {
            list::recount(self, converter).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Returns all live entries, the figures at the same time, and the entries at the peak of each row.
    pub fn list(&self) -> Result<Listing, ReadError> {
        list::list(self)
    }

    /// Returns the live entries and the figures at the same time. A ledger may list more entries than it counts. If it lists more than
    /// `most`, reading stops with [`ReadError::TooMany`].
    pub fn live(&self, most: u64) -> Result<Live, ReadError> {
        list::live(self, most)
    }

    /// Returns the live circular and dataflow buffers of programs, for figures that were just read. Each record is complete. They are
    /// consistent with each other if the writer paused during one read.
    pub fn circulars(&self, totals: &Totals) -> Result<Vec<Circular>, ReadError> {
        circulars::read(self, totals)
    }

    /// Returns the last failed allocations of the program, oldest first: at most 64.
    pub fn failures(&self) -> Result<Vec<Failure>, ReadError> {
        failures::read(self)
    }

    /// Returns the stacks, which resolve the stack numbers in entries, events and failures that were read before.
    pub fn stacks(&self) -> Result<Stacks, ReadError> {
        stacks::read(self)
    }

    /// Returns the recorded events after number `after`; 0 returns all.
    pub fn events(&self, after: u64) -> Result<Recorded, ReadError> {
        events::read(self, after)
    }

    /// Returns the number of the last event, to detect cheaply that nothing is new.
    pub fn last_event(&self) -> Result<u64, ReadError> {
        Ok(self.source.seq()? / 2)
    }

    /// Returns a converter for all times of one reading, so that they are consistent. If a clock was set, the rate is measured again, which
    /// takes some milliseconds.
    fn converter(&self) -> Converter {
        self.header.creation.converter()
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("identity", &self.header.identity).finish_non_exhaustive()
    }
}

/// How exact the figures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// The writer's own figures, all of the same time.
    Exact,
    /// Counted from the entries, because the writer was in the middle of an event, perhaps forever.
    Recounted,
    /// For lists only: the recorder overflowed during the copy, so entries may be missing or outdated.
    Changing,
}

/// Why a file cannot be read as a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// The file is a directory, a pipe or a device.
    NotRegular,
    /// The file ends before its header or its tables.
    TooShort,
    /// The file does not start with the magic: it is incomplete, or no ledger.
    NotReady,
    /// The major version is not supported.
    Version {
        /// The major version.
        major: u16,
        /// The minor version.
        minor: u16,
    },
    /// Invalid tables; the text is the violated rule.
    Geometry(&'static str),
    /// More live entries than the caller's limit.
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
