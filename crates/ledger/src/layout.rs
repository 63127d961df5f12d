//! The bytes of a ledger, version 1.0. docs/ledger.md has the same tables with the reasons.

/// `TTMONLDG`, stored last when a ledger is made.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TTMONLDG");
/// A reader refuses any other.
pub const VERSION_MAJOR: u16 = 1;
/// A reader accepts any.
pub const VERSION_MINOR: u16 = 0;
/// Name of the memfd; it stands in `/proc/PID/maps` as `/memfd:ttmon-ledger (deleted)`.
pub const NAME: &str = "ttmon-ledger";

/// Where a table lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its first byte.
    pub offset: u64,
    /// How many records.
    pub records: u32,
    /// Bytes from one to the next.
    pub stride: u32,
}

impl Table {
    const fn after(before: Self, records: u32, stride: u32) -> Self {
        Self { offset: before.end(), records, stride }
    }

    /// The byte behind its last.
    pub const fn end(self) -> u64 {
        self.offset + self.records as u64 * self.stride as u64
    }
}

/// Bytes of the header.
pub const HEADER_BYTES: u32 = 4096;
/// Most entries a ledger lists.
pub const ENTRIES_MAX: u32 = 1 << 20;
/// Fewest a process may have room for.
pub const ENTRIES_MIN: u32 = 1 << 10;
/// Kinds of memory a row number has room for.
pub const KINDS: u32 = 8;

const HEADER: Table = Table { offset: 0, records: 1, stride: HEADER_BYTES };
/// Allocators.
pub const ALLOCATORS: Table = Table::after(HEADER, 256, 1280);
/// Rows: allocator x 8 + kind.
pub const ROWS: Table = Table::after(ALLOCATORS, 2048, 256);
/// Tags.
pub const TAGS: Table = Table::after(ROWS, 4096, 64);
/// Members of peak sets that are gone from the entries.
pub const GRAVEYARD: Table = Table::after(TAGS, 16_384, 64);
/// The flight recorder.
pub const EVENTS: Table = Table::after(GRAVEYARD, 65_536, 40);
/// Entries, as many as fit.
pub const fn entries(capacity: u32) -> Table {
    Table::after(EVENTS, capacity, 64)
}

const _: () = assert!(ROWS.records == ALLOCATORS.records * KINDS);
const _: () = assert!(EVENTS.records.is_power_of_two());
const _: () = assert!(entries(ENTRIES_MAX).offset == 0x49_1000 && entries(ENTRIES_MAX).end() == 0x449_1000);

/// Offsets in the header.
pub mod header {
    #![allow(missing_docs, reason = "the table in docs/ledger.md says what each is")]
    pub const MAGIC: u64 = 0x000;
    pub const VERSION_MAJOR: u64 = 0x008;
    pub const VERSION_MINOR: u64 = 0x00A;
    pub const HEADER_BYTES: u64 = 0x00C;
    pub const REGION_BYTES: u64 = 0x010;
    /// Six tables of 16 bytes: allocators, rows, tags, graveyard, events, entries.
    pub const TABLES: u64 = 0x018;
    pub const PID: u64 = 0x080;
    pub const WRITER: u64 = 0x084;
    pub const START_TICKS: u64 = 0x088;
    pub const PID_NAMESPACE: u64 = 0x090;
    pub const MACHINE: u64 = 0x098;
    pub const CLOCK: u64 = 0x0A0;
    pub const OWNER_PID: u64 = 0x0A4;
    pub const CREATED_MONOTONIC: u64 = 0x0A8;
    pub const CREATED_REALTIME: u64 = 0x0B0;
    pub const CREATED_CLOCK: u64 = 0x0B8;
    pub const OWNER_START_TICKS: u64 = 0x0C0;
    pub const VISIBLE_IS_SET: u64 = 0x0C8;
    pub const FLAGS: u64 = 0x0CC;
    pub const VERSION_TEXT: u64 = 0x0D0;
    pub const VERSION_TEXT_BYTES: usize = 32;
    pub const PROGRAM: u64 = 0x0F0;
    pub const PROGRAM_BYTES: usize = 64;
    pub const VISIBLE: u64 = 0x130;
    pub const VISIBLE_BYTES: usize = 208;
    pub const SEQ: u64 = 0x200;
    pub const ENTRIES_USED: u64 = 0x208;
    pub const ALLOCATORS_USED: u64 = 0x210;
    pub const TAGS_USED: u64 = 0x218;
    pub const LIVE_ENTRIES: u64 = 0x220;
    pub const LIVE_BYTES: u64 = 0x228;
    pub const STATUS: u64 = 0x230;
    pub const LAST_TIME: u64 = 0x238;
    pub const LOST: u64 = 0x240;
    pub const REPAIRS: u64 = 0x280;
    pub const ROWS_BELIEVABLE_FROM: u64 = 0x288;

    /// TT_VISIBLE_DEVICES is set and stands there whole.
    pub const VISIBLE_WHOLE: u32 = 1;
    /// It is set, and longer than its field.
    pub const VISIBLE_CUT: u32 = 2;

    /// Flag: the chips are mock or simulated by TT-Metal.
    pub const FLAG_MOCK: u32 = 1;

    const _: () = assert!(VISIBLE + VISIBLE_BYTES as u64 == SEQ);
}

/// Offsets in an allocator's record.
pub mod allocator {
    #![allow(missing_docs, reason = "the table in docs/ledger.md says what each is")]
    pub const STATE: u64 = 0x00;
    pub const OPENED: u64 = 0x08;
    pub const CLOSED: u64 = 0x10;
    pub const MESH_ROWS: u64 = 0x18;
    pub const MESH_COLUMNS: u64 = 0x1A;
    pub const CHIPS: u64 = 0x1C;
    pub const GIVEN_ID: u64 = 0x20;
    pub const ORIGIN: u64 = 0x24;
    /// Six of 24 bytes: banks u32, alignment u32, bytes of a bank u64, base u64.
    pub const KINDS: u64 = 0x28;
    pub const KIND_BYTES: u64 = 24;
    /// 64 of 16 bytes: metal id u32, flags u32, unique id u64.
    pub const CHIP_LIST: u64 = 0x100;
    pub const CHIP_BYTES: u64 = 16;
    pub const CHIPS_MAX: u32 = 64;
    /// A chip's metal id that is not known.
    pub const METAL_ID_UNKNOWN: u32 = u32::MAX;

    pub const FREE: u8 = 0;
    pub const WRITING: u8 = 1;
    pub const OPEN: u8 = 2;
    pub const SHUT: u8 = 3;
}

/// Offsets in a row.
pub mod row {
    #![allow(missing_docs, reason = "the table in docs/ledger.md says what each is")]
    pub const STATE: u64 = 0x00;
    pub const LIVE_BYTES: u64 = 0x08;
    pub const ALLOCATED_BYTES: u64 = 0x10;
    pub const LIVE_COUNT: u64 = 0x18;
    pub const PEAK: u64 = 0x20;
    pub const PEAK_TIME: u64 = 0x28;
    pub const PEAK_EVENT: u64 = 0x30;
    pub const PEAK_ALLOCATED: u64 = 0x38;
    pub const PEAK_ALLOCATED_TIME: u64 = 0x40;
    pub const PEAK_ALLOCATED_EVENT: u64 = 0x48;
    pub const ALLOCS: u64 = 0x50;
    pub const FREES: u64 = 0x58;
    pub const FAILED: u64 = 0x60;
    pub const UNLISTED_COUNT: u64 = 0x68;
    pub const UNLISTED_BYTES: u64 = 0x70;
    pub const UNLISTED_ALLOCATED: u64 = 0x78;
    pub const EPOCH: u64 = 0x80;
    pub const PEAK_EPOCH: u64 = 0x88;
    pub const PEAK_UNLISTED_BYTES: u64 = 0x90;
    pub const PEAK_UNLISTED_COUNT: u64 = 0x98;
    pub const PEAK_LOST_BYTES: u64 = 0xA0;
    pub const PEAK_LOST_COUNT: u64 = 0xA8;
    /// Low byte of the state of a row in use.
    pub const IN_USE: u8 = 2;
}

/// Offsets in an entry, and in a graveyard record.
pub mod entry {
    #![allow(missing_docs, reason = "the table in docs/ledger.md says what each is")]
    pub const STATE: u64 = 0x00;
    pub const ADDRESS: u64 = 0x08;
    pub const SIZE: u64 = 0x10;
    pub const TIME: u64 = 0x18;
    pub const PER_BANK: u64 = 0x20;
    pub const PAGE: u64 = 0x24;
    pub const ROW: u64 = 0x28;
    pub const KIND: u64 = 0x2A;
    pub const LAYOUT: u64 = 0x2B;
    pub const CORES: u64 = 0x2C;
    pub const FLAGS: u64 = 0x2E;
    pub const TAG: u64 = 0x30;
    pub const REFS: u64 = 0x34;
    pub const THREAD: u64 = 0x38;
    pub const OPERATION: u64 = 0x3C;
    /// In a graveyard record: the peak event it belongs to, over thread and operation.
    pub const PEAK_EVENT: u64 = 0x38;

    pub const FREE: u8 = 0;
    pub const WRITING: u8 = 1;
    pub const LIVE: u8 = 2;
}

/// Sizes of this and more are refused: events carry 40 bits.
pub const SIZE_END: u64 = 1 << 40;
/// Tag of everything after the last one there is room for.
pub const TAG_OTHER: u32 = TAGS.records - 1;
/// Longest text of a tag.
pub const TAG_BYTES_MAX: usize = 62;

/// What an event did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the list in docs/ledger.md says what each is")]
#[repr(u8)]
pub enum Op {
    Alloc = 1,
    Free = 2,
    Ref = 3,
    Unref = 4,
    FreeAll = 5,
    UnlistedAlloc = 6,
    UnlistedFree = 7,
    Repair = 8,
    Open = 9,
    Close = 10,
    Failed = 11,
    Mark = 12,
}

impl Op {
    /// The op of a byte, if there is one.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Alloc,
            2 => Self::Free,
            3 => Self::Ref,
            4 => Self::Unref,
            5 => Self::FreeAll,
            6 => Self::UnlistedAlloc,
            7 => Self::UnlistedFree,
            8 => Self::Repair,
            9 => Self::Open,
            10 => Self::Close,
            11 => Self::Failed,
            12 => Self::Mark,
            _ => return None,
        })
    }
}

/// Why an event is not in the figures, or odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the list in docs/ledger.md says what each is")]
#[repr(usize)]
pub enum Lost {
    Reentry = 0,
    LockTimeout = 1,
    UnknownFree = 2,
    AmbiguousFree = 3,
    Replaced = 4,
    SizeOutOfRange = 5,
    NoAllocator = 6,
    NoMemory = 7,
}

/// Kinds of lost events.
pub const LOST_KINDS: usize = 8;

/// Bits of the header's status.
pub mod status {
    #![allow(missing_docs, reason = "the list in docs/ledger.md says what each is")]
    pub const INEXACT: u64 = 1;
    pub const OVERFLOW: u64 = 2;
    pub const REPAIRED: u64 = 4;
    pub const CLOCK_FALLBACK: u64 = 8;
    pub const UNSEALED: u64 = 16;
}

/// Who writes a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum WriterKind {
    /// The client library.
    Client = 1,
    /// The preloaded hook.
    Hook = 2,
    /// The service, for a peer on its socket.
    Service = 3,
}

/// What the times are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Clock {
    /// Nanoseconds of CLOCK_MONOTONIC.
    Monotonic = 0,
    /// Ticks of the CPU's counter.
    Tsc = 1,
}

/// Kinds of memory by their number in rows and entries.
pub mod kind {
    #![allow(missing_docs, reason = "names of the contract")]
    pub const DRAM: u8 = 0;
    pub const L1: u8 = 1;
    pub const L1_SMALL: u8 = 2;
    pub const TRACE: u8 = 3;
    pub const CB: u8 = 4;
    pub const KERNEL: u8 = 5;
    pub const HOST: u8 = 6;
    pub const OTHER: u8 = 7;
}
