//! What a `Buffer` of TT-Metal is: asked of its own functions, and of its memory only where an older version has none.
//!
//! Since 0.79 every question has a function. Up to 0.77 device, size, type and layout are inline members, found behind the
//! 16 bytes of `enable_shared_from_this`; that is believed of an object only if its device is one (by the table of virtual
//! functions) and its size is its pages times their size.

use ttmon_ledger::layout::kind;

use crate::library::Library;
use crate::symbols::Symbol;
use crate::{memory, thread};

/// TT-Metal's `BufferType`, by number.
pub(crate) const KINDS: [u8; 5] = [kind::DRAM, kind::L1, kind::HOST, kind::L1_SMALL, kind::TRACE];

/// A buffer, as the ledger wants it; the block it takes is `per_bank` rounded up by its allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) size: u64,
    pub(crate) per_bank: u64,
    pub(crate) page: u64,
    /// The page as it lies in a bank, where the allocator rounds each of them (its hybrid mode); else 0.
    pub(crate) rounded_page: u64,
    pub(crate) kind: u8,
    pub(crate) layout: u8,
    pub(crate) cores: u32,
}

/// How a library's buffers are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Way {
    Functions,
    OldLayout,
    /// Neither is possible.
    Aside,
}

impl Way {
    #[inline(always)]
    pub(crate) fn from_number(number: u8) -> Self {
        match number {
            0 => Self::Functions,
            1 => Self::OldLayout,
            _ => Self::Aside,
        }
    }

    pub(crate) fn of(library: &Library) -> Self {
        let has = |symbols: &[Symbol]| symbols.iter().all(|symbol| library.has_symbol(*symbol));
        if !has(&[Symbol::BufferAddress, Symbol::BufferPerBank, Symbol::BufferPageSize]) {
            Self::Aside
        } else if has(&[Symbol::BufferSize, Symbol::BufferType, Symbol::BufferLayout, Symbol::BufferDevice]) {
            Self::Functions
        } else if has(&[Symbol::BufferPages, Symbol::MeshTable, Symbol::DeviceTable]) {
            Self::OldLayout
        } else {
            Self::Aside
        }
    }
}

/// The words of a `Buffer` before 0.79; since then the device is requested separately, because it is seldom needed.
#[derive(Clone, Copy)]
struct Old {
    device: usize,
    size: u64,
    kind: u32,
    layout: u32,
}

/// Asks one number of a buffer.
///
/// # Safety
/// `buffer` is a live `Buffer` of `library`, which has `symbol`, one of its functions without arguments.
#[inline(always)]
unsafe fn ask(library: &Library, symbol: Symbol, buffer: usize) -> u64 {
    // SAFETY: what the caller promises. A `u32` comes in the same register; who wants one cuts it.
    unsafe {
        let function: unsafe extern "C-unwind" fn(usize) -> u64 = std::mem::transmute(library.address(symbol));
        function(buffer)
    }
}

/// Only the low half of a register is a `u32`'s.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the other half means nothing")]
pub(crate) const fn low(register: u64) -> u32 {
    register as u32
}

/// All fields, or `None` if its layout is unknown. Only for a buffer that its allocator has just accepted or
/// refused: it asked the same questions itself, so that they do not throw.
///
/// # Safety
/// `buffer` is a live `Buffer` of `library`.
#[inline]
pub(crate) unsafe fn facts(library: &Library, buffer: usize) -> Option<Facts> {
    // SAFETY: the way says which functions there are.
    unsafe {
        let old = match library.way() {
            Way::Functions => Old {
                device: 0,
                size: ask(library, Symbol::BufferSize, buffer),
                kind: low(ask(library, Symbol::BufferType, buffer)),
                layout: low(ask(library, Symbol::BufferLayout, buffer)),
            },
            Way::OldLayout => old_layout(library, buffer)?,
            Way::Aside => return None,
        };
        let kind = *KINDS.get(usize::try_from(old.kind).ok()?)?;
        // TT-Metal's 0 is interleaved, and ours 1; the sharded ones have the same numbers.
        let layout = if old.layout == 0 { 1 } else { u8::try_from(old.layout).unwrap_or(0) };
        let cores =
            if layout == 1 || !library.has_symbol(Symbol::BufferCores) { 0 } else { optional(ask(library, Symbol::BufferCores, buffer)) };
        let per_bank = ask(library, Symbol::BufferPerBank, buffer);
        let page = ask(library, Symbol::BufferPageSize, buffer);
        let is_asked = thread::is_hybrid() && library.has_symbol(Symbol::BufferAlignedPage);
        let rounded_page = if is_asked { ask(library, Symbol::BufferAlignedPage, buffer) } else { 0 };
        Some(Facts { size: old.size, per_bank, page, rounded_page, kind, layout, cores })
    }
}

/// The device of a buffer; 0 if unknown.
///
/// # Safety
/// As `facts`.
pub(crate) unsafe fn device(library: &Library, buffer: usize) -> usize {
    // SAFETY: as in `facts`.
    unsafe {
        match library.way() {
            Way::Functions => usize::try_from(ask(library, Symbol::BufferDevice, buffer)).unwrap_or(0),
            Way::OldLayout => old_layout(library, buffer).map_or(0, |old| old.device),
            Way::Aside => 0,
        }
    }
}

/// Which kind and where, for a free.
///
/// # Safety
/// As `facts`.
#[inline]
pub(crate) unsafe fn place(library: &Library, buffer: usize) -> Option<(u8, u64)> {
    // SAFETY: as in `facts`. The real free asks for the address first, and throws what this throws.
    unsafe {
        let kind = match library.way() {
            Way::Functions => low(ask(library, Symbol::BufferType, buffer)),
            Way::OldLayout => old_layout(library, buffer)?.kind,
            Way::Aside => return None,
        };
        let kind = *KINDS.get(usize::try_from(kind).ok()?)?;
        Some((kind, ask(library, Symbol::BufferAddress, buffer)))
    }
}

/// `std::optional<uint32_t>` in a register: bit 32 says whether it is there.
fn optional(register: u64) -> u32 {
    if register >> 32 & 1 == 1 { low(register) } else { 0 }
}

/// The words of a buffer before 0.79. Until one was found to be laid out as known, the kernel reads it: of a version that nobody has seen,
/// what is taken for the device may be anything, and a buffer may end earlier.
unsafe fn old_layout(library: &Library, buffer: usize) -> Option<Old> {
    let is_known = library.is_layout_known();
    // SAFETY: a buffer that is laid out as those before it has these words, and the third is its device, which lives.
    let ([_, _, device, size, numbers], table) = unsafe {
        if is_known {
            let words = (buffer as *const [usize; 5]).read();
            (words, (words[2] as *const usize).as_ref().copied())
        } else {
            let words = memory::words::<5>(buffer)?;
            (words, memory::words::<1>(words[2]).map(|[table]| table))
        }
    };
    let table = table?;
    if ![Symbol::MeshTable, Symbol::DeviceTable].into_iter().any(|class| library.is_table(table, class)) {
        return None;
    }
    // SAFETY: functions of a buffer that its library has.
    let (pages, page) = unsafe { (low(ask(library, Symbol::BufferPages, buffer)), ask(library, Symbol::BufferPageSize, buffer)) };
    let (size, numbers) = (size as u64, numbers as u64);
    if size != u64::from(pages).wrapping_mul(page) {
        return None;
    }
    if !is_known {
        library.know_layout();
    }
    Some(Old { device, size, kind: low(numbers), layout: low(numbers >> 32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_optional_number_is_there_or_not() {
        assert_eq!(optional(0x1_0000_0040), 64);
        assert_eq!(optional(0x0_0000_0040), 0);
        assert_eq!(optional(0xFF_0000_0001), 1);
    }

    #[test]
    fn a_library_without_anything_is_left_aside() {
        let none = Library::for_tests(&[]);
        assert_eq!(Way::of(&none), Way::Aside);
        let old = [
            Symbol::BufferAddress,
            Symbol::BufferPerBank,
            Symbol::BufferPageSize,
            Symbol::BufferPages,
            Symbol::MeshTable,
            Symbol::DeviceTable,
        ];
        assert_eq!(Way::of(&Library::for_tests(&old)), Way::OldLayout);
    }
}
