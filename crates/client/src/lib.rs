//! Reports a program's device memory: a Rust API, and the same as a C ABI (`include/ttmon.h`, `ttmon.hpp`).
//!
//! ```
//! let _layer = ttmon_client::tag("layer 7");
//! ttmon_client::report_allocation(0, 4096, ttmon_client::TTMON_DRAM, 0x1000);
//! ttmon_client::report_deallocation(0, 0x1000);
//! ```
//!
//! A report is a no-op that returns [`Outcome::Off`] unless `TT_ALLOC_TRACKING_ENABLED` or `TTMON_TRACKING` begins with
//! `1` when the first one is made. The first report makes the ledger (docs/ledger.md), which lives until the process ends;
//! nothing is printed, no thread is started, and nothing has to be closed. Reports are legal in every thread, after fork,
//! while the process exits, and in handlers of signals, where the thread has reported before: its first one makes the
//! thread-local variables of a library that was loaded late, with malloc. How long one may wait, and what two copies of this
//! library in a process do, is in the first lines of `include/ttmon.h`.
//!
//! This crate knows what reports mean (`record`); the bytes are the ledger's, and finding and showing them are others'.

mod devices;
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

pub use devices::name_devices;
pub use exports::*;
pub use handover::HANDOVER_MAGIC;
pub use report::Outcome;
pub use switch::{Options, start};

use gate::pass;
use report::Report;

/// A buffer, after the allocator returned it: [`ttmon_report_allocation`].
#[inline]
pub fn report_allocation(device: i32, size: u64, buffer_type: u8, buffer_id: u64) -> Outcome {
    Outcome::from_code(pass(|| Report::Allocation { device, size, buffer_type, buffer_id }))
}

/// The end of a buffer, before the allocator takes it back: [`ttmon_report_deallocation`].
#[inline]
pub fn report_deallocation(device: i32, buffer_id: u64) -> Outcome {
    Outcome::from_code(pass(|| Report::Deallocation { device, buffer_id }))
}

/// A circular buffer.
#[inline]
pub fn report_cb_allocation(device: i32, size: u64, cb_id: u64) -> Outcome {
    Outcome::from_code(pass(|| Report::CbAllocation { device, size, cb_id }))
}

/// The end of a circular buffer.
#[inline]
pub fn report_cb_deallocation(device: i32, size: u64, cb_id: u64) -> Outcome {
    Outcome::from_code(pass(|| Report::CbDeallocation { device, size, cb_id }))
}

/// A loaded kernel; its type is 0 application, 1 fabric, 2 dispatch.
#[inline]
pub fn report_kernel_load(device: i32, size: u64, kernel_type: u8, kernel_id: u64) -> Outcome {
    Outcome::from_code(pass(|| Report::KernelLoad { device, size, kernel_type, kernel_id }))
}

/// The end of a kernel.
#[inline]
pub fn report_kernel_unload(device: i32, size: u64, kernel_id: u64) -> Outcome {
    Outcome::from_code(pass(|| Report::KernelUnload { device, size, kernel_id }))
}

/// A device was closed: all that was reported for it is gone.
#[inline]
pub fn report_device_close(device: i32) -> Outcome {
    Outcome::from_code(pass(|| Report::DeviceClose { device }))
}

/// Sets a mark: [`ttmon_mark`].
#[inline]
pub fn mark() -> Outcome {
    Outcome::from_code(pass(|| Report::Mark))
}

/// A phase of the program, until the guard is dropped: [`ttmon_phase_begin`].
#[must_use = "the phase ends when the guard is dropped"]
pub fn phase(name: &str) -> PhaseGuard {
    let name = tags::Text::lossy(name.as_bytes());
    pass(|| Report::PhaseBegin { text: name.as_c() });
    PhaseGuard { name }
}

/// A phase that has begun.
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

/// The bytes that this process has live on a device: [`ttmon_memory_allocated`]. `Err` says why there is no figure.
pub fn memory_allocated(device: i32, buffer_type: u8) -> Result<u64, Outcome> {
    figure(|bytes| Report::MemoryAllocated { device, buffer_type, bytes })
}

/// The most there was: [`ttmon_max_memory_allocated`].
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

/// Counts the most anew: [`ttmon_reset_peak`].
pub fn reset_peak(device: i32, buffer_type: u8) -> Outcome {
    Outcome::from_code(pass(|| Report::ResetPeak { device, buffer_type }))
}

/// What this thread allocates carries this text until the guard is dropped.
#[must_use = "the tag ends when the guard is dropped"]
pub fn tag(text: &str) -> TagGuard {
    if !switch::is_off() {
        let text = tags::Text::lossy(text.as_bytes());
        pass(|| Report::TagPush { text: text.as_c() });
    }
    TagGuard { of_this_thread: PhantomData }
}

/// A tag of this thread. It cannot go to another one, which has a stack of its own.
#[derive(Debug)]
pub struct TagGuard {
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for TagGuard {
    fn drop(&mut self) {
        pass(|| Report::TagPop);
    }
}
