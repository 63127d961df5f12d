//! A snapshot: the devices and processes of a sample with their health, ready for output.

use std::sync::Arc;
use std::time::Duration;

pub use crate::derive::DeviceSums;
pub use crate::fields::{Device, Process};
pub use crate::health::Severity;
use crate::identity::{DeviceId, ProcessKey};
use crate::ledger::{Buffer, BufferKind, HookFeature, LedgerCircular, LedgerSelfCheck};
use crate::memory::{Figure, Kind, PerKind, Source, sum};
use crate::missing::{Missing, Reading};
use crate::sample::{Origin, Problem};
use crate::units::UnixTime;

/// The state of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Name of the machine.
    pub host: String,
    /// Time of the snapshot.
    pub time: UnixTime,
    /// Time at which allocators, buffers and circular buffers were read. It differs from `time` if they were added to a service's snapshot.
    pub lists_time: UnixTime,
    /// Version of the kernel driver.
    pub driver: Reading<String>,
    /// Whether the machine is real or simulated.
    pub origin: Origin,
    /// Chips, local ones first.
    pub devices: Vec<Device>,
    /// Processes, each listed once.
    pub processes: Vec<Process>,
    /// Allocators of tracked processes.
    pub allocators: Vec<Allocator>,
    /// Live buffers of tracked processes, if requested.
    pub buffers: Vec<MappedBuffer>,
    /// Circular and dataflow buffers of tracked processes' programs.
    pub circulars: Vec<Circular>,
    /// Processes whose ledgers this user may not search for.
    pub denied_processes: u64,
    /// Age of processes and their memory at `time`. A scan may be late.
    pub scan_age: Duration,
    /// Problems while reading.
    pub problems: Vec<Problem>,
}

/// An allocator, which manages memory inside one process.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocator {
    /// The id: pid, slot in the ledger and generation, for example `4242.0.1`.
    pub id: String,
    /// The process.
    pub process: ProcessKey,
    /// The slot in the process's ledger.
    pub slot: u16,
    /// Whether the program has not closed it.
    pub is_open: bool,
    /// Rows and columns of its mesh.
    pub mesh: Option<(u16, u16)>,
    /// The chips that are on a row.
    pub devices: Vec<DeviceId>,
    /// The ids of its other chips.
    pub unmapped: Vec<u64>,
    /// Coverage of the hook that reports it, or the reason why it is missing.
    pub coverage: Reading<Vec<HookFeature>>,
    /// Result of the hook's comparison with the allocator's own statistics.
    pub self_check: LedgerSelfCheck,
    /// The figures per chip, for the known kinds. These had an event, or have banks that the hook has read.
    pub kinds: PerKind<Option<AllocatorKind>>,
    /// The figures of memory that is part of no bar: host memory and unknown types.
    pub others: Vec<(BufferKind, AllocatorKind)>,
    /// Number of listed buffers that are not in [`Snapshot::buffers`], because only the first ones in some order were requested.
    pub buffers_left_out: u64,
    /// Number of refused allocations. Documents do not have this value.
    pub refused: u64,
}

/// One kind of memory of an allocator.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocatorKind {
    /// Used, allocated, count and peak.
    pub figure: Figure,
    /// Free bytes, if the allocator's limit is known.
    pub free: Reading<u64>,
    /// Number of live buffers that do not fit into the list, and their bytes.
    pub unlisted: (u64, u64),
    /// The banks, if known.
    pub banks: Reading<Banks>,
    /// For circular buffers: their programs, and the use of the fullest core.
    pub programs: Option<Programs>,
}

/// Programs with circular or dataflow buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Programs {
    /// Number of programs.
    pub count: u64,
    /// Bytes on the fullest core.
    pub per_core: u64,
}

/// One kind of an allocator's memory, per bank.
#[derive(Clone, Debug, PartialEq)]
pub struct Banks {
    /// Number of banks.
    pub banks: u64,
    /// Bytes of one bank that can be allocated.
    pub bank_bytes: u64,
    /// Allocated bytes.
    pub allocated_per_bank: Reading<u64>,
    /// Free bytes.
    pub free_per_bank: Reading<u64>,
    /// The largest free block.
    pub largest_free_per_bank: Reading<u64>,
    /// Share of the free bytes outside the largest free block.
    pub fragmentation: Reading<f64>,
    /// Number of blocks, used and free.
    pub blocks: Reading<u64>,
    /// The blocks in the order of their addresses, if known.
    pub table: Vec<Block>,
    /// Why the requested blocks are unknown.
    pub no_blocks: Option<NoBlocks>,
}

impl Banks {
    /// Returns the value for a kind without banks.
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

/// A block of an allocator's memory. It covers the same bytes of each bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The address on the device.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
    /// Whether the block is free.
    pub is_free: bool,
}

crate::named! {
    /// Why an allocator has no block table, with the sentence for users.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum NoBlocks {
        /// Some buffers have a different address on each core.
        PerCore = "some buffers have an address of their own on each core",
        /// The program restored an earlier state, so there are blocks without buffers.
        Restored = "the program put back an earlier state, which has blocks without buffers",
        /// More buffers are live than the ledger lists.
        Unlisted = "more buffers are live than can be listed",
        /// The buffers change faster than they can be listed.
        Changing = "the buffers change faster than they can be listed",
        /// The bytes per bank of some buffers are unknown.
        SizeUnknown = "of some buffers it is not known what they take of a bank",
    }
}

/// A live buffer, mapped to the chips of this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MappedBuffer {
    /// The allocator, shared by all its buffers.
    pub allocator: Arc<BufferAllocator>,
    /// The buffer as in the ledger.
    pub buffer: Buffer,
}

impl MappedBuffer {
    /// Returns the process.
    pub fn process(&self) -> ProcessKey {
        self.allocator.process
    }

    /// Returns the chips that are on a row.
    pub fn devices(&self) -> &[DeviceId] {
        &self.allocator.devices
    }
}

/// The allocator of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferAllocator {
    /// The id of the allocator ([`Allocator::id`]).
    pub id: String,
    /// The process.
    pub process: ProcessKey,
    /// The chips that are on a row.
    pub devices: Vec<DeviceId>,
}

/// A circular or dataflow buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Circular {
    /// The process.
    pub process: ProcessKey,
    /// The slot of its allocator in the process's ledger. Documents do not have this value.
    pub slot: u16,
    /// The chips that are on a row.
    pub devices: Vec<DeviceId>,
    /// The entry in the ledger.
    pub entry: LedgerCircular,
}

impl Snapshot {
    /// Returns the processes on a device, with their figures there.
    pub fn processes_on(&self, id: DeviceId) -> impl Iterator<Item = (&Process, &DeviceUse)> {
        self.processes.iter().filter_map(move |process| Some((process, process.on(id)?)))
    }

    /// Returns whether the chips were read directly (`--deep`), successfully or not.
    pub fn is_deep(&self) -> bool {
        let is_asked = |device: &Device| match device.deep_age_s {
            Err(Missing::NeedsDeep | Missing::RemoteChip) => false,
            // Documents of older versions of ttmon do not have this field.
            Err(Missing::NotExposed) => device.utilization == Err(Missing::NotExposed),
            _ => true,
        };
        self.devices.iter().any(is_asked)
    }

    /// Returns the device with this id.
    pub fn device(&self, id: DeviceId) -> Option<&Device> {
        self.devices.iter().find(|device| device.id == id)
    }
}

crate::named! {
    /// How a chip is reached.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Location {
        /// On PCIe.
        Local = "local",
        /// Over Ethernet, through another chip.
        Remote = "remote",
    }
}

crate::named! {
    /// Whether a device can be read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum State {
        /// The device answers.
        Ok = "ok",
        /// The device is being reset.
        Resetting = "resetting",
        /// The device left the bus.
        Gone = "gone",
        /// The device is present, but no valid value could be read.
        Unreadable = "unreadable",
        /// The device publishes no telemetry.
        Unknown = "unknown",
        /// The driver has listed the device, but its firmware does not answer yet.
        Starting = "starting",
    }
}

crate::named! {
    /// Health of a device, compared with the limits that the device publishes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Health {
        /// Unknown, because there are no limits to compare with.
        Unknown = "unknown",
        /// Within the limits.
        Ok = "ok",
        /// Close to a limit, or unusual.
        Warning = "warning",
        /// At a limit.
        Critical = "critical",
    }
}

impl Device {
    /// Returns the ASIC id as a decimal number.
    pub(crate) fn asic_id_decimal(&self) -> Reading<crate::fields::Value> {
        let id = self.asic_id.as_deref().map_err(|reason| *reason)?;
        u64::from_str_radix(id, 16).map(|id| crate::fields::Value::Text(id.to_string())).map_err(|_| Missing::Unparsable)
    }

    /// Returns board and position in the format of tables: `n300 L`.
    pub fn label(&self) -> String {
        let board = self.board.as_deref().unwrap_or("unknown");
        match self.chip {
            Ok(position) => format!("{board} {}", position.name()),
            Err(_) => board.to_owned(),
        }
    }

    /// Returns the generation and the lanes of the PCIe link.
    pub fn link(&self) -> Reading<(u64, u64)> {
        Ok((self.pcie_gen?, self.pcie_width?))
    }

    /// Returns whether a process holds the chip without reporting its memory. The used bytes are then a lower bound.
    pub fn is_lower_bound(&self) -> bool {
        self.memory.untracked_processes > 0
    }
}

crate::named! {
    /// How a process's memory is tracked.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Status {
        /// The ledger of the process has every buffer.
        Tracked = "tracked",
        /// The process reports to the service, on the allocation socket.
        Connected = "connected",
        /// TT-Metal's own statistics have the process.
        Reported = "reported",
        /// The process has a device open and does not report its memory.
        Open = "open",
        /// The memory is recorded in a place that this user may not read.
        NoPermission = "no_permission",
        /// The process has exited, but another process still has its device file open.
        Dead = "dead",
    }
}

impl Status {
    /// Returns the text for tables that the status alone implies.
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

/// The memory of a process on one chip.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceUse {
    /// The chip.
    pub device: DeviceId,
    /// The process's own numbers of the chip, if it reports them.
    pub metal_ids: Reading<Vec<u64>>,
    /// The memory on the chip.
    pub kinds: PerKind<Figure>,
}

impl DeviceUse {
    /// Returns the best source of the figures.
    pub fn source(&self) -> Reading<Source> {
        Kind::ALL.into_iter().find_map(|kind| self.kinds[kind].source.ok()).ok_or(Missing::NotTracked)
    }
}

/// Memory on a chip that cannot be mapped to a row with certainty.
#[derive(Clone, Debug, PartialEq)]
pub struct Unmapped {
    /// The reported id: TT-Metal's number of the chip if a program reported it, the unique id if it comes from TT-Metal's statistics.
    pub id: u64,
    /// The unique id of the chip.
    pub unique_id: Reading<u64>,
    /// The reported figures.
    pub kinds: PerKind<Figure>,
}

impl Process {
    /// Returns the text of the status in tables. Figures of the kernel driver have a different text than those of TT-Metal.
    pub fn status_title(&self) -> &'static str {
        match self.status {
            Status::Reported if self.source() == Ok(Source::Fdinfo) => "Reported by driver",
            status => status.title(),
        }
    }

    /// Returns the figures on a chip.
    pub fn on(&self, id: DeviceId) -> Option<&DeviceUse> {
        self.devices.iter().find(|use_of| use_of.device == id)
    }

    /// Returns the known bytes on each chip that has a row.
    pub fn parts(&self, kind: Kind) -> impl Iterator<Item = (DeviceId, u64)> {
        self.devices.iter().filter_map(move |use_of| Some((use_of.device, use_of.kinds[kind].used.ok()?)))
    }

    /// Returns the sum over all chips, including those without a row.
    pub fn total(&self, kind: Kind) -> Reading<u64> {
        let mapped = self.devices.iter().map(|use_of| use_of.kinds[kind].used);
        sum(mapped.chain(self.unmapped.iter().map(|unmapped| unmapped.kinds[kind].used)))
    }

    /// Returns the sum of a bar's kinds over all chips.
    pub fn total_of(&self, kinds: &[Kind]) -> Reading<u64> {
        sum(kinds.iter().map(|kind| self.total(*kind)))
    }

    /// Returns the highest DRAM use since tracking began, over all chips.
    pub fn dram_peak(&self) -> Reading<u64> {
        let peaks = self.devices.iter().map(|use_of| use_of.kinds[Kind::Dram].peak);
        let peak = sum(peaks.chain(self.unmapped.iter().map(|unmapped| unmapped.kinds[Kind::Dram].peak)))?;
        // Traces and buffers have separate peaks, but the total peak is at least the current use.
        Ok(self.total_of(&Kind::DRAM_BAR).map_or(peak, |now| now.max(peak)))
    }

    /// Returns the best source of the figures.
    pub fn source(&self) -> Reading<Source> {
        let unmapped = self.unmapped.iter().find_map(|unmapped| Kind::ALL.into_iter().find_map(|kind| unmapped.kinds[kind].source.ok()));
        self.devices.iter().find_map(|use_of| use_of.source().ok()).or(unmapped).ok_or(Missing::NotTracked)
    }
}
