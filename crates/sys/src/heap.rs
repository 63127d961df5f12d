/// Gives freed pages back to the system. glibc keeps those between pieces in use; other allocators give them back by themselves.
pub fn release_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no conditions; other threads may allocate meanwhile.
    unsafe {
        libc::malloc_trim(0);
    }
}
