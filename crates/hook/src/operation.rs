//! Which operation asked for a buffer: the native stack, by name. Some microseconds an allocation, so only where it is asked for
//! (`TTMON_OPS=1`, `ttmon run --ops`).
//!
//! Operations of ttnn are exported functions: `ttnn::relu(...)` called by Python, `ttnn::prim::matmul(...)` below. The outermost
//! one that Python calls is the name; else the outermost primitive.

use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{
    AtomicPtr, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use libc::c_char;
use ttmon_ledger::layout::TAG_BYTES_MAX;
use ttmon_ledger::writer::Session;

use crate::coverage::{Feature, hit};
use crate::fast_path::{self, HOT};
use crate::object;

const FRAMES_MAX: usize = 64;
/// Places in the code from which allocations come: some hundred in a large model.
const KNOWN: usize = 4096;
/// How far from its place an address may be kept.
const STEPS_MAX: usize = 16;

/// An address in the code and the name of its function, empty if it has none. Asking the loader takes a walk through all symbols.
struct CodeAddress {
    /// The address, and in the bits that no address has what the loader had unloaded when it was asked: with a library its names go.
    key: AtomicUsize,
    name: AtomicPtr<c_char>,
}

/// Addresses of programs are shorter.
const ADDRESS_BITS: u32 = 48;

static PLACES: [CodeAddress; KNOWN] = [const { CodeAddress { key: AtomicUsize::new(0), name: AtomicPtr::new(ptr::null_mut()) } }; KNOWN];

unsafe extern "C" {
    fn _Unwind_Backtrace(each: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int, argument: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

#[inline]
pub(crate) fn is_wanted() -> bool {
    fast_path::is_set(c"TTMON_OPS", &HOT.operations)
}

/// The return addresses of this thread, where they are wanted.
#[inline]
pub(crate) fn unwound() -> Option<Addresses> {
    if is_wanted() { Some(Addresses::new()) } else { None }
}

/// The number of a name in the ledger's table of tags; 0 for none.
#[inline]
pub(crate) fn number(session: &mut Session<'_>, name: Option<&Name>) -> u32 {
    let Some(name) = name else { return 0 };
    hit(Feature::Operations);
    session.tag(name.as_str())
}

/// Return addresses of a thread, innermost first.
pub(crate) struct Addresses {
    addresses: [usize; FRAMES_MAX],
    count: usize,
    pub(crate) is_cut: bool,
}

impl Addresses {
    fn new() -> Self {
        let mut stack = Self { addresses: [0; FRAMES_MAX], count: 0, is_cut: false };
        // SAFETY: the unwinder calls `note` with the pointer to `stack`, which lives until it returned.
        unsafe { _Unwind_Backtrace(note, (&raw mut stack).cast()) };
        stack
    }

    pub(crate) fn as_slice(&self) -> &[usize] {
        self.addresses.get(..self.count).unwrap_or_default()
    }

    /// The name of the operation that the thread is in, if there is one.
    pub(crate) fn operation(&self) -> Option<Name> {
        let unloads = object::unloads();
        let mut best = None;
        for address in self.as_slice() {
            // The address of a call's return may already lie behind its function.
            let Some(found) = symbol_of(address.wrapping_sub(1), unloads).and_then(parse) else { continue };
            // Outermost last; what Python calls before what that calls.
            if best.is_none_or(|known: Operation<'_>| found.rank >= known.rank) {
                best = Some(found);
            }
        }
        best.map(Name::new)
    }
}

unsafe extern "C" fn note(context: *mut c_void, stack: *mut c_void) -> c_int {
    // SAFETY: the unwinder's context, and the stack that `new` passed.
    unsafe {
        let stack = &mut *stack.cast::<Addresses>();
        let Some(place) = stack.addresses.get_mut(stack.count) else {
            stack.is_cut = true;
            return 5;
        };
        *place = _Unwind_GetIP(context);
        stack.count += 1;
    }
    0
}

/// The mangled name of the function that contains an address. A name that was found before another library was unloaded is not
/// used again, and keeps its slot: a program that unloads libraries repeatedly has its names looked up each time.
fn symbol_of(address: usize, unloads: u64) -> Option<&'static [u8]> {
    let key = address ^ usize::try_from(unloads).unwrap_or(0) << ADDRESS_BITS;
    let home = (key >> 2).wrapping_mul(0x9E37_79B9) % KNOWN;
    for step in 0..STEPS_MAX {
        let place = PLACES.get((home + step) % KNOWN)?;
        // Acquire, with the release below: the name is there.
        let known = place.key.load(Acquire);
        if known == key {
            return text_of(place.name.load(Relaxed));
        }
        if known == 0 {
            let name = ask(address);
            // Two threads may write the same slot: the name is stored first, and belongs to the thread that wins the key.
            if place.name.compare_exchange(ptr::null_mut(), name.cast_mut(), Release, Relaxed).is_ok() {
                place.key.store(key, Release);
            }
            return text_of(name.cast_mut());
        }
    }
    text_of(ask(address).cast_mut())
}

fn ask(address: usize) -> *const c_char {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: a place of that type, filled when the answer is not 0. The text is the library's own, which we are called from.
    let name =
        unsafe { if libc::dladdr(address as *const c_void, info.as_mut_ptr()) != 0 { info.assume_init().dli_sname } else { ptr::null() } };
    if name.is_null() { c"".as_ptr() } else { name }
}

fn text_of(name: *mut c_char) -> Option<&'static [u8]> {
    // SAFETY: null, or a text that ends with NUL and lives as long as the library whose code is on the stack.
    if name.is_null() { None } else { Some(unsafe { CStr::from_ptr(name) }.to_bytes()) }
}

/// What a mangled name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operation<'a> {
    /// 2 is called by Python, 1 is a primitive.
    rank: u8,
    name: &'a [u8],
}

/// `_ZN4ttnn4reluERK...` and `_ZN4ttnn4prim6matmulE...`; anything deeper in ttnn is no operation.
fn parse(mangled: &[u8]) -> Option<Operation<'_>> {
    let rest = mangled.strip_prefix(b"_ZN4ttnn")?;
    let (first, rest) = identifier(rest)?;
    if is_end(rest) {
        return Some(Operation { rank: 2, name: first });
    }
    let (second, rest) = identifier(rest)?;
    (first == b"prim" && is_end(rest)).then_some(Operation { rank: 1, name: second })
}

/// A nested name ends with E, or with template arguments.
fn is_end(rest: &[u8]) -> bool {
    matches!(rest.first(), Some(b'E' | b'I'))
}

/// A length in digits and so many bytes.
fn identifier(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let length: usize = str::from_utf8(text.get(..digits)?).ok()?.parse().ok()?;
    text.get(digits..)?.split_at_checked(length)
}

/// A name on the stack, as long as a tag may be.
pub(crate) struct Name {
    bytes: [u8; TAG_BYTES_MAX],
    length: usize,
}

impl Name {
    fn new(operation: Operation<'_>) -> Self {
        let prefix: &[u8] = if operation.rank == 1 { b"ttnn::prim::" } else { b"ttnn::" };
        let mut name = Self { bytes: [0; TAG_BYTES_MAX], length: 0 };
        for (place, byte) in name.bytes.iter_mut().zip(prefix.iter().chain(operation.name)) {
            *place = *byte;
            name.length += 1;
        }
        name
    }

    fn as_str(&self) -> &str {
        self.bytes.get(..self.length).and_then(|bytes| str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mangled: &str, expected: &str) {
        let name = parse(mangled.as_bytes()).map(Name::new);
        assert_eq!(name.as_ref().map_or("", Name::as_str), expected, "{mangled}");
    }

    #[test]
    fn operations_are_known_by_their_mangled_names() {
        check("_ZN4ttnn4reluERKN2tt8tt_metal6TensorE", "ttnn::relu");
        check("_ZN4ttnn4prim6matmulERKN2tt8tt_metal6TensorES5_", "ttnn::prim::matmul");
        check("_ZN4ttnn5zerosIiEEvv", "ttnn::zeros");
        check("_ZN4ttnn10operations5unary20UnaryDeviceOperation21create_output_tensorsEv", "");
        check("_ZN2tt8tt_metal6Buffer13allocate_implEv", "");
        check("_ZN4ttnn999reluE", "");
        check("_ZN4ttnn", "");
        check("", "");
    }

    #[test]
    fn a_long_name_is_cut() {
        check(&format!("_ZN4ttnn80{}Ev", "x".repeat(80)), &format!("ttnn::{}", "x".repeat(56)));
    }

    #[test]
    fn a_stack_without_operations_has_no_name() {
        assert!(Addresses::new().operation().is_none());
    }
}
