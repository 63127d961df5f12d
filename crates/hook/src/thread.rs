//! What this thread is in the middle of. Cells without destructors: static destructors of the program may still come here.

use std::cell::Cell;

thread_local! {
    /// How deep in `MeshWorkloadImpl::load_binaries`: what is allocated there belongs to the program cache.
    static LOADING: Cell<u32> = const { Cell::new(0) };
}

/// An entry's flag: it is owned by the program cache.
const FLAG_CACHE: u16 = 1;

/// The flags of what this thread allocates now.
#[inline]
pub(crate) fn flags() -> u16 {
    if LOADING.get() > 0 { FLAG_CACHE } else { 0 }
}

/// While it lives, this thread loads binaries of cached programs. An exception drops it too.
pub(crate) struct Loading(());

impl Loading {
    pub(crate) fn begin() -> Self {
        LOADING.set(LOADING.get().saturating_add(1));
        Self(())
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        LOADING.set(LOADING.get().saturating_sub(1));
    }
}
