//! What is preloaded into programs of TT-Metal: it stands in for the functions through which all device memory goes, calls the
//! real ones, and writes what happened into the process's ledger. docs/hook.md says what is stood in for and what each gives.
//!
//! It runs inside another program: it prints nothing, starts no thread, and lets C++ exceptions pass. A function that is
//! missing, or an object that is not laid out as known, turns off what needs it and nothing else. Without `TTMON_TRACKING=1` or
//! `TT_ALLOC_TRACKING_ENABLED=1` every call goes straight to the real function.
//!
//! The library contains the client too and exports its functions: a process has one ledger and one writer.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod allocator;
mod buffer;
mod calls;
mod caught;
mod check;
mod cost;
mod coverage;
mod device;
mod edge;
mod fast_path;
mod geometry;
mod identity;
mod library;
mod memory;
mod message;
mod native;
mod object;
mod opening;
mod operation;
mod program;
mod refusal;
mod regions;
mod stack;
mod symbols;
mod tables;
mod thread;
mod trace;

pub use allocator::*;
pub use opening::*;
pub use program::*;
pub use trace::*;

// So that the linker keeps the client's functions.
pub use ttmon_client::*;

/// Runs when the library is loaded, and does nothing else: reports that come before the first hooked call start the ledger.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = {
    extern "C" fn loaded() {
        hooked::be_the_writer();
    }
    loaded
};

/// For measurements alone (`cargo xtask bench hook`): recording off, and on again. What happens in between is not in the ledger.
#[unsafe(no_mangle)]
pub extern "C" fn ttmon_hook_record(is_on: i32) {
    hooked::set_recording(is_on != 0);
}
