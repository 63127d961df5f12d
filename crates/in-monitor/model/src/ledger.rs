//! Contents of a process's ledger: allocators, rows, programs, and buffers if requested.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::event::Refusal;
use crate::identity::ProcessKey;
use crate::kernels::{KernelType, KernelTypes};
use crate::memory::{Kind, PerKind};
use crate::missing::Reading;
use crate::stack::{SourceLine, Stack};
use crate::units::UnixTime;

/// The contents of one ledger, or the reason why it could not be read.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerSample {
    /// The process that owns the ledger.
    pub owner: ProcessKey,
    /// The contents of the ledger.
    pub content: Reading<Ledger>,
}

/// The contents of a ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    /// Whether no events were lost. If false, the figures may be wrong.
    pub is_exact: bool,
    /// How the figures and the list were read.
    pub exactness: Exactness,
    /// Whether [`Ledger::buffers`] has all live buffers except those that the ledger does not list.
    pub is_listed: bool,
    /// Whether block tables are built from the buffers.
    pub has_blocks: bool,
    /// The writer.
    pub writer: LedgerWriter,
    /// Whether the chips are mock or simulated chips of TT-Metal, which have no row.
    pub is_mock: bool,
    /// TT_VISIBLE_DEVICES in the environment of the process.
    pub visible_devices: VisibleDevices,
    /// Number of events so far.
    pub events: u64,
    /// Time of the last event, or 0 if there was none.
    pub last_time: UnixTime,
    /// Lost events by reason, in the order of the ledger.
    pub lost: [u64; 8],
    /// The cost of recording: number of measured calls, and their nanoseconds.
    pub cost: (u64, u64),
    /// Allocators, including closed ones, which still have peaks.
    pub allocators: Vec<LedgerAllocator>,
    /// Chips that several of its allocators shared at the same time.
    pub shared: Vec<LedgerShared>,
    /// Live buffers, if requested, or if needed for a comparison.
    pub buffers: Vec<Buffer>,
    /// Circular and dataflow buffers of programs.
    pub circulars: Vec<LedgerCircular>,
    /// Whether `circulars` was read. False if there are too many.
    pub has_circulars: bool,
    /// Programs launched, by chip.
    pub launches: Vec<LedgerLaunches>,
    /// Coverage of the hook. Empty if the hook did not write the ledger.
    pub coverage: Vec<HookFeature>,
}

/// How the figures of a ledger were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// The writer's own figures, all of the same time.
    Exact,
    /// Counted from the buffers, because the writer was in the middle of an event, perhaps forever.
    Recounted,
    /// The figures are exact, but the buffers changed faster than they could be listed. The list may have other sums.
    Changing,
}

/// The highest total of several allocators of one origin on a chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerShared {
    /// TT-Metal's number of the chip.
    pub metal_id: u32,
    /// Origin of the allocators.
    pub origin: LedgerWriter,
    /// The peak of each kind.
    pub peaks: PerKind<LedgerSharedPeak>,
}

/// A common peak of one kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerSharedPeak {
    /// Highest live bytes, as requested.
    pub used: u64,
    /// Time of the peak.
    pub time: UnixTime,
    /// Highest live bytes, as allocated.
    pub allocated: u64,
}

impl Ledger {
    /// Returns a complete ledger without allocators.
    pub fn empty(writer: LedgerWriter) -> Self {
        Self {
            is_exact: true,
            exactness: Exactness::Exact,
            is_listed: false,
            has_blocks: false,
            writer,
            is_mock: false,
            visible_devices: VisibleDevices::All,
            events: 0,
            last_time: UnixTime(0),
            lost: [0; 8],
            cost: (0, 0),
            allocators: Vec::new(),
            shared: Vec::new(),
            buffers: Vec::new(),
            circulars: Vec::new(),
            has_circulars: true,
            launches: Vec::new(),
            coverage: Vec::new(),
        }
    }

    /// Returns whether the sums of the listed buffers may differ from the figures.
    pub fn is_changing(&self) -> bool {
        self.exactness == Exactness::Changing
    }

    /// Returns the number of live entries of all kinds: buffers, kernels and circular buffers, listed or not.
    pub fn live_entries(&self) -> u64 {
        self.allocators.iter().flat_map(|allocator| &allocator.rows).fold(0, |sum, row| sum.saturating_add(row.count))
    }

    /// Returns the common peak of the allocators of an origin on a chip, if several existed at the same time.
    pub fn shared_on(&self, chip: &LedgerChip, origin: LedgerWriter) -> Option<&LedgerShared> {
        self.shared.iter().find(|shared| Some(shared.metal_id) == chip.metal_id && shared.origin == origin)
    }
}

/// The writer of a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LedgerWriter {
    /// The client library, with reports of the program.
    Client,
    /// The preloaded hook, with actions of TT-Metal.
    Hook,
    /// The service, for a program on its socket.
    Service,
    /// A writer that this version does not support.
    #[default]
    Unknown,
}

/// TT_VISIBLE_DEVICES of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VisibleDevices {
    /// The variable was not set.
    All,
    /// The value of the variable.
    Only(String),
    /// The value was too long to be stored, so the devices cannot be determined.
    Cut,
}

/// An allocator, which manages memory on one or several chips.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LedgerAllocator {
    /// The slot in the ledger.
    pub slot: u16,
    /// How often the slot was used before.
    pub generation: u32,
    /// When it was opened.
    pub opened: UnixTime,
    /// When it was closed. `None` while it manages memory.
    pub closed: Option<UnixTime>,
    /// Rows and columns of its mesh.
    pub mesh: Option<(u16, u16)>,
    /// The id that the program gave.
    pub given_id: u32,
    /// The writer that reports it.
    pub origin: LedgerWriter,
    /// The chips.
    pub chips: Vec<LedgerChip>,
    /// The layout of its memory, for each kind with known banks.
    pub geometry: PerKind<Option<LedgerGeometry>>,
    /// Result of the hook's comparison with the allocator's own statistics.
    pub self_check: LedgerSelfCheck,
    /// The figures, for the kinds that had an event.
    pub rows: Vec<LedgerRow>,
    /// Number of listed buffers that are not in [`Ledger::buffers`], because only the first ones in some order were requested.
    pub buffers_left_out: u64,
}

impl LedgerAllocator {
    /// Returns whether the allocator still manages memory.
    pub fn is_open(&self) -> bool {
        self.closed.is_none()
    }

    /// Returns the layout of a kind of memory, if its banks are known.
    pub fn geometry_of(&self, kind: BufferKind) -> Option<LedgerGeometry> {
        if let BufferKind::Of(kind) = kind { self.geometry[kind] } else { None }
    }

    /// Returns the number of refused allocations, over all kinds.
    pub fn refused(&self) -> u64 {
        self.rows.iter().fold(0, |sum, row| sum.saturating_add(row.refused))
    }
}

/// A chip, as numbered by a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerChip {
    /// TT-Metal's id inside that process.
    pub metal_id: Option<u32>,
    /// UMD's id.
    pub unique_id: Option<u64>,
}

/// Layout of one kind of an allocator's memory on a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerGeometry {
    /// Number of banks. A buffer takes the same number of bytes of each.
    pub banks: u64,
    /// Bytes per bank.
    pub bank_bytes: u64,
    /// Address of the first byte.
    pub base: u64,
}

/// Result of the hook's comparison of an allocator with its own statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerSelfCheck {
    /// Whether the hook's figures differ from the statistics.
    pub is_inexact: bool,
    /// Whether the program restored an earlier state. The allocator then has blocks without buffers.
    pub is_restored: bool,
    /// Whether some buffers have a different address on each core.
    pub is_per_core: bool,
    /// Start of its L1, if it differs from the base.
    pub l1_lower_end: Option<u64>,
    /// Number of comparisons.
    pub checks: u64,
    /// Number of differences.
    pub differences: u64,
}

/// A circular or dataflow buffer of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerCircular {
    /// Index in [`Ledger::allocators`].
    pub allocator: usize,
    /// Index in [`LedgerAllocator::chips`], or `None` for all chips.
    pub chip: Option<usize>,
    /// The program, by a number that the hook assigned.
    pub program: u32,
    /// The address on each core.
    pub address: u64,
    /// Bytes on each core.
    pub size: u64,
    /// First column, first row, last column and last row of its cores, inclusive.
    pub cores: [u8; 4],
    /// Whether it is inside an L1 buffer, which is already counted.
    pub is_global: bool,
}

/// Programs launched on a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerLaunches {
    /// TT-Metal's id of the chip inside that process.
    pub metal_id: u32,
    /// Number of launches.
    pub programs: u64,
    /// Time of the last launch.
    pub last: UnixTime,
}

/// A feature of the hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookFeature {
    /// The name.
    pub name: String,
    /// How often the program called it.
    pub hits: u64,
    /// Whether it works.
    pub state: FeatureState,
    /// Why it does not work, or other details.
    pub reason: Option<String>,
}

impl HookFeature {
    /// Returns a message that the feature is not covered, with the reason. Returns `None` for optional features (operations, stacks) that
    /// were not requested, and for Python features of a program without Python.
    pub fn not_followed(&self) -> Option<String> {
        match (self.state, self.reason.as_deref()) {
            (FeatureState::Found, _) => None,
            (_, Some(reason)) if reason.starts_with("not asked for") || reason.starts_with("no_python") => None,
            (_, Some(reason)) => Some(format!("{} ({reason})", self.name)),
            (_, None) => Some(self.name.clone()),
        }
    }
}

crate::named! {
    /// Whether a feature of the hook works.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FeatureState {
        /// The symbol was found.
        Found = "found",
        /// The symbol exists but is not used.
        SteppedAside = "stepped_aside",
        /// The symbol is missing.
        Missing = "missing",
    }
}

/// One kind of memory of one allocator. Sizes are per chip.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LedgerRow {
    /// The kind of memory.
    pub kind: BufferKind,
    /// Live bytes, as requested.
    pub used: u64,
    /// Bytes that the allocator took, if its banks are known.
    pub allocated: Option<u64>,
    /// Live buffers.
    pub count: u64,
    /// Refused allocations.
    pub refused: u64,
    /// Highest `used`.
    pub peak: u64,
    /// Time of the peak.
    pub peak_time: UnixTime,
    /// Highest bytes that the allocator took.
    pub peak_allocated: u64,
    /// Number of allocations so far.
    pub allocations: u64,
    /// What was live when all buffers were freed together, for example at the close of the allocator. `None` if nothing was.
    pub at_close: Option<AtClose>,
    /// The figures at the last mark of the program. `None` without a mark.
    pub marked: Option<Marked>,
    /// Number of live buffers that do not fit into the list.
    pub unlisted_count: u64,
    /// Bytes of those buffers.
    pub unlisted_bytes: u64,
    /// The allocator's limit, if known: number of banks x bytes per bank.
    pub capacity: Option<u64>,
    /// Live kernels by type, if they could be listed.
    pub kernel_types: Option<Box<KernelTypes>>,
    /// Whether a listed buffer has a different address on each core.
    pub has_per_core: bool,
    /// Whether the bytes per bank of any other listed buffer are unknown.
    pub has_unknown_blocks: bool,
    /// The largest free block of a bank, if it is known without the list of buffers.
    pub largest_free_per_bank: Option<u64>,
    /// The buffers at the peak and those that were never freed, if the ledger was read for the last time.
    pub end: Option<Box<RowEnd>>,
}

/// The buffers that were live when all buffers of a row were freed together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtClose {
    /// Count and bytes at the last time.
    pub last: (u64, u64),
    /// The last time.
    pub time: UnixTime,
    /// Count and bytes at all times together.
    pub all: (u64, u64),
}

/// The figures of a row at a mark of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// Requested bytes of live buffers.
    pub used: u64,
    /// Bytes that the allocator took.
    pub allocated: u64,
    /// Live buffers.
    pub count: u64,
}

/// The buffers of a row at its peak and at the end of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowEnd {
    /// The buffers at the peak, most bytes first.
    pub at_peak: Vec<PeakGroup>,
    /// The largest free block of a bank at the peak, if all buffers of the peak are known.
    pub largest_free_at_peak: Option<u64>,
    /// Buffers of the program cache that were not freed: count and bytes.
    pub cached: (u64, u64),
    /// Other buffers that were not freed: count and bytes.
    pub leaked: (u64, u64),
}

/// Buffers at a peak with the same line, tag and operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeakGroup {
    /// The line that requested them.
    pub line: Option<Arc<SourceLine>>,
    /// Their tag.
    pub tag: Option<Arc<String>>,
    /// The operation that created them.
    pub operation: Option<Arc<String>>,
    /// Their bytes.
    pub bytes: u64,
    /// Their number.
    pub count: u64,
}

impl PeakGroup {
    /// The tag of the last group, which has the buffers beyond the largest groups and those that are not listed.
    pub const OTHER: &str = "(other)";

    /// Returns whether the buffers have a line, a tag or an operation.
    pub fn is_named(&self) -> bool {
        self.line.is_some() || self.operation.is_some() || self.tag.as_ref().is_some_and(|tag| *tag.as_str() != *Self::OTHER)
    }
}

impl LedgerRow {
    /// Returns the live bytes at the end of the program, or when the allocator was closed.
    pub fn at_end(&self, allocator: &LedgerAllocator) -> u64 {
        let closed = self.at_close.filter(|close| !allocator.is_open() && close.time >= allocator.opened);
        closed.map_or(self.used, |close| close.last.1)
    }

    /// Returns a row without buffers and banks.
    pub fn empty(kind: BufferKind) -> Self {
        Self { kind, ..Self::default() }
    }
}

/// A refused request of a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRefusal {
    /// When it was refused.
    pub time: UnixTime,
    /// Number of the event.
    pub event: u64,
    /// The slot of the allocator.
    pub slot: u16,
    /// How often the slot was used before.
    pub generation: u32,
    /// The tag that was active.
    pub tag: Option<String>,
    /// The request.
    pub refusal: Refusal,
}

/// Kind of memory of a buffer. The last two are part of no bar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BufferKind {
    /// Device memory.
    Of(Kind),
    /// Host memory (SYSTEM_MEMORY).
    Host,
    /// An unknown type.
    #[default]
    Other,
}

impl BufferKind {
    /// Returns whether the memory is on a chip and consists of buffers, which a program can leak.
    pub fn is_banked(self) -> bool {
        matches!(self, Self::Of(kind) if Kind::BANKED.contains(&kind))
    }

    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Of(kind) => kind.name(),
            Self::Host => "host",
            Self::Other => "other",
        }
    }
}

/// One live buffer. There may be a million, so the struct is small, and tags are shared through thin pointers.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Index in [`Ledger::allocators`].
    pub allocator: u16,
    /// The kind.
    pub kind: BufferKind,
    /// The address.
    pub address: u64,
    /// Requested bytes, per chip.
    pub size: u64,
    /// Bytes per bank, if known.
    pub per_bank: Option<NonZeroU32>,
    /// Bytes of a page, if known.
    pub page_size: Option<NonZeroU32>,
    /// The layout over the banks, if known.
    pub layout: Option<BufferLayout>,
    /// Number of its cores, if known.
    pub cores: Option<NonZeroU32>,
    /// Number of references.
    pub refs: u32,
    /// When it was allocated.
    pub time: UnixTime,
    /// The tag that was active.
    pub tag: Option<Arc<String>>,
    /// The operation that created it, if named.
    pub operation: Option<Arc<String>>,
    /// The stack that requested the buffer, if recorded.
    pub stack: Option<Arc<Stack>>,
    /// Whether it has a different address on each core.
    pub is_per_core: bool,
    /// Whether it belongs to the program cache, which exists as long as its device.
    pub is_cached: bool,
    /// Type of a kernel.
    pub kernel_type: Option<KernelType>,
}

impl Buffer {
    /// Returns the line that requested the buffer, if recorded.
    pub fn line(&self) -> Option<&Arc<SourceLine>> {
        self.stack.as_ref().map(|stack| &stack.line)
    }
}

crate::named! {
    /// Layout of a buffer over the banks, in the order of their numbers in a ledger, which begin at 1.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum BufferLayout {
        /// Pages in turn over all banks.
        Interleaved = "interleaved",
        /// Rows of shards.
        HeightSharded = "height_sharded",
        /// Columns of shards.
        WidthSharded = "width_sharded",
        /// A grid of shards.
        BlockSharded = "block_sharded",
        /// Shards of any dimensions.
        NdSharded = "nd_sharded",
    }
}

impl BufferLayout {
    /// Returns the layout for a number in a ledger.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}
