//! Reads the ledger of another process, which may be running, dead, or hostile.
//!
//! The content is not trusted. [`Region::open`] validates the geometry, each later read is bounded by it and by this version's table sizes,
//! and sums saturate. All reads use `pread`, so a truncated file is an error and not a signal. docs/ledger.md section 4 explains why the
//! result is exact although the writer never stops.
//!
//! The caller finds the file and opens it without blocking. The caller also checks that its file system always responds (docs/ledger.md: a
//! memfd's, or the service's tmpfs), and that the [`Identity`] is that of the process at which the file was found.

mod buffers;
mod bytes;
mod circulars;
mod clock;
mod coverage;
mod cursor;
mod end;
mod entry;
mod events;
mod header;
mod lines;
mod list;
mod live_at_close;
mod numbers;
mod peak;
mod recount;
mod refusals;
mod replay;
mod rows;
mod tags;
#[cfg(test)]
mod tests;
mod totals;

use std::fmt;
use std::fs::File;
use std::io;

pub use buffers::LedgerDetail;
pub use bytes::ReadAt;
pub use cursor::EventCursor;
pub use end::FinalLedger;
pub use events::{Event, NewEvents};
pub use header::Identity;
pub use lines::{Lines, Resolver, resolve_snapshot, set_resolver};
pub use numbers::buffer_kind;
pub use tags::Tags;
pub use ttmon_ledger::layout::{COST_ONE_IN, Op};

use bytes::Source;
use clock::Converter;
use header::Header;
use ttmon_ledger::layout::VERSION_MAJOR;
use ttmon_model::ledger::{Ledger, LedgerRefusal};

/// A part of a ledger that its owner can make large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerPart {
    /// The allocators.
    Allocators,
    /// The chips of all allocators.
    Chips,
    /// The live buffers.
    Buffers,
    /// The circular buffers of programs.
    Circulars,
}

/// Decides whether this many items of a part may be read.
pub type MayRead<'a> = &'a mut dyn FnMut(LedgerPart, u64) -> bool;

/// The live buffers of a ledger, as the events that allocated them.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveEvents {
    /// The figures at the same time, without circular buffers.
    pub ledger: Ledger,
    /// The event of the program's last mark.
    pub mark: Option<u64>,
    /// The listed live buffers.
    pub live: Vec<Event>,
    /// Buffers that ended with their allocator, as far as they are stored.
    pub left: Vec<Event>,
    /// Texts of the tags by id.
    pub tags: Tags,
}

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

    /// Returns the figures, without buffers and circular buffers. This takes a few short reads, unless the writer is stuck in the middle of
    /// an event.
    pub fn figures(&self) -> Result<Ledger, ReadError> {
        buffers::figures(self, |_| true)?.map(|figures| figures.ledger).ok_or(ReadError::TooShort)
    }

    /// Returns the figures and the circular buffers.
    pub fn figures_with_circulars(&self) -> Result<Ledger, ReadError> {
        self.ledger(|_| LedgerDetail::Totals, Lines::default, &mut |_, _| true)?.ok_or(ReadError::TooShort)
    }

    /// Returns the ledger, with the detail that `choose` returns for the figures. Returns `None` if `may_read` refuses the figures. A list
    /// that it refuses is omitted. `lines` is called if there are buffers to be listed.
    ///
    /// Entries are also read if the writer is in the middle of an event, which the owner of the ledger may prolong forever.
    pub fn ledger(
        &self,
        choose: impl FnOnce(&Ledger) -> LedgerDetail,
        lines: impl FnOnce() -> Lines,
        may_read: MayRead<'_>,
    ) -> Result<Option<Ledger>, ReadError> {
        buffers::read(self, choose, lines, may_read)
    }

    /// Returns the ledger with the buffers at its peaks, and the `left_max` largest buffers that were never freed.
    pub fn final_ledger(&self, left_max: usize) -> Result<FinalLedger, ReadError> {
        let listing = list::list(self)?;
        // A stack is written before its buffers, so lines that are read afterwards have all of them.
        Ok(end::final_ledger(listing, self.lines()?, left_max))
    }

    /// Returns the live buffers as events, to follow them through later events.
    pub fn live_events(&self) -> Result<LiveEvents, ReadError> {
        let listing = list::live_and_left(self)?;
        Ok(LiveEvents {
            mark: Some(listing.figures.counters.mark_event).filter(|event| *event != 0),
            ledger: listing.figures.ledger,
            live: listing.entries.into_iter().map(Event::of).collect(),
            left: listing.left.into_iter().map(Event::of).collect(),
            tags: listing.tags,
        })
    }

    /// Returns the last refused requests of the program, oldest first: at most 64.
    pub fn refusals(&self, lines: &Lines) -> Result<Vec<LedgerRefusal>, ReadError> {
        refusals::read(self, lines)
    }

    /// Returns the lines of all stacks, which resolve the stack numbers in events that were read before.
    pub fn lines(&self) -> Result<Lines, ReadError> {
        Lines::read(self)
    }

    /// Returns the recorded events after number `after`; 0 returns all.
    pub fn events(&self, after: u64) -> Result<NewEvents, ReadError> {
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
