//! What a sample means: devices, processes, health, ready to be shown.

use std::sync::Arc;
use std::time::Duration;

pub use crate::derive::DeviceSums;
pub use crate::fields::{Device, Process};
pub use crate::health::Severity;
use crate::identity::{DeviceId, ProcessKey};
use crate::ledger::{BufferKind, LedgerBuffer, LedgerCircular, LedgerFeature, LedgerSelfCheck};
use crate::memory::{Figure, Kind, PerKind, Source, sum};
use crate::missing::{Missing, Reading};
use crate::sample::{Origin, Problem};
use crate::units::UnixTime;

/// The machine, as shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Name of the machine.
    pub host: String,
    /// When.
    pub time: UnixTime,
    /// When allocators, buffers and circular buffers were read: at `time`, unless they were added to a service's snapshot.
    pub lists_time: UnixTime,
    /// Version of the kernel driver.
    pub driver: Reading<String>,
    /// Real or simulated.
    pub origin: Origin,
    /// Chips, local ones first.
    pub devices: Vec<Device>,
    /// Processes, each once.
    pub processes: Vec<Process>,
    /// Allocators of tracked processes.
    pub allocators: Vec<Allocator>,
    /// Live buffers of tracked processes, where they were asked for.
    pub buffers: Vec<Buffer>,
    /// Circular and dataflow buffers of tracked processes' programs.
    pub circulars: Vec<Circular>,
    /// Processes whose ledgers, if they have any, this user may not look for.
    pub denied_processes: u64,
    /// How much older processes and their memory are than `time`: a scan may be late.
    pub scan_age: Duration,
    /// What could not be read as it should.
    pub problems: Vec<Problem>,
}

/// What hands out memory inside one process.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocator {
    /// Its name: process, place in the ledger, generation: `4242.0.1`.
    pub id: String,
    /// Its process.
    pub process: ProcessKey,
    /// Its place in the process's ledger.
    pub slot: u16,
    /// False once the program closed it.
    pub is_open: bool,
    /// Rows and columns of its mesh.
    pub mesh: Option<(u16, u16)>,
    /// Its chips that are on a row.
    pub devices: Vec<DeviceId>,
    /// The ids of those that are not.
    pub unmapped: Vec<u64>,
    /// What the hook that reports it covers, and why there is none.
    pub coverage: Reading<Vec<LedgerFeature>>,
    /// What the hook found when it compared it with its own statistics.
    pub self_check: LedgerSelfCheck,
    /// Its figures per chip, for the kinds that are known: those that had an event, or whose banks the hook was told.
    pub kinds: PerKind<Option<AllocatorKind>>,
    /// The same for what belongs to no bar: host memory, and types nobody knows.
    pub others: Vec<(BufferKind, AllocatorKind)>,
    /// Listed buffers that are not in [`Snapshot::buffers`], because only the first in some order were wanted.
    pub buffers_left_out: u64,
    /// Allocations that the program was refused. Documents do not have it.
    pub refused: u64,
}

/// One kind of memory of an allocator.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocatorKind {
    /// Used, allocated, count and peak.
    pub figure: Figure,
    /// What can still be had, where the allocator's limit is known.
    pub free: Reading<u64>,
    /// Live buffers too many to be listed, and their bytes.
    pub unlisted: (u64, u64),
    /// Its banks, where they are known.
    pub banks: Reading<Banks>,
    /// Of circular buffers: the programs they belong to, and what they take of the core with most.
    pub programs: Option<Programs>,
}

/// Programs with circular or dataflow buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Programs {
    /// How many.
    pub count: u64,
    /// Bytes on the core with most.
    pub per_core: u64,
}

/// One kind of an allocator's memory, as each of its banks has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Banks {
    /// How many.
    pub banks: u64,
    /// Bytes of one that can be handed out.
    pub bank_bytes: u64,
    /// Bytes that are.
    pub allocated_per_bank: Reading<u64>,
    /// Bytes that are not.
    pub free_per_bank: Reading<u64>,
    /// The largest block of those.
    pub largest_free_per_bank: Reading<u64>,
    /// How much of the free bytes is not in it.
    pub fragmentation: Reading<f64>,
    /// Blocks, used and free.
    pub blocks: Reading<u64>,
    /// The blocks, in the order of their addresses, where they are known.
    pub table: Vec<Block>,
    /// Why they are not, although they were asked for.
    pub no_blocks: Option<NoBlocks>,
}

impl Banks {
    /// Of a kind that an allocator has no bank of.
    pub(crate) fn none() -> Self {
        Self {
            banks: 0,
            bank_bytes: 0,
            allocated_per_bank: Ok(0),
            free_per_bank: Ok(0),
            largest_free_per_bank: Ok(0),
            fragmentation: Err(Missing::NoSource),
            blocks: Ok(0),
            table: Vec::new(),
            no_blocks: None,
        }
    }
}

/// A block of an allocator's memory: of each bank the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its address on the device.
    pub address: u64,
    /// Its bytes.
    pub size: u64,
    /// Nobody has it.
    pub is_free: bool,
}

/// Why an allocator has no block table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBlocks {
    /// Some buffers have an address of their own on each core.
    PerCore,
    /// The program put back an earlier state: there are blocks without buffers.
    Restored,
    /// More buffers are live than the ledger lists.
    Unlisted,
    /// The buffers change faster than they can be listed.
    Changing,
    /// Of some buffers nobody knows what they take of a bank.
    SizeUnknown,
}

impl NoBlocks {
    /// The reason in words.
    pub fn explanation(self) -> &'static str {
        match self {
            Self::PerCore => "some buffers have an address of their own on each core",
            Self::Restored => "the program put back an earlier state, which has blocks without buffers",
            Self::Unlisted => "more buffers are live than can be listed",
            Self::Changing => "the buffers change faster than they can be listed",
            Self::SizeUnknown => "of some buffers it is not known what they take of a bank",
        }
    }
}

/// One live buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Its allocator, shared by all its buffers.
    pub allocator: Arc<BufferAllocator>,
    /// What the ledger says of it.
    pub entry: LedgerBuffer,
}

impl Buffer {
    /// Its process.
    pub fn process(&self) -> ProcessKey {
        self.allocator.process
    }

    /// The chips it lies on, those on a row.
    pub fn devices(&self) -> &[DeviceId] {
        &self.allocator.devices
    }
}

/// The allocator of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferAllocator {
    /// Its name: [`Allocator::id`].
    pub id: String,
    /// Its process.
    pub process: ProcessKey,
    /// Its chips, those on a row.
    pub devices: Vec<DeviceId>,
}

/// A circular or dataflow buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Circular {
    /// Its process.
    pub process: ProcessKey,
    /// The slot of its allocator in the process's ledger. Documents do not have it.
    pub slot: u16,
    /// The chips it lies on, those on a row.
    pub devices: Vec<DeviceId>,
    /// What the ledger says of it.
    pub entry: LedgerCircular,
}

impl Snapshot {
    /// Processes on a device, with their figures there.
    pub fn processes_on(&self, id: DeviceId) -> impl Iterator<Item = (&Process, &DeviceUse)> {
        self.processes.iter().filter_map(move |process| Some((process, process.on(id)?)))
    }

    /// Whether the chips themselves were read, or it was tried (`--deep`).
    pub fn is_deep(&self) -> bool {
        let is_asked = |device: &Device| match device.deep_age_s {
            Err(Missing::NeedsDeep | Missing::RemoteChip) => false,
            // A document of an older ttmon has no such field.
            Err(Missing::NotExposed) => device.utilization == Err(Missing::NotExposed),
            _ => true,
        };
        self.devices.iter().any(is_asked)
    }

    /// The device with this id.
    pub fn device(&self, id: DeviceId) -> Option<&Device> {
        self.devices.iter().find(|device| device.id == id)
    }
}

/// How a chip is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// On PCIe.
    Local,
    /// Over Ethernet, through another chip.
    Remote,
}

impl Location {
    /// The location a word names.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Local, Self::Remote].into_iter().find(|location| location.name() == name)
    }

    /// The word used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
        }
    }
}

/// Whether a device can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It answers.
    Ok,
    /// It is being reset.
    Resetting,
    /// It left the bus.
    Gone,
    /// It is there, and nothing that can be believed was read.
    Unreadable,
    /// It publishes no telemetry.
    Unknown,
    /// The driver has it, and its firmware does not answer yet.
    Starting,
}

impl State {
    /// Every one of them.
    pub const ALL: [Self; 6] = [Self::Ok, Self::Resetting, Self::Gone, Self::Unreadable, Self::Unknown, Self::Starting];

    /// The state a word names.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// The contract's word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Resetting => "resetting",
            Self::Gone => "gone",
            Self::Unreadable => "unreadable",
            Self::Unknown => "unknown",
            Self::Starting => "starting",
        }
    }
}

/// How a device fares, against the limits it publishes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Nothing to judge by.
    Unknown,
    /// Within its limits.
    Ok,
    /// Close to a limit, or something is odd.
    Warning,
    /// At a limit.
    Critical,
}

impl Health {
    /// Every one of them.
    pub const ALL: [Self; 4] = [Self::Unknown, Self::Ok, Self::Warning, Self::Critical];

    /// The health a word names.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|health| health.name() == name)
    }

    /// The contract's word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl Device {
    /// The ASIC id as a decimal number.
    pub(crate) fn asic_id_decimal(&self) -> Reading<crate::fields::Value> {
        let id = self.asic_id.as_deref().map_err(|reason| *reason)?;
        u64::from_str_radix(id, 16).map(|id| crate::fields::Value::Text(id.to_string())).map_err(|_| Missing::Unparsable)
    }

    /// Board and position as tables print them: `n300 L`.
    pub fn label(&self) -> String {
        let board = self.board.as_deref().unwrap_or("unknown");
        match self.chip {
            Ok(position) => format!("{board} {}", position.letter()),
            Err(_) => board.to_owned(),
        }
    }

    /// Generation and lanes of the PCIe link.
    pub fn link(&self) -> Reading<(u64, u64)> {
        Ok((self.pcie_gen?, self.pcie_width?))
    }

    /// Whether a process holds the chip and reports nothing: what is used is a lower bound.
    pub fn is_lower_bound(&self) -> bool {
        self.memory.untracked_processes > 0
    }
}

/// What is known of a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Its ledger has every buffer.
    Tracked,
    /// It tells the service, on the allocation socket.
    Connected,
    /// TT-Metal's own statistics have it.
    Reported,
    /// It has a device open and tells nobody what it uses.
    Open,
    /// What it uses is written down where this user may not read.
    NoPermission,
    /// It has exited; somebody still holds the file it opened.
    Dead,
}

impl Status {
    /// Every one of them.
    pub const ALL: [Self; 6] = [Self::Tracked, Self::Connected, Self::Reported, Self::Open, Self::NoPermission, Self::Dead];

    /// The status a word names.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// The contract's word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tracked => "tracked",
            Self::Connected => "connected",
            Self::Reported => "reported",
            Self::Open => "open",
            Self::NoPermission => "no_permission",
            Self::Dead => "dead",
        }
    }

    /// What tables print, as far as the status alone says it.
    fn title(self) -> &'static str {
        match self {
            Self::Tracked => "Tracked",
            Self::Connected => "Connected to server",
            Self::Reported => "Reported by TT-Metal",
            Self::Open => "Device open (no tracking)",
            Self::NoPermission => "No permission",
            Self::Dead => "Exited",
        }
    }
}

/// A process on one chip.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceUse {
    /// The chip.
    pub device: DeviceId,
    /// TT-Metal's numbers of the chip inside the process, where the process reports them.
    pub metal_ids: Reading<Vec<u64>>,
    /// Its memory there.
    pub kinds: PerKind<Figure>,
}

impl DeviceUse {
    /// What it has in the DRAM bar.
    pub fn dram(&self) -> Reading<u64> {
        self.kinds.dram()
    }

    /// What it has in the L1 bar.
    pub fn l1(&self) -> Reading<u64> {
        self.kinds.l1()
    }

    /// The best source of its figures.
    pub fn source(&self) -> Reading<Source> {
        Kind::ALL.into_iter().find_map(|kind| self.kinds[kind].source.ok()).ok_or(Missing::NotTracked)
    }
}

/// Memory on a chip that no row matches for certain.
#[derive(Clone, Debug, PartialEq)]
pub struct Unmapped {
    /// The id that was given: by a program TT-Metal's number of the chip, by TT-Metal's statistics its unique id.
    pub id: u64,
    /// Its unique id.
    pub unique_id: Reading<u64>,
    /// What was reported.
    pub kinds: PerKind<Figure>,
}

impl Process {
    /// What tables print of its status. Figures of the kernel driver are not TT-Metal's.
    pub fn status_title(&self) -> &'static str {
        match self.status {
            Status::Reported if self.source() == Ok(Source::Fdinfo) => "Reported by driver",
            status => status.title(),
        }
    }

    /// Its figures on a chip.
    pub fn on(&self, id: DeviceId) -> Option<&DeviceUse> {
        self.devices.iter().find(|use_of| use_of.device == id)
    }

    /// The sum over its chips, mapped or not.
    pub fn total(&self, kind: Kind) -> Reading<u64> {
        let mapped = self.devices.iter().map(|use_of| use_of.kinds[kind].used);
        sum(mapped.chain(self.unmapped.iter().map(|unmapped| unmapped.kinds[kind].used)))
    }

    /// The sum of a bar's kinds over its chips.
    pub fn total_of(&self, kinds: &[Kind]) -> Reading<u64> {
        sum(kinds.iter().map(|kind| self.total(*kind)))
    }

    /// The highest DRAM use since tracking began, all chips together.
    pub fn dram_peak(&self) -> Reading<u64> {
        let peaks = self.devices.iter().map(|use_of| use_of.kinds[Kind::Dram].peak);
        let peak = sum(peaks.chain(self.unmapped.iter().map(|unmapped| unmapped.kinds[Kind::Dram].peak)))?;
        // Traces have no common peak with it, but what is used now was reached for certain.
        Ok(self.total_of(&Kind::DRAM_BAR).map_or(peak, |now| now.max(peak)))
    }

    /// The best source of its figures.
    pub fn source(&self) -> Reading<Source> {
        let unmapped = self.unmapped.iter().find_map(|unmapped| Kind::ALL.into_iter().find_map(|kind| unmapped.kinds[kind].source.ok()));
        self.devices.iter().find_map(|use_of| use_of.source().ok()).or(unmapped).ok_or(Missing::NotTracked)
    }
}
