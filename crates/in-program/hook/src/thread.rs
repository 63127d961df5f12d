//! The state of the current thread. The cells have no destructors, because static destructors of the program may still call the hook.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use ttmon_ledger::layout::flag;

use crate::fast_path::{self, HOT};

const HYBRID: &CStr = c"TT_METAL_ALLOCATOR_MODE_HYBRID";

thread_local! {
    /// Nesting depth in `MeshWorkloadImpl::load_binaries`. Buffers allocated there belong to the program cache.
    static LOADING: Cell<u32> = const { Cell::new(0) };
}

/// Whether TT-Metal's allocators run in hybrid mode, by its environment variable. Updated when a device opens.
#[inline]
pub(crate) fn is_hybrid() -> bool {
    fast_path::is_set(HYBRID, &HOT.hybrid)
}

/// Reads the variable again.
pub(crate) fn update_hybrid() {
    fast_path::update(HYBRID, &HOT.hybrid);
}

/// The flags of buffers that this thread allocates now.
#[inline]
pub(crate) fn flags() -> u16 {
    // The thread-local cell is read only while some thread loads binaries. Relaxed: a thread sees its own increment.
    if HOT.loaders.load(Relaxed) > 0 { flags_of_thread() } else { 0 }
}

/// A separate function, because accessing the cell is a call that the compiler would otherwise always make.
#[cold]
fn flags_of_thread() -> u16 {
    if LOADING.get() > 0 { flag::CACHE } else { 0 }
}

/// Marks this thread as loading binaries of cached programs, until dropped. An exception drops it, too.
pub(crate) struct Loading(());

impl Loading {
    pub(crate) fn begin() -> Self {
        LOADING.set(LOADING.get().saturating_add(1));
        HOT.loaders.fetch_add(1, Relaxed);
        Self(())
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        LOADING.set(LOADING.get().saturating_sub(1));
        HOT.loaders.fetch_sub(1, Relaxed);
    }
}
