//! Contents of a process's ledger: allocators, rows, programs, and buffers if requested.

use std::num::NonZeroU32;
use std::sync::Arc;

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
    /// Whether the buffers changed faster than they could be listed. The sum of the list may then differ from the figures, which are exact.
    pub is_changing: bool,
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
    /// Allocators, including closed ones, which still have peaks.
    pub allocators: Vec<LedgerAllocator>,
    /// Chips that several of its allocators shared at the same time.
    pub shared: Vec<LedgerShared>,
    /// Live buffers, if requested, or if needed for a comparison.
    pub buffers: Vec<LedgerBuffer>,
    /// Circular and dataflow buffers of programs.
    pub circulars: Vec<LedgerCircular>,
    /// Whether `circulars` was read. False if there are too many.
    pub has_circulars: bool,
    /// Programs launched, by chip.
    pub launches: Vec<LedgerLaunches>,
    /// Coverage of the hook. Empty if the hook did not write the ledger.
    pub coverage: Vec<LedgerFeature>,
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
    /// Returns the common peak of the allocators of an origin on a chip, if several existed at the same time.
    pub fn shared_on(&self, chip: &LedgerChip, origin: LedgerWriter) -> Option<&LedgerShared> {
        self.shared.iter().find(|shared| Some(shared.metal_id) == chip.metal_id && shared.origin == origin)
    }
}

/// The writer of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerWriter {
    /// The client library, with reports of the program.
    Client,
    /// The preloaded hook, with actions of TT-Metal.
    Hook,
    /// The service, for a program on its socket.
    Service,
    /// A writer that this version does not support.
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
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerAllocator {
    /// The slot in the ledger.
    pub slot: u16,
    /// How often the slot was used before.
    pub generation: u32,
    /// Whether the allocator still manages memory.
    pub is_open: bool,
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
pub struct LedgerFeature {
    /// The name.
    pub name: String,
    /// How often the program called it.
    pub hits: u64,
    /// Whether it works.
    pub state: FeatureState,
    /// Why it does not work, or other details.
    pub reason: Option<String>,
}

impl LedgerFeature {
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
}

impl LedgerRow {
    /// Returns a row without buffers and banks.
    pub fn empty(kind: BufferKind) -> Self {
        Self { kind, ..Self::default() }
    }
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
pub struct LedgerBuffer {
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
    /// Type of a kernel.
    pub kernel_type: Option<KernelType>,
}

impl LedgerBuffer {
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
