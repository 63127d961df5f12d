//! Traces: commands that a mesh records once and replays at the same addresses. A trace may overwrite a buffer that was allocated after the
//! capture.

use ttmon_ledger::writer::TraceStep;

use crate::coverage::{Feature, hit};
use crate::errno::{guarded, is_off};
use crate::library::{Library, with_caller};
use crate::symbols::Symbol;
use crate::tables;

with_caller! {
    /// `void MeshDeviceImpl::begin_mesh_trace(uint8_t, const MeshTraceId&)`: the capture begins.
    begin_mesh_trace,
    "_ZN2tt8tt_metal11distributed14MeshDeviceImpl16begin_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE", "r9", begin_from
}
with_caller! {
    /// `void MeshDeviceImpl::end_mesh_trace(uint8_t, const MeshTraceId&)`: the capture ends, and its commands go to the chips.
    end_mesh_trace,
    "_ZN2tt8tt_metal11distributed14MeshDeviceImpl14end_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE", "r9", end_from
}
with_caller! {
    /// `void MeshDeviceImpl::replay_mesh_trace(uint8_t, const MeshTraceId&, bool)`
    replay_mesh_trace,
    "_ZN2tt8tt_metal11distributed14MeshDeviceImpl17replay_mesh_traceEhRKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEEb", "r9", replay_from
}
with_caller! {
    /// `void MeshDeviceImpl::release_mesh_trace(const MeshTraceId&)`
    release_mesh_trace,
    "_ZN2tt8tt_metal11distributed14MeshDeviceImpl18release_mesh_traceERKN4ttsl10StrongTypeIjNS1_14MeshTraceIdTagEEE", "r9", release_from
}

/// The longest signature of the real functions, which have two to four arguments.
type Real = unsafe extern "C-unwind" fn(usize, usize, usize, usize);

fn real(caller: usize, symbol: Symbol) -> Real {
    let address = Library::of(caller).real(symbol);
    // SAFETY: the function with this name. It takes at most four integer arguments in registers and returns nothing. A function with fewer
    // arguments ignores the others.
    unsafe { std::mem::transmute::<usize, Real>(address) }
}

unsafe extern "C-unwind" fn begin_from(this: usize, queue: usize, id: *const u32, more: usize, _: usize, caller: usize) {
    // SAFETY: the real function receives the same arguments; `id` is valid by TT-Metal's signature.
    unsafe {
        note(this, TraceStep::Begin, id);
        real(caller, Symbol::BeginTrace)(this, queue, id as usize, more);
    }
}

unsafe extern "C-unwind" fn end_from(this: usize, queue: usize, id: *const u32, more: usize, _: usize, caller: usize) {
    // SAFETY: as in `begin_from`. Recorded afterwards, because the real function allocates the trace's own memory.
    unsafe {
        real(caller, Symbol::EndTrace)(this, queue, id as usize, more);
        note(this, TraceStep::End, id);
    }
}

unsafe extern "C-unwind" fn replay_from(this: usize, queue: usize, id: *const u32, is_blocking: usize, _: usize, caller: usize) {
    // SAFETY: as in `begin_from`.
    unsafe {
        note(this, TraceStep::Replay, id);
        real(caller, Symbol::ReplayTrace)(this, queue, id as usize, is_blocking);
    }
}

unsafe extern "C-unwind" fn release_from(this: usize, id: *const u32, more: usize, other: usize, _: usize, caller: usize) {
    // SAFETY: as in `begin_from`.
    unsafe {
        note(this, TraceStep::Release, id);
        real(caller, Symbol::ReleaseTrace)(this, id as usize, more, other);
    }
}

/// # Safety
/// `id` points to the number of a trace.
unsafe fn note(this: usize, step: TraceStep, id: *const u32) {
    if is_off() {
        return;
    }
    // SAFETY: the caller guarantees this.
    let id = u64::from(unsafe { id.read() });
    hit(Feature::Traces);
    guarded(|| {
        tables::with(|session, tables| {
            if let Some(allocator) = tables.of_mesh(this).map(|known| known.id) {
                session.trace(allocator, step, id);
            }
        })
    });
}
