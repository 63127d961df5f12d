//! The library that `ttmon run` preloads: a few kilobytes of jumps, cheap for children that never use TT-Metal.
//!
//! Each exported name jumps through its slot. An empty slot calls [`resolve`], which loads libttmon_hook.so from this library's folder once
//! and fills the slot with the hook's function of that name. The jump leaves no frame, so exceptions and the caller's address pass
//! unchanged. Without a hook, TT-Metal's own functions are called, and the `ttmon_` functions return `TTMON_OFF`.

#![no_std]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

#[repr(C)]
struct Info {
    file: *const c_char,
    base: *mut c_void,
    symbol: *const c_char,
    address: *mut c_void,
}

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dladdr(address: *const c_void, info: *mut Info) -> c_int;
    fn dlerror() -> *mut c_char;
    fn dlclose(handle: *mut c_void) -> c_int;
    fn abort() -> !;
    fn __errno_location() -> *mut c_int;
}

const RTLD_NEXT: *mut c_void = usize::MAX as *mut c_void;
const RTLD_LAZY: c_int = 1;
const RTLD_NOW: c_int = 2;
const RTLD_NOLOAD: c_int = 4;
const HOOK: &[u8] = b"libttmon_hook.so\0";
const PATH_BYTES: usize = 4096;
/// `TTMON_OFF`.
const OFF: i32 = 1;

/// Null if no load was attempted, [`NO_HOOK`] if no hook was found, otherwise the loader's handle.
static HANDLE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
const NO_HOOK: usize = 1;

macro_rules! jumps {
    ($($function:ident = $name:literal;)*) => {
        #[repr(usize)]
        #[derive(Clone, Copy)]
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Slot { $($function),* }

        const COUNT: usize = [$($name),*].len();
        const NAMES: [&CStr; COUNT] = [$(match CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("a name without NUL"),
        }),*];

        static SLOTS: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];

        $(
            /// Jumps to the hook's function with this name.
            ///
            /// # Safety
            /// See that function.
            #[unsafe(naked)]
            #[unsafe(export_name = $name)]
            pub unsafe extern "C" fn $function() {
                naked_asm!(
                    "mov r11, [rip + {slots} + {slot} * 8]",
                    "test r11, r11",
                    "jz 2f",
                    "jmp r11",
                    "2:",
                    "mov r11d, {slot}",
                    "jmp {slow}",
                    slots = sym SLOTS,
                    slot = const Slot::$function as usize,
                    slow = sym slow,
                )
            }
        )*
    };
}

jumps! {
    allocate = "_ZN2tt8tt_metal13AllocatorImpl15allocate_bufferEPNS0_6BufferE";
    deallocate = "_ZN2tt8tt_metal13AllocatorImpl17deallocate_bufferEPNS0_6BufferE";
    deallocate_all = "_ZN2tt8tt_metal13AllocatorImpl18deallocate_buffersEv";
    clear = "_ZN2tt8tt_metal13AllocatorImpl5clearEv";
    allocator_d1 = "_ZN2tt8tt_metal13AllocatorImplD1Ev";
    allocator_d2 = "_ZN2tt8tt_metal13AllocatorImplD2Ev";
    shrink = "_ZN2tt8tt_metal13AllocatorImpl21shrink_allocator_sizeERKNS0_10BufferTypeEmb";
    reset_size = "_ZN2tt8tt_metal13AllocatorImpl20reset_allocator_sizeERKNS0_10BufferTypeE";
    override_state = "_ZN2tt8tt_metal13AllocatorImpl14override_stateERKNS0_14AllocatorStateE";
    open_mesh = "_ZN2tt8tt_metal11distributed14MeshDeviceImpl15initialize_implEPNS1_10MeshDeviceEhmmmSt4spanIKjLm18446744073709551615EEb";
    stats_provider = "_ZN2tt8tt_metal25SharedMemoryStatsProviderC1Emibb";
    load_binaries = "_ZN2tt8tt_metal11distributed16MeshWorkloadImpl13load_binariesERNS1_16MeshCommandQueueE";
    track_program = "_ZN2tt8tt_metal12GraphTracker13track_programEPNS0_7ProgramEPKNS0_7IDeviceE";
    track_circular = "_ZN2tt8tt_metal12GraphTracker17track_allocate_cbERKNS0_12CoreRangeSetEmmbPKNS0_7IDeviceE";
    allocate_circulars = "_ZN2tt8tt_metal6detail11ProgramImpl25allocate_circular_buffersEPKNS0_7IDeviceE";
    allocate_dataflow = "_ZN2tt8tt_metal6detail11ProgramImpl25allocate_dataflow_buffersEPKNS0_7IDeviceE";
    mark_address = "_ZN2tt8tt_metal6detail11ProgramImpl23CircularBufferAllocator12mark_addressEmmm";
    deallocate_circulars = "_ZN2tt8tt_metal6detail11ProgramImpl27deallocate_circular_buffersEv";
    invalidate_circulars = "_ZN2tt8tt_metal6detail11ProgramImpl37invalidate_circular_buffer_allocationEv";
    invalidate_dataflow = "_ZN2tt8tt_metal6detail11ProgramImpl37invalidate_dataflow_buffer_allocationEv";
    program_d1 = "_ZN2tt8tt_metal6detail11ProgramImplD1Ev";
    validate_circulars = "_ZN2tt8tt_metal6detail11ProgramImpl31validate_circular_buffer_regionEPKNS0_7IDeviceE";
    validate_dataflow = "_ZN2tt8tt_metal6detail11ProgramImpl31validate_dataflow_buffer_regionEPKNS0_7IDeviceE";
    begin_trace = "_ZN2tt8tt_metal11distributed14MeshDeviceImpl16begin_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE";
    end_trace = "_ZN2tt8tt_metal11distributed14MeshDeviceImpl14end_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE";
    replay_trace = "_ZN2tt8tt_metal11distributed14MeshDeviceImpl17replay_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEEb";
    release_trace = "_ZN2tt8tt_metal11distributed14MeshDeviceImpl18release_mesh_traceERKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE";
    report_allocation = "ttmon_report_allocation";
    report_deallocation = "ttmon_report_deallocation";
    report_cb_allocation = "ttmon_report_cb_allocation";
    report_cb_deallocation = "ttmon_report_cb_deallocation";
    report_kernel_load = "ttmon_report_kernel_load";
    report_kernel_unload = "ttmon_report_kernel_unload";
    report_device_close = "ttmon_report_device_close";
    tag_push = "ttmon_tag_push";
    tag_pop = "ttmon_tag_pop";
    mark = "ttmon_mark";
    memory_allocated = "ttmon_memory_allocated";
    max_memory_allocated = "ttmon_max_memory_allocated";
    reset_peak = "ttmon_reset_peak";
    phase_begin = "ttmon_phase_begin";
    phase_end = "ttmon_phase_end";
}

/// Saves the six argument registers, resolves the slot in r11 and jumps to the function found.
#[unsafe(naked)]
unsafe extern "C" fn slow() {
    naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        // Aligns the stack.
        "push rax",
        "mov rdi, r11",
        "mov rsi, [rsp + 56]",
        "call {resolve}",
        "mov r11, rax",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp r11",
        resolve = sym resolve,
    )
}

/// Returns the hook's function with this name, or else TT-Metal's own, as the caller would have found it.
extern "C" fn resolve(index: usize, caller: *const c_void) -> usize {
    // SAFETY: the address of this thread's errno, which is valid as long as the thread.
    let errno = unsafe { *__errno_location() };
    let (Some(name), Some(slot)) = (NAMES.get(index), SLOTS.get(index)) else {
        // SAFETY: no preconditions. All indices come from `jumps`.
        unsafe { abort() }
    };
    let found = match in_hook(name) {
        0 if name.to_bytes().starts_with(b"ttmon_") => off as *const () as usize,
        0 => in_caller(name, caller),
        address => {
            slot.store(address, Relaxed);
            address
        }
    };
    // SAFETY: as above.
    unsafe { *__errno_location() = errno };
    found
}

/// Replaces each `ttmon_` function if there is no hook.
extern "C" fn off() -> i32 {
    OFF
}

fn in_hook(name: &CStr) -> usize {
    let mut handle = HANDLE.load(Relaxed);
    if handle.is_null() {
        handle = load();
        HANDLE.store(handle, Relaxed);
    }
    if handle as usize == NO_HOOK {
        return 0;
    }
    // SAFETY: the handle is never closed, and the name is NUL-terminated.
    let address = unsafe { dlsym(handle, name.as_ptr()) } as usize;
    if address == 0 {
        forget_error();
    }
    address
}

/// Loads the hook. Several threads may do this at once; the loader returns the same handle.
fn load() -> *mut c_void {
    let mut path = [0_u8; PATH_BYTES];
    let mut length = 0;
    let mut folder = 0;
    if let Some(own) = file_of((&raw const HANDLE).cast()) {
        for byte in own.to_bytes() {
            let Some(to) = path.get_mut(length) else { return NO_HOOK as *mut c_void };
            *to = *byte;
            length += 1;
            if *byte == b'/' {
                folder = length;
            }
        }
    }
    for (at, byte) in (folder..).zip(HOOK) {
        let Some(to) = path.get_mut(at) else { return NO_HOOK as *mut c_void };
        *to = *byte;
    }
    // SAFETY: the path is NUL-terminated.
    let handle = unsafe { dlopen(path.as_ptr().cast(), RTLD_NOW) };
    if handle.is_null() {
        forget_error();
        return NO_HOOK as *mut c_void;
    }
    handle
}

fn in_caller(name: &CStr, caller: *const c_void) -> usize {
    // SAFETY: the name is NUL-terminated. RTLD_NEXT finds what a program linked with TT-Metal would find.
    let mut address = unsafe { dlsym(RTLD_NEXT, name.as_ptr()) } as usize;
    if address == 0
        && let Some(file) = file_of(caller)
    {
        // RTLD_NEXT does not search a library that Python loads. A handle of the calling library does.
        // SAFETY: the path belongs to the loader. Nothing is loaded, and the handle is closed immediately.
        unsafe {
            let handle = dlopen(file.as_ptr(), RTLD_LAZY | RTLD_NOLOAD);
            if !handle.is_null() {
                address = dlsym(handle, name.as_ptr()) as usize;
                dlclose(handle);
            }
        }
    }
    forget_error();
    if address == 0 {
        // Not defined anywhere: without this library, the loader would have ended the program.
        // SAFETY: no preconditions.
        unsafe { abort() }
    }
    address
}

fn file_of(address: *const c_void) -> Option<&'static CStr> {
    let mut info = Info { file: core::ptr::null(), base: core::ptr::null_mut(), symbol: core::ptr::null(), address: core::ptr::null_mut() };
    // SAFETY: writes to a local struct. Its string belongs to the loader while the calling object is loaded.
    unsafe { if dladdr(address, &raw mut info) != 0 && !info.file.is_null() { Some(CStr::from_ptr(info.file)) } else { None } }
}

/// Clears the loader's error message, so that the program does not read it as its own.
fn forget_error() {
    // SAFETY: no preconditions.
    unsafe { dlerror() };
}

#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: no preconditions.
    unsafe { abort() }
}
