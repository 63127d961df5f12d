//! Device opening. An open device without buffers is reported as 0 bytes, and each chip gets its unique id.

use std::ffi::c_void;

use crate::allocator::describe;
use crate::coverage::{Feature, hit};
use crate::errno::{guarded, is_off};
use crate::exceptions::catching;
use crate::library::{self, Library, with_caller};
use crate::symbols::Symbol;
use crate::thread::Loading;
use crate::{identity, memory, tables, thread};

/// `std::span<const uint32_t>`, passed by value.
#[repr(C)]
struct Span {
    start: *const c_void,
    length: usize,
}

/// `bool MeshDeviceImpl::initialize_impl(MeshDevice*, ...)`: called for every mesh and submesh that is opened.
#[allow(clippy::too_many_arguments, reason = "TT-Metal's own signature")]
#[unsafe(export_name = "_ZN2tt8tt_metal11distributed14MeshDeviceImpl15initialize_impl\
                        EPNS1_10MeshDeviceEhmmmSt4spanIKjLm18446744073709551615EEb")]
unsafe extern "C-unwind" fn initialize_impl(
    this: usize,
    mesh: usize,
    queues: u8,
    l1_small: u64,
    trace: u64,
    worker_l1: u64,
    banks: Span,
    is_minimal: bool,
) -> bool {
    type Real = unsafe extern "C-unwind" fn(usize, usize, u8, u64, u64, u64, Span, bool) -> bool;
    if !is_off() {
        guarded(|| {
            library::forget_unloaded();
            thread::update_hybrid();
        });
    }
    // SAFETY: a mesh has virtual functions; the real function receives the same arguments.
    unsafe {
        let library = Library::of_object(mesh);
        let real: Real = std::mem::transmute(library.real(Symbol::OpenMesh));
        let is_open = real(this, mesh, queues, l1_small, trace, worker_l1, banks, is_minimal);
        if is_open && !is_off() {
            hit(Feature::DeviceOpen);
            guarded(|| opened(library, mesh, Some(this)));
        }
        is_open
    }
}

/// Records an open mesh. `inner` is its `MeshDeviceImpl`, if known.
pub(crate) fn opened(library: &'static Library, mesh: usize, inner: Option<usize>) {
    // SAFETY: the mesh was just opened.
    let allocator = unsafe { allocator_of(library, mesh) };
    if let Some(allocator) = allocator {
        // SAFETY: the mesh is open, and the allocator belongs to it.
        let description = unsafe { describe(library, allocator, mesh) };
        tables::with(|session, tables| {
            // While a mesh is open, TT-Metal has already chosen its chips. Variables set then are meant for child processes.
            if tables.are_empty() {
                session.reread_environment();
            }
            tables.open(session, &description);
            if let Some(inner) = inner {
                tables.note_mesh(inner, allocator);
            }
        });
    }
}

/// Returns the allocator of a mesh. The function returns a reference to the owning pointer. An allocator starts with the address of a
/// virtual function table in its library, which identifies it.
unsafe fn allocator_of(library: &Library, mesh: usize) -> Option<usize> {
    // SAFETY: the mesh belongs to `library` and has virtual functions.
    let table = unsafe { (mesh as *const usize).read() };
    if !library.has_symbol(Symbol::MeshAllocator) || !library.is_table(table, Symbol::MeshTable) {
        return None;
    }
    // SAFETY: a member function without arguments.
    let owner = unsafe { catching(library, library.address(Symbol::MeshAllocator), [mesh as u64, 0, 0])? };
    // The function returns the address of a pointer.
    let [owned] = memory::words(usize::try_from(owner).ok()?)?;
    let [table] = memory::words(owned)?;
    (!library.has(owned) && library.has(table)).then_some(owned)
}

with_caller! {
    /// `SharedMemoryStatsProvider::SharedMemoryStatsProvider(uint64_t unique id, int device id, bool, bool)`: called once per chip.
    stats_provider, "_ZN2tt8tt_metal25SharedMemoryStatsProviderC1Emibb", "r9", stats_provider_from
}

unsafe extern "C-unwind" fn stats_provider_from(this: usize, unique_id: u64, metal_id: i32, is_verbose: bool, more: bool, caller: usize) {
    type Real = unsafe extern "C-unwind" fn(usize, u64, i32, bool, bool);
    let library = Library::of(caller);
    // SAFETY: the real function receives the same arguments.
    unsafe {
        let real: Real = std::mem::transmute(library.real(Symbol::StatsProvider));
        real(this, unique_id, metal_id, is_verbose, more);
    }
    if !is_off() {
        hit(Feature::UniqueIds);
        guarded(|| identity::opened(metal_id, unique_id));
    }
}

/// `void MeshWorkloadImpl::load_binaries(MeshCommandQueue&)`: copies kernels of cached programs to DRAM.
#[unsafe(export_name = "_ZN2tt8tt_metal11distributed16MeshWorkloadImpl13load_binariesERNS1_16MeshCommandQueueE")]
unsafe extern "C-unwind" fn load_binaries(this: usize, queue: usize) {
    // SAFETY: a command queue has virtual functions; the real function receives the same arguments.
    unsafe {
        let library = Library::of_object(queue);
        let real: unsafe extern "C-unwind" fn(usize, usize) = std::mem::transmute(library.real(Symbol::LoadBinaries));
        if is_off() {
            return real(this, queue);
        }
        hit(Feature::ProgramCache);
        let _loading = Loading::begin();
        real(this, queue);
    }
}
