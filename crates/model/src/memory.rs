//! Kinds of device memory, where a figure comes from, and what may be added to what.

use std::ops::{Index, IndexMut};

use crate::kernels::KernelTypes;
use crate::missing::{Missing, Reading};
use crate::units::UnixTime;

/// A kind of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Buffers in DRAM.
    Dram,
    /// Buffers in L1.
    L1,
    /// Buffers in the small L1 area.
    L1Small,
    /// Captured traces, in DRAM.
    Trace,
    /// Circular and dataflow buffers, in L1.
    Cb,
    /// Bytes of loaded programs. Never part of a bar: it is not occupied L1.
    Kernel,
}

impl Kind {
    /// Every kind, in the order of the contract.
    pub const ALL: [Self; 6] = [Self::Dram, Self::L1, Self::L1Small, Self::Trace, Self::Cb, Self::Kernel];
    /// Those that are made of buffers, whose blocks an allocator keeps.
    pub const BANKED: [Self; 4] = [Self::Dram, Self::L1, Self::L1Small, Self::Trace];
    /// What the DRAM bar is made of.
    pub const DRAM_BAR: [Self; 2] = [Self::Dram, Self::Trace];
    /// What the L1 bar is made of.
    pub const L1_BAR: [Self; 3] = [Self::L1, Self::L1Small, Self::Cb];

    /// The contract's word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dram => "dram",
            Self::L1 => "l1",
            Self::L1Small => "l1_small",
            Self::Trace => "trace",
            Self::Cb => "cb",
            Self::Kernel => "kernel",
        }
    }

    /// The kind a word names.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// One value for each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerKind<T>([T; 6]);

impl<T> PerKind<T> {
    /// Makes each from its kind.
    pub fn from_fn(make: impl FnMut(Kind) -> T) -> Self {
        Self(Kind::ALL.map(make))
    }

    /// Kinds with their values.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &T)> {
        Kind::ALL.into_iter().zip(&self.0)
    }
}

impl<T> Index<Kind> for PerKind<T> {
    type Output = T;
    fn index(&self, kind: Kind) -> &T {
        &self.0[kind as usize]
    }
}

impl<T> IndexMut<Kind> for PerKind<T> {
    fn index_mut(&mut self, kind: Kind) -> &mut T {
        &mut self.0[kind as usize]
    }
}

/// Where a figure comes from. The best source present wins; they are never added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The ledger our client library or hook writes inside the process.
    Ledger,
    /// The ledger our service keeps of what the process said on the allocation socket.
    Server,
    /// TT-Metal's own statistics in shared memory.
    Shm,
    /// Keys the kernel driver may one day print per open file.
    Fdinfo,
}

impl Source {
    /// Every one of them.
    pub const ALL: [Self; 4] = [Self::Ledger, Self::Server, Self::Shm, Self::Fdinfo];

    /// The source a word names.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }

    /// The contract's word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ledger => "ledger",
            Self::Server => "server",
            Self::Shm => "shm",
            Self::Fdinfo => "fdinfo",
        }
    }
}

/// What is known of one process's memory of one kind on one chip.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Sum of the live buffers' sizes as asked for.
    pub used: Reading<u64>,
    /// What the allocators took, padding included.
    pub allocated: Reading<u64>,
    /// Highest `used` since tracking began.
    pub peak: Reading<u64>,
    /// When that was.
    pub peak_time: Reading<UnixTime>,
    /// Live buffers.
    pub count: Reading<u64>,
    /// Where it comes from.
    pub source: Reading<Source>,
    /// Of kernels, where the type of each is known: how many of each type, and their bytes.
    pub kernel_types: Option<Box<KernelTypes>>,
}

impl Figure {
    /// Nothing is known, for one reason.
    pub fn missing(reason: Missing) -> Self {
        Self {
            used: Err(reason),
            allocated: Err(reason),
            peak: Err(reason),
            peak_time: Err(reason),
            count: Err(reason),
            source: Err(reason),
            kernel_types: None,
        }
    }

    /// A source that knows only how many bytes are in use.
    pub fn used_only(used: u64, source: Source) -> Self {
        Self { used: Ok(used), source: Ok(source), ..Self::missing(Missing::NotTracked) }
    }
}

/// What is known of one kind of memory of a chip, all processes together.
#[derive(Clone, Debug, PartialEq)]
pub struct KindMemory {
    /// What the chip has.
    pub total: Reading<u64>,
    /// The allocator's own limit.
    pub capacity: Reading<u64>,
    /// What can still be had: capacity less allocated, else total less used.
    pub free: Reading<u64>,
    /// The largest free block of a bank: of several allocators, the one with the smallest.
    pub largest_free_per_bank: Reading<u64>,
    /// The sum over processes.
    pub figure: Figure,
}

/// Memory of a chip.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Each kind by itself.
    pub kinds: PerKind<KindMemory>,
    /// The DRAM bar: dram + trace.
    pub dram: Bar,
    /// The L1 bar: l1 + l1_small + circular buffers.
    pub l1: Bar,
    /// Processes that hold the chip and tell nobody what they use: `used` is a lower bound.
    pub untracked_processes: u64,
    /// Processes that have the chip open, those that cannot be named included. 0 is certain.
    pub holders: Reading<u64>,
    /// Holders that live in another pid namespace and cannot be named.
    pub hidden_processes: u64,
    /// Bytes that dead processes left in TT-Metal's statistics; in no other figure.
    pub stale_bytes: u64,
    /// Processes that have exited while their device file is still open.
    pub stale_processes: u64,
    /// Allocations that tracked programs were refused.
    pub refusals: Reading<u64>,
}

impl Memory {
    /// Nothing is known, for one reason.
    pub fn missing(reason: Missing) -> Self {
        let kind = |_| KindMemory {
            total: Err(reason),
            capacity: Err(reason),
            free: Err(reason),
            largest_free_per_bank: Err(reason),
            figure: Figure::missing(reason),
        };
        let bar = Bar { total: Err(reason), used: Err(reason) };
        Self {
            kinds: PerKind::from_fn(kind),
            dram: bar,
            l1: bar,
            untracked_processes: 0,
            holders: Err(reason),
            hidden_processes: 0,
            stale_bytes: 0,
            stale_processes: 0,
            refusals: Err(reason),
        }
    }
}

/// A bar: used out of total.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// What the chip has.
    pub total: Reading<u64>,
    /// What programs asked for.
    pub used: Reading<u64>,
}

impl Bar {
    /// What is not used.
    pub fn free(self) -> Reading<u64> {
        let (total, used) = (self.total?, self.used?);
        Ok(total.saturating_sub(used))
    }

    /// Used as a share of the total.
    pub fn ratio(self) -> Reading<f64> {
        let (total, used) = (self.total?, self.used?);
        if total == 0 { Err(Missing::NoSource) } else { Ok(used as f64 / total as f64) }
    }
}

impl PerKind<Figure> {
    /// What is used of the DRAM bar.
    pub fn dram(&self) -> Reading<u64> {
        sum(Kind::DRAM_BAR.map(|kind| self[kind].used))
    }

    /// What is used of the L1 bar.
    pub fn l1(&self) -> Reading<u64> {
        sum(Kind::L1_BAR.map(|kind| self[kind].used))
    }
}

/// Adds readings: absent ones are passed over unless all are, then the first reason stands.
pub fn sum(readings: impl IntoIterator<Item = Reading<u64>>) -> Reading<u64> {
    let mut total: Option<u64> = None;
    let mut reason = Missing::NoSource;
    for (index, reading) in readings.into_iter().enumerate() {
        match reading {
            Ok(value) => total = Some(total.unwrap_or(0).saturating_add(value)),
            Err(missing) if index == 0 => reason = missing,
            Err(_) => {}
        }
    }
    total.ok_or(reason)
}
