//! A libtt_metal in this process, with the addresses of its symbols.
//!
//! Python loads it with a scope that `RTLD_NEXT` does not search, and a process may have two of them. So the real function is searched from
//! an address that belongs to the call: an object's virtual function table, or the caller's code. Results are cached permanently; a lookup
//! is two loads and a comparison.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};

use crate::buffer::ReadMethod;
use crate::object::{self, Object};
use crate::symbols::{self, Symbol};

/// Defines an exported function that jumps to another one and passes the caller's address in a register, after the other arguments.
macro_rules! with_caller {
    ($(#[$doc:meta])* $name:ident, $export:literal, $register:literal, $target:ident) => {
        $(#[$doc])*
        #[unsafe(naked)]
        #[unsafe(export_name = $export)]
        unsafe extern "C-unwind" fn $name() {
            std::arch::naked_asm!(concat!("mov ", $register, ", [rsp]"), "jmp {}", sym $target)
        }
    };
}
pub(crate) use with_caller;

/// Two libraries are rare. Several threads may find the same one at once.
const LIBRARIES: usize = 16;
/// Objects that make calls: TT-Metal, ttnn, a program.
const CALLERS: usize = 64;
/// Offset of the functions in a virtual function table, after the offset to top and the type information.
pub(crate) const TABLE_OFFSET: usize = 16;

/// The fields that every event needs come first, in two cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Library {
    start: AtomicUsize,
    /// 0 until all other fields are set.
    bytes: AtomicUsize,
    /// [`ReadMethod`], as a number.
    read_method: AtomicU8,
    /// A buffer was found to have the known layout of versions before 0.79.
    is_layout_known: AtomicBool,
    /// A thread fills this entry, or has filled it.
    is_taken: AtomicBool,
    addresses: [AtomicUsize; symbols::COUNT],
}

/// An object outside the library that has called it: the number of its first page, the count of its pages (0 if there is no object) and the
/// index of the library in [`KNOWN`]. All are in one word, because another thread may replace the object during a lookup.
struct Caller(AtomicUsize);

const PAGE_BITS: u32 = 12;
const FIRST_BITS: u32 = 36;
const COUNT_BITS: u32 = 24;
const INDEX_BITS: u32 = LIBRARIES.ilog2();

static KNOWN: [Library; LIBRARIES] = [const { Library::new() }; LIBRARIES];
static CALLER: [Caller; CALLERS] = [const { Caller::new() }; CALLERS];
static CALLERS_TAKEN: AtomicUsize = AtomicUsize::new(0);
/// The loader's number of unloaded objects at the last check.
static UNLOADS: AtomicU64 = AtomicU64::new(0);

impl Library {
    const fn new() -> Self {
        Self {
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            is_taken: AtomicBool::new(false),
            addresses: [const { AtomicUsize::new(0) }; symbols::COUNT],
            read_method: AtomicU8::new(ReadMethod::Unsupported as u8),
            is_layout_known: AtomicBool::new(false),
        }
    }

    /// Returns the library of an object of TT-Metal, by its virtual function table.
    ///
    /// # Safety
    /// `object` points to an object with virtual functions.
    #[inline(always)]
    pub(crate) unsafe fn of_object(object: usize) -> &'static Self {
        // SAFETY: the object starts with the address of its table.
        Self::of(unsafe { (object as *const usize).read() })
    }

    /// Returns the library of an address: the library that contains it, or the one that the containing object depends on.
    #[inline(always)]
    pub(crate) fn of(address: usize) -> &'static Self {
        let [first, ..] = &KNOWN;
        if first.has(address) { first } else { find(address) }
    }

    #[inline(always)]
    pub(crate) fn address(&self, symbol: Symbol) -> usize {
        // SAFETY: a `Symbol` is less than the number of symbols.
        unsafe { self.addresses.get_unchecked(symbol as usize) }.load(Relaxed)
    }

    /// Returns the address of a symbol that was called, and therefore exists.
    #[inline(always)]
    pub(crate) fn real(&self, symbol: Symbol) -> usize {
        match self.address(symbol) {
            0 => defined_nowhere(),
            address => address,
        }
    }

    /// How buffers of this library are read.
    #[inline(always)]
    pub(crate) fn read_method(&self) -> ReadMethod {
        ReadMethod::from_number(self.read_method.load(Relaxed))
    }

    pub(crate) fn is_layout_known(&self) -> bool {
        self.is_layout_known.load(Relaxed)
    }

    pub(crate) fn know_layout(&self) {
        self.is_layout_known.store(true, Relaxed);
    }

    pub(crate) fn has_symbol(&self, symbol: Symbol) -> bool {
        self.address(symbol) != 0
    }

    /// Whether an address is the virtual function table of a class.
    pub(crate) fn is_table(&self, table: usize, class: Symbol) -> bool {
        self.has_symbol(class) && self.address(class).wrapping_add(TABLE_OFFSET) == table
    }

    #[inline(always)]
    pub(crate) fn has(&self, address: usize) -> bool {
        // Acquire, paired with the release of `publish`: all other fields are set.
        let bytes = self.bytes.load(Acquire);
        address.wrapping_sub(self.start.load(Relaxed)) < bytes
    }

    /// Reserves this entry for the caller. Returns false if another thread has it.
    fn take(&self) -> bool {
        !self.is_taken.swap(true, AcqRel)
    }

    fn publish(&self, object: &Object, addresses: &[usize; symbols::COUNT]) {
        for (place, address) in self.addresses.iter().zip(addresses) {
            place.store(*address, Relaxed);
        }
        self.read_method.store(ReadMethod::of(self) as u8, Relaxed);
        self.is_layout_known.store(false, Relaxed);
        self.start.store(object.start, Relaxed);
        self.bytes.store(object.bytes, Release);
    }
}

impl Caller {
    const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Stores an object, unless it does not fit the bits. Such an object is searched at each call.
    fn set(&self, start: usize, bytes: usize, library: usize) {
        let first = start >> PAGE_BITS;
        let count = start.saturating_add(bytes).div_ceil(1 << PAGE_BITS) - first;
        if first >> FIRST_BITS == 0 && count >> COUNT_BITS == 0 {
            self.0.store((first << COUNT_BITS | count) << INDEX_BITS | library, Release);
        }
    }

    fn clear(&self) {
        self.0.store(0, Release);
    }

    /// Returns the index of the library if the object contains this address.
    fn library_of(&self, address: usize) -> Option<usize> {
        // Acquire, paired with the release of `set`: all fields of the library are set.
        let word = self.0.load(Acquire);
        let (first, count) = (word >> (COUNT_BITS + INDEX_BITS), word >> INDEX_BITS & ((1 << COUNT_BITS) - 1));
        ((address >> PAGE_BITS).wrapping_sub(first) < count).then_some(word % LIBRARIES)
    }
}

/// Removes libraries that the program has unloaded, because other code may be loaded at their addresses. Called when a device opens, which
/// precedes most other calls into a library.
pub(crate) fn forget_unloaded() {
    let now = object::unloads();
    if UNLOADS.swap(now, Relaxed) == now {
        return;
    }
    for library in &KNOWN {
        let bytes = library.bytes.load(Acquire);
        let is_gone = bytes != 0 && Object::of(library.start.load(Relaxed)).is_none_or(|object| object.bytes != bytes);
        if is_gone {
            library.bytes.store(0, Release);
            library.is_taken.store(false, Release);
        }
    }
    for caller in &CALLER {
        caller.clear();
    }
    CALLERS_TAKEN.store(0, Relaxed);
}

#[cold]
#[inline(never)]
fn find(address: usize) -> &'static Library {
    let errno = crate::errno::errno();
    let found = known(address).or_else(plain).or_else(|| {
        // Also while tracking is off: unloaded code must not be called, and must not occupy an entry.
        forget_unloaded();
        discover(address).or_else(only)
    });
    crate::errno::set_errno(errno);
    found.unwrap_or_else(|| defined_nowhere())
}

/// Returns the only library, if its allocators have no virtual functions. The loader could not find it by their addresses.
fn plain() -> Option<&'static Library> {
    only_known().filter(|library| !library.has_symbol(Symbol::AllocatorTable))
}

/// Up to 0.69 allocators have no virtual functions, so their first word is no address in a library. Then the only library is meant; several
/// threads may have found it at once.
fn only() -> Option<&'static Library> {
    if KNOWN.iter().any(|library| library.bytes.load(Acquire) != 0) {
        return only_known();
    }
    discover(Object::named(c"libtt_metal.so")?.start)
}

fn only_known() -> Option<&'static Library> {
    let mut there = KNOWN.iter().filter(|library| library.bytes.load(Acquire) != 0);
    let first = there.next()?;
    there.all(|other| other.start.load(Relaxed) == first.start.load(Relaxed)).then_some(first)
}

/// The called symbol is defined only in the hook. Without the hook, the loader would have ended the program.
#[cold]
fn defined_nowhere() -> ! {
    // SAFETY: no preconditions.
    unsafe { libc::abort() }
}

fn known(address: usize) -> Option<&'static Library> {
    if let Some(library) = known_itself(address) {
        return Some(library);
    }
    CALLER.iter().find_map(|caller| caller.library_of(address)).and_then(|index| KNOWN.get(index))
}

/// Asks the loader. Several threads may find the same library at once; the first entry in the table is used.
fn discover(address: usize) -> Option<&'static Library> {
    let unloads = UNLOADS.load(Relaxed);
    let caller = Object::of(address)?;
    // The main program cannot be searched, and an object may depend on the hook.
    let home = caller.resolve(&DEFINED).and_then(tt_metal).or_else(first_that_defines)?;
    let library = match known_itself(home.start) {
        Some(library) => library,
        None => {
            // Resolved in the library's own scope, because the caller may depend on two of them.
            let addresses = home.resolve(symbols::NAMES)?;
            let place = KNOWN.iter().find(|place| place.take())?;
            place.publish(&home, &addresses);
            place
        }
    };
    if !library.has(address)
        && let Some(index) = KNOWN.iter().position(|known| ptr::eq(known, library))
        && let Some(place) = CALLER.get(CALLERS_TAKEN.fetch_add(1, Relaxed))
    {
        place.set(caller.start, caller.bytes, index);
        // Libraries may have been forgotten meanwhile, and then the index may soon belong to another one.
        if UNLOADS.load(Relaxed) != unloads {
            place.clear();
        }
    }
    Some(library)
}

/// A symbol that both TT-Metal and the hook define, and one that only the hook defines.
const DEFINED: [&CStr; 2] = [symbols::NAMES[Symbol::Allocate as usize], c"ttmon_tag_push"];

/// Returns the object that contains the first address, unless it is a hook or a stub.
fn tt_metal([defined, ours]: [usize; 2]) -> Option<Object> {
    Object::of(defined).filter(|object| !object.has(ours))
}

/// Searches all loaded objects for TT-Metal.
fn first_that_defines() -> Option<Object> {
    (0..).map_while(Object::nth).find_map(|object| object.resolve(&DEFINED).and_then(tt_metal))
}

fn known_itself(address: usize) -> Option<&'static Library> {
    KNOWN.iter().find(|library| library.has(address))
}

#[cfg(test)]
impl Library {
    /// A library with these symbols, at addresses that must not be called.
    pub(crate) fn for_tests(symbols: &[Symbol]) -> Self {
        let library = Self::new();
        for symbol in symbols {
            library.addresses[*symbol as usize].store(1, Relaxed);
        }
        library
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_has_all_its_pages_and_no_other() {
        let caller = Caller::new();
        assert_eq!(caller.library_of(0), None);
        // The last page belongs to the object, even if the object ends within it.
        caller.set(0x7FFF_FFFF_E000, 0x1001, LIBRARIES - 1);
        let found = [0, 0x7FFF_FFFF_DFFF, 0x7FFF_FFFF_E000, 0x7FFF_FFFF_FFFF, 0x8000_0000_0000, 0xFFFF_7FFF_FFFF_E000];
        assert_eq!(found.map(|address| caller.library_of(address)), [None, None, Some(15), Some(15), None, None]);
        caller.clear();
        caller.set(1 << 48, 0x1000, 1);
        caller.set(0x1000, 1 << 36, 1);
        assert_eq!([1 << 48, 0x1000].map(|address| caller.library_of(address)), [None; 2], "not stored");
    }

    #[test]
    fn callers_in_the_same_place_are_never_mixed() {
        const LOOKUPS: usize = 4_000_000;
        // Only a mix of the large and the small object contains an address behind the small one.
        let (large, small) = ((0x7000_0000_0000, 0x10_0000), (0x7000_1000_0000, 0x1000));
        let expected = [(large.0, None), (large.0, Some(3)), (small.0, None), (small.0, Some(9)), (small.0 + 0x2000, None)];
        let (caller, is_done) = (Caller::new(), AtomicBool::new(false));
        let mixed = std::thread::scope(|scope| {
            for ((start, bytes), library) in [(large, 3), (small, 9)] {
                let (caller, is_done) = (&caller, &is_done);
                scope.spawn(move || {
                    while !is_done.load(Relaxed) {
                        caller.set(start, bytes, library);
                    }
                });
            }
            let mut lookups = expected.iter().cycle().take(LOOKUPS).map(|(address, _)| (*address, caller.library_of(*address)));
            let mixed = lookups.find(|lookup| !expected.contains(lookup));
            is_done.store(true, Relaxed);
            mixed
        });
        assert_eq!(mixed, None, "an address and its library");
    }
}
