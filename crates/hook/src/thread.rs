//! What this thread is in the middle of. Cells without destructors: static destructors of the program may still come here.

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use ttmon_ledger::layout::flag;

use crate::fast_path::{self, HOT};

const HYBRID: &CStr = c"TT_METAL_ALLOCATOR_MODE_HYBRID";

thread_local! {
    /// How deep in `MeshWorkloadImpl::load_binaries`: what is allocated there belongs to the program cache.
    static LOADING: Cell<u32> = const { Cell::new(0) };
}

/// Whether TT-Metal's allocators work in their hybrid mode, by its own variable. Known anew when a device opens.
#[inline]
pub(crate) fn is_hybrid() -> bool {
    fast_path::is_set(HYBRID, &HOT.hybrid)
}

/// Reads the variable.
pub(crate) fn look_for_hybrid() {
    fast_path::update(HYBRID, &HOT.hybrid);
}

/// The flags of what this thread allocates now.
#[inline]
pub(crate) fn flags() -> u16 {
    // While nobody loads binaries, nobody has to look up the thread's own cell. Relaxed: a thread sees its own count.
    if HOT.loaders.load(Relaxed) > 0 { flags_of_thread() } else { 0 }
}

/// Apart, since finding the cell is a call that would be made in any case.
#[cold]
fn flags_of_thread() -> u16 {
    if LOADING.get() > 0 { flag::CACHE } else { 0 }
}

/// While it lives, this thread loads binaries of cached programs. An exception drops it too.
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
