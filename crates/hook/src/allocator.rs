//! The functions of `AllocatorImpl`, through which all device memory goes.
//!
//! Recorded is an allocation after the real one returned and a free before the real one: else another thread may be given the
//! address first. An allocation that throws is noted on the exception's way to the program, which gets it as it is.

use ttmon_ledger::layout::{Lost, Refused};
use ttmon_ledger::writer::{Failure, Key};

use crate::buffer::{self, Facts};
use crate::caught::{Witness, watched};
use crate::device::Device;
use crate::edge::{is_off, quietly};
use crate::geometry::Asked;
use crate::library::Library;
use crate::symbols::Symbol;
use crate::tables::{self, Description};
use crate::{identity, thread};

/// `uint64_t AllocatorImpl::allocate_buffer(Buffer*)`: the address; throws when there is no room.
///
/// # Safety
/// Called by TT-Metal.
#[unsafe(export_name = "_ZN2tt8tt_metal13AllocatorImpl15allocate_bufferEPNS0_6BufferE")]
pub unsafe extern "C-unwind" fn allocate_buffer(this: usize, buffer: usize) -> u64 {
    // SAFETY: an allocator has virtual functions; the real function gets what we got.
    unsafe {
        let library = Library::of_object(this);
        let real = library.real(Symbol::Allocate);
        if is_off() {
            let real: unsafe extern "C-unwind" fn(usize, usize) -> u64 = std::mem::transmute(real);
            return real(this, buffer);
        }
        let witness = Witness { library, tell: refused, this, argument: buffer, more: 0 };
        let address = watched(real, &witness);
        if let Some(facts) = buffer::facts(library, library.way(), buffer) {
            quietly(|| allocated(library, this, &facts, address));
        }
        address
    }
}

/// `void AllocatorImpl::deallocate_buffer(Buffer*)`.
///
/// # Safety
/// Called by TT-Metal.
#[unsafe(export_name = "_ZN2tt8tt_metal13AllocatorImpl17deallocate_bufferEPNS0_6BufferE")]
pub unsafe extern "C-unwind" fn deallocate_buffer(this: usize, buffer: usize) {
    // SAFETY: as in `allocate_buffer`.
    unsafe {
        let library = Library::of_object(this);
        let real = library.real(Symbol::Deallocate);
        if is_off() {
            let real: unsafe extern "C-unwind" fn(usize, usize) = std::mem::transmute(real);
            return real(this, buffer);
        }
        if let Some((kind, address)) = buffer::place(library, library.way(), buffer) {
            quietly(|| freed(this, kind, address));
        }
        let witness = Witness { library, tell: not_freed, this, argument: buffer, more: 0 };
        watched(real, &witness);
    }
}

/// `void AllocatorImpl::deallocate_buffers()`: everything at once, which is what closing a device does.
///
/// # Safety
/// Called by TT-Metal.
#[unsafe(export_name = "_ZN2tt8tt_metal13AllocatorImpl18deallocate_buffersEv")]
pub unsafe extern "C-unwind" fn deallocate_buffers(this: usize) {
    // SAFETY: as in `allocate_buffer`.
    unsafe { before(Symbol::DeallocateAll, this, freed_all) }
}

/// `void AllocatorImpl::clear()`.
///
/// # Safety
/// Called by TT-Metal.
#[unsafe(export_name = "_ZN2tt8tt_metal13AllocatorImpl5clearEv")]
pub unsafe extern "C-unwind" fn clear(this: usize) {
    // SAFETY: as in `allocate_buffer`.
    unsafe { before(Symbol::Clear, this, freed_all) }
}

/// The complete object's destructor.
///
/// # Safety
/// Called by TT-Metal.
#[unsafe(export_name = "_ZN2tt8tt_metal13AllocatorImplD1Ev")]
pub unsafe extern "C-unwind" fn destroyed(this: usize) {
    // SAFETY: as in `allocate_buffer`.
    unsafe { before(Symbol::AllocatorD1, this, gone) }
}

/// The base object's destructor.
///
/// # Safety
/// Called by TT-Metal.
#[unsafe(export_name = "_ZN2tt8tt_metal13AllocatorImplD2Ev")]
pub unsafe extern "C-unwind" fn base_destroyed(this: usize) {
    // SAFETY: as in `allocate_buffer`.
    unsafe { before(Symbol::AllocatorD2, this, gone) }
}

/// A function without arguments or result, of which we take note first.
#[inline(always)]
unsafe fn before(symbol: Symbol, this: usize, note: fn(usize)) {
    // SAFETY: an allocator has virtual functions, in its destructor too; the real function gets what we got.
    unsafe {
        let library = Library::of_object(this);
        let real: unsafe extern "C-unwind" fn(usize) = std::mem::transmute(library.real(symbol));
        if !is_off() {
            quietly(|| note(this));
        }
        real(this);
    }
}

fn allocated(library: &'static Library, this: usize, facts: &Facts, address: u64) {
    let (flags, operation) = (thread::flags(), 0);
    let is_known = tables::with(|session, tables| {
        tables.find(this).is_some_and(|known| {
            known.insert(session, facts, address, flags, operation);
            true
        })
    });
    if is_known != Some(false) {
        return;
    }
    // SAFETY: the buffer was just allocated in it, on that device.
    let description = unsafe { describe(library, this, facts.device) };
    tables::with(|session, tables| {
        if let Some(known) = tables.open(session, &description) {
            known.insert(session, facts, address, flags, operation);
        }
    });
}

/// What TT-Metal itself says of an allocator. Without the ledger's lock: these are calls into somebody else's code.
///
/// # Safety
/// Both point at live objects of `library`; the device may be null.
pub(crate) unsafe fn describe(library: &'static Library, pointer: usize, device: usize) -> Description {
    // SAFETY: what the caller promises; no wrapper runs under the allocator's lock.
    let (chips, geometry) = unsafe { (Device::describe(library, device), Asked::new(library, pointer).geometry()) };
    identity::look_for(chips.chips());
    Description { pointer, device, library, geometry, chips }
}

fn freed(this: usize, kind: u8, address: u64) {
    tables::with(|session, tables| {
        // Of an allocator that was never seen there is nothing to free: a child after fork, or tracking that came late.
        let Some(known) = tables.find(this) else { return };
        if session.remove(Key { allocator: known.id, kind, address }).is_none() {
            session.lose(Lost::UnknownFree);
        }
    });
}

fn freed_all(this: usize) {
    tables::with(|session, tables| {
        if let Some(known) = tables.find(this) {
            session.free_all(known.id);
        }
    });
}

fn gone(this: usize) {
    tables::with(|session, tables| tables.close(session, this));
}

/// The allocation threw: what it asked for. The allocator's own frames are unwound, and its lock is free.
fn refused(witness: &Witness<'_>, _message: &[u8]) {
    let Witness { library, this, argument, .. } = *witness;
    // SAFETY: the buffer is the caller's and lives; the allocator has asked it the same before it threw.
    let Some(facts) = (unsafe { buffer::facts(library, library.way(), argument) }) else { return };
    quietly(|| {
        tables::with(|session, tables| {
            if let Some(known) = tables.find(this) {
                session.failed(&Failure {
                    what: Refused::OutOfMemory,
                    allocator: known.id,
                    kind: facts.kind,
                    size: facts.size,
                    per_bank: u64::from(known.block(facts.per_bank)),
                    banks: 0,
                    free_per_bank: 0,
                    largest_free_per_bank: 0,
                    tag: 0,
                    operation: 0,
                    message: "",
                });
            }
        });
    });
}

/// The free threw: what was taken out is still there.
fn not_freed(witness: &Witness<'_>, _message: &[u8]) {
    let Witness { library, this, argument, .. } = *witness;
    // SAFETY: as in `refused`.
    let (facts, place) = unsafe { (buffer::facts(library, library.way(), argument), buffer::place(library, library.way(), argument)) };
    if let (Some(facts), Some((_, address))) = (facts, place) {
        quietly(|| {
            tables::with(|session, tables| {
                if let Some(known) = tables.find(this) {
                    known.insert(session, &facts, address, 0, 0);
                }
            });
        });
    }
}
