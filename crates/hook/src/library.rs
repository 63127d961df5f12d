//! A libtt_metal of this process, with the addresses of all it defines.
//!
//! Python loads it where the loader's `RTLD_NEXT` does not look, and a process may have two of them. So the real function is
//! looked for from an address that belongs to the call: an object's table of virtual functions, or the caller's own code.
//! What was found is kept for good; looking it up is two loads and a comparison.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use crate::buffer::Way;
use crate::object::{self, Object};
use crate::symbols::{self, Symbol};

/// Two are a curiosity; several threads may find the same one at once.
const LIBRARIES: usize = 16;
/// Objects from which calls come: TT-Metal, ttnn, a program.
const CALLERS: usize = 64;
/// Where the functions of a table of virtual functions begin: behind the offset to the top and the type's description.
pub(crate) const TABLE_OFFSET: usize = 16;

/// What every event needs comes first, in two lines of the cache.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Library {
    start: AtomicUsize,
    /// 0 until the rest is there.
    bytes: AtomicUsize,
    /// [`Way`], as a number.
    way: AtomicU8,
    /// A buffer was found to be laid out as known before 0.79.
    is_layout_known: AtomicBool,
    /// A thread fills it, or has filled it.
    is_taken: AtomicBool,
    addresses: [AtomicUsize; symbols::COUNT],
}

/// Where calls came from that are none of a library's own addresses.
struct Caller {
    start: AtomicUsize,
    bytes: AtomicUsize,
    library: AtomicPtr<Library>,
}

static KNOWN: [Library; LIBRARIES] = [const { Library::new() }; LIBRARIES];
static CALLER: [Caller; CALLERS] =
    [const { Caller { start: AtomicUsize::new(0), bytes: AtomicUsize::new(0), library: AtomicPtr::new(ptr::null_mut()) } }; CALLERS];
static CALLERS_TAKEN: AtomicUsize = AtomicUsize::new(0);
/// What the loader had unloaded when we last asked.
static UNLOADS: AtomicU64 = AtomicU64::new(0);

impl Library {
    const fn new() -> Self {
        Self {
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            is_taken: AtomicBool::new(false),
            addresses: [const { AtomicUsize::new(0) }; symbols::COUNT],
            way: AtomicU8::new(Way::Aside as u8),
            is_layout_known: AtomicBool::new(false),
        }
    }

    /// The library an object of TT-Metal belongs to, by its table of virtual functions.
    ///
    /// # Safety
    /// `object` points at an object with virtual functions.
    #[inline(always)]
    pub(crate) unsafe fn of_object(object: usize) -> &'static Self {
        // SAFETY: such an object begins with the address of its table.
        Self::of(unsafe { (object as *const usize).read() })
    }

    /// The library an address belongs to: its own, or of an object that needs it.
    #[inline(always)]
    pub(crate) fn of(address: usize) -> &'static Self {
        let [first, ..] = &KNOWN;
        if first.has(address) { first } else { find(address) }
    }

    #[inline(always)]
    pub(crate) fn address(&self, symbol: Symbol) -> usize {
        // SAFETY: a `Symbol` is less than their count.
        unsafe { self.addresses.get_unchecked(symbol as usize) }.load(Relaxed)
    }

    /// The function behind a name that was called, so that it exists.
    #[inline(always)]
    pub(crate) fn real(&self, symbol: Symbol) -> usize {
        match self.address(symbol) {
            0 => defined_nowhere(),
            address => address,
        }
    }

    /// How its buffers are read.
    #[inline(always)]
    pub(crate) fn way(&self) -> Way {
        Way::from_number(self.way.load(Relaxed))
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

    /// Whether this is the table of virtual functions of a class, as its objects begin with it.
    pub(crate) fn is_table(&self, table: usize, class: Symbol) -> bool {
        self.has_symbol(class) && self.address(class).wrapping_add(TABLE_OFFSET) == table
    }

    #[inline(always)]
    pub(crate) fn has(&self, address: usize) -> bool {
        // Acquire, with the release of `publish`: the rest is there.
        let bytes = self.bytes.load(Acquire);
        address.wrapping_sub(self.start.load(Relaxed)) < bytes
    }

    /// Whether the caller may fill it: nobody else does.
    fn take(&self) -> bool {
        !self.is_taken.swap(true, AcqRel)
    }

    fn publish(&self, object: &Object, addresses: &[usize; symbols::COUNT]) {
        for (place, address) in self.addresses.iter().zip(addresses) {
            place.store(*address, Relaxed);
        }
        self.way.store(Way::of(self) as u8, Relaxed);
        self.is_layout_known.store(false, Relaxed);
        self.start.store(object.start, Relaxed);
        self.bytes.store(object.bytes, Release);
    }
}

/// Where a program unloads and loads TT-Metal again, other code may lie at the old addresses. To be asked where a device is
/// opened: nobody gets far with a library before that.
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
        caller.bytes.store(0, Release);
    }
    CALLERS_TAKEN.store(0, Relaxed);
}

#[cold]
#[inline(never)]
fn find(address: usize) -> &'static Library {
    let errno = crate::edge::errno();
    let found = known(address).or_else(plain).or_else(|| {
        // Tracked or not: code that is gone must not be called, nor keep its place from what is loaded now.
        forget_unloaded();
        discover(address).or_else(only)
    });
    crate::edge::set_errno(errno);
    found.unwrap_or_else(|| defined_nowhere())
}

/// The only library, where its allocators have no virtual functions: asking the loader about each of them would be in vain.
fn plain() -> Option<&'static Library> {
    only_known().filter(|library| !library.has_symbol(Symbol::AllocatorTable))
}

/// Up to 0.69 allocators have no virtual functions, and what they begin with is no address of a library: it is the one that there
/// is, which several threads may have found at once.
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

/// The name that was called is defined nowhere but here: without us the loader would have ended the program.
#[cold]
fn defined_nowhere() -> ! {
    // SAFETY: without conditions.
    unsafe { libc::abort() }
}

fn known(address: usize) -> Option<&'static Library> {
    if let Some(library) = KNOWN.iter().find(|library| library.has(address)) {
        return Some(library);
    }
    let caller = CALLER.iter().find(|caller| {
        let bytes = caller.bytes.load(Acquire);
        address.wrapping_sub(caller.start.load(Relaxed)) < bytes
    })?;
    // SAFETY: null, or an element of a static.
    unsafe { caller.library.load(Relaxed).as_ref() }
}

/// Asks the loader. Several threads may be here at once and find the same; the first in the table is the one that is used.
fn discover(address: usize) -> Option<&'static Library> {
    let caller = Object::of(address)?;
    // Of the program itself nothing can be asked, and an object may need the hook.
    let home = caller.resolve(&DEFINED).and_then(tt_metal).or_else(first_that_defines)?;
    let library = match known_itself(home.start) {
        Some(library) => library,
        None => {
            // From its own point of view: the caller may need two of them.
            let addresses = home.resolve(symbols::NAMES)?;
            let place = KNOWN.iter().find(|place| place.take())?;
            place.publish(&home, &addresses);
            place
        }
    };
    if !library.has(address)
        && let Some(place) = CALLER.get(CALLERS_TAKEN.fetch_add(1, Relaxed))
    {
        place.library.store(ptr::from_ref(library).cast_mut(), Relaxed);
        place.start.store(caller.start, Relaxed);
        place.bytes.store(caller.bytes, Release);
    }
    Some(library)
}

/// What TT-Metal defines and we do, and what only we do.
const DEFINED: [&CStr; 2] = [symbols::NAMES[Symbol::Allocate as usize], c"ttmon_tag_push"];

/// The object behind the first address, unless it is a hook or a stub.
fn tt_metal([defined, ours]: [usize; 2]) -> Option<Object> {
    Object::of(defined).filter(|object| !object.has(ours))
}

/// Among all that is loaded, TT-Metal itself.
fn first_that_defines() -> Option<Object> {
    (0..).map_while(Object::nth).find_map(|object| object.resolve(&DEFINED).and_then(tt_metal))
}

fn known_itself(address: usize) -> Option<&'static Library> {
    KNOWN.iter().find(|library| library.has(address))
}

#[cfg(test)]
impl Library {
    /// One that has these symbols, at addresses that nobody may call.
    pub(crate) fn for_tests(symbols: &[Symbol]) -> Self {
        let library = Self::new();
        for symbol in symbols {
            library.addresses[*symbol as usize].store(1, Relaxed);
        }
        library
    }
}
