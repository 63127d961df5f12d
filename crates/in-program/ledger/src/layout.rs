//! The bytes of a ledger, version 2.2. docs/ledger.md has the same tables with their reasons.

mod stacks;

pub use stacks::{code, stack};

/// `TTMONLDG`, stored last when a ledger is created.
pub const MAGIC: u64 = u64::from_le_bytes(*b"TTMONLDG");
/// A reader rejects any other major version.
pub const VERSION_MAJOR: u16 = 2;
/// A reader accepts this minor version and any later one.
pub const VERSION_MINOR: u16 = 2;
/// Name of the memfd; it appears in `/proc/PID/maps` as `/memfd:ttmon-ledger (deleted)`.
pub const NAME: &str = "ttmon-ledger";

/// The position of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of records.
    pub records: u32,
    /// Bytes from one record to the next.
    pub stride: u32,
}

impl Table {
    const fn after(before: Self, records: u32, stride: u32) -> Self {
        Self { offset: before.end(), records, stride }
    }

    /// The offset after the last byte.
    pub const fn end(self) -> u64 {
        self.offset + self.records as u64 * self.stride as u64
    }
}

/// Bytes of the header.
pub const HEADER_BYTES: u32 = 4096;
/// Maximum number of entries that a ledger lists.
pub const ENTRIES_MAX: u32 = 1 << 20;
/// Minimum capacity of a ledger, in entries.
pub const ENTRIES_MIN: u32 = 1 << 10;
/// Number of kinds of memory per allocator in the row table.
pub const KINDS: u32 = 8;

pub(crate) const HEADER: Table = Table { offset: 0, records: 1, stride: HEADER_BYTES };
/// Allocators.
pub const ALLOCATORS: Table = Table::after(HEADER, 256, 1280);
/// Rows: allocator x 8 + kind.
pub const ROWS: Table = Table::after(ALLOCATORS, 2048, 256);
/// Tags.
pub const TAGS: Table = Table::after(ROWS, 4096, 64);
/// Members of peak sets that are no longer in the entry table.
pub const PEAK_COPIES: Table = Table::after(TAGS, 16_384, 64);
/// The flight recorder.
pub const EVENTS: Table = Table::after(PEAK_COPIES, 65_536, 48);
/// Circular and dataflow buffers of programs.
pub const CIRCULARS: Table = Table::after(EVENTS, 65_536, 32);
/// Launched programs, by chip.
pub const LAUNCHES: Table = Table::after(CIRCULARS, 256, 32);
/// Features of the hook.
pub const COVERAGE: Table = Table::after(LAUNCHES, 64, 128);
/// The last failed allocations.
pub const FAILURES: Table = Table::after(COVERAGE, 64, 1024);
/// Entries that were live when their whole row was freed, and that are no longer in the entry table.
pub const LEFT: Table = Table::after(FAILURES, 4096, 64);
/// Peaks of chips that several allocators share.
pub const SHARED: Table = Table::after(LEFT, 64, 256);
/// Stacks of allocations.
pub const STACKS: Table = Table::after(SHARED, 65_536, 8);
/// Frames of the stacks. The frames of a stack are contiguous, innermost first.
pub const FRAMES: Table = Table::after(STACKS, 1 << 19, 8);
/// Functions of the frames.
pub const CODES: Table = Table::after(FRAMES, 8192, 512);
/// The entry table, with this capacity.
pub const fn entries(capacity: u32) -> Table {
    Table::after(CODES, capacity, 64)
}

/// The offset in the header at which each table is described, and the table. An entry table has at most this capacity.
pub const TABLES: [(u64, Table); 15] = [
    (header::TABLES, ALLOCATORS),
    (header::TABLES + 16, ROWS),
    (header::TABLES + 32, TAGS),
    (header::TABLES + 48, PEAK_COPIES),
    (header::EVENT_TABLE, EVENTS),
    (header::ENTRY_TABLE, entries(ENTRIES_MAX)),
    (header::MORE_TABLES, CIRCULARS),
    (header::MORE_TABLES + 16, LAUNCHES),
    (header::MORE_TABLES + 32, COVERAGE),
    (header::MORE_TABLES + 48, FAILURES),
    (header::MORE_TABLES + 64, LEFT),
    (header::SHARED_TABLE, SHARED),
    (header::STACK_TABLES, STACKS),
    (header::STACK_TABLES + 16, FRAMES),
    (header::STACK_TABLES + 32, CODES),
];

const _: () = assert!(ROWS.records == ALLOCATORS.records * KINDS);
const _: () = assert!(EVENTS.records.is_power_of_two());
const _: () = assert!(FAILURES.records.is_power_of_two() && CIRCULARS.records.is_power_of_two() && LAUNCHES.records.is_power_of_two());
const _: () = assert!(entries(ENTRIES_MAX).offset == 0xFE_9000 && entries(ENTRIES_MAX).end() == 0x4FE_9000);

/// Offsets in the header.
pub mod header {
    #![allow(missing_docs, reason = "the table in docs/ledger.md says what each is")]
    pub const MAGIC: u64 = 0x000;
    pub const VERSION_MAJOR: u64 = 0x008;
    pub const VERSION_MINOR: u64 = 0x00A;
    pub const HEADER_BYTES: u64 = 0x00C;
    pub const REGION_BYTES: u64 = 0x010;
    /// Six tables of 16 bytes: allocators, rows, tags, peak copies, events, entries.
    pub const TABLES: u64 = 0x018;
    pub const EVENT_TABLE: u64 = 0x058;
    pub const ENTRY_TABLE: u64 = 0x068;
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
    pub const FIRST_VALID_EVENT: u64 = 0x288;
    pub const CIRCULARS_USED: u64 = 0x290;
    pub const LEFT_USED: u64 = 0x298;
    /// Five tables of 16 bytes: circulars, launches, coverage, failures, left.
    pub const MORE_TABLES: u64 = 0x2A0;
    pub const FAILURES: u64 = 0x2F0;
    pub const COVERAGE_USED: u64 = 0x2F8;
    pub const LAUNCHES_USED: u64 = 0x300;
    pub const LEFT_FORGOTTEN_BYTES: u64 = 0x308;
    pub const LEFT_FORGOTTEN_COUNT: u64 = 0x310;
    pub const MARK_EVENT: u64 = 0x318;
    pub const MARK_TIME: u64 = 0x320;
    pub const COST_SAMPLES: u64 = 0x328;
    pub const COST_NS: u64 = 0x330;

    /// The table of shared chips, 16 bytes.
    pub const SHARED_TABLE: u64 = 0x338;
    pub const SHARED_USED: u64 = 0x348;
    /// Three tables of 16 bytes: stacks, frames, codes.
    pub const STACK_TABLES: u64 = 0x350;
    pub const STACKS_USED: u64 = 0x380;
    pub const FRAMES_USED: u64 = 0x388;
    pub const CODES_USED: u64 = 0x390;
    /// Number of allocations whose stack did not fit.
    pub const STACKS_REFUSED: u64 = 0x398;

    /// TT_VISIBLE_DEVICES is set, and its field has the whole value.
    pub const VISIBLE_WHOLE: u32 = 1;
    /// TT_VISIBLE_DEVICES is set, but longer than its field.
    pub const VISIBLE_CUT: u32 = 2;

    /// Flag: the chips are mock or simulated by TT-Metal.
    pub const FLAG_MOCK: u32 = 1;

    const _: () = assert!(VISIBLE + VISIBLE_BYTES as u64 == SEQ);
}

/// One in this many recorded calls is measured. A prime, so that every call of a repeating pattern (an allocation and its free, the
/// operations of a step) is measured in turn.
pub const COST_ONE_IN: u32 = 251;

/// Offsets in an allocator's record.
pub mod allocator {
    #![allow(missing_docs, reason = "the table in docs/ledger.md says what each is")]
    pub const STATE: u64 = 0x00;
    pub const OPENED_AT: u64 = 0x08;
    pub const CLOSED_AT: u64 = 0x10;
    pub const MESH_ROWS: u64 = 0x18;
    pub const MESH_COLUMNS: u64 = 0x1A;
    pub const CHIPS: u64 = 0x1C;
    pub const GIVEN_ID: u64 = 0x20;
    pub const ORIGIN: u64 = 0x24;
    /// 24 bytes for each kind below [`KINDS_MAX`]: banks u32, alignment u32, bytes of a bank u64, base u64.
    pub const KINDS: u64 = 0x28;
    /// Number of kinds on chips. Host memory and other kinds have neither banks nor peaks of a chip.
    pub const KINDS_MAX: usize = 6;
    /// Bits of [`check`](super::check).
    pub const CHECK: u64 = 0xB8;
    pub const CHECKS: u64 = 0xC0;
    pub const DIFFERENCES: u64 = 0xC8;
    pub const L1_LOWER_END: u64 = 0xD0;
    /// 64 records of 16 bytes: metal id u32, flags u32, unique id u64.
    pub const CHIP_LIST: u64 = 0x100;
    pub const CHIPS_MAX: u32 = 64;
    /// The metal id of a chip, if it is not known.
    pub const METAL_ID_UNKNOWN: u32 = u32::MAX;

    pub const FREE: u8 = 0;
    pub const WRITING: u8 = 1;
    pub const OPEN: u8 = 2;
    pub const CLOSED: u8 = 3;

    /// The offset of the geometry of a kind.
    pub const fn geometry(kind: usize) -> u64 {
        KINDS + kind as u64 * 24
    }

    /// The offset of a chip in the list.
    pub const fn chip(place: u64) -> u64 {
        CHIP_LIST + place * 16
    }

    const _: () = assert!(geometry(KINDS_MAX) <= CHECK && chip(CHIPS_MAX as u64) <= super::ALLOCATORS.stride as u64);
}

/// The source that opened an allocator.
pub mod origin {
    #![allow(missing_docs, reason = "the allocator's table in docs/ledger.md says what each is")]
    pub const CLIENT: u32 = 1;
    pub const HOOK: u32 = 2;
    pub const SOCKET: u32 = 3;
}

/// Offsets in a row.
pub mod row {
    #![allow(missing_docs, reason = "the table in docs/ledger.md says what each is")]
    // The first cache line has everything that an event needs, except for a new peak.
    pub const EPOCH: u64 = 0x00;
    pub const LIVE_BYTES: u64 = 0x08;
    pub const ALLOCATED_BYTES: u64 = 0x10;
    pub const ALLOCS: u64 = 0x18;
    pub const FREES: u64 = 0x20;
    pub const INNER_PEAK: u64 = 0x28;
    pub const PEAK_ALLOCATED: u64 = 0x30;
    pub const PEAK_EVENT: u64 = 0x38;
    // The second and later cache lines.
    pub const STATE: u64 = 0x40;
    pub const PEAK: u64 = 0x48;
    pub const PEAK_TIME: u64 = 0x50;
    pub const PEAK_EPOCH: u64 = 0x58;
    pub const PEAK_UNLISTED_BYTES: u64 = 0x60;
    pub const PEAK_UNLISTED_COUNT: u64 = 0x68;
    pub const PEAK_LOST_BYTES: u64 = 0x70;
    pub const PEAK_LOST_COUNT: u64 = 0x78;
    pub const PEAK_ALLOCATED_TIME: u64 = 0x80;
    pub const PEAK_ALLOCATED_EVENT: u64 = 0x88;
    pub const FAILED: u64 = 0x90;
    pub const UNLISTED_COUNT: u64 = 0x98;
    pub const UNLISTED_BYTES: u64 = 0xA0;
    pub const UNLISTED_ALLOCATED: u64 = 0xA8;
    pub const BEGUN: u64 = 0xB0;
    pub const LEFT_BYTES: u64 = 0xB8;
    pub const LEFT_COUNT: u64 = 0xC0;
    pub const LEFT_TIME: u64 = 0xC8;
    pub const LEFT_ALL_BYTES: u64 = 0xD0;
    pub const LEFT_ALL_COUNT: u64 = 0xD8;
    pub const MARK_BYTES: u64 = 0xE0;
    pub const MARK_ALLOCATED: u64 = 0xE8;
    pub const MARK_COUNT: u64 = 0xF0;
    pub const MARK_EVENT: u64 = 0xF8;
    /// Number of 8-byte words in a row.
    pub const WORDS: usize = super::ROWS.stride as usize / 8;
    /// Low byte of the state of a row in use.
    pub const IN_USE: u8 = 2;
}

/// Offsets in an entry, and in a peak copy.
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
    pub const OPERATION: u64 = 0x32;
    pub const REFS: u64 = 0x34;
    pub const THREAD: u64 = 0x38;
    pub const STACK: u64 = 0x3C;
    /// The event of the peak, in a peak copy. It replaces thread and stack; the stack replaces the references.
    pub const PEAK_EVENT: u64 = 0x38;

    pub const FREE: u8 = 0;
    pub const WRITING: u8 = 1;
    pub const LIVE: u8 = 2;
}

/// Bits of an entry's flags.
pub mod flag {
    #![allow(missing_docs, reason = "the entry's table in docs/ledger.md says what each is")]
    pub const CACHE: u16 = 1;
    pub const PER_CORE: u16 = 2;
    pub const TOP: u16 = 4;
    pub const KERNEL_TYPE_SHIFT: u32 = 8;
}

/// Bits of an allocator's self-check.
pub mod check {
    #![allow(missing_docs, reason = "the allocator's table in docs/ledger.md says what each is")]
    pub const INEXACT: u64 = 1;
    pub const RESTORED: u64 = 2;
    pub const PER_CORE: u64 = 4;
    pub const SHRUNK: u64 = 8;
}

/// Offsets in the record of a circular buffer. Its state is like that of an entry.
pub mod circular {
    #![allow(missing_docs, reason = "the table in docs/ledger.md says what each is")]
    pub const STATE: u64 = 0x00;
    pub const ADDRESS: u64 = 0x08;
    pub const SIZE: u64 = 0x0C;
    pub const PROGRAM: u64 = 0x10;
    /// First column, first row, last column, last row: one byte each.
    pub const CORES: u64 = 0x14;
    pub const ALLOCATOR: u64 = 0x18;
    pub const CHIP: u64 = 0x1A;
    pub const FLAGS: u64 = 0x1B;
    /// The circular buffer is on all chips of its allocator.
    pub const ALL_CHIPS: u8 = 0xFF;
    pub const FLAG_DATAFLOW: u8 = 1;
    pub const FLAG_GLOBAL: u8 = 2;
}

/// Offsets in a chip's record of launches.
pub mod launches {
    #![allow(missing_docs, reason = "the table in docs/ledger.md says what each is")]
    /// Metal id + 1, 0 if the record is unused.
    pub const CHIP: u64 = 0x00;
    pub const PROGRAMS: u64 = 0x08;
    pub const LAST_TIME: u64 = 0x10;
}

/// Offsets in the record of a chip that several allocators share. It has peaks for each kind below [`allocator::KINDS_MAX`].
pub mod shared {
    #![allow(missing_docs, reason = "the table in docs/ledger.md says what each is")]
    /// Metal id + 1; the origin is in the high half.
    pub const KEY: u64 = 0x00;
    pub const INNER_PEAKS: u64 = 0x08;
    pub const PEAKS: u64 = 0x40;
    pub const PEAK_BYTES: u64 = 32;
    /// Offset in the peaks of a kind: the peak of allocated bytes follows that of used bytes.
    pub const ALLOCATED: u64 = 16;
    /// Offset of the time, after each of the two.
    pub const TIME: u64 = 8;

    pub const fn inner_peak(kind: usize) -> u64 {
        INNER_PEAKS + kind as u64 * 8
    }

    pub const fn peaks(kind: usize) -> u64 {
        PEAKS + kind as u64 * PEAK_BYTES
    }

    const _: () = assert!(peaks(super::allocator::KINDS_MAX) == super::SHARED.stride as u64);
}

/// Offsets in a coverage record.
pub mod coverage {
    #![allow(missing_docs, reason = "the table in docs/ledger.md says what each is")]
    pub const HITS: u64 = 0x00;
    /// The state is the low byte; the rest counts changes.
    pub const STATE: u64 = 0x08;
    pub const NAME: u64 = 0x10;
    pub const NAME_BYTES: usize = 40;
    pub const REASON: u64 = 0x38;
    pub const REASON_BYTES: usize = 72;
}

/// Offsets in the record of a failure.
pub mod failure {
    #![allow(missing_docs, reason = "the table in docs/ledger.md says what each is")]
    pub const NUMBER: u64 = 0x00;
    pub const TIME: u64 = 0x08;
    pub const EVENT: u64 = 0x10;
    pub const WHAT: u64 = 0x18;
    pub const KIND: u64 = 0x19;
    pub const ALLOCATOR: u64 = 0x1A;
    pub const GENERATION: u64 = 0x1C;
    pub const SIZE: u64 = 0x20;
    pub const PER_BANK: u64 = 0x28;
    pub const BANKS: u64 = 0x30;
    pub const LARGEST_COUNT: u64 = 0x34;
    pub const FREE_PER_BANK: u64 = 0x38;
    pub const LARGEST_FREE_PER_BANK: u64 = 0x40;
    pub const TAG: u64 = 0x48;
    pub const OPERATION: u64 = 0x4C;
    pub const MESSAGE_LENGTH: u64 = 0x50;
    pub const STACK: u64 = 0x58;
    /// Eight records of 32 bytes: address u64, size u64, per bank u32, tag u16, operation u16, stack u32, flags u32.
    pub const LARGEST: u64 = 0x60;
    pub const LARGEST_BYTES: u64 = 32;
    pub const LARGEST_MAX: usize = 8;
    pub const MESSAGE: u64 = 0x180;
    pub const MESSAGE_BYTES: usize = 384;
}

/// Offsets in the record of an event, and positions of the fields that share a word.
pub mod event {
    #![allow(missing_docs, reason = "the table in docs/ledger.md says what each is")]
    pub const TIME: u64 = 0x00;
    pub const ADDRESS: u64 = 0x08;
    /// Size, row and op.
    pub const WHAT: u64 = 0x10;
    /// Slot, tag and number; stored last.
    pub const WHOLE: u64 = 0x18;
    pub const PER_BANK: u64 = 0x20;
    pub const PAGE: u64 = 0x24;
    pub const STACK: u64 = 0x28;
    pub const OPERATION: u64 = 0x2C;

    pub const SIZE_MASK: u64 = super::SIZE_END - 1;
    pub const ROW_SHIFT: u32 = 40;
    pub const OP_SHIFT: u32 = 56;
    pub const SLOT_MASK: u64 = super::ENTRIES_MAX as u64 - 1;
    pub const TAG_SHIFT: u32 = 20;
    pub const TAG_MASK: u64 = super::TAGS.records as u64 - 1;
    pub const NUMBER_SHIFT: u32 = 32;

    const _: () = assert!(SIZE_MASK >> ROW_SHIFT == 0 && super::ROWS.records <= 1 << (OP_SHIFT - ROW_SHIFT));
    const _: () = assert!(SLOT_MASK >> TAG_SHIFT == 0 && TAG_MASK >> (NUMBER_SHIFT - TAG_SHIFT) == 0);
}

/// Buffers of this size and larger are rejected, because events have 40 bits for the size.
pub const SIZE_END: u64 = 1 << 40;
/// The tag of all texts that did not fit in the table.
pub const TAG_OTHER: u32 = TAGS.records - 1;
/// Longest text of a tag.
pub const TAG_BYTES_MAX: usize = 62;

/// Defines an enum whose numbers are in ledgers, and the conversion from a number.
macro_rules! numbered {
    ($(#[$meta:meta])* $name:ident: $number:ty { $($(#[$doc:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr($number)]
        pub enum $name { $($(#[$doc])* $variant = $value,)* }

        impl $name {
            /// Returns the value with this number, if any.
            pub const fn from_number(number: $number) -> Option<Self> {
                match number {
                    $($value => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

numbered! {
    /// The type of an event.
    #[allow(missing_docs, reason = "the list in docs/ledger.md says what each is")]
    Op: u8 {
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
        AddCircular = 13,
        RemoveProgram = 14,
        Nothing = 15,
        PhaseBegin = 16,
        PhaseEnd = 17,
        TraceBegin = 18,
        TraceEnd = 19,
        TraceReplay = 20,
        TraceRelease = 21,
    }
}

/// Why an event is not included in the figures, or is unusual.
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

/// Number of reasons in [`Lost`].
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

numbered! {
    /// Whether a feature of the hook works.
    Coverage: u8 {
        /// Its symbol was found.
        Found = 1,
        /// Its symbol was found, but it is not used. The reason is recorded.
        SteppedAside = 2,
        /// Its symbol was not found.
        Missing = 3,
    }
}

numbered! {
    /// What the program was refused.
    Refused: u8 {
        /// No block is large enough.
        OutOfMemory = 1,
        /// The circular buffers of a program overlap an L1 buffer.
        Clash = 2,
    }
}

numbered! {
    /// The component that writes a ledger.
    WriterKind: u32 {
        /// The client library.
        Client = 1,
        /// The preloaded hook.
        Hook = 2,
        /// The service, for a peer of its socket.
        Service = 3,
    }
}

numbered! {
    /// The unit of the times.
    Clock: u32 {
        /// Nanoseconds of CLOCK_MONOTONIC.
        Monotonic = 0,
        /// Ticks of the CPU's counter.
        Tsc = 1,
    }
}

/// The geometry of a kind of memory; all 0 if it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Geometry {
    /// Number of banks that a buffer is spread over.
    pub banks: u32,
    /// Blocks are multiples of this size.
    pub alignment: u32,
    /// Bytes of one bank.
    pub bank_bytes: u64,
    /// The base address.
    pub base: u64,
}

/// Kinds of memory, by their number in rows and entries.
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
