//! Kinds of device memory, sources of figures, and which figures may be added.

use std::ops::{Index, IndexMut};

use crate::kernels::KernelTypes;
use crate::missing::{Missing, Reading};
use crate::units::UnixTime;

crate::named! {
    /// A kind of device memory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Kind {
        /// Buffers in DRAM.
        Dram = "dram",
        /// Buffers in L1.
        L1 = "l1",
        /// Buffers in the small L1 area.
        L1Small = "l1_small",
        /// Captured traces, in DRAM.
        Trace = "trace",
        /// Circular and dataflow buffers, in L1.
        Cb = "cb",
        /// Bytes of loaded programs. They are not part of a bar, because they do not occupy L1.
        Kernel = "kernel",
    }
}

impl Kind {
    /// The kinds that consist of buffers, with blocks that an allocator manages.
    pub const BANKED: [Self; 4] = [Self::Dram, Self::L1, Self::L1Small, Self::Trace];
    /// The parts of the DRAM bar.
    pub const DRAM_BAR: [Self; 2] = [Self::Dram, Self::Trace];
    /// The parts of the L1 bar.
    pub const L1_BAR: [Self; 3] = [Self::L1, Self::L1Small, Self::Cb];
}

/// One value for each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerKind<T>([T; 6]);

impl<T> PerKind<T> {
    /// Creates the value of each kind with a function.
    pub fn from_fn(make: impl FnMut(Kind) -> T) -> Self {
        Self(Kind::ALL.map(make))
    }

    /// Iterates over the kinds and their values.
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

crate::named! {
    /// Source of a figure. The best available source is used. Sources are never added.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Source {
        /// The ledger that the client library or the hook writes inside the process.
        Ledger = "ledger",
        /// The ledger that the service writes from the process's messages on the allocation socket.
        Server = "server",
        /// TT-Metal's own statistics in shared memory.
        Shm = "shm",
        /// Keys that the kernel driver may print per open file in the future.
        Fdinfo = "fdinfo",
    }
}

/// Memory of one kind of one process on one chip.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Sum of the live buffers' requested sizes.
    pub used: Reading<u64>,
    /// Bytes that the allocators took, including padding.
    pub allocated: Reading<u64>,
    /// Highest `used` since tracking began.
    pub peak: Reading<u64>,
    /// Time of the peak.
    pub peak_time: Reading<UnixTime>,
    /// Live buffers on this chip; one on several chips counts on each. For cb and kernel: circular buffers, kernels.
    pub count: Reading<u64>,
    /// The source.
    pub source: Reading<Source>,
    /// Kernels by type, with their number and bytes, if all types are known.
    pub kernel_types: Option<Box<KernelTypes>>,
}

impl Figure {
    /// Returns a figure without values, for one reason.
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

    /// Returns the figure of a source that has only the bytes in use.
    pub fn used_only(used: u64, source: Source) -> Self {
        Self { used: Ok(used), source: Ok(source), ..Self::missing(Missing::NotTracked) }
    }
}

/// Memory of one kind of a chip, over all processes.
#[derive(Clone, Debug, PartialEq)]
pub struct KindMemory {
    /// Capacity of the chip.
    pub total: Reading<u64>,
    /// The allocator's own limit.
    pub capacity: Reading<u64>,
    /// Free bytes: capacity minus allocated, else total minus used.
    pub free: Reading<u64>,
    /// The largest free block of a bank. With several allocators: the smallest of their largest free blocks.
    pub largest_free_per_bank: Reading<u64>,
    /// The sum over processes.
    pub figure: Figure,
}

/// Memory of a chip.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Each kind separately.
    pub kinds: PerKind<KindMemory>,
    /// The DRAM bar: dram + trace.
    pub dram: Bar,
    /// The L1 bar: l1 + l1_small + circular buffers.
    pub l1: Bar,
    /// Processes that hold the chip but do not report their memory. If there are any, `used` is a lower bound.
    pub untracked_processes: u64,
    /// Processes that have the chip open, including unnamed ones. A value of 0 is certain.
    pub holders: Reading<u64>,
    /// Holders in another pid namespace, which cannot be named.
    pub hidden_processes: u64,
    /// Bytes that dead processes left in TT-Metal's statistics. They are not part of any other figure.
    pub stale_bytes: u64,
    /// Processes that have exited while their device file is still open.
    pub stale_processes: u64,
    /// Refused allocations of tracked programs.
    pub refusals: Reading<u64>,
}

impl Memory {
    /// Returns a value without figures, for one reason.
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

/// A bar: used bytes and total bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bar {
    /// Capacity of the chip.
    pub total: Reading<u64>,
    /// Bytes that programs requested.
    pub used: Reading<u64>,
}

impl Bar {
    /// Returns the bytes that are not used.
    pub fn free(self) -> Reading<u64> {
        let (total, used) = (self.total?, self.used?);
        Ok(total.saturating_sub(used))
    }

    /// Returns the used share of the total.
    pub fn ratio(self) -> Reading<f64> {
        let (total, used) = (self.total?, self.used?);
        if total == 0 { Err(Missing::NoSource) } else { Ok(used as f64 / total as f64) }
    }
}

impl PerKind<Figure> {
    /// Returns the used bytes of the DRAM bar.
    pub fn dram(&self) -> Reading<u64> {
        sum(Kind::DRAM_BAR.map(|kind| self[kind].used))
    }

    /// Returns the used bytes of the L1 bar.
    pub fn l1(&self) -> Reading<u64> {
        sum(Kind::L1_BAR.map(|kind| self[kind].used))
    }
}

/// Adds readings. Missing readings are skipped. If all are missing, the reason of the first is returned.
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
