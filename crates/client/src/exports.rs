//! The C ABI. cbindgen generates `include/ttmon.h` from this file, with these comments. Run `cargo xtask header` after a change.

use std::ffi::c_char;

use crate::gate::pass;
use crate::report::Report;

/// The report is in the ledger. What is odd about it, such as the free of an unknown buffer, is counted there as such.
pub const TTMON_RECORDED: i32 = 0;
/// Tracking is off in this process: nobody asked for it, another library does it, or no ledger can be made here.
pub const TTMON_OFF: i32 = 1;
/// A negative device, a size of 2^40 and more, a null pointer, a pop without a push. Nothing was recorded.
pub const TTMON_BAD_ARGUMENT: i32 = -1;
/// It could not be recorded; the ledger says so too, as far as there is one.
pub const TTMON_LOST: i32 = -2;
/// A mistake of this library.
pub const TTMON_INTERNAL: i32 = -3;

/// Buffer types, as TT-Metal numbers them. Others are listed as "other".
pub const TTMON_DRAM: u8 = 0;
/// L1 of the cores.
pub const TTMON_L1: u8 = 1;
/// Memory of the host: listed, in no total of a device.
pub const TTMON_SYSTEM_MEMORY: u8 = 2;
/// The part of L1 kept for small buffers.
pub const TTMON_L1_SMALL: u8 = 3;
/// DRAM kept for traces.
pub const TTMON_TRACE: u8 = 4;

/// Reports a buffer, after the allocator returned it. `device` is TT-Metal's logical id in this process, `size` the bytes
/// asked for on that device, `buffer_id` its address. The same buffer again with the same size adds a reference; with
/// another size it takes the place of the old one.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_report_allocation(device: i32, size: u64, buffer_type: u8, buffer_id: u64) -> i32 {
    pass(|| Report::Allocation { device, size, buffer_type, buffer_id })
}

/// Reports the end of a buffer, before the allocator takes it back. Drops one reference; the last one frees.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_report_deallocation(device: i32, buffer_id: u64) -> i32 {
    pass(|| Report::Deallocation { device, buffer_id })
}

/// Reports a circular buffer.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_report_cb_allocation(device: i32, size: u64, cb_id: u64) -> i32 {
    pass(|| Report::CbAllocation { device, size, cb_id })
}

/// Reports the end of a circular buffer. `size` is not needed: what was reported is what goes.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_report_cb_deallocation(device: i32, size: u64, cb_id: u64) -> i32 {
    pass(|| Report::CbDeallocation { device, size, cb_id })
}

/// Reports a loaded kernel. `kernel_type`: 0 application, 1 fabric, 2 dispatch.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_report_kernel_load(device: i32, size: u64, kernel_type: u8, kernel_id: u64) -> i32 {
    pass(|| Report::KernelLoad { device, size, kernel_type, kernel_id })
}

/// Reports that a kernel was unloaded. `size` is not needed: what was reported is what goes.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_report_kernel_unload(device: i32, size: u64, kernel_id: u64) -> i32 {
    pass(|| Report::KernelUnload { device, size, kernel_id })
}

/// Reports that a device was closed: all that was reported for it is gone. A later report opens it again.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_report_device_close(device: i32) -> i32 {
    pass(|| Report::DeviceClose { device })
}

/// What this thread allocates from now on carries this text, at most 62 bytes of UTF-8, until the matching pop. Every push
/// needs its pop, even if it failed. `utf8` ends with NUL; it is copied.
///
/// # Safety
/// `utf8` is null, or a string that ends with NUL and is not written to until the call returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_tag_push(utf8: *const c_char) -> i32 {
    pass(|| Report::TagPush { text: utf8 })
}

/// Ends the newest tag of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_tag_pop() -> i32 {
    pass(|| Report::TagPop)
}

/// Sets a mark: `ttmon run --fail-on-growth` compares the end of the program with the last one.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_mark() -> i32 {
    pass(|| Report::Mark)
}

/// Writes the bytes of a buffer type that this process has live on a device, as asked for; a buffer of a mesh counts on each of its
/// chips. Where the hook sees the device, what was reported for it by hand is left out. `bytes` is written on success alone.
///
/// # Safety
/// `bytes` is null, or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_memory_allocated(device: i32, buffer_type: u8, bytes: *mut u64) -> i32 {
    pass(|| Report::MemoryAllocated { device, buffer_type, bytes })
}

/// The most there was, since tracking began or since `ttmon_reset_peak`, whether the device is still open or not. Where several
/// allocators share it (a mesh and its submesh) it is the most they had together.
///
/// # Safety
/// `bytes` is null, or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_max_memory_allocated(device: i32, buffer_type: u8, bytes: *mut u64) -> i32 {
    pass(|| Report::MaxMemoryAllocated { device, buffer_type, bytes })
}

/// From now on `ttmon_max_memory_allocated` counts anew, of a mesh on all its chips. What others see as the peak stays.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_reset_peak(device: i32, buffer_type: u8) -> i32 {
    pass(|| Report::ResetPeak { device, buffer_type })
}

/// A phase of the program begins, such as a step or a request. `ttmon run` reports peak, growth and time of each name, all iterations
/// together. Phases may be nested. `utf8` ends with NUL; at most 62 bytes are kept.
///
/// # Safety
/// `utf8` is null, or a string that ends with NUL and is not written to until the call returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_phase_begin(utf8: *const c_char) -> i32 {
    pass(|| Report::PhaseBegin { text: utf8 })
}

/// The newest phase of that name ends.
///
/// # Safety
/// As `ttmon_phase_begin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_phase_end(utf8: *const c_char) -> i32 {
    pass(|| Report::PhaseEnd { text: utf8 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;

    #[test]
    fn the_numbers_of_c_are_the_outcomes() {
        assert_eq!(Outcome::Recorded.code(), TTMON_RECORDED);
        assert_eq!(Outcome::Off.code(), TTMON_OFF);
        assert_eq!(Outcome::BadArgument.code(), TTMON_BAD_ARGUMENT);
        assert_eq!(Outcome::Lost.code(), TTMON_LOST);
        assert_eq!(Outcome::Internal.code(), TTMON_INTERNAL);
    }
}
