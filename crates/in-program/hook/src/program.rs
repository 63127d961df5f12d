//! Programs: their circular and dataflow buffers, launches and end.
//!
//! A program lays out its buffers when it first runs on a mesh. Circular buffers are reported to `GraphTracker`, once per chip. Dataflow
//! buffers are only marked in a `CircularBufferAllocator`, one per core range. Both are attributed to the program whose `allocate_*`
//! function is on this thread's stack. The bytes are not summed here, because programs share them. The reader computes the occupancy per
//! core.

use std::cell::Cell;
use std::ptr;

use ttmon_client::hooked;
use ttmon_ledger::layout::{Refused, kind};
use ttmon_ledger::writer::{Circular, Session};

use crate::buffer::low;
use crate::coverage::{Feature, hit, turn_off};
use crate::device::Device;
use crate::errno::{guarded, is_off};
use crate::exceptions::{PassingCall, watching};
use crate::geometry::AllocatorQuery;
use crate::library::{Library, with_caller};
use crate::refusal::RefusedRequest;
use crate::symbols::Symbol;
use crate::tables::{self, Allocator};
use crate::{cost, memory, opening, stack};

/// Maximum number of ranges of one circular buffer that are read.
const RANGES_MAX: usize = 256;
/// Size of a range in a `CoreRangeSet`: four words.
const RANGE_BYTES: usize = 4 * size_of::<usize>();
/// Upper limit for columns and rows of a core grid.
const CORES_END: usize = 64;

/// A program that is laying out its buffers on this thread.
struct Layout {
    program: u32,
    mesh: usize,
    library: &'static Library,
    /// The circular buffer that is being reported, chip by chip.
    pending: Cell<Option<Pending>>,
}

/// A circular buffer that `GraphTracker` receives chip by chip. It becomes one record if it is on all chips.
#[derive(Clone, Copy)]
struct Pending {
    cores: usize,
    address: u64,
    size: u64,
    is_global: bool,
    /// A bit for each chip, by its index in the mesh.
    chips: u64,
}

thread_local! {
    static LAYOUT: Cell<*const Layout> = const { Cell::new(ptr::null()) };
}

/// `void ProgramImpl::allocate_circular_buffers(const IDevice*)`.
#[unsafe(export_name = "_ZN2tt8tt_metal6detail11ProgramImpl25allocate_circular_buffersEPKNS0_7IDeviceE")]
unsafe extern "C-unwind" fn allocate_circular_buffers(this: usize, device: usize) {
    // SAFETY: called by TT-Metal with its own arguments.
    unsafe { laid_out(Symbol::AllocateCirculars, this, device) }
}

/// `void ProgramImpl::allocate_dataflow_buffers(const IDevice*)`.
#[unsafe(export_name = "_ZN2tt8tt_metal6detail11ProgramImpl25allocate_dataflow_buffersEPKNS0_7IDeviceE")]
unsafe extern "C-unwind" fn allocate_dataflow_buffers(this: usize, device: usize) {
    // SAFETY: called by TT-Metal with its own arguments.
    unsafe { laid_out(Symbol::AllocateDataflow, this, device) }
}

/// Removes the layout from the thread, also if an exception passes.
struct Leave(*const Layout);

impl Drop for Leave {
    fn drop(&mut self) {
        LAYOUT.set(self.0);
    }
}

unsafe fn laid_out(symbol: Symbol, this: usize, device: usize) {
    // SAFETY: a device has virtual functions; the real function receives the same arguments.
    unsafe {
        let library = Library::of_object(device);
        let real: unsafe extern "C-unwind" fn(usize, usize) = std::mem::transmute(library.real(symbol));
        if is_off() {
            return real(this, device);
        }
        let program = program_number(library, this);
        let layout = Layout { program, mesh: device, library, pending: Cell::new(None) };
        let leave = Leave(LAYOUT.replace(&raw const layout));
        real(this, device);
        drop(leave);
        guarded(|| layout.flush());
    }
}

/// `void GraphTracker::track_allocate_cb(const CoreRangeSet&, uint64_t address, uint64_t size, bool is global, const IDevice*)`.
#[unsafe(export_name = "_ZN2tt8tt_metal12GraphTracker17track_allocate_cbERKNS0_12CoreRangeSetEmmbPKNS0_7IDeviceE")]
unsafe extern "C-unwind" fn track_allocate_cb(this: usize, cores: usize, address: u64, size: u64, is_global: bool, device: usize) {
    type Real = unsafe extern "C-unwind" fn(usize, usize, u64, u64, bool, usize);
    // SAFETY: a device has virtual functions; the real function receives the same arguments.
    unsafe {
        let library = Library::of_object(device);
        let real: Real = std::mem::transmute(library.real(Symbol::TrackCircular));
        if !is_off() {
            hit(Feature::Circulars);
            guarded(|| {
                // SAFETY: if it is not null, `allocate_circular_buffers` is below us on this thread's stack.
                if let Some(layout) = LAYOUT.get().as_ref() {
                    let chips = Device::describe(library, device);
                    layout.reported(Pending { cores, address, size, is_global, chips: 0 }, &chips);
                }
            });
        }
        real(this, cores, address, size, is_global, device);
    }
}

with_caller! {
    /// `void CircularBufferAllocator::mark_address(uint64_t address, uint64_t size, uint64_t base)`: marks a dataflow buffer on a range of
    /// cores.
    mark_address, "_ZN2tt8tt_metal6detail11ProgramImpl23CircularBufferAllocator12mark_addressEmmm", "r8", mark_address_from
}

unsafe extern "C-unwind" fn mark_address_from(this: usize, address: u64, size: u64, base: u64, caller: usize) {
    let library = Library::of(caller);
    // SAFETY: the real function receives the same arguments; its object is read afterwards.
    unsafe {
        let real: unsafe extern "C-unwind" fn(usize, u64, u64, u64) = std::mem::transmute(library.real(Symbol::MarkAddress));
        real(this, address, size, base);
        if !is_off() {
            hit(Feature::Dataflow);
            guarded(|| {
                // SAFETY: if it is not null, `allocate_dataflow_buffers` is below us on this thread's stack.
                if let Some(layout) = LAYOUT.get().as_ref() {
                    layout.marked(this, address, size);
                }
            });
        }
    }
}

impl Layout {
    fn reported(&self, mut reported: Pending, chips: &Device) {
        let Some(chip) = chips.chips().first() else { return };
        let place = self.with_mesh(|_, known| known.description.chips.chips().iter().position(|other| other == chip));
        let Some(place) = place.flatten() else { return };
        reported.chips = 1 << (place % 64);
        match self.pending.get() {
            Some(known) if (known.cores, known.address, known.size) == (reported.cores, reported.address, reported.size) => {
                reported.chips |= known.chips;
            }
            _ => self.flush(),
        }
        self.pending.set(Some(reported));
    }

    /// Records the pending circular buffer.
    fn flush(&self) {
        let Some(reported) = self.pending.take() else { return };
        let mut ranges = [[0; 4]; RANGES_MAX];
        // SAFETY: the set belongs to a circular buffer of the program that is being laid out.
        let count = unsafe { core_ranges(self.library, reported.cores, &mut ranges) };
        self.with_mesh(|session, known| {
            let (Some(count), Ok(address), Ok(size)) = (count, u32::try_from(reported.address), u32::try_from(reported.size)) else {
                turn_off(session, Feature::Circulars, "a CoreRangeSet that is not laid out as known");
                return;
            };
            let all = u64::MAX.checked_shr(64 - u32::try_from(known.description.chips.chips().len()).unwrap_or(64)).unwrap_or(0);
            for cores in ranges.into_iter().take(count) {
                let circular = Circular {
                    allocator: known.id,
                    chip: None,
                    program: self.program,
                    address,
                    size,
                    cores,
                    is_dataflow: false,
                    is_global: reported.is_global,
                };
                if reported.chips == all {
                    // The ledger counts buffers that could not be recorded.
                    let _ = session.add_circular(&circular);
                    continue;
                }
                for chip in (0..64).filter(|chip| reported.chips >> chip & 1 == 1) {
                    // As above.
                    let _ = session.add_circular(&Circular { chip: Some(chip), ..circular });
                }
            }
        });
    }

    /// A `CircularBufferAllocator` is a core range and its allocated regions. The last region ends where the new buffer ends.
    fn marked(&self, allocator: usize, address: u64, size: u64) {
        let cores = memory::words(allocator).and_then(|[x0, y0, x1, y1, begin, end, room]| {
            if begin == 0 || begin >= end || end > room || !(end - begin).is_multiple_of(16) {
                return None;
            }
            let [last] = memory::words(end - size_of::<usize>())?;
            if last as u64 == address.wrapping_add(size) { range([x0, y0, x1, y1]) } else { None }
        });
        self.with_mesh(|session, known| {
            let (Some(cores), Ok(address), Ok(size)) = (cores, u32::try_from(address), u32::try_from(size)) else {
                turn_off(session, Feature::Dataflow, "a CircularBufferAllocator that is not laid out as known");
                return;
            };
            let allocator = known.id;
            let circular =
                Circular { allocator, chip: None, program: self.program, address, size, cores, is_dataflow: true, is_global: false };
            // The ledger counts buffers that could not be recorded.
            let _ = session.add_circular(&circular);
        });
    }

    /// Calls `work` with the mesh's allocator. Opens the allocator if its opening was not seen.
    fn with_mesh<T>(&self, work: impl FnOnce(&mut Session<'_>, &Allocator) -> T) -> Option<T> {
        if tables::with(|_, tables| tables.of_device(self.mesh).is_none())? {
            opening::opened(self.library, self.mesh, None);
        }
        tables::with(|session, tables| {
            let known = *tables.of_device(self.mesh)?;
            Some(work(session, &known))
        })?
    }
}

/// Reads the ranges of a `CoreRangeSet`, as first and last core; `None` if it has an unknown layout.
unsafe fn core_ranges(library: &Library, set: usize, into: &mut [[u8; 4]; RANGES_MAX]) -> Option<usize> {
    // SAFETY: `ranges()` is a getter that returns a reference to a vector.
    let vector = unsafe {
        let function: unsafe extern "C-unwind" fn(usize) -> usize = std::mem::transmute(library.address(Symbol::CoreRanges));
        function(set)
    };
    let [begin, end, room] = memory::words(vector)?;
    if begin == 0 || end <= begin || room < end || !(end - begin).is_multiple_of(RANGE_BYTES) {
        return None;
    }
    let count = ((end - begin) / RANGE_BYTES).min(RANGES_MAX);
    for (number, place) in into.iter_mut().take(count).enumerate() {
        *place = range(memory::words(begin + number * RANGE_BYTES)?)?;
    }
    Some(count)
}

/// Converts a range to first and last core; `None` if it does not fit a real grid.
fn range([x0, y0, x1, y1]: [usize; 4]) -> Option<[u8; 4]> {
    if x0 > x1 || y0 > y1 || x1 >= CORES_END || y1 >= CORES_END {
        return None;
    }
    let small = |core| u8::try_from(core).ok();
    Some([small(x0)?, small(y0)?, small(x1)?, small(y1)?])
}

/// Returns the program's own id, or else a number from its address.
unsafe fn program_number(library: &Library, program: usize) -> u32 {
    if !library.has_symbol(Symbol::ProgramId) {
        return low(program as u64 >> 4);
    }
    // SAFETY: a getter of `ProgramImpl`.
    unsafe {
        let function: unsafe extern "C-unwind" fn(usize) -> u64 = std::mem::transmute(library.address(Symbol::ProgramId));
        low(function(program))
    }
}

macro_rules! program_ends {
    ($($(#[$doc:meta])* $function:ident, $from:ident, $symbol:ident, $name:literal;)*) => { $(
        with_caller!($(#[$doc])* $function, $name, "rsi", $from);

        unsafe extern "C-unwind" fn $from(this: usize, caller: usize) {
            let library = Library::of(caller);
            // SAFETY: the real function receives the same arguments; the program exists until it returns.
            unsafe {
                let real: unsafe extern "C-unwind" fn(usize) = std::mem::transmute(library.real(Symbol::$symbol));
                if !is_off() {
                    let program = program_number(library, this);
                    guarded(|| ended(program));
                }
                real(this);
            }
        }
    )* };
}

program_ends! {
    /// The program's destructor.
    program_destroyed, program_destroyed_from, ProgramD1,
        "_ZN2tt8tt_metal6detail11ProgramImplD1Ev";
    /// `void ProgramImpl::deallocate_circular_buffers()`.
    deallocate_circular_buffers, deallocate_circular_buffers_from, DeallocateCirculars,
        "_ZN2tt8tt_metal6detail11ProgramImpl27deallocate_circular_buffersEv";
    /// `void ProgramImpl::invalidate_circular_buffer_allocation()`: the buffers will be laid out again.
    invalidate_circulars, invalidate_circulars_from, InvalidateCirculars,
        "_ZN2tt8tt_metal6detail11ProgramImpl37invalidate_circular_buffer_allocationEv";
    /// `void ProgramImpl::invalidate_dataflow_buffer_allocation()`.
    invalidate_dataflow, invalidate_dataflow_from, InvalidateDataflow,
        "_ZN2tt8tt_metal6detail11ProgramImpl37invalidate_dataflow_buffer_allocationEv";
}

fn ended(program: u32) {
    hit(Feature::ProgramEnd);
    // A process that never opened a device has no ledger, and needs none.
    if hooked::writer().is_started() {
        tables::with(|session, _| session.remove_program(program));
    }
}

/// `void GraphTracker::track_program(Program*, const IDevice*)`: called at every launch, cached or not.
#[unsafe(export_name = "_ZN2tt8tt_metal12GraphTracker13track_programEPNS0_7ProgramEPKNS0_7IDeviceE")]
unsafe extern "C-unwind" fn track_program(this: usize, program: usize, device: usize) {
    // SAFETY: a device has virtual functions; the real function receives the same arguments.
    unsafe {
        let library = Library::of_object(device);
        let real: unsafe extern "C-unwind" fn(usize, usize, usize) = std::mem::transmute(library.real(Symbol::TrackProgram));
        if !is_off() {
            let begun = cost::begin();
            guarded(|| launched(device));
            cost::end(begun, 1);
        }
        real(this, program, device);
    }
}

fn launched(device: usize) {
    hit(Feature::Launches);
    // Under the lock, so that the chips need not be copied.
    tables::with(|_, tables| {
        if let Some(known) = tables.of_device(device) {
            hooked::writer().launched_on(known.description.chips.chips());
        }
    });
}

/// `void ProgramImpl::validate_circular_buffer_region(const IDevice*)`: throws if circular buffers overlap an L1 buffer.
#[unsafe(export_name = "_ZN2tt8tt_metal6detail11ProgramImpl31validate_circular_buffer_regionEPKNS0_7IDeviceE")]
unsafe extern "C-unwind" fn validate_circular_buffer_region(this: usize, device: usize) {
    // SAFETY: called by TT-Metal with its own arguments.
    unsafe { validated(Symbol::ValidateCirculars, this, device) }
}

/// `void ProgramImpl::validate_dataflow_buffer_region(const IDevice*)`.
#[unsafe(export_name = "_ZN2tt8tt_metal6detail11ProgramImpl31validate_dataflow_buffer_regionEPKNS0_7IDeviceE")]
unsafe extern "C-unwind" fn validate_dataflow_buffer_region(this: usize, device: usize) {
    // SAFETY: called by TT-Metal with its own arguments.
    unsafe { validated(Symbol::ValidateDataflow, this, device) }
}

unsafe fn validated(symbol: Symbol, this: usize, device: usize) {
    // SAFETY: a device has virtual functions; the real function receives the same arguments.
    unsafe {
        let library = Library::of_object(device);
        let real = library.real(symbol);
        if is_off() {
            let real: unsafe extern "C-unwind" fn(usize, usize) = std::mem::transmute(real);
            return real(this, device);
        }
        let passing = PassingCall { library, on_exception: clashed, this, argument: device, was_removed: false };
        watching(real, &passing);
    }
}

/// Records a clash: circular buffers and an L1 buffer overlap.
fn clashed(passing: &PassingCall, message: &[u8]) {
    hit(Feature::Clashes);
    guarded(|| {
        let known = tables::with(|_, tables| tables.of_device(passing.argument).copied()).flatten();
        let Some(known) = known else { return };
        // SAFETY: the device and its allocator are open; this thread does not hold the allocator's lock.
        let statistics =
            unsafe { AllocatorQuery::new(known.description.library, known.description.pointer) }.statistics(1).unwrap_or_default();
        let requester = stack::requester();
        let clash = RefusedRequest { what: Refused::Clash, kind: kind::L1, size: 0, per_bank: 0, statistics, requester, message };
        tables::with(|session, _| clash.record(session, &known));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_cores_is_in_order_and_on_a_grid() {
        assert_eq!(range([0, 0, 7, 7]), Some([0, 0, 7, 7]));
        assert_eq!(range([3, 4, 3, 4]), Some([3, 4, 3, 4]));
        assert_eq!(range([1, 0, 0, 0]), None);
        assert_eq!(range([0, 1, 0, 0]), None);
        assert_eq!(range([0, 0, CORES_END, 0]), None);
        assert_eq!(range([usize::MAX, 0, usize::MAX, 0]), None);
    }
}
