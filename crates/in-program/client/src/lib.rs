//! Reports a program's device memory, through a Rust API and a C ABI (`include/ttmon.h`, `ttmon.hpp`).
//!
//! ```
//! let _layer = ttmon_client::tag("layer 7");
//! ttmon_client::report_allocation(0, 4096, ttmon_client::TTMON_DRAM, 0x1000);
//! ttmon_client::report_deallocation(0, 0x1000);
//! ```
//!
//! A report has no effect and returns [`Outcome::Off`] unless `TT_ALLOC_TRACKING_ENABLED` or `TTMON_TRACKING` begins with `1` at the first
//! report. The first report creates the ledger (docs/ledger.md), which lives until the process ends. The library prints nothing, starts no
//! thread, and needs no close. Reports are allowed in every thread, after fork and during exit. They are also allowed in signal handlers if
//! the thread has reported before: the first report of a thread allocates the thread-local variables of a library that was loaded late,
//! with malloc. The first lines of `include/ttmon.h` describe how long a report may wait, and what happens with two copies of this library
//! in a process.
//!
//! This crate defines the calls that programs make and records them (`record`). The ledger crate defines the bytes, and other crates find
//! and show ledgers.

mod exports;
mod forward;
mod gate;
mod handover;
pub mod hooked;
mod host;
mod record;
mod report;
mod switch;
mod tags;

use std::fmt;
use std::marker::PhantomData;

pub use exports::*;
pub use record::name_devices;
pub use report::Outcome;
pub use switch::{Options, start};

use gate::pass;
use report::Report;

/// Reports a buffer, after the allocator returned it: [`ttmon_report_allocation`].
#[inline]
pub fn report_allocation(device: i32, size: u64, buffer_type: u8, buffer_id: u64) -> Outcome {
    Outcome::from_code(pass(|| Report::Allocation { device, size, buffer_type, buffer_id }))
}

/// Reports the end of a buffer, before the allocator frees it: [`ttmon_report_deallocation`].
#[inline]
pub fn report_deallocation(device: i32, buffer_id: u64) -> Outcome {
    Outcome::from_code(pass(|| Report::Deallocation { device, buffer_id }))
}

/// Reports a circular buffer.
#[inline]
pub fn report_cb_allocation(device: i32, size: u64, cb_id: u64) -> Outcome {
    Outcome::from_code(pass(|| Report::CbAllocation { device, size, cb_id }))
}

/// Reports the end of a circular buffer.
#[inline]
pub fn report_cb_deallocation(device: i32, size: u64, cb_id: u64) -> Outcome {
    Outcome::from_code(pass(|| Report::CbDeallocation { device, size, cb_id }))
}

/// Reports a loaded kernel. Its type is 0 application, 1 fabric, 2 dispatch.
#[inline]
pub fn report_kernel_load(device: i32, size: u64, kernel_type: u8, kernel_id: u64) -> Outcome {
    Outcome::from_code(pass(|| Report::KernelLoad { device, size, kernel_type, kernel_id }))
}

/// Reports that a kernel was unloaded.
#[inline]
pub fn report_kernel_unload(device: i32, size: u64, kernel_id: u64) -> Outcome {
    Outcome::from_code(pass(|| Report::KernelUnload { device, size, kernel_id }))
}

/// Reports that a device was closed. All its buffers are removed.
#[inline]
pub fn report_device_close(device: i32) -> Outcome {
    Outcome::from_code(pass(|| Report::DeviceClose { device }))
}

/// Sets a mark: [`ttmon_mark`].
#[inline]
pub fn mark() -> Outcome {
    Outcome::from_code(pass(|| Report::Mark))
}

/// Begins a phase of the program, which ends when the guard is dropped: [`ttmon_phase_begin`].
#[must_use = "the phase ends when the guard is dropped"]
pub fn phase(name: &str) -> PhaseGuard {
    let name = tags::Text::lossy(name.as_bytes());
    pass(|| Report::PhaseBegin { text: name.as_c() });
    PhaseGuard { name }
}

/// A phase in progress.
pub struct PhaseGuard {
    name: tags::Text,
}

impl Drop for PhaseGuard {
    fn drop(&mut self) {
        pass(|| Report::PhaseEnd { text: self.name.as_c() });
    }
}

impl fmt::Debug for PhaseGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PhaseGuard").field(&self.name.as_str()).finish()
    }
}

/// Returns the live bytes of this process on a device: [`ttmon_memory_allocated`]. `Err` gives the reason for a missing figure.
pub fn memory_allocated(device: i32, buffer_type: u8) -> Result<u64, Outcome> {
    figure(|bytes| Report::MemoryAllocated { device, buffer_type, bytes })
}

/// Returns the peak of the live bytes: [`ttmon_max_memory_allocated`].
pub fn max_memory_allocated(device: i32, buffer_type: u8) -> Result<u64, Outcome> {
    figure(|bytes| Report::MaxMemoryAllocated { device, buffer_type, bytes })
}

fn figure(question: impl FnOnce(*mut u64) -> Report) -> Result<u64, Outcome> {
    let mut bytes = 0;
    let place = &raw mut bytes;
    match Outcome::from_code(pass(|| question(place))) {
        Outcome::Recorded => Ok(bytes),
        other => Err(other),
    }
}

/// Restarts the peak: [`ttmon_reset_peak`].
pub fn reset_peak(device: i32, buffer_type: u8) -> Outcome {
    Outcome::from_code(pass(|| Report::ResetPeak { device, buffer_type }))
}

/// Sets the tag of the buffers that this thread allocates, until the guard is dropped.
#[must_use = "the tag ends when the guard is dropped"]
pub fn tag(text: &str) -> TagGuard {
    if !switch::is_off() {
        let text = tags::Text::lossy(text.as_bytes());
        pass(|| Report::TagPush { text: text.as_c() });
    }
    TagGuard { of_this_thread: PhantomData }
}

/// A tag of this thread. It cannot be sent to another thread, because each thread has its own stack of tags.
#[derive(Debug)]
pub struct TagGuard {
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for TagGuard {
    fn drop(&mut self) {
        pass(|| Report::TagPop);
    }
}
