//! The functions of `AllocatorImpl`, which manage all device memory.
//!
//! An allocation is recorded after the real function, and a free before it. Otherwise another thread could get the address first. An
//! allocation that throws is recorded while the exception passes to the program, which receives it unchanged.

use ttmon_client::hooked;
use ttmon_ledger::layout::{Lost, Refused, flag};
use ttmon_ledger::writer::{Key, SelfCheck, Session};

use crate::buffer::{self, BufferFacts};
use crate::calls::Call;
use crate::check::{self, Checking};
use crate::coverage::{Feature, hit};
use crate::device::Device;
use crate::errno::{catching_panics, guarded, is_off};
use crate::exceptions::{PassingCall, watching};
use crate::geometry::{AllocatorQuery, BANKED};
use crate::library::Library;
use crate::operation;
use crate::refusal::RefusedRequest;
use crate::stack::{self, Requester};
use crate::symbols::Symbol;
use crate::tables::{self, Allocator, Description};
use crate::{cost, identity, thread};

/// `uint64_t AllocatorImpl::allocate_buffer(Buffer*)`: returns the address; throws if there is no room.
#[unsafe(export_name = "_ZN2tt8tt_metal13AllocatorImpl15allocate_bufferEPNS0_6BufferE")]
unsafe extern "C-unwind" fn allocate_buffer(this: usize, buffer: usize) -> u64 {
    // SAFETY: the real function receives the same arguments.
    unsafe {
        let library = Library::of_object(this);
        let real = library.real(Symbol::Allocate);
        if is_off() {
            let real: unsafe extern "C-unwind" fn(usize, usize) -> u64 = std::mem::transmute(real);
            return real(this, buffer);
        }
        let begun = cost::begin();
        let call = Call::begin();
        let passing = PassingCall { library, on_exception: refused, this, argument: buffer, was_removed: false };
        let spent = cost::pause(begun);
        let address = watching(real, &passing);
        let begun = cost::resume(spent);
        hooked::expect();
        if let Some(facts) = &buffer::facts(library, buffer) {
            let flags = thread::flags() | per_core_flag(library, buffer);
            catching_panics(|| allocated(&call, library, this, buffer, facts, address, flags));
        } else {
            guarded(|| unreadable(library));
        }
        cost::end(begun, 2);
        address
    }
}

/// `void AllocatorImpl::deallocate_buffer(Buffer*)`.
#[unsafe(export_name = "_ZN2tt8tt_metal13AllocatorImpl17deallocate_bufferEPNS0_6BufferE")]
unsafe extern "C-unwind" fn deallocate_buffer(this: usize, buffer: usize) {
    // SAFETY: as in `allocate_buffer`.
    unsafe {
        let library = Library::of_object(this);
        let real = library.real(Symbol::Deallocate);
        if is_off() {
            let real: unsafe extern "C-unwind" fn(usize, usize) = std::mem::transmute(real);
            return real(this, buffer);
        }
        let begun = cost::begin();
        let _call = Call::begin();
        hooked::expect();
        let place = buffer::place(library, buffer);
        let was_removed = place.is_some_and(|(kind, address)| catching_panics(|| freed(this, kind, address)) == Some(true));
        let passing = PassingCall { library, on_exception: not_freed, this, argument: buffer, was_removed };
        cost::end(begun, 1);
        watching(real, &passing);
    }
}

/// `void AllocatorImpl::deallocate_buffers()`: frees all buffers, as when a device is closed.
#[unsafe(export_name = "_ZN2tt8tt_metal13AllocatorImpl18deallocate_buffersEv")]
unsafe extern "C-unwind" fn deallocate_buffers(this: usize) {
    // SAFETY: as in `allocate_buffer`.
    unsafe { before(Symbol::DeallocateAll, this, freed_all) }
}

/// `void AllocatorImpl::clear()`.
#[unsafe(export_name = "_ZN2tt8tt_metal13AllocatorImpl5clearEv")]
unsafe extern "C-unwind" fn clear(this: usize) {
    // SAFETY: as in `allocate_buffer`.
    unsafe { before(Symbol::Clear, this, freed_all) }
}

/// The complete object's destructor.
#[unsafe(export_name = "_ZN2tt8tt_metal13AllocatorImplD1Ev")]
unsafe extern "C-unwind" fn destroyed(this: usize) {
    // SAFETY: as in `allocate_buffer`.
    unsafe { before(Symbol::AllocatorD1, this, gone) }
}

/// The base object's destructor.
#[unsafe(export_name = "_ZN2tt8tt_metal13AllocatorImplD2Ev")]
unsafe extern "C-unwind" fn base_destroyed(this: usize) {
    // SAFETY: as in `allocate_buffer`.
    unsafe { before(Symbol::AllocatorD2, this, gone) }
}

/// Calls `note`, and then a real function without arguments or result.
#[inline(always)]
unsafe fn before(symbol: Symbol, this: usize, note: fn(&Call, &'static Library, usize)) {
    // SAFETY: an allocator has a virtual function table, also during its destructor; the real function receives the same arguments.
    unsafe {
        let library = Library::of_object(this);
        let real: unsafe extern "C-unwind" fn(usize) = std::mem::transmute(library.real(symbol));
        if is_off() {
            return real(this);
        }
        let call = Call::begin();
        guarded(|| note(&call, library, this));
        real(this);
    }
}

/// `void AllocatorImpl::shrink_allocator_size(const BufferType&, uint64_t bytes, bool from the bottom)`: raises the start of L1.
#[unsafe(export_name = "_ZN2tt8tt_metal13AllocatorImpl21shrink_allocator_sizeERKNS0_10BufferTypeEmb")]
unsafe extern "C-unwind" fn shrink_allocator_size(this: usize, kind: *const i32, bytes: u64, from_bottom: bool) {
    // SAFETY: as in `allocate_buffer`; the kind is a reference.
    unsafe {
        let library = Library::of_object(this);
        let real: unsafe extern "C-unwind" fn(usize, *const i32, u64, bool) = std::mem::transmute(library.real(Symbol::Shrink));
        let is_l1 = kind.read() == L1;
        real(this, kind, bytes, from_bottom);
        if !is_off() {
            hit(Feature::Resizes);
            if is_l1 && from_bottom {
                guarded(|| resized(this, |shrunk| shrunk.saturating_add(bytes)));
            }
        }
    }
}

/// `void AllocatorImpl::reset_allocator_size(const BufferType&)`.
#[unsafe(export_name = "_ZN2tt8tt_metal13AllocatorImpl20reset_allocator_sizeERKNS0_10BufferTypeE")]
unsafe extern "C-unwind" fn reset_allocator_size(this: usize, kind: *const i32) {
    // SAFETY: as in `shrink_allocator_size`.
    unsafe {
        let library = Library::of_object(this);
        let real: unsafe extern "C-unwind" fn(usize, *const i32) = std::mem::transmute(library.real(Symbol::ResetSize));
        let is_l1 = kind.read() == L1;
        real(this, kind);
        if !is_off() {
            hit(Feature::Resizes);
            if is_l1 {
                guarded(|| resized(this, |_| 0));
            }
        }
    }
}

/// `void AllocatorImpl::override_state(const AllocatorState&)`: replaces all blocks with blocks that have no buffers.
#[unsafe(export_name = "_ZN2tt8tt_metal13AllocatorImpl14override_stateERKNS0_14AllocatorStateE")]
unsafe extern "C-unwind" fn override_state(this: usize, state: usize) {
    // SAFETY: as in `allocate_buffer`.
    unsafe {
        let library = Library::of_object(this);
        let real: unsafe extern "C-unwind" fn(usize, usize) = std::mem::transmute(library.real(Symbol::OverrideState));
        if !is_off() {
            hit(Feature::Restores);
            guarded(|| restored(this));
        }
        real(this, state);
    }
}

/// TT-Metal's number of L1.
const L1: i32 = 1;

/// The flag of a buffer with an address for each core. Only allocators in hybrid mode have such buffers, so others skip the call.
#[inline]
unsafe fn per_core_flag(library: &Library, buffer: usize) -> u16 {
    if !thread::is_hybrid() || !library.has_symbol(Symbol::IsPerCore) {
        return 0;
    }
    // SAFETY: a getter of the buffer.
    let is_per_core = unsafe {
        let function: unsafe extern "C-unwind" fn(usize) -> bool = std::mem::transmute(library.address(Symbol::IsPerCore));
        function(buffer)
    };
    if is_per_core { flag::PER_CORE } else { 0 }
}

fn allocated(call: &Call, library: &'static Library, this: usize, buffer: usize, facts: &BufferFacts, address: u64, flags: u16) {
    let requester = &stack::requester();
    let mut is_due = false;
    let is_known = tables::to_add(facts.kind, address, |session, tables| {
        tables.hit(session, Feature::Allocations);
        let Some(known) = tables.find(this) else { return false };
        is_due = known.schedule.tick() && known.checking == Checking::On;
        record(session, known, facts, address, flags, requester);
        true
    });
    if is_known == Some(false) {
        guarded(|| first_allocated(library, this, buffer, facts, address, flags, requester));
    }
    if is_due {
        guarded(|| check::compare(call, library, this));
    }
}

/// Records the first buffer of an allocator whose device was opened unseen.
#[cold]
fn first_allocated(
    library: &'static Library,
    this: usize,
    buffer: usize,
    facts: &BufferFacts,
    address: u64,
    flags: u16,
    requester: &Requester,
) {
    // SAFETY: the buffer was just allocated in this allocator, on this device.
    let description = unsafe { describe(library, this, buffer::device(library, buffer)) };
    tables::with(|session, tables| {
        if let Some(known) = tables.open(session, &description) {
            record(session, known, facts, address, flags, requester);
        }
    });
}

#[inline]
fn record(session: &mut Session<'_>, known: &mut Allocator, facts: &BufferFacts, address: u64, flags: u16, requester: &Requester) {
    let operation = operation::name_number(session, requester.name.as_ref());
    if flags & flag::PER_CORE != 0 && known.checking == Checking::On {
        known.checking = Checking::Off;
        hit(Feature::PerCore);
        session.check(known.id, SelfCheck::PerCore);
    }
    known.insert(session, facts, address, flags, (operation, requester.stack));
}

/// Records that a buffer has an unknown layout and is not included.
#[cold]
fn unreadable(library: &'static Library) {
    tables::with(|session, tables| {
        tables.hit(session, Feature::Allocations);
        crate::coverage::cover(session, library);
        crate::coverage::turn_off(session, Feature::Allocations, "a Buffer that is not laid out as known");
        session.lose(Lost::NoAllocator);
    });
}

/// Queries TT-Metal about an allocator. The caller must not hold the ledger's lock, because this calls code of another library.
///
/// # Safety
/// Both point to live objects of `library`; the device may be null.
pub(crate) unsafe fn describe(library: &'static Library, pointer: usize, device: usize) -> Description {
    // SAFETY: the caller guarantees this; no wrapper runs under the allocator's lock.
    let (chips, geometry) = unsafe { (Device::describe(library, device), AllocatorQuery::new(library, pointer).geometry()) };
    identity::find_unique_ids(chips.chips());
    Description { pointer, device, library, geometry, chips }
}

/// Records a free. Returns whether the buffer was known.
fn freed(this: usize, kind: u8, address: u64) -> bool {
    // A process without a ledger, such as a child after `fork`, has nothing to free.
    if !hooked::writer().is_started() {
        return false;
    }
    let was_there = tables::near(kind, address, |session, tables| {
        tables.hit(session, Feature::Frees);
        let known = tables.find(this)?;
        known.schedule.tick();
        let size = session.remove(Key { allocator: known.id, kind, address });
        if size.is_none() {
            session.lose(Lost::UnknownFree);
        }
        size
    });
    was_there.flatten().is_some()
}

fn freed_all(call: &Call, library: &'static Library, this: usize) {
    if !hooked::writer().is_started() {
        return;
    }
    hit(Feature::FreeAll);
    check::compare(call, library, this);
    tables::with(|session, tables| {
        if let Some(known) = tables.find(this) {
            session.free_all(known.id);
            // The free also removed the blocks without buffers.
            known.checking = Checking::On;
        }
    });
}

fn gone(_call: &Call, _library: &'static Library, this: usize) {
    if hooked::writer().is_started() {
        hit(Feature::AllocatorEnd);
        tables::with(|session, tables| tables.close(session, this));
    }
}

fn resized(this: usize, change: impl FnOnce(u64) -> u64) {
    tables::with(|session, tables| {
        let Some(known) = tables.find(this) else { return };
        known.shrunk = change(known.shrunk);
        let [_, l1, ..] = known.description.geometry.kinds;
        let outcome = match known.shrunk {
            0 => SelfCheck::Unshrunk,
            shrunk => SelfCheck::Shrunk { l1_lower_end: l1.base.saturating_add(shrunk) },
        };
        session.check(known.id, outcome);
    });
}

fn restored(this: usize) {
    tables::with(|session, tables| {
        if let Some(known) = tables.find(this) {
            session.free_all(known.id);
            session.check(known.id, SelfCheck::Restored);
            known.checking = Checking::Off;
        }
    });
}

/// Records a failed allocation. The allocator's own frames are unwound, and its lock is free.
fn refused(passing: &PassingCall, message: &[u8]) {
    let PassingCall { library, this, argument, .. } = *passing;
    // SAFETY: the buffer belongs to the caller and is alive. The allocator called the same functions before it threw.
    let Some(facts) = (unsafe { buffer::facts(library, argument) }) else { return };
    guarded(|| {
        let requester = stack::requester();
        // SAFETY: the allocator has just refused a buffer on this device.
        let (query, description) = unsafe {
            let device = buffer::device(library, argument);
            (AllocatorQuery::new(library, this), describe(library, this, device))
        };
        let number = BANKED.iter().find(|(kind, _)| *kind == facts.kind).map(|(_, number)| *number);
        let statistics = number.and_then(|number| query.statistics(number)).unwrap_or_default();
        tables::with(|session, tables| {
            let Some(known) = tables.open(session, &description) else { return };
            let BufferFacts { kind, size, .. } = facts;
            let per_bank = known.taken(&facts);
            RefusedRequest { what: Refused::OutOfMemory, kind, size, per_bank, statistics, requester, message }.record(session, known);
        });
    });
}

/// Restores a buffer whose free threw.
fn not_freed(passing: &PassingCall, _message: &[u8]) {
    let PassingCall { library, this, argument, was_removed, .. } = *passing;
    if !was_removed {
        return;
    }
    // SAFETY: as in `refused`; kind and address were read before, and nothing has changed them.
    let (facts, place) = unsafe { (buffer::facts(library, argument), buffer::place(library, argument)) };
    if let (Some(facts), Some((kind, address))) = (facts, place) {
        guarded(|| {
            tables::with(|session, tables| {
                if let Some(known) = tables.find(this) {
                    let buffer = known.buffer(session, &facts, 0, (0, 0));
                    session.restore(Key { allocator: known.id, kind, address }, &buffer);
                }
            });
        });
    }
}
