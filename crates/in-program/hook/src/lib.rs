//! The library that is preloaded into TT-Metal programs. It replaces the functions that manage device memory, calls the original functions,
//! and records each call in the process's ledger. docs/hook.md lists the replaced functions and the data from each. TT-Metal and ttnn
//! call the exported functions, which need not be public for that.
//!
//! The library runs inside another program. It prints nothing, starts no thread, and lets C++ exceptions pass. If a function is missing, or
//! an object has an unknown layout, only the features that need it are turned off. Without `TTMON_TRACKING=1` or
//! `TT_ALLOC_TRACKING_ENABLED=1` every call goes directly to the original function.
//!
//! The library includes the client and exports its functions, so that a process has one ledger and one writer.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod allocator;
mod buffer;
mod calls;
mod check;
mod cost;
mod coverage;
mod device;
mod errno;
mod exceptions;
mod fast_path;
mod geometry;
mod identity;
mod library;
mod memory;
mod native;
mod object;
mod opening;
mod operation;
mod program;
mod refusal;
mod stack;
mod symbols;
mod tables;
mod thread;
mod trace;

// Makes the linker keep the client's functions.
pub use ttmon_client::*;

/// Runs when the library is loaded. Reports before the first hooked call start the ledger.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = {
    extern "C" fn loaded() {
        hooked::be_the_writer();
    }
    loaded
};

/// Turns recording off and on, for measurements only (`cargo xtask bench hook`). Events in between are not in the ledger.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_hook_record(is_on: i32) {
    hooked::set_recording(is_on != 0);
}
