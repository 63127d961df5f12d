//! Calls into C++ that may throw.
//!
//! Rust may let a C++ exception pass, but cannot catch one. An exception for the program must reach the program (`watching`). An exception
//! in one of our own queries must not (`catching`). Both are an assembly frame with a custom personality function. The unwinder calls it at
//! every throw, and it continues the thread at the landing pad below, with the exception in a register.

use std::arch::global_asm;
use std::ffi::{CStr, c_char, c_int, c_void};

use crate::library::Library;
use crate::symbols::Symbol;

/// Defines a frame. rbx, r12 and r13 survive the call and the landing pad; the stack is aligned at both. The landing pad has the exception
/// in rax. It continues at label 2, like the call, or does not return.
macro_rules! frame {
    ($name:literal, $landing:literal, $personality:ident, [$($call:literal),*], [$($landed:literal),*], $function:ident) => {
        global_asm!(
            concat!(".pushsection .text.", $name, ",\"ax\",@progbits"),
            ".p2align 4",
            concat!(".type ", $name, ",@function"),
            concat!(".hidden ", $name),
            concat!(".globl ", $name),
            concat!($name, ":"),
            ".cfi_startproc",
            ".cfi_personality 0x1b, {personality}",
            "push rbx",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset rbx, 0",
            "push r12",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset r12, 0",
            "push r13",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset r13, 0",
            $($call,)*
            "2:",
            "pop r13",
            ".cfi_adjust_cfa_offset -8",
            ".cfi_restore r13",
            "pop r12",
            ".cfi_adjust_cfa_offset -8",
            ".cfi_restore r12",
            "pop rbx",
            ".cfi_adjust_cfa_offset -8",
            ".cfi_restore rbx",
            "ret",
            ".cfi_def_cfa_offset 32",
            ".cfi_offset rbx, -16",
            ".cfi_offset r12, -24",
            ".cfi_offset r13, -32",
            concat!(".hidden ", $landing),
            concat!(".globl ", $landing),
            concat!($landing, ":"),
            $($landed,)*
            ".cfi_endproc",
            concat!(".size ", $name, ", . - ", $name),
            ".popsection",
            personality = sym $personality,
            function = sym $function,
        );
    };
}

// (function, arguments, library): returns whether the function returned normally; its result replaces the first argument.
frame!(
    "ttmon_hook_catching",
    "ttmon_hook_catch_landing",
    catch_personality,
    [
        "mov rbx, rdx",
        "mov r12, rsi",
        "mov rax, rdi",
        "mov rdi, [r12]",
        "mov rsi, [r12 + 8]",
        "mov rdx, [r12 + 16]",
        "call rax",
        "mov [r12], rax",
        "mov eax, 1"
    ],
    ["mov rdi, rax", "mov rsi, rbx", "call {function}", "xor eax, eax", "jmp 2b"],
    swallow
);

// (function, this, argument, passing): returns the function's result.
frame!(
    "ttmon_hook_watching",
    "ttmon_hook_watch_landing",
    watch_personality,
    ["mov rbx, rcx", "mov rax, rdi", "mov rdi, rsi", "mov rsi, rdx", "call rax"],
    ["mov r12, rax", "mov rdi, rbx", "mov rsi, rax", "call {function}", "mov rdi, r12", "call _Unwind_Resume@PLT", "ud2"],
    exception_passes
);

unsafe extern "C-unwind" {
    fn ttmon_hook_catching(function: usize, arguments: *mut [u64; 3], library: *const c_void) -> u64;
    fn ttmon_hook_watching(function: usize, this: usize, argument: usize, passing: *const c_void) -> u64;
}

unsafe extern "C" {
    static ttmon_hook_catch_landing: u8;
    static ttmon_hook_watch_landing: u8;
    fn _Unwind_SetGR(context: *mut c_void, register: c_int, value: usize);
    fn _Unwind_SetIP(context: *mut c_void, address: usize);
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// Calls a function of TT-Metal; `None` if it throws. The exception ends here.
///
/// # Safety
/// `function` belongs to `library`, takes at most three words, `arguments`, and returns one.
pub(crate) unsafe fn catching(library: &Library, function: usize, arguments: [u64; 3]) -> Option<u64> {
    let mut words = arguments;
    // SAFETY: the caller guarantees this; `words` outlives the call, and its first element is the result.
    let has_returned = unsafe { ttmon_hook_catching(function, &raw mut words, (&raw const *library).cast()) };
    let [result, ..] = words;
    (has_returned != 0).then_some(result)
}

/// A call of the program that an exception may pass, and what to do then.
pub(crate) struct PassingCall {
    pub(crate) library: &'static Library,
    pub(crate) on_exception: fn(&PassingCall, message: &[u8]),
    pub(crate) this: usize,
    pub(crate) argument: usize,
    /// For a free: whether the ledger had the buffer.
    pub(crate) was_removed: bool,
}

/// Makes the program's own call. An exception passes on to the program, and `passing.on_exception` is called on the way.
///
/// # Safety
/// `function` belongs to the call's library and takes (this, argument).
#[inline(always)]
pub(crate) unsafe fn watching(function: usize, passing: &PassingCall) -> u64 {
    // SAFETY: the caller guarantees this; `passing` lives until the call returns or the exception has passed this frame.
    unsafe { ttmon_hook_watching(function, passing.this, passing.argument, (&raw const *passing).cast()) }
}

const SEARCH: c_int = 1;
const HANDLER: c_int = 4;
const FORCED: c_int = 8;
const FOUND: c_int = 6;
const INSTALL: c_int = 7;
const CONTINUE: c_int = 8;
/// The register for the exception at a landing pad, in DWARF numbering.
const RAX: c_int = 0;

/// The personality of `catching`. Catches every exception, but not the forced unwinding of a thread.
unsafe extern "C" fn catch_personality(
    _version: c_int,
    actions: c_int,
    _class: u64,
    exception: *mut c_void,
    context: *mut c_void,
) -> c_int {
    if actions & FORCED != 0 {
        return CONTINUE;
    }
    if actions & SEARCH != 0 {
        return FOUND;
    }
    if actions & HANDLER == 0 {
        return CONTINUE;
    }
    // SAFETY: the unwinder passed the context and expects this call.
    unsafe { land(exception, context, &raw const ttmon_hook_catch_landing) }
}

/// The personality of `watching`. Handles no exception, but runs the landing pad as cleanup.
unsafe extern "C" fn watch_personality(
    _version: c_int,
    actions: c_int,
    _class: u64,
    exception: *mut c_void,
    context: *mut c_void,
) -> c_int {
    let landing = &raw const ttmon_hook_watch_landing;
    // After the landing pad the exception continues, and the unwinder calls this function again for the same frame.
    // SAFETY: the unwinder passed the context.
    if actions & (SEARCH | FORCED) != 0 || unsafe { _Unwind_GetIP(context) } > landing as usize {
        return CONTINUE;
    }
    // SAFETY: as in `catch_personality`.
    unsafe { land(exception, context, landing) }
}

unsafe fn land(exception: *mut c_void, context: *mut c_void, at: *const u8) -> c_int {
    // SAFETY: the unwinder's own functions, on the context that it passed.
    unsafe {
        _Unwind_SetGR(context, RAX, exception as usize);
        _Unwind_SetIP(context, at as usize);
    }
    INSTALL
}

/// Ends an exception like C++'s `catch (...) {}`, so that the C++ runtime counts it as caught.
unsafe extern "C" fn swallow(exception: *mut c_void, library: *const Library) {
    // SAFETY: `catching` passed a reference that is still valid.
    let library = unsafe { &*library };
    let (begin, end) = (library.address(Symbol::BeginCatch), library.address(Symbol::EndCatch));
    if begin == 0 || end == 0 {
        // The exception leaks, and the C++ runtime counts one uncaught exception too many.
        return;
    }
    // SAFETY: the functions of the C++ runtime by their own names, in the order of its ABI.
    unsafe {
        let begin: unsafe extern "C" fn(*mut c_void) -> *mut c_void = std::mem::transmute(begin);
        let end: unsafe extern "C" fn() = std::mem::transmute(end);
        begin(exception);
        end();
    }
}

unsafe extern "C" fn exception_passes(passing: *const PassingCall, exception: *const u8) {
    // SAFETY: `watching` passed a reference, and its frame still exists.
    let passing = unsafe { &*passing };
    // SAFETY: the unwinder passed the exception, which lives until it is caught.
    let message = unsafe { message_of(passing.library, exception) };
    (passing.on_exception)(passing, message);
}

const CPP_CLASS: u64 = u64::from_be_bytes(*b"GNUCC++\0");
/// By the Itanium C++ ABI: the offset of the type before the unwinder's header, and the length of the header, which the thrown object
/// follows.
const TYPE_BEFORE: usize = 80;
const HEADER_BYTES: usize = 32;
const MESSAGE_BYTES_MAX: usize = 4096;

/// The name of a type. C++ compares types by name, because a program may have several copies of a type.
const RUNTIME_ERROR: &CStr = c"St13runtime_error";

/// Returns the text of a `std::runtime_error`, which TT-Metal throws; empty for any other exception.
unsafe fn message_of<'a>(library: &Library, exception: *const u8) -> &'a [u8] {
    let what = library.address(Symbol::RuntimeErrorWhat);
    // SAFETY: an exception starts with its class. For this class a type precedes it, and an object follows. The second word of the type is
    // the address of its name. For a runtime error `what` is a member function, which does not throw.
    unsafe {
        if what == 0 || exception.cast::<u64>().read() != CPP_CLASS {
            return &[];
        }
        let kind = exception.sub(TYPE_BEFORE).cast::<*const *const c_char>().read();
        if kind.is_null() || libc::strcmp(kind.add(1).read(), RUNTIME_ERROR.as_ptr()) != 0 {
            return &[];
        }
        let what: unsafe extern "C" fn(*const u8) -> *const c_char = std::mem::transmute(what);
        let text = what(exception.add(HEADER_BYTES));
        if text.is_null() {
            return &[];
        }
        std::slice::from_raw_parts(text.cast::<u8>(), libc::strnlen(text, MESSAGE_BYTES_MAX))
    }
}
