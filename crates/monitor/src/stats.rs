//! What a caller gets: parts of a snapshot, chosen. Nothing is computed here but sums over a process's chips.

use ttmon_model::memory::{Figure, KindMemory, sum};
use ttmon_model::snapshot::{Allocator, Banks, DeviceUse, Health, Process, State, Status, Unmapped};
use ttmon_model::units::{Celsius, Megahertz, UnixTime, Watts};
use ttmon_model::{DeviceId, Kind, Missing, PerKind, Reading, Snapshot};

/// A device, all processes together.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemStats {
    /// Its id.
    pub device: u32,
    /// Time of the sample.
    pub time: UnixTime,
    /// Whether it can be read.
    pub state: State,
    /// How it fares.
    pub health: Health,
    /// DRAM the chip has.
    pub dram_total: Reading<u64>,
    /// DRAM that programs asked for, traces included.
    pub dram_used: Reading<u64>,
    /// The rest.
    pub dram_free: Reading<u64>,
    /// L1 the chip has.
    pub l1_total: Reading<u64>,
    /// L1 that programs asked for, small buffers and circular buffers included.
    pub l1_used: Reading<u64>,
    /// The rest.
    pub l1_free: Reading<u64>,
    /// Processes that hold the device or have memory on it.
    pub processes: u64,
    /// Processes that do not report their memory: if there is one, the used bytes are a lower bound.
    pub untracked_processes: u64,
    /// Those of another pid namespace, which cannot be named; counted as untracked too.
    pub hidden_processes: u64,
    /// Of the chip.
    pub temperature: Reading<Celsius>,
    /// Of the chip's core rail, not of the board.
    pub power: Reading<Watts>,
    /// Of the chip's cores.
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
    /// On this host.
    pub pid: u32,
    /// `comm`.
    pub name: Reading<String>,
    /// What is known of its memory.
    pub status: Status,
    /// Its memory on each chip it has to do with.
    pub devices: Vec<DeviceUse>,
    /// Memory on chips that no device is for certain.
    pub unmapped: Vec<Unmapped>,
}

impl ProcessStats {
    pub(crate) fn of(snapshot: &Snapshot, pid: u32) -> Option<Self> {
        let process = snapshot.processes.iter().find(|process| process.key.pid == pid)?;
        let Process { name, status, devices, unmapped, .. } = process.clone();
        Some(Self { pid, name, status, devices, unmapped })
    }

    /// One of which this user may know nothing but that it is there.
    pub(crate) fn denied(pid: u32) -> Self {
        Self { pid, name: Err(Missing::NoPermission), status: Status::NoPermission, devices: Vec::new(), unmapped: Vec::new() }
    }

    /// Its memory on a device; `None` where it has nothing to do with it.
    pub fn on(&self, device: u32) -> Option<&PerKind<Figure>> {
        self.devices.iter().find(|use_of| use_of.device.0 == device).map(|use_of| &use_of.kinds)
    }

    /// Its memory on all chips, unmapped ones included. Peaks cannot be added, since each chip had its own when it had it:
    /// there is one only where there is one chip.
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

/// Everything about the memory of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct DetailedStats {
    /// Its id.
    pub device: u32,
    /// Time of the sample.
    pub time: UnixTime,
    /// Each kind, all processes together.
    pub kinds: PerKind<KindMemory>,
    /// Each process that holds the device or has memory on it.
    pub processes: Vec<UseOfDevice>,
    /// Processes that do not report their memory.
    pub untracked_processes: u64,
    /// Bytes that dead processes left in TT-Metal's statistics; in no other figure.
    pub stale_bytes: u64,
    /// Each open allocator on the device, by process.
    pub allocators: Vec<AllocatorStats>,
}

/// An allocator on one device, as TT-Metal's MemoryView shows it to the process itself.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocatorStats {
    /// Its name: process, place in the ledger, generation.
    pub id: String,
    /// Its process, on this host.
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

/// A process on one device.
#[derive(Clone, Debug, PartialEq)]
pub struct UseOfDevice {
    /// On this host.
    pub pid: u32,
    /// `comm`.
    pub name: Reading<String>,
    /// What is known of its memory.
    pub status: Status,
    /// Its memory there.
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

/// The open allocators on a device, by process.
pub(crate) fn allocators(snapshot: &Snapshot, id: DeviceId) -> impl Iterator<Item = &Allocator> {
    snapshot.allocators.iter().filter(move |allocator| allocator.is_open && allocator.devices.contains(&id))
}

/// The banks of one kind of an allocator.
pub(crate) fn banks(allocator: &Allocator, kind: Kind) -> Reading<&Banks> {
    allocator.kinds[kind].as_ref().ok_or(Missing::NotTracked)?.banks.as_ref().map_err(|reason| *reason)
}
