//! The results for callers: selected parts of a snapshot. Only the sums over a process's chips are computed here.

use ttmon_model::memory::{Figure, KindMemory, sum};
use ttmon_model::snapshot::{Allocator, Banks, DeviceUse, Health, Process, State, Status, Unmapped};
use ttmon_model::units::{Celsius, Megahertz, UnixTime, Watts};
use ttmon_model::{DeviceId, Kind, Missing, PerKind, Reading, Snapshot};

/// The figures of a device, over all processes.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemStats {
    /// The id.
    pub device: u32,
    /// Time of the sample.
    pub time: UnixTime,
    /// Whether the device can be read.
    pub state: State,
    /// The health of the device.
    pub health: Health,
    /// DRAM of the chip, in bytes.
    pub dram_total: Reading<u64>,
    /// DRAM that programs requested, including traces.
    pub dram_used: Reading<u64>,
    /// DRAM that is not used.
    pub dram_free: Reading<u64>,
    /// L1 of the chip, in bytes.
    pub l1_total: Reading<u64>,
    /// L1 that programs requested, including small and circular buffers.
    pub l1_used: Reading<u64>,
    /// L1 that is not used.
    pub l1_free: Reading<u64>,
    /// Processes that hold the device or have memory on it.
    pub processes: u64,
    /// Number of processes that do not report their memory. If there is one, the used bytes are a lower bound.
    pub untracked_processes: u64,
    /// Number of processes in another pid namespace, which cannot be named. They are also counted as untracked.
    pub hidden_processes: u64,
    /// Temperature of the chip.
    pub temperature: Reading<Celsius>,
    /// Power of the chip's core rail, not of the board.
    pub power: Reading<Watts>,
    /// Clock of the chip's cores.
    pub aiclk: Reading<Megahertz>,
}

impl SystemStats {
    pub(crate) fn of(snapshot: &Snapshot, id: DeviceId) -> Option<Self> {
        let device = snapshot.device(id)?;
        let memory = &device.memory;
        Some(Self {
            device: id.0,
            time: snapshot.time,
            state: device.state,
            health: device.health,
            dram_total: memory.dram.total,
            dram_used: memory.dram.used,
            dram_free: memory.dram.free(),
            l1_total: memory.l1.total,
            l1_used: memory.l1.used,
            l1_free: memory.l1.free(),
            processes: snapshot.processes_on(id).count() as u64,
            untracked_processes: memory.untracked_processes,
            hidden_processes: memory.hidden_processes,
            temperature: device.temperature,
            power: device.power,
            aiclk: device.aiclk_mhz,
        })
    }
}

/// A process and its memory.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessStats {
    /// The pid on this host.
    pub pid: u32,
    /// The `comm` of the process.
    pub name: Reading<String>,
    /// How its memory is tracked.
    pub status: Status,
    /// The memory on each chip that the process uses.
    pub devices: Vec<DeviceUse>,
    /// Memory on chips that cannot be mapped to a device with certainty.
    pub unmapped: Vec<Unmapped>,
}

impl ProcessStats {
    pub(crate) fn of(snapshot: &Snapshot, pid: u32) -> Option<Self> {
        let process = snapshot.processes.iter().find(|process| process.key.pid == pid)?;
        let Process { name, status, devices, unmapped, .. } = process.clone();
        Some(Self { pid, name, status, devices, unmapped })
    }

    pub(crate) fn denied(pid: u32) -> Self {
        Self { pid, name: Err(Missing::NoPermission), status: Status::NoPermission, devices: Vec::new(), unmapped: Vec::new() }
    }

    /// Returns the memory on a device, or `None` if the process does not use the device.
    pub fn on(&self, device: u32) -> Option<&PerKind<Figure>> {
        self.devices.iter().find(|use_of| use_of.device.0 == device).map(|use_of| &use_of.kinds)
    }

    /// Returns the memory on all chips, including unmapped ones. Peaks of different chips occur at different times and cannot be added. So
    /// there is a peak only if there is one chip.
    pub fn total(&self) -> PerKind<Figure> {
        let on_devices = self.devices.iter().map(|use_of| &use_of.kinds);
        let places: Vec<_> = on_devices.chain(self.unmapped.iter().map(|unmapped| &unmapped.kinds)).collect();
        PerKind::from_fn(|kind| match places.as_slice() {
            [] if self.status == Status::NoPermission => Figure::missing(Missing::NoPermission),
            [] => Figure::missing(Missing::NotTracked),
            [only] => only[kind].clone(),
            all => Figure {
                used: sum(all.iter().map(|kinds| kinds[kind].used)),
                allocated: sum(all.iter().map(|kinds| kinds[kind].allocated)),
                count: sum(all.iter().map(|kinds| kinds[kind].count)),
                source: all.iter().find_map(|kinds| kinds[kind].source.ok()).ok_or(Missing::NotTracked),
                ..Figure::missing(Missing::NoSource)
            },
        })
    }
}

/// All memory figures of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct DetailedStats {
    /// The id.
    pub device: u32,
    /// Time of the sample.
    pub time: UnixTime,
    /// Each kind of memory, over all processes.
    pub kinds: PerKind<KindMemory>,
    /// Each process that holds the device or has memory on it.
    pub processes: Vec<UseOfDevice>,
    /// Number of processes that do not report their memory.
    pub untracked_processes: u64,
    /// Bytes that dead processes left in TT-Metal's statistics. They are not part of any other figure.
    pub stale_bytes: u64,
    /// The open allocators on the device, by process.
    pub allocators: Vec<AllocatorStats>,
}

/// An allocator on one device, with the values that TT-Metal's MemoryView shows to the process itself.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocatorStats {
    /// The id: process, slot in the ledger, generation.
    pub id: String,
    /// The pid of its process, on this host.
    pub pid: u32,
    /// Rows and columns of its mesh.
    pub mesh: Option<(u16, u16)>,
    /// Banks, free bytes, largest free block, fragmentation and block table of each kind.
    pub kinds: PerKind<Reading<Banks>>,
}

impl AllocatorStats {
    fn of(allocator: &Allocator) -> Self {
        let kinds = PerKind::from_fn(|kind| banks(allocator, kind).cloned());
        Self { id: allocator.id.clone(), pid: allocator.process.pid, mesh: allocator.mesh, kinds }
    }
}

/// The memory of a process on one device.
#[derive(Clone, Debug, PartialEq)]
pub struct UseOfDevice {
    /// The pid on this host.
    pub pid: u32,
    /// The `comm` of the process.
    pub name: Reading<String>,
    /// How its memory is tracked.
    pub status: Status,
    /// The memory on the device.
    pub kinds: PerKind<Figure>,
}

impl DetailedStats {
    pub(crate) fn of(snapshot: &Snapshot, id: DeviceId) -> Option<Self> {
        let device = snapshot.device(id)?;
        let processes = snapshot.processes_on(id).map(|(process, use_of)| UseOfDevice {
            pid: process.key.pid,
            name: process.name.clone(),
            status: process.status,
            kinds: use_of.kinds.clone(),
        });
        Some(Self {
            device: id.0,
            time: snapshot.time,
            kinds: device.memory.kinds.clone(),
            processes: processes.collect(),
            untracked_processes: device.memory.untracked_processes,
            stale_bytes: device.memory.stale_bytes,
            allocators: allocators(snapshot, id).map(AllocatorStats::of).collect(),
        })
    }
}

pub(crate) fn allocators(snapshot: &Snapshot, id: DeviceId) -> impl Iterator<Item = &Allocator> {
    snapshot.allocators.iter().filter(move |allocator| allocator.is_open && allocator.devices.contains(&id))
}

pub(crate) fn banks(allocator: &Allocator, kind: Kind) -> Reading<&Banks> {
    allocator.kinds[kind].as_ref().ok_or(Missing::NotTracked)?.banks.as_ref().map_err(|reason| *reason)
}
