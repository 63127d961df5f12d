//! What this thread is in the middle of. Cells without destructors: static destructors of the program may still come here.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use ttmon_ledger::layout::flag;

thread_local! {
    /// How deep in `MeshWorkloadImpl::load_binaries`: what is allocated there belongs to the program cache.
    static LOADING: Cell<u32> = const { Cell::new(0) };
}

const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;
static HYBRID: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether TT-Metal's allocators work in their hybrid mode, by its own variable. Known anew when a device opens.
#[inline]
pub(crate) fn is_hybrid() -> bool {
    match HYBRID.load(Relaxed) {
        NO => false,
        YES => true,
        _ => look_for_hybrid(),
    }
}

/// Reads the variable.
pub(crate) fn look_for_hybrid() -> bool {
    // SAFETY: a text that ends with NUL; the first byte of a value is always there.
    let is_hybrid = unsafe {
        let value = libc::getenv(c"TT_METAL_ALLOCATOR_MODE_HYBRID".as_ptr());
        !value.is_null() && value.cast::<u8>().read() == b'1'
    };
    HYBRID.store(if is_hybrid { YES } else { NO }, Relaxed);
    is_hybrid
}

/// How many threads load binaries: while it is none, nobody has to look up the thread's own cell.
static LOADERS: AtomicU32 = AtomicU32::new(0);

/// The flags of what this thread allocates now.
#[inline]
pub(crate) fn flags() -> u16 {
    // Relaxed: a thread sees its own count.
    if LOADERS.load(Relaxed) > 0 && LOADING.get() > 0 { flag::CACHE } else { 0 }
}

/// While it lives, this thread loads binaries of cached programs. An exception drops it too.
pub(crate) struct Loading(());

impl Loading {
    pub(crate) fn begin() -> Self {
        LOADING.set(LOADING.get().saturating_add(1));
        LOADERS.fetch_add(1, Relaxed);
        Self(())
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        LOADING.set(LOADING.get().saturating_sub(1));
        LOADERS.fetch_sub(1, Relaxed);
    }
}
