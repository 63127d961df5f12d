//! Memory that the allocator keeps.
#![allow(unsafe_code, reason = "no crate offers these calls as safe functions")]

/// Returns freed pages to the system. glibc keeps free pages between allocations, and mimalloc keeps all free pages for a second.
pub fn release_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no preconditions; other threads may allocate meanwhile.
    unsafe {
        libc::malloc_trim(0);
    }
    #[cfg(target_env = "musl")]
    // SAFETY: no preconditions; other threads may allocate meanwhile. The program's allocator is mimalloc.
    unsafe {
        libmimalloc_sys::mi_collect(true);
    }
}
