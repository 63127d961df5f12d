//! The numbers and structs of the C ABI. cbindgen copies these comments to the header, so they are the documentation for C programmers.

use std::ffi::c_char;

/// Done.
pub const TTMON_MONITOR_OK: i32 = 0;
/// A null pointer, a pid that is not positive, a kind that is none, a struct_size that does not fit.
pub const TTMON_MONITOR_BAD_ARGUMENT: i32 = -1;
/// There is no such device, or the process has nothing to do with it.
pub const TTMON_MONITOR_NOT_FOUND: i32 = -2;
/// A mistake of this library.
pub const TTMON_MONITOR_INTERNAL: i32 = -3;
/// The machine cannot be read.
pub const TTMON_MONITOR_UNREADABLE: i32 = -4;
/// The handle was opened before a fork, by another process. Open one in this process.
pub const TTMON_MONITOR_FORKED: i32 = -5;

/// In place of a device: the sum over all chips of a process, those that no device is for certain included.
pub const TTMON_MONITOR_ALL_DEVICES: u32 = 0xFFFF_FFFF;

/// Kinds of device memory, and places in ttmon_process_stats.kinds. The first: buffers in DRAM.
pub const TTMON_KIND_DRAM: u8 = 0;
/// Buffers in L1.
pub const TTMON_KIND_L1: u8 = 1;
/// Buffers in the small L1 area.
pub const TTMON_KIND_L1_SMALL: u8 = 2;
/// Captured traces, in DRAM.
pub const TTMON_KIND_TRACE: u8 = 3;
/// Circular and dataflow buffers, in L1.
pub const TTMON_KIND_CB: u8 = 4;
/// Bytes of loaded programs: not occupied L1, and in no sum.
pub const TTMON_KIND_KERNEL: u8 = 5;
/// How many kinds there are.
pub const TTMON_KINDS: usize = 6;

/// Reasons why there is no value. The first is none: the value is there.
pub const TTMON_PRESENT: i32 = 0;
/// Chips of this architecture never publish it.
pub const TTMON_MISSING_NOT_ON_THIS_ARCH: i32 = 1;
/// This driver or firmware does not publish it.
pub const TTMON_MISSING_NOT_EXPOSED: i32 = 2;
/// The chip is reached over Ethernet only.
pub const TTMON_MISSING_REMOTE_CHIP: i32 = 3;
/// It is there, and this user may not read it.
pub const TTMON_MISSING_NO_PERMISSION: i32 = 4;
/// The chip is being reset.
pub const TTMON_MISSING_RESETTING: i32 = 5;
/// The device left the bus.
pub const TTMON_MISSING_GONE: i32 = 6;
/// It was read, and cannot be true.
pub const TTMON_MISSING_OUT_OF_RANGE: i32 = 7;
/// It was read, and is not what the driver documents.
pub const TTMON_MISSING_UNPARSABLE: i32 = 8;
/// The read did not come back in time.
pub const TTMON_MISSING_TIMEOUT: i32 = 9;
/// The kernel answered with an error.
pub const TTMON_MISSING_IO_ERROR: i32 = 10;
/// A rate needs two samples.
pub const TTMON_MISSING_FIRST_SAMPLE: i32 = 11;
/// A process may use memory, but nothing tracks it.
pub const TTMON_MISSING_NOT_TRACKED: i32 = 12;
/// Nothing measures it.
pub const TTMON_MISSING_NO_SOURCE: i32 = 13;
/// Only the chip has it, and reading the chip was not asked for.
pub const TTMON_MISSING_NEEDS_DEEP: i32 = 14;
/// The program runs without the dispatch firmware that counts.
pub const TTMON_MISSING_SLOW_DISPATCH: i32 = 15;
/// The program's counters stand still.
pub const TTMON_MISSING_STALE: i32 = 16;
/// No process holds the chip.
pub const TTMON_MISSING_NOT_HELD: i32 = 17;
/// Another program has the device for itself, or all of its windows.
pub const TTMON_MISSING_BUSY: i32 = 18;
/// The chip is read once its pending power-down has happened.
pub const TTMON_MISSING_IDLE_WAIT: i32 = 19;

/// What is known of a process's memory. The first: its ledger has every buffer.
pub const TTMON_STATUS_TRACKED: u32 = 1;
/// TT-Metal's own statistics have it.
pub const TTMON_STATUS_REPORTED: u32 = 2;
/// It has a device open and does not report its memory.
pub const TTMON_STATUS_OPEN: u32 = 3;
/// What it uses is written down where this user may not read.
pub const TTMON_STATUS_NO_PERMISSION: u32 = 4;
/// It has exited, but another process still has its device file open.
pub const TTMON_STATUS_DEAD: u32 = 5;
/// It reports to the service, on the allocation socket.
pub const TTMON_STATUS_CONNECTED: u32 = 6;

/// Where a figure comes from. The first, which is the best: the ledger that the process itself writes.
pub const TTMON_SOURCE_LEDGER: u64 = 1;
/// TT-Metal's statistics in shared memory.
pub const TTMON_SOURCE_SHM: u64 = 2;
/// The kernel driver.
pub const TTMON_SOURCE_FDINFO: u64 = 3;
/// The process's reports to the service on the allocation socket.
pub const TTMON_SOURCE_SERVER: u64 = 4;

/// Whether a device can be read. The first: it answers.
pub const TTMON_STATE_OK: u32 = 1;
/// It is being reset.
pub const TTMON_STATE_RESETTING: u32 = 2;
/// It left the bus.
pub const TTMON_STATE_GONE: u32 = 3;
/// It is there, and nothing that can be believed was read.
pub const TTMON_STATE_UNREADABLE: u32 = 4;
/// It publishes no telemetry.
pub const TTMON_STATE_UNKNOWN: u32 = 5;
/// The driver has it, and its firmware does not answer yet.
pub const TTMON_STATE_STARTING: u32 = 6;

/// How a device fares, against the limits it publishes itself. The first: nothing to judge by.
pub const TTMON_HEALTH_UNKNOWN: u32 = 1;
/// Within its limits.
pub const TTMON_HEALTH_OK: u32 = 2;
/// Close to a limit, or something is odd.
pub const TTMON_HEALTH_WARNING: u32 = 3;
/// At a limit.
pub const TTMON_HEALTH_CRITICAL: u32 = 4;

/// A number, or why there is none: `value` counts only where `missing` is TTMON_PRESENT, and is 0 otherwise.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CFigure {
    /// Bytes, unless the name says otherwise.
    pub value: u64,
    /// TTMON_PRESENT or one of TTMON_MISSING_...
    pub missing: i32,
}

/// A number with a fraction, or why there is none.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CReal {
    /// 0 where it is missing.
    pub value: f64,
    /// TTMON_PRESENT or one of TTMON_MISSING_...
    pub missing: i32,
}

/// A device, all processes together.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CSystemStats {
    /// Set by the caller to sizeof(ttmon_system_stats) before the call.
    pub struct_size: u32,
    /// N of /dev/tenstorrent/N, or a number after those for a chip reached over Ethernet.
    pub device: u32,
    /// Time of the sample, in nanoseconds since 1970.
    pub time_ns: u64,
    /// One of TTMON_STATE_...
    pub state: u32,
    /// One of TTMON_HEALTH_...
    pub health: u32,
    /// What the chip has.
    pub dram_total: CFigure,
    /// What programs asked for, traces included. A lower bound where there are untracked processes.
    pub dram_used: CFigure,
    /// The rest.
    pub dram_free: CFigure,
    /// What the chip has.
    pub l1_total: CFigure,
    /// What programs asked for, small and circular buffers included.
    pub l1_used: CFigure,
    /// The rest.
    pub l1_free: CFigure,
    /// Processes that hold the device or have memory on it.
    pub processes: u64,
    /// Those that do not report their memory.
    pub untracked_processes: u64,
    /// Those of another pid namespace, which cannot be named; counted as untracked too.
    pub hidden_processes: u64,
    /// Degrees Celsius.
    pub temperature: CReal,
    /// Watts of the chip's core rail, not of the board.
    pub power: CReal,
    /// Megahertz.
    pub aiclk_mhz: CFigure,
}

/// One kind of memory of a process on a chip.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CProcessKind {
    /// Sum of the live buffers' sizes as asked for.
    pub used: CFigure,
    /// What the allocators took, padding included.
    pub allocated: CFigure,
    /// Highest `used` since tracking began.
    pub peak: CFigure,
    /// When that was, in nanoseconds since 1970.
    pub peak_time_ns: CFigure,
    /// Live buffers.
    pub count: CFigure,
    /// One of TTMON_SOURCE_...
    pub source: CFigure,
}

/// Bytes of a process's name in ttmon_process_stats, the NUL at its end included.
pub const TTMON_NAME_BYTES: usize = 64;

/// A process on a device, or on all of them.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CProcessStats {
    /// Set by the caller to sizeof(ttmon_process_stats) before the call.
    pub struct_size: u32,
    /// As asked for.
    pub pid: i32,
    /// As asked for.
    pub device: u32,
    /// One of TTMON_STATUS_...
    pub status: u32,
    /// How many devices it has to do with.
    pub devices: u32,
    /// TTMON_PRESENT, or why there is no name.
    pub name_missing: i32,
    /// What the kernel calls it (comm), in UTF-8, ending with NUL. Its owner chose it: clean it before you print it.
    pub name: [c_char; TTMON_NAME_BYTES],
    /// By TTMON_KIND_...
    pub kinds: [CProcessKind; TTMON_KINDS],
}

/// One kind of memory of a device, all processes together.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CKindStats {
    /// Set by the caller to sizeof(ttmon_kind_stats) before the call.
    pub struct_size: u32,
    /// As asked for.
    pub device: u32,
    /// As asked for.
    pub kind: u32,
    /// Processes that hold the device or have memory on it.
    pub processes: u32,
    /// What the chip has.
    pub total: CFigure,
    /// The allocator's own limit.
    pub capacity: CFigure,
    /// Sum of the live buffers' sizes as asked for.
    pub used: CFigure,
    /// What the allocators took, padding included.
    pub allocated: CFigure,
    /// What can still be had: capacity less allocated, else total less used.
    pub free: CFigure,
    /// Highest `used`, if it is recorded.
    pub peak: CFigure,
    /// Live buffers.
    pub count: CFigure,
    /// One of TTMON_SOURCE_...
    pub source: CFigure,
}

/// One kind of memory of one allocator on a device. All banks are alike: a buffer takes as many bytes of each.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CBankStats {
    /// Set by the caller to sizeof(ttmon_bank_stats) before the call.
    pub struct_size: u32,
    /// As asked for.
    pub device: u32,
    /// As asked for.
    pub kind: u32,
    /// The allocator's process.
    pub pid: i32,
    /// The allocator's name, the same as in ttmon mem --json, ending with NUL.
    pub allocator: [c_char; TTMON_NAME_BYTES],
    /// How many.
    pub banks: CFigure,
    /// Bytes of one that can be allocated.
    pub bank_bytes: CFigure,
    /// Allocated bytes of one.
    pub allocated_per_bank: CFigure,
    /// Free bytes of one.
    pub free_per_bank: CFigure,
    /// Bytes of its largest free block.
    pub largest_free_per_bank: CFigure,
    /// The share of the free bytes that is not in that block, 0 to 1.
    pub fragmentation: CReal,
    /// Blocks, used and free.
    pub blocks: CFigure,
}
