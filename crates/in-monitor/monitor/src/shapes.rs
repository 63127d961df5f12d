//! The numbers and structs of the C ABI. cbindgen copies these comments to the header, so they are the documentation for C programmers.

use std::ffi::c_char;

/// Success.
pub const TTMON_MONITOR_OK: i32 = 0;
/// An argument is invalid: a null pointer, a pid that is not positive, an unknown kind, or a wrong struct_size.
pub const TTMON_MONITOR_BAD_ARGUMENT: i32 = -1;
/// The device does not exist, or the process does not use the device.
pub const TTMON_MONITOR_NOT_FOUND: i32 = -2;
/// An internal error of this library.
pub const TTMON_MONITOR_INTERNAL: i32 = -3;
/// The machine cannot be read.
pub const TTMON_MONITOR_UNREADABLE: i32 = -4;
/// The handle was opened before a fork, by another process. Open one in this process.
pub const TTMON_MONITOR_FORKED: i32 = -5;

/// Used as a device: the sum over all chips of a process, including chips that cannot be mapped to a device.
pub const TTMON_MONITOR_ALL_DEVICES: u32 = 0xFFFF_FFFF;

/// Kinds of device memory. They are also indices in ttmon_process_stats.kinds. This one: buffers in DRAM.
pub const TTMON_KIND_DRAM: u8 = 0;
/// Buffers in L1.
pub const TTMON_KIND_L1: u8 = 1;
/// Buffers in the small L1 area.
pub const TTMON_KIND_L1_SMALL: u8 = 2;
/// Captured traces, in DRAM.
pub const TTMON_KIND_TRACE: u8 = 3;
/// Circular and dataflow buffers, in L1.
pub const TTMON_KIND_CB: u8 = 4;
/// Bytes of loaded programs. They do not occupy L1 and are part of no sum.
pub const TTMON_KIND_KERNEL: u8 = 5;
/// The number of kinds.
pub const TTMON_KINDS: usize = 6;

/// Reasons for missing values. This one: the value is present.
pub const TTMON_PRESENT: i32 = 0;
/// Chips of this architecture never publish the value.
pub const TTMON_MISSING_NOT_ON_THIS_ARCH: i32 = 1;
/// This driver or firmware does not publish the value.
pub const TTMON_MISSING_NOT_EXPOSED: i32 = 2;
/// The chip is reached only over Ethernet.
pub const TTMON_MISSING_REMOTE_CHIP: i32 = 3;
/// The value exists, but this user may not read it.
pub const TTMON_MISSING_NO_PERMISSION: i32 = 4;
/// The chip is being reset.
pub const TTMON_MISSING_RESETTING: i32 = 5;
/// The device left the bus.
pub const TTMON_MISSING_GONE: i32 = 6;
/// The value is impossible.
pub const TTMON_MISSING_OUT_OF_RANGE: i32 = 7;
/// The value is not in the documented format of the driver.
pub const TTMON_MISSING_UNPARSABLE: i32 = 8;
/// The read did not finish in time.
pub const TTMON_MISSING_TIMEOUT: i32 = 9;
/// The kernel returned an error.
pub const TTMON_MISSING_IO_ERROR: i32 = 10;
/// A rate needs two samples.
pub const TTMON_MISSING_FIRST_SAMPLE: i32 = 11;
/// A process may use memory that is not tracked.
pub const TTMON_MISSING_NOT_TRACKED: i32 = 12;
/// The value is not measured.
pub const TTMON_MISSING_NO_SOURCE: i32 = 13;
/// The value must be read directly from the chip, which was not requested.
pub const TTMON_MISSING_NEEDS_DEEP: i32 = 14;
/// The program runs without the dispatch firmware that has the counters.
pub const TTMON_MISSING_SLOW_DISPATCH: i32 = 15;
/// The program's counters do not advance.
pub const TTMON_MISSING_STALE: i32 = 16;
/// No process holds the chip.
pub const TTMON_MISSING_NOT_HELD: i32 = 17;
/// Another program has exclusive use of the device, or all of its windows.
pub const TTMON_MISSING_BUSY: i32 = 18;
/// The chip will be read after its pending power-down.
pub const TTMON_MISSING_IDLE_WAIT: i32 = 19;

/// How a process's memory is tracked. This one: the ledger of the process has every buffer.
pub const TTMON_STATUS_TRACKED: u32 = 1;
/// TT-Metal's own statistics have the process.
pub const TTMON_STATUS_REPORTED: u32 = 2;
/// The process has a device open and does not report its memory.
pub const TTMON_STATUS_OPEN: u32 = 3;
/// The memory is recorded in a place that this user may not read.
pub const TTMON_STATUS_NO_PERMISSION: u32 = 4;
/// The process has exited, but another process still has its device file open.
pub const TTMON_STATUS_DEAD: u32 = 5;
/// The process reports to the service, on the allocation socket.
pub const TTMON_STATUS_CONNECTED: u32 = 6;

/// The source of a figure. This one, which is the best: the ledger that the process itself writes.
pub const TTMON_SOURCE_LEDGER: u64 = 1;
/// TT-Metal's statistics in shared memory.
pub const TTMON_SOURCE_SHM: u64 = 2;
/// The kernel driver.
pub const TTMON_SOURCE_FDINFO: u64 = 3;
/// The process's reports to the service on the allocation socket.
pub const TTMON_SOURCE_SERVER: u64 = 4;

/// Whether a device can be read. This one: the device answers.
pub const TTMON_STATE_OK: u32 = 1;
/// The device is being reset.
pub const TTMON_STATE_RESETTING: u32 = 2;
/// The device left the bus.
pub const TTMON_STATE_GONE: u32 = 3;
/// The device is present, but no valid value could be read.
pub const TTMON_STATE_UNREADABLE: u32 = 4;
/// The device publishes no telemetry.
pub const TTMON_STATE_UNKNOWN: u32 = 5;
/// The driver has listed the device, but its firmware does not answer yet.
pub const TTMON_STATE_STARTING: u32 = 6;

/// Health of a device, compared with the limits that it publishes. This one: unknown, because there are no limits.
pub const TTMON_HEALTH_UNKNOWN: u32 = 1;
/// Within the limits.
pub const TTMON_HEALTH_OK: u32 = 2;
/// Close to a limit, or unusual.
pub const TTMON_HEALTH_WARNING: u32 = 3;
/// At a limit.
pub const TTMON_HEALTH_CRITICAL: u32 = 4;

/// A number, or the reason why it is missing. `value` is valid only if `missing` is TTMON_PRESENT, and is 0 otherwise.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CFigure {
    /// The number, in bytes unless the name states another unit.
    pub value: u64,
    /// TTMON_PRESENT or one of TTMON_MISSING_...
    pub missing: i32,
}

/// A number with a fraction, or the reason why it is missing.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CReal {
    /// The number, or 0 if it is missing.
    pub value: f64,
    /// TTMON_PRESENT or one of TTMON_MISSING_...
    pub missing: i32,
}

/// The figures of a device, over all processes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CSystemStats {
    /// Set by the caller to sizeof(ttmon_system_stats) before the call.
    pub struct_size: u32,
    /// N of /dev/tenstorrent/N, or a higher number for a chip that is reached over Ethernet.
    pub device: u32,
    /// Time of the sample, in nanoseconds since 1970.
    pub time_ns: u64,
    /// One of TTMON_STATE_...
    pub state: u32,
    /// One of TTMON_HEALTH_...
    pub health: u32,
    /// DRAM of the chip.
    pub dram_total: CFigure,
    /// DRAM that programs requested, including traces. A lower bound if there are untracked processes.
    pub dram_used: CFigure,
    /// DRAM that is not used.
    pub dram_free: CFigure,
    /// L1 of the chip.
    pub l1_total: CFigure,
    /// L1 that programs requested, including small and circular buffers.
    pub l1_used: CFigure,
    /// L1 that is not used.
    pub l1_free: CFigure,
    /// Number of processes that hold the device or have memory on it.
    pub processes: u64,
    /// Number of processes that do not report their memory.
    pub untracked_processes: u64,
    /// Number of processes in another pid namespace, which cannot be named. They are also counted as untracked.
    pub hidden_processes: u64,
    /// Temperature in degrees Celsius.
    pub temperature: CReal,
    /// Power of the chip's core rail in watts, not of the board.
    pub power: CReal,
    /// AI clock in megahertz.
    pub aiclk_mhz: CFigure,
}

/// One kind of memory of a process on a chip.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CProcessKind {
    /// Sum of the live buffers' requested sizes.
    pub used: CFigure,
    /// Bytes that the allocators took, including padding.
    pub allocated: CFigure,
    /// Highest `used` since tracking began.
    pub peak: CFigure,
    /// Time of the peak, in nanoseconds since 1970.
    pub peak_time_ns: CFigure,
    /// Number of live buffers.
    pub count: CFigure,
    /// One of TTMON_SOURCE_...
    pub source: CFigure,
}

/// Bytes of a process's name in ttmon_process_stats, including the NUL at its end.
pub const TTMON_NAME_BYTES: usize = 64;

/// The figures of a process on a device, or on all devices.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CProcessStats {
    /// Set by the caller to sizeof(ttmon_process_stats) before the call.
    pub struct_size: u32,
    /// The requested pid.
    pub pid: i32,
    /// The requested device.
    pub device: u32,
    /// One of TTMON_STATUS_...
    pub status: u32,
    /// Number of devices that the process uses.
    pub devices: u32,
    /// TTMON_PRESENT, or the reason why the name is missing.
    pub name_missing: i32,
    /// The kernel's name of the process (comm), in UTF-8, ending with NUL. The owner of the process chose it, so sanitise it before
    /// printing.
    pub name: [c_char; TTMON_NAME_BYTES],
    /// The figures of each kind, by TTMON_KIND_...
    pub kinds: [CProcessKind; TTMON_KINDS],
}

/// The figures of one kind of memory of a device, over all processes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CKindStats {
    /// Set by the caller to sizeof(ttmon_kind_stats) before the call.
    pub struct_size: u32,
    /// The requested device.
    pub device: u32,
    /// The requested kind.
    pub kind: u32,
    /// Number of processes that hold the device or have memory on it.
    pub processes: u32,
    /// Capacity of the chip.
    pub total: CFigure,
    /// The allocator's own limit.
    pub capacity: CFigure,
    /// Sum of the live buffers' requested sizes.
    pub used: CFigure,
    /// Bytes that the allocators took, including padding.
    pub allocated: CFigure,
    /// Free bytes: capacity minus allocated, else total minus used.
    pub free: CFigure,
    /// Highest `used`, if it is recorded.
    pub peak: CFigure,
    /// Number of live buffers.
    pub count: CFigure,
    /// One of TTMON_SOURCE_...
    pub source: CFigure,
}

/// The figures of one kind of memory of one allocator on a device. A buffer takes the same number of bytes of each bank.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CBankStats {
    /// Set by the caller to sizeof(ttmon_bank_stats) before the call.
    pub struct_size: u32,
    /// The requested device.
    pub device: u32,
    /// The requested kind.
    pub kind: u32,
    /// The pid of the allocator's process.
    pub pid: i32,
    /// The id of the allocator, the same as in ttmon mem --json, ending with NUL.
    pub allocator: [c_char; TTMON_NAME_BYTES],
    /// Number of banks.
    pub banks: CFigure,
    /// Bytes of a bank that can be allocated.
    pub bank_bytes: CFigure,
    /// Allocated bytes of a bank.
    pub allocated_per_bank: CFigure,
    /// Free bytes of a bank.
    pub free_per_bank: CFigure,
    /// Bytes of the largest free block of a bank.
    pub largest_free_per_bank: CFigure,
    /// The share of the free bytes outside the largest free block, 0 to 1.
    pub fragmentation: CReal,
    /// Number of blocks, used and free.
    pub blocks: CFigure,
}
