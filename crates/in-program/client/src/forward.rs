//! One writer per process: if a preloaded library has the same functions, reports are forwarded to it.
//!
//! The hook and its stub also export these names, so that a tag from Python reaches buffers that the hook sees. The names are looked up in
//! the global scope, where a preloaded library precedes all others. They are used only if all come from one object that is not this one.
//! Only the program itself precedes a preloaded library. If the program contains and exports this code, the lookup continues after the
//! program.
//!
//! An object with these names may call this library: a wrapper around this library, or the jump table of a program that is linked at a
//! fixed address. Then the same report comes back during its forwarding. This echo shows that this library is the writer.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::report::{Outcome, Report};

/// In the order of [`slot`].
const NAMES: [&CStr; 15] = [
    c"ttmon_report_allocation",
    c"ttmon_report_deallocation",
    c"ttmon_report_cb_allocation",
    c"ttmon_report_cb_deallocation",
    c"ttmon_report_kernel_load",
    c"ttmon_report_kernel_unload",
    c"ttmon_report_device_close",
    c"ttmon_tag_push",
    c"ttmon_tag_pop",
    c"ttmon_mark",
    c"ttmon_memory_allocated",
    c"ttmon_max_memory_allocated",
    c"ttmon_reset_peak",
    c"ttmon_phase_begin",
    c"ttmon_phase_end",
];

/// Filled by [`find`], with the same values in every thread; published by the state of `switch`.
static FUNCTIONS: [AtomicPtr<c_void>; NAMES.len()] = [const { AtomicPtr::new(ptr::null_mut()) }; NAMES.len()];

thread_local! {
    /// The report that this thread is forwarding.
    static UNDER_WAY: Cell<Option<Report>> = const { Cell::new(None) };
}

/// Finds the functions in another object of this process. Returns false if there is none.
pub(crate) fn find() -> bool {
    // The address of a private static. That of an exported function could belong to a preloaded library.
    let Some(ours) = object_of((&raw const FUNCTIONS).cast_mut().cast()) else { return false };
    let [first, ..] = NAMES;
    let other_in = |scope| lookup(scope, first).and_then(object_of).filter(|home| *home != ours);
    let other = [libc::RTLD_DEFAULT, libc::RTLD_NEXT].into_iter().find_map(|scope| Some((scope, other_in(scope)?)));
    let Some((scope, home)) = other else { return false };
    for (function, name) in FUNCTIONS.iter().zip(NAMES) {
        let found = lookup(scope, name).filter(|address| object_of(*address) == Some(home));
        function.store(found.unwrap_or(ptr::null_mut()), Ordering::Relaxed);
    }
    true
}

/// Returns the result of the other library; `None` if the report came back to this one.
pub(crate) fn forward(report: Report) -> Option<i32> {
    match UNDER_WAY.get() {
        Some(under_way) if under_way == report => return None,
        // A signal handler reports while its thread does: the state of the other library is unknown.
        Some(_) => return Some(Outcome::Lost.code()),
        None => {}
    }
    UNDER_WAY.set(Some(report));
    let code = call(report);
    UNDER_WAY.set(None);
    Some(code)
}

fn slot(report: Report) -> usize {
    match report {
        Report::Allocation { .. } => 0,
        Report::Deallocation { .. } => 1,
        Report::CbAllocation { .. } => 2,
        Report::CbDeallocation { .. } => 3,
        Report::KernelLoad { .. } => 4,
        Report::KernelUnload { .. } => 5,
        Report::DeviceClose { .. } => 6,
        Report::TagPush { .. } => 7,
        Report::TagPop => 8,
        Report::Mark => 9,
        Report::MemoryAllocated { .. } => 10,
        Report::MaxMemoryAllocated { .. } => 11,
        Report::ResetPeak { .. } => 12,
        Report::PhaseBegin { .. } => 13,
        Report::PhaseEnd { .. } => 14,
    }
}

fn call(report: Report) -> i32 {
    let function = FUNCTIONS.get(slot(report)).map_or(ptr::null_mut(), |function| function.load(Ordering::Relaxed));
    if function.is_null() {
        // An older library without this function. Recording it here would create a second ledger.
        return Outcome::Lost.code();
    }
    type Sized = extern "C" fn(i32, u64, u64) -> i32;
    type Typed = extern "C" fn(i32, u64, u8, u64) -> i32;
    // SAFETY: `find` got the address from the dynamic linker by the name of this slot. The names are reserved: a library that exports one
    // has the signature of ttmon.h. The object is not unloaded, because it is in the global scope. Our own caller guarantees `text`.
    unsafe {
        match report {
            Report::Allocation { device, size, buffer_type: sort, buffer_id: id }
            | Report::KernelLoad { device, size, kernel_type: sort, kernel_id: id } => {
                mem::transmute::<*mut c_void, Typed>(function)(device, size, sort, id)
            }
            Report::CbAllocation { device, size, cb_id: id }
            | Report::CbDeallocation { device, size, cb_id: id }
            | Report::KernelUnload { device, size, kernel_id: id } => mem::transmute::<*mut c_void, Sized>(function)(device, size, id),
            Report::Deallocation { device, buffer_id } => {
                mem::transmute::<*mut c_void, extern "C" fn(i32, u64) -> i32>(function)(device, buffer_id)
            }
            Report::DeviceClose { device } => mem::transmute::<*mut c_void, extern "C" fn(i32) -> i32>(function)(device),
            Report::TagPush { text } | Report::PhaseBegin { text } | Report::PhaseEnd { text } => {
                mem::transmute::<*mut c_void, extern "C" fn(*const c_char) -> i32>(function)(text)
            }
            Report::MemoryAllocated { device, buffer_type, bytes } | Report::MaxMemoryAllocated { device, buffer_type, bytes } => {
                mem::transmute::<*mut c_void, extern "C" fn(i32, u8, *mut u64) -> i32>(function)(device, buffer_type, bytes)
            }
            Report::ResetPeak { device, buffer_type } => {
                mem::transmute::<*mut c_void, extern "C" fn(i32, u8) -> i32>(function)(device, buffer_type)
            }
            Report::TagPop | Report::Mark => mem::transmute::<*mut c_void, extern "C" fn() -> i32>(function)(),
        }
    }
}

/// `scope` is a pseudo handle of the loader.
fn lookup(scope: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is NUL-terminated, and pseudo handles are always valid.
    let found = unsafe { libc::dlsym(scope, name.as_ptr()) };
    if found.is_null() {
        // SAFETY: no preconditions. Clears our error message, so that the program does not read it as its own.
        unsafe { libc::dlerror() };
        return None;
    }
    Some(found)
}

/// Returns the base address of the object that contains an address.
fn object_of(address: *mut c_void) -> Option<*mut c_void> {
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: `info` is a local struct, filled if the result is not 0. The address is only compared.
    unsafe { (libc::dladdr(address, info.as_mut_ptr()) != 0).then(|| info.assume_init().dli_fbase) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_report_goes_to_the_function_of_its_name() {
        let (device, size) = (0, 0);
        let names = [
            (Report::Allocation { device, size, buffer_type: 0, buffer_id: 0 }, c"ttmon_report_allocation"),
            (Report::Deallocation { device, buffer_id: 0 }, c"ttmon_report_deallocation"),
            (Report::CbAllocation { device, size, cb_id: 0 }, c"ttmon_report_cb_allocation"),
            (Report::CbDeallocation { device, size, cb_id: 0 }, c"ttmon_report_cb_deallocation"),
            (Report::KernelLoad { device, size, kernel_type: 0, kernel_id: 0 }, c"ttmon_report_kernel_load"),
            (Report::KernelUnload { device, size, kernel_id: 0 }, c"ttmon_report_kernel_unload"),
            (Report::DeviceClose { device }, c"ttmon_report_device_close"),
            (Report::TagPush { text: ptr::null() }, c"ttmon_tag_push"),
            (Report::TagPop, c"ttmon_tag_pop"),
            (Report::Mark, c"ttmon_mark"),
            (Report::MemoryAllocated { device, buffer_type: 0, bytes: ptr::null_mut() }, c"ttmon_memory_allocated"),
            (Report::MaxMemoryAllocated { device, buffer_type: 0, bytes: ptr::null_mut() }, c"ttmon_max_memory_allocated"),
            (Report::ResetPeak { device, buffer_type: 0 }, c"ttmon_reset_peak"),
            (Report::PhaseBegin { text: ptr::null() }, c"ttmon_phase_begin"),
            (Report::PhaseEnd { text: ptr::null() }, c"ttmon_phase_end"),
        ];
        for (report, name) in names {
            assert_eq!(NAMES[slot(report)], name);
        }
    }

    #[test]
    fn the_header_has_these_functions_and_no_others() {
        let header = include_str!("../include/ttmon.h");
        let mut declared: Vec<&str> =
            header.lines().filter_map(|line| line.strip_prefix("int32_t ")).filter_map(|line| line.split('(').next()).collect();
        let mut known: Vec<&str> = NAMES.iter().filter_map(|name| name.to_str().ok()).collect();
        declared.sort_unstable();
        known.sort_unstable();
        assert_eq!(declared, known);
    }
}
