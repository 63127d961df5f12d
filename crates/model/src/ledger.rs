//! What a process's ledger said: allocators, rows, programs, and buffers where they were asked for.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::identity::ProcessKey;
use crate::kernels::{KernelType, KernelTypes};
use crate::memory::{Kind, PerKind};
use crate::missing::Reading;
use crate::stack::SourceLine;
use crate::units::UnixTime;

/// One ledger, or why it could not be read.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerSample {
    /// The process it belongs to.
    pub owner: ProcessKey,
    /// What it says.
    pub content: Reading<Ledger>,
}

/// The contents of a ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    /// False when events were lost: the figures may be off.
    pub is_exact: bool,
    /// Its buffers changed faster than they could be listed: their sum may differ from the figures, which are exact.
    pub is_changing: bool,
    /// Whether [`Ledger::buffers`] are all that are live, but for those that no list has.
    pub is_listed: bool,
    /// Whether tables of blocks are made of the buffers.
    pub has_blocks: bool,
    /// Who wrote it.
    pub writer: LedgerWriter,
    /// The chips are TT-Metal's mock or simulated ones: they are on no row.
    pub is_mock: bool,
    /// TT_VISIBLE_DEVICES as the process saw it.
    pub visible_devices: VisibleDevices,
    /// Events so far.
    pub events: u64,
    /// Allocators, closed ones too: they had peaks.
    pub allocators: Vec<LedgerAllocator>,
    /// Chips that several of its allocators shared at a time.
    pub shared: Vec<LedgerShared>,
    /// Live buffers, where they were asked for, or needed to be compared.
    pub buffers: Vec<LedgerBuffer>,
    /// Circular and dataflow buffers of programs.
    pub circulars: Vec<LedgerCircular>,
    /// False where those were not read, because there are too many.
    pub has_circulars: bool,
    /// Programs launched, by chip.
    pub launches: Vec<LedgerLaunches>,
    /// What its hook covers; empty where none wrote it.
    pub coverage: Vec<LedgerFeature>,
}

/// The most that several allocators of one origin had together on a chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerShared {
    /// TT-Metal's number of the chip.
    pub metal_id: u32,
    /// Of whose allocators.
    pub origin: LedgerWriter,
    /// By kind.
    pub peaks: PerKind<LedgerSharedPeak>,
}

/// Such a peak of one kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerSharedPeak {
    /// Most live bytes, as asked for.
    pub used: u64,
    /// When that was.
    pub time: UnixTime,
    /// Most live bytes, as taken.
    pub allocated: u64,
}

impl Ledger {
    /// What the allocators of that origin had together on a chip, if there were several at a time.
    pub fn shared_on(&self, chip: &LedgerChip, origin: LedgerWriter) -> Option<&LedgerShared> {
        self.shared.iter().find(|shared| Some(shared.metal_id) == chip.metal_id && shared.origin == origin)
    }
}

/// Who writes a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerWriter {
    /// The client library: what the program reports.
    Client,
    /// The preloaded hook: what TT-Metal does.
    Hook,
    /// The service, for a program on its socket.
    Service,
    /// One that this version does not know.
    Unknown,
}

/// TT_VISIBLE_DEVICES of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VisibleDevices {
    /// It was not set.
    All,
    /// What it said.
    Only(String),
    /// It was too long to be kept whole: which device is which cannot be told.
    Cut,
}

/// What hands out memory on one or several chips.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerAllocator {
    /// Its place in the ledger.
    pub slot: u16,
    /// How often that place was used before.
    pub generation: u32,
    /// Whether it still hands out memory.
    pub is_open: bool,
    /// Rows and columns of its mesh.
    pub mesh: Option<(u16, u16)>,
    /// The id the program gave.
    pub given_id: u32,
    /// Who reports it.
    pub origin: LedgerWriter,
    /// Its chips.
    pub chips: Vec<LedgerChip>,
    /// How its memory is laid out, where that is known.
    pub geometry: PerKind<Option<LedgerGeometry>>,
    /// How far it may be believed.
    pub self_check: LedgerSelfCheck,
    /// Its figures, for the kinds that had an event.
    pub rows: Vec<LedgerRow>,
    /// Listed buffers that are not in [`Ledger::buffers`], because only the first in some order were wanted.
    pub buffers_left_out: u64,
}

impl LedgerAllocator {
    /// Allocations that the program was refused, of all kinds.
    pub fn refused(&self) -> u64 {
        self.rows.iter().fold(0, |sum, row| sum.saturating_add(row.refused))
    }
}

/// A chip as a process knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerChip {
    /// TT-Metal's id inside that process.
    pub metal_id: Option<u32>,
    /// UMD's id.
    pub unique_id: Option<u64>,
}

/// How one kind of an allocator's memory is laid out on a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerGeometry {
    /// Banks; a buffer takes as many bytes of each.
    pub banks: u64,
    /// Bytes of one.
    pub bank_bytes: u64,
    /// Address of the first.
    pub base: u64,
}

/// What the hook found when it compared an allocator with its own statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerSelfCheck {
    /// They differ.
    pub is_inexact: bool,
    /// Its state was put back by the program: it has blocks without buffers.
    pub is_restored: bool,
    /// It has buffers with an address of their own on each core.
    pub is_per_core: bool,
    /// Where its L1 begins, if that is not at its base.
    pub l1_lower_end: Option<u64>,
    /// How often they were compared.
    pub checks: u64,
    /// How often they differed.
    pub differences: u64,
}

/// A circular or dataflow buffer of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerCircular {
    /// Index in [`Ledger::allocators`].
    pub allocator: usize,
    /// Index in [`LedgerAllocator::chips`]; `None`: on all of them.
    pub chip: Option<usize>,
    /// The program, by a number of the hook's.
    pub program: u32,
    /// Where it begins on each core.
    pub address: u64,
    /// Bytes on each core.
    pub size: u64,
    /// First column and row, last column and row of cores, inclusive.
    pub cores: [u8; 4],
    /// It lies in an L1 buffer, which is counted already.
    pub is_global: bool,
}

/// Programs launched on a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerLaunches {
    /// TT-Metal's id of the chip inside that process.
    pub metal_id: u32,
    /// How many.
    pub programs: u64,
    /// When the last was.
    pub last: UnixTime,
}

/// Something that the hook looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerFeature {
    /// Its name.
    pub name: String,
    /// How often the program came by.
    pub hits: u64,
    /// Whether it works.
    pub state: FeatureState,
    /// Why not, or what else there is to say.
    pub reason: Option<String>,
}

impl LedgerFeature {
    /// That it is not followed, and why. What is followed on request only (operations, stacks), and was not asked for, is no news;
    /// neither is a program without Python.
    pub fn not_followed(&self) -> Option<String> {
        match (self.state, self.reason.as_deref()) {
            (FeatureState::Found, _) => None,
            (_, Some(reason)) if reason.starts_with("not asked for") || reason.starts_with("no_python") => None,
            (_, Some(reason)) => Some(format!("{} ({reason})", self.name)),
            (_, None) => Some(self.name.clone()),
        }
    }
}

/// Whether a feature of the hook works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureState {
    /// Its symbol was found.
    Found,
    /// It is there and not used.
    SteppedAside,
    /// Its symbol is not there.
    Missing,
}

impl FeatureState {
    /// Every one of them.
    pub const ALL: [Self; 3] = [Self::Found, Self::SteppedAside, Self::Missing];

    /// The state a word names.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::SteppedAside => "stepped_aside",
            Self::Missing => "missing",
        }
    }
}

/// One kind of memory of one allocator; sizes are per chip.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerRow {
    /// Which kind.
    pub kind: BufferKind,
    /// Live bytes as asked for.
    pub used: u64,
    /// What the allocator took, where its banks are known.
    pub allocated: Option<u64>,
    /// Live buffers.
    pub count: u64,
    /// Allocations that the program was refused.
    pub refused: u64,
    /// Highest `used`.
    pub peak: u64,
    /// When that was.
    pub peak_time: UnixTime,
    /// Live buffers too many to be listed.
    pub unlisted_count: u64,
    /// Their bytes.
    pub unlisted_bytes: u64,
    /// The allocator's limit, where it is known: banks x bytes of a bank.
    pub capacity: Option<u64>,
    /// Of live kernels, where they could be listed: by type.
    pub kernel_types: Option<Box<KernelTypes>>,
    /// A listed buffer has an address of its own on each core.
    pub has_per_core: bool,
    /// The bytes per bank of another listed buffer are not known.
    pub has_unknown_blocks: bool,
    /// The largest free block of a bank, where it is known although the buffers are not listed.
    pub largest_free_per_bank: Option<u64>,
}

impl LedgerRow {
    /// A row without buffers and geometry.
    pub fn empty(kind: BufferKind) -> Self {
        Self {
            kind,
            used: 0,
            allocated: None,
            count: 0,
            refused: 0,
            peak: 0,
            peak_time: UnixTime(0),
            unlisted_count: 0,
            unlisted_bytes: 0,
            capacity: None,
            kernel_types: None,
            has_per_core: false,
            has_unknown_blocks: false,
            largest_free_per_bank: None,
        }
    }
}

/// A kind of memory a buffer may be of; the last two belong to no bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BufferKind {
    /// Device memory.
    Of(Kind),
    /// Host memory (SYSTEM_MEMORY).
    Host,
    /// A type nobody knows.
    Other,
}

impl BufferKind {
    /// The contract's word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Of(kind) => kind.name(),
            Self::Host => "host",
            Self::Other => "other",
        }
    }
}

/// One live buffer. There may be a million: it is small, and tags are shared, by pointers of one word.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerBuffer {
    /// Index in [`Ledger::allocators`].
    pub allocator: u16,
    /// Its kind.
    pub kind: BufferKind,
    /// Its address.
    pub address: u64,
    /// Bytes asked for, per chip.
    pub size: u64,
    /// Bytes in each bank, where known.
    pub per_bank: Option<NonZeroU32>,
    /// Bytes of a page, where known.
    pub page_size: Option<NonZeroU32>,
    /// How it lies over its banks, where known.
    pub layout: Option<BufferLayout>,
    /// Cores it lies on, where known.
    pub cores: Option<NonZeroU32>,
    /// Its references.
    pub refs: u32,
    /// When it was allocated.
    pub time: UnixTime,
    /// The tag it was allocated under.
    pub tag: Option<Arc<String>>,
    /// The operation that made it, where it was named.
    pub operation: Option<Arc<String>>,
    /// The line that asked for it, where it was noted.
    pub line: Option<Arc<SourceLine>>,
    /// It has an address of its own on each core.
    pub is_per_core: bool,
    /// Of a kernel.
    pub kernel_type: Option<KernelType>,
}

/// How a buffer lies over the banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferLayout {
    /// Page by page over all banks.
    Interleaved,
    /// Rows of shards.
    HeightSharded,
    /// Columns of shards.
    WidthSharded,
    /// A grid of shards.
    BlockSharded,
    /// Shards of any dimensions.
    NdSharded,
}

impl BufferLayout {
    /// Every one of them, in the order of their numbers in a ledger, which begin at 1.
    pub const ALL: [Self; 5] = [Self::Interleaved, Self::HeightSharded, Self::WidthSharded, Self::BlockSharded, Self::NdSharded];

    /// The layout of a number in a ledger.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// The layout that a name in JSON means.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.name() == name)
    }

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interleaved => "interleaved",
            Self::HeightSharded => "height_sharded",
            Self::WidthSharded => "width_sharded",
            Self::BlockSharded => "block_sharded",
            Self::NdSharded => "nd_sharded",
        }
    }
}
