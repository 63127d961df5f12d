//! The header: its constant part, which is validated, and its changing part.

use super::ReadError;
use super::bytes::{Source, position, text_at, u16_at, u32_at, u64_at};
use super::clock::Creation;
use super::numbers::ledger_writer;
use ttmon_ledger::layout::{self, Table, WriterKind, header};
use ttmon_model::ledger::{LedgerWriter, VisibleDevices};

/// The writer of a ledger, as recorded in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The pid in the process's own namespace.
    pub pid: u32,
    /// The start time of the process, field 22 of its stat.
    pub start_ticks: u64,
    /// Inode of the process's pid namespace.
    pub pid_namespace: u64,
    /// 0 on a real machine, otherwise the mark of the simulated machine.
    pub machine: u64,
    /// The kind of writer.
    pub writer: LedgerWriter,
    /// The pid of the process that owns the memory, if the service writes for a peer.
    pub owner_pid: u32,
    /// The start time of that process.
    pub owner_start_ticks: u64,
    /// Name of the program.
    pub program: String,
    /// Version of the writer.
    pub version: String,
    /// Creation time of the ledger.
    pub created_unix_ns: u64,
}

/// The part that is read once, when a ledger is opened.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) identity: Identity,
    pub(super) tables: Tables,
    pub(super) creation: Creation,
    /// The length recorded in the ledger, which is at most that of the source.
    pub(super) region_bytes: u64,
}

impl Header {
    pub(super) fn read(source: &Source) -> Result<Self, ReadError> {
        let mut bytes = [0; layout::HEADER_BYTES as usize];
        source.read(&mut bytes, 0)?;
        if u64_at(&bytes, header::MAGIC) != layout::MAGIC {
            return Err(ReadError::NotReady);
        }
        let (major, minor) = (u16_at(&bytes, header::VERSION_MAJOR), u16_at(&bytes, header::VERSION_MINOR));
        // All minor versions from 2.0 on are supported.
        if major != layout::VERSION_MAJOR {
            return Err(ReadError::Version { major, minor });
        }
        let tables = Tables::decode(&bytes, source.length())?;
        let creation = Creation::decode(&bytes);
        Ok(Self { identity: identity(&bytes, &creation), tables, creation, region_bytes: u64_at(&bytes, header::REGION_BYTES) })
    }
}

fn identity(bytes: &[u8], creation: &Creation) -> Identity {
    Identity {
        pid: u32_at(bytes, header::PID),
        start_ticks: u64_at(bytes, header::START_TICKS),
        pid_namespace: u64_at(bytes, header::PID_NAMESPACE),
        machine: u64_at(bytes, header::MACHINE),
        writer: ledger_writer(WriterKind::from_number(u32_at(bytes, header::WRITER))),
        owner_pid: u32_at(bytes, header::OWNER_PID),
        owner_start_ticks: u64_at(bytes, header::OWNER_START_TICKS),
        program: text_at(bytes, header::PROGRAM, header::PROGRAM_BYTES),
        version: text_at(bytes, header::VERSION_TEXT, header::VERSION_TEXT_BYTES),
        created_unix_ns: creation.realtime,
    }
}

/// The positions of the tables. Invariant: each table is within the region after the header, overlaps no other, and has at most as many
/// records as in this version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables {
    pub(super) allocators: Table,
    pub(super) rows: Table,
    pub(super) tags: Table,
    pub(super) peak_copies: Table,
    pub(super) events: Table,
    pub(super) entries: Table,
    pub(super) circulars: Table,
    pub(super) launches: Table,
    pub(super) coverage: Table,
    pub(super) failures: Table,
    pub(super) left: Table,
    pub(super) shared: Table,
    pub(super) stacks: Table,
    pub(super) frames: Table,
    pub(super) codes: Table,
}

/// A newer minor version may have records that are longer by at most this factor, which limits the time to read them.
const STRIDE_GROWTH_MAX: u32 = 4;
const HEADER_BYTES_MAX: u32 = 1 << 20;

impl Tables {
    fn decode(bytes: &[u8], length: u64) -> Result<Self, ReadError> {
        let header_bytes = u32_at(bytes, header::HEADER_BYTES);
        let region_bytes = u64_at(bytes, header::REGION_BYTES);
        if !(layout::HEADER_BYTES..=HEADER_BYTES_MAX).contains(&header_bytes) {
            return Err(ReadError::Geometry("length of the header"));
        }
        if region_bytes > length {
            return Err(ReadError::TooShort);
        }
        let mut all = layout::TABLES.map(|(_, table)| table);
        for ((at, known), table) in layout::TABLES.into_iter().zip(&mut all) {
            *table = check(bytes, at, known, u64::from(header_bytes)..region_bytes)?;
        }
        let tables = Self {
            allocators: all[0],
            rows: all[1],
            tags: all[2],
            peak_copies: all[3],
            events: all[4],
            entries: all[5],
            circulars: all[6],
            launches: all[7],
            coverage: all[8],
            failures: all[9],
            left: all[10],
            shared: all[11],
            stacks: all[12],
            frames: all[13],
            codes: all[14],
        };
        if tables.rows.records != tables.allocators.records * layout::KINDS {
            return Err(ReadError::Geometry("not eight rows for each allocator"));
        }
        all.sort_unstable_by_key(|table| table.offset);
        if all.windows(2).any(|pair| pair[0].end() > pair[1].offset) {
            return Err(ReadError::Geometry("tables overlap"));
        }
        Ok(tables)
    }
}

fn check(bytes: &[u8], at: u64, known: Table, inside: std::ops::Range<u64>) -> Result<Table, ReadError> {
    let table = Table { offset: u64_at(bytes, at), records: u32_at(bytes, at + 8), stride: u32_at(bytes, at + 12) };
    if !(known.stride..=known.stride * STRIDE_GROWTH_MAX).contains(&table.stride) || !table.stride.is_multiple_of(8) {
        return Err(ReadError::Geometry("length of a record"));
    }
    if !(1..=known.records).contains(&table.records) {
        return Err(ReadError::Geometry("number of records"));
    }
    // The product cannot overflow, because there are at most 2^20 records of some KiB. The sum can.
    let end = table.offset.checked_add(u64::from(table.records) * u64::from(table.stride));
    if table.offset < inside.start || !table.offset.is_multiple_of(8) || end.is_none_or(|end| end > inside.end) {
        return Err(ReadError::Geometry("a table outside the region"));
    }
    Ok(table)
}

/// Numbers of the changing part of the header. Counts of used records are already limited to their tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    pub(super) seq: u64,
    pub(super) entries_used: u32,
    pub(super) allocators_used: u32,
    pub(super) tags_used: u32,
    pub(super) live_entries: u64,
    pub(super) first_valid_event: u64,
    pub(super) circulars_used: u32,
    pub(super) launches_used: u32,
    pub(super) coverage_used: u32,
    pub(super) left_used: u32,
    pub(super) shared_used: u32,
    pub(super) stacks_used: u32,
    pub(super) frames_used: u32,
    pub(super) codes_used: u32,
    pub(super) failures: u64,
    pub(super) mark_event: u64,
}

impl Counters {
    /// The end offset in the header.
    pub(super) const END: u64 = header::STACKS_REFUSED + 8;

    pub(super) fn read(source: &Source, tables: &Tables) -> Result<Self, ReadError> {
        let mut bytes = [0; position(Self::END - header::SEQ)];
        source.read(&mut bytes, header::SEQ)?;
        Ok(Self::decode(&bytes, header::SEQ, tables))
    }

    /// Decodes a part of the header that begins at `start`.
    pub(super) fn decode(bytes: &[u8], start: u64, tables: &Tables) -> Self {
        let field = |offset: u64| u64_at(bytes, offset - start);
        let used = |offset: u64, table: Table| u32::try_from(field(offset)).unwrap_or(u32::MAX).min(table.records);
        Self {
            seq: field(header::SEQ),
            entries_used: used(header::ENTRIES_USED, tables.entries),
            allocators_used: used(header::ALLOCATORS_USED, tables.allocators),
            tags_used: used(header::TAGS_USED, tables.tags),
            live_entries: field(header::LIVE_ENTRIES),
            first_valid_event: field(header::FIRST_VALID_EVENT),
            circulars_used: used(header::CIRCULARS_USED, tables.circulars),
            launches_used: used(header::LAUNCHES_USED, tables.launches),
            coverage_used: used(header::COVERAGE_USED, tables.coverage),
            left_used: used(header::LEFT_USED, tables.left),
            shared_used: used(header::SHARED_USED, tables.shared),
            stacks_used: used(header::STACKS_USED, tables.stacks),
            frames_used: used(header::FRAMES_USED, tables.frames),
            codes_used: used(header::CODES_USED, tables.codes),
            failures: field(header::FAILURES),
            mark_event: field(header::MARK_EVENT),
        }
    }
}

/// Offset of the devices that a program sees. The program may change them after its ledger was created, so they are read with the figures.
pub(super) const ENVIRONMENT: u64 = header::VISIBLE_IS_SET;

/// Decodes TT_VISIBLE_DEVICES of the program from a part of the header that begins at [`ENVIRONMENT`].
pub(super) fn visible_devices(bytes: &[u8]) -> VisibleDevices {
    match u32_at(bytes, header::VISIBLE_IS_SET - ENVIRONMENT) {
        0 => VisibleDevices::All,
        header::VISIBLE_WHOLE => VisibleDevices::Only(text_at(bytes, header::VISIBLE - ENVIRONMENT, header::VISIBLE_BYTES)),
        // An unknown value of a later version is treated as truncated, too.
        _ => VisibleDevices::Cut,
    }
}

/// Whether the chips are mock, or simulated by TT-Metal.
pub(super) fn is_mock(bytes: &[u8]) -> bool {
    u32_at(bytes, header::FLAGS - ENVIRONMENT) & header::FLAG_MOCK != 0
}
