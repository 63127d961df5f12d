//! What a process's ledger said: allocators, rows, and buffers where they were asked for.

use crate::identity::ProcessKey;
use crate::memory::Kind;
use crate::missing::Reading;
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
    /// The chips are TT-Metal's mock or simulated ones: they are on no row.
    pub is_mock: bool,
    /// TT_VISIBLE_DEVICES as the process saw it.
    pub visible_devices: VisibleDevices,
    /// Events so far.
    pub events: u64,
    /// Allocators, closed ones too: they had peaks.
    pub allocators: Vec<LedgerAllocator>,
    /// Live buffers, where they were asked for.
    pub buffers: Vec<LedgerBuffer>,
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
    /// Its chips.
    pub chips: Vec<LedgerChip>,
    /// Its figures, for the kinds that had an event.
    pub rows: Vec<LedgerRow>,
}

/// A chip as a process knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerChip {
    /// TT-Metal's id inside that process.
    pub metal_id: Option<u32>,
    /// UMD's id.
    pub unique_id: Option<u64>,
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

/// One live buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerBuffer {
    /// Index in [`Ledger::allocators`].
    pub allocator: usize,
    /// Its kind.
    pub kind: BufferKind,
    /// Its address.
    pub address: u64,
    /// Bytes asked for, per chip.
    pub size: u64,
    /// Bytes in each bank, where known.
    pub per_bank: Option<u64>,
    /// Bytes of a page, where known.
    pub page_size: Option<u64>,
    /// How it lies: interleaved, height_sharded, width_sharded, block_sharded.
    pub layout: Option<&'static str>,
    /// Cores it lies on, where known.
    pub cores: Option<u64>,
    /// Who refers to it.
    pub refs: u64,
    /// When it was allocated.
    pub time: UnixTime,
    /// The tag it was allocated under.
    pub tag: Option<String>,
}
