//! The C ABI. cbindgen generates `include/ttmon.h` from this file, with these comments. Run `cargo xtask header` after a change.

use std::ffi::c_char;

use crate::gate::pass;
use crate::report::Report;

/// The report is in the ledger. The ledger also counts unusual reports, such as the free of an unknown buffer.
pub const TTMON_RECORDED: i32 = 0;
/// Tracking is off in this process: it was not requested, another library does it, or no ledger can be created here.
pub const TTMON_OFF: i32 = 1;
/// A negative device, a size of 2^40 or more, a null pointer, or a pop without a push. Nothing was recorded.
pub const TTMON_BAD_ARGUMENT: i32 = -1;
/// The report could not be recorded. The ledger counts it, if there is one.
pub const TTMON_LOST: i32 = -2;
/// A defect of this library.
pub const TTMON_INTERNAL: i32 = -3;

/// Buffer types, with TT-Metal's numbers. Other numbers are listed as "other".
pub const TTMON_DRAM: u8 = 0;
/// L1 of the cores.
pub const TTMON_L1: u8 = 1;
/// Host memory. It is listed, but not included in the totals of a device.
pub const TTMON_SYSTEM_MEMORY: u8 = 2;
/// The part of L1 that is reserved for small buffers.
pub const TTMON_L1_SMALL: u8 = 3;
/// DRAM that is reserved for traces.
pub const TTMON_TRACE: u8 = 4;

/// Reports a buffer, after the allocator returned it. `device` is TT-Metal's logical id in this process, `size` the requested bytes on that
/// device, `buffer_id` the address. Reporting the same buffer again with the same size adds a reference. With another size it replaces the
/// old buffer.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_report_allocation(device: i32, size: u64, buffer_type: u8, buffer_id: u64) -> i32 {
    pass(|| Report::Allocation { device, size, buffer_type, buffer_id })
}

/// Reports the end of a buffer, before the allocator frees it. Removes one reference; the last one frees the buffer.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_report_deallocation(device: i32, buffer_id: u64) -> i32 {
    pass(|| Report::Deallocation { device, buffer_id })
}

/// Reports a circular buffer.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_report_cb_allocation(device: i32, size: u64, cb_id: u64) -> i32 {
    pass(|| Report::CbAllocation { device, size, cb_id })
}

/// Reports the end of a circular buffer. `size` is ignored; the reported size is used.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_report_cb_deallocation(device: i32, size: u64, cb_id: u64) -> i32 {
    pass(|| Report::CbDeallocation { device, size, cb_id })
}

/// Reports a loaded kernel. `kernel_type`: 0 application, 1 fabric, 2 dispatch.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_report_kernel_load(device: i32, size: u64, kernel_type: u8, kernel_id: u64) -> i32 {
    pass(|| Report::KernelLoad { device, size, kernel_type, kernel_id })
}

/// Reports that a kernel was unloaded. `size` is ignored; the reported size is used.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_report_kernel_unload(device: i32, size: u64, kernel_id: u64) -> i32 {
    pass(|| Report::KernelUnload { device, size, kernel_id })
}

/// Reports that a device was closed. All its buffers are removed. A later report opens the device again.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_report_device_close(device: i32) -> i32 {
    pass(|| Report::DeviceClose { device })
}

/// Sets the tag of all buffers that this thread allocates until the matching pop: at most 62 bytes of UTF-8. Every push needs its pop, even
/// if it failed. `utf8` is NUL-terminated and copied.
///
/// # Safety
/// `utf8` is null, or a NUL-terminated string that does not change until the call returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_tag_push(utf8: *const c_char) -> i32 {
    pass(|| Report::TagPush { text: utf8 })
}

/// Ends the newest tag of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_tag_pop() -> i32 {
    pass(|| Report::TagPop)
}

/// Sets a mark. `ttmon run --fail-on-growth` compares the end of the program with the last mark.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_mark() -> i32 {
    pass(|| Report::Mark)
}

/// Writes the live bytes of a buffer type that this process has on a device, as requested from the allocator. A buffer of a mesh counts on
/// each of its chips. If the hook tracks the device, reports by the program itself are not included. `bytes` is written only on success.
///
/// # Safety
/// `bytes` is null, or points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_memory_allocated(device: i32, buffer_type: u8, bytes: *mut u64) -> i32 {
    pass(|| Report::MemoryAllocated { device, buffer_type, bytes })
}

/// Writes the peak of the live bytes, since tracking began or since `ttmon_reset_peak`, also for a device that was closed. If several
/// allocators share the device (a mesh and its submesh), it is their common peak.
///
/// # Safety
/// `bytes` is null, or points to a writable number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_max_memory_allocated(device: i32, buffer_type: u8, bytes: *mut u64) -> i32 {
    pass(|| Report::MaxMemoryAllocated { device, buffer_type, bytes })
}

/// Restarts the peak of `ttmon_max_memory_allocated`; for a mesh, on all its chips. The peak that ttmon shows does not change.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_reset_peak(device: i32, buffer_type: u8) -> i32 {
    pass(|| Report::ResetPeak { device, buffer_type })
}

/// Begins a phase of the program, such as a step or a request. `ttmon run` reports peak, growth and time for each name, over all its
/// iterations. Phases may be nested. `utf8` is NUL-terminated; at most 62 bytes are stored.
///
/// # Safety
/// `utf8` is null, or a NUL-terminated string that does not change until the call returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ttmon_phase_begin(utf8: *const c_char) -> i32 {
    pass(|| Report::PhaseBegin { text: utf8 })
}

/// Ends the newest phase with this name.
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
