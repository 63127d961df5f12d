//! Finds the operation that allocates a buffer, by the symbol names of the native stack. It takes some microseconds per allocation, so it
//! must be enabled (`TTMON_OPS=1`, `ttmon run --ops`).
//!
//! Operations of ttnn are exported functions: `ttnn::relu(...)` is called by Python, `ttnn::prim::matmul(...)` is called by those. The name
//! is the outermost function that Python calls, or else the outermost primitive.

use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicUsize};

use libc::c_char;
use ttmon_ledger::layout::TAG_BYTES_MAX;
use ttmon_ledger::writer::Session;
use ttmon_pystack::Text;

use crate::coverage::{Feature, hit};
use crate::fast_path::{self, HOT};
use crate::object;

const FRAMES_MAX: usize = 64;
/// Code addresses that allocations come from: some hundred in a large model.
const KNOWN: usize = 4096;
/// Maximum distance of an address from its hash slot.
const STEPS_MAX: usize = 16;

/// A code address and the name of its function, empty if it has none. It caches `dladdr`, which searches all symbols.
struct CodeAddress {
    /// The address. The unused high bits hold the number of unloaded objects at the time, because unloading a library invalidates its
    /// names.
    key: AtomicUsize,
    name: AtomicPtr<c_char>,
}

/// Addresses in user space have at most this many bits.
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

/// Returns the return addresses of this thread, if enabled.
#[inline]
pub(crate) fn unwound() -> Option<Addresses> {
    if is_wanted() { Some(Addresses::new()) } else { None }
}

/// Returns the number of a name in the ledger's tag table; 0 for none.
#[inline]
pub(crate) fn name_number(session: &mut Session<'_>, name: Option<&Name>) -> u32 {
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
        // SAFETY: the unwinder calls `note` with the pointer to `stack`, which outlives the call.
        unsafe { _Unwind_Backtrace(note, (&raw mut stack).cast()) };
        stack
    }

    pub(crate) fn as_slice(&self) -> &[usize] {
        self.addresses.get(..self.count).unwrap_or_default()
    }

    /// Returns the name of the operation that the thread is in, if any.
    pub(crate) fn operation(&self) -> Option<Name> {
        let unloads = object::unloads();
        let mut best = None;
        for address in self.as_slice() {
            // A return address may lie beyond the end of its function.
            let Some(found) = symbol_of(address.wrapping_sub(1), unloads).and_then(parse) else { continue };
            // Outer frames come later. A function called by Python has precedence over a primitive.
            if best.is_none_or(|known: Operation<'_>| found.rank >= known.rank) {
                best = Some(found);
            }
        }
        best.map(name_of)
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

/// Returns the mangled name of the function that contains an address. After a library was unloaded, cached names are not used again and
/// still occupy their slots. A program that unloads libraries repeatedly pays for each lookup.
fn symbol_of(address: usize, unloads: u64) -> Option<&'static [u8]> {
    let key = address ^ usize::try_from(unloads).unwrap_or(0) << ADDRESS_BITS;
    let home = (key >> 2).wrapping_mul(0x9E37_79B9) % KNOWN;
    for step in 0..STEPS_MAX {
        let place = PLACES.get((home + step) % KNOWN)?;
        // Acquire, paired with the release below: the name is stored.
        let known = place.key.load(Acquire);
        if known == key {
            return text_of(place.name.load(Relaxed));
        }
        if known == 0 {
            let name = query(address);
            // Two threads may write the same slot. The name is stored first; the thread that stores it also stores the key.
            if place.name.compare_exchange(ptr::null_mut(), name.cast_mut(), Release, Relaxed).is_ok() {
                place.key.store(key, Release);
            }
            return text_of(name.cast_mut());
        }
    }
    text_of(query(address).cast_mut())
}

fn query(address: usize) -> *const c_char {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: a local struct, filled if the result is not 0. The string belongs to the library, which is on the call stack.
    let name =
        unsafe { if libc::dladdr(address as *const c_void, info.as_mut_ptr()) != 0 { info.assume_init().dli_sname } else { ptr::null() } };
    if name.is_null() { c"".as_ptr() } else { name }
}

fn text_of(name: *mut c_char) -> Option<&'static [u8]> {
    // SAFETY: null, or a NUL-terminated string that lives as long as the library, whose code is on the stack.
    if name.is_null() { None } else { Some(unsafe { CStr::from_ptr(name) }.to_bytes()) }
}

/// The operation in a mangled name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operation<'a> {
    /// 2 for a function called by Python, 1 for a primitive.
    rank: u8,
    name: &'a str,
}

/// Parses `_ZN4ttnn4reluERK...` and `_ZN4ttnn4prim6matmulE...`. Names nested deeper in ttnn are no operations.
fn parse(mangled: &[u8]) -> Option<Operation<'_>> {
    let rest = mangled.strip_prefix(b"_ZN4ttnn")?;
    let (first, rest) = identifier(rest)?;
    if is_end(rest) {
        return Some(Operation { rank: 2, name: str::from_utf8(first).ok()? });
    }
    let (second, rest) = identifier(rest)?;
    if first == b"prim" && is_end(rest) { Some(Operation { rank: 1, name: str::from_utf8(second).ok()? }) } else { None }
}

/// A nested name ends with E, or with template arguments.
fn is_end(rest: &[u8]) -> bool {
    matches!(rest.first(), Some(b'E' | b'I'))
}

/// Splits off an identifier: its length in digits, then its bytes.
fn identifier(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let length: usize = str::from_utf8(text.get(..digits)?).ok()?.parse().ok()?;
    text.get(digits..)?.split_at_checked(length)
}

/// The name of an operation, at most as long as a tag.
pub(crate) type Name = Text<TAG_BYTES_MAX>;

fn name_of(operation: Operation<'_>) -> Name {
    let prefix = if operation.rank == 1 { "ttnn::prim::" } else { "ttnn::" };
    let mut name = Name::default();
    name.append(prefix);
    name.append(operation.name);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mangled: &str, expected: &str) {
        let name = parse(mangled.as_bytes()).map(name_of);
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
