//! Reads a `Buffer` of TT-Metal: through its functions, or from its memory for older versions without them.
//!
//! Since 0.79 there is a function for every property. Up to 0.77 device, size, type and layout are inline members after the 16 bytes of
//! `enable_shared_from_this`. This layout is accepted for an object only if its device has the virtual function table of one, and its size
//! is the number of pages times the page size.

use ttmon_ledger::layout::kind;

use crate::library::Library;
use crate::symbols::Symbol;
use crate::{memory, thread};

/// The ledger's kinds, by TT-Metal's `BufferType`.
pub(crate) const KINDS: [u8; 5] = [kind::DRAM, kind::L1, kind::HOST, kind::L1_SMALL, kind::TRACE];

/// The properties of a buffer for the ledger. Its block is `per_bank`, rounded up by the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferFacts {
    pub(crate) size: u64,
    pub(crate) per_bank: u64,
    pub(crate) page: u64,
    /// The size of a page in a bank, if the allocator rounds up each page (hybrid mode); otherwise 0.
    pub(crate) rounded_page: u64,
    pub(crate) kind: u8,
    pub(crate) layout: u8,
    pub(crate) cores: u32,
}

/// How a library's buffers are read. The first is 0, so that the static table of libraries takes no space in the hook's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ReadMethod {
    /// No other method is possible.
    Unsupported,
    Functions,
    OldLayout,
}

impl ReadMethod {
    #[inline(always)]
    pub(crate) fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Functions,
            2 => Self::OldLayout,
            _ => Self::Unsupported,
        }
    }

    pub(crate) fn of(library: &Library) -> Self {
        let has = |symbols: &[Symbol]| symbols.iter().all(|symbol| library.has_symbol(*symbol));
        if !has(&[Symbol::BufferAddress, Symbol::BufferPerBank, Symbol::BufferPageSize]) {
            Self::Unsupported
        } else if has(&[Symbol::BufferSize, Symbol::BufferType, Symbol::BufferLayout, Symbol::BufferDevice]) {
            Self::Functions
        } else if has(&[Symbol::BufferPages, Symbol::MeshTable, Symbol::DeviceTable]) {
            Self::OldLayout
        } else {
            Self::Unsupported
        }
    }
}

/// The members of a `Buffer` before 0.79. With later versions the device is read separately, because it is rarely needed.
#[derive(Clone, Copy)]
struct Old {
    device: usize,
    size: u64,
    kind: u32,
    layout: u32,
}

/// Calls a getter of a buffer.
///
/// # Safety
/// `buffer` is a live `Buffer` of `library`, which has `symbol`, one of its functions without arguments.
#[inline(always)]
unsafe fn query(library: &Library, symbol: Symbol, buffer: usize) -> u64 {
    // SAFETY: the caller guarantees this. A `u32` is returned in the same register; the caller truncates it.
    unsafe {
        let function: unsafe extern "C-unwind" fn(usize) -> u64 = std::mem::transmute(library.address(symbol));
        function(buffer)
    }
}

/// Returns a `u32` result, which is in the low half of a register.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the other half means nothing")]
pub(crate) const fn low(register: u64) -> u32 {
    register as u32
}

/// Returns all properties; `None` if the layout is unknown. Only for a buffer that its allocator has just accepted or refused: the
/// allocator has called the same functions, so they do not throw.
///
/// # Safety
/// `buffer` is a live `Buffer` of `library`.
#[inline]
pub(crate) unsafe fn facts(library: &Library, buffer: usize) -> Option<BufferFacts> {
    // SAFETY: `read_method` defines which functions exist.
    unsafe {
        let old = match library.read_method() {
            ReadMethod::Functions => Old {
                device: 0,
                size: query(library, Symbol::BufferSize, buffer),
                kind: low(query(library, Symbol::BufferType, buffer)),
                layout: low(query(library, Symbol::BufferLayout, buffer)),
            },
            ReadMethod::OldLayout => old_layout(library, buffer)?,
            ReadMethod::Unsupported => return None,
        };
        let kind = *KINDS.get(usize::try_from(old.kind).ok()?)?;
        // Interleaved is 0 in TT-Metal and 1 in the ledger. The sharded layouts have the same numbers.
        let layout = if old.layout == 0 { 1 } else { u8::try_from(old.layout).unwrap_or(0) };
        let cores =
            if layout == 1 || !library.has_symbol(Symbol::BufferCores) { 0 } else { optional(query(library, Symbol::BufferCores, buffer)) };
        let per_bank = query(library, Symbol::BufferPerBank, buffer);
        let page = query(library, Symbol::BufferPageSize, buffer);
        let rounds_pages = thread::is_hybrid() && library.has_symbol(Symbol::BufferAlignedPage);
        let rounded_page = if rounds_pages { query(library, Symbol::BufferAlignedPage, buffer) } else { 0 };
        Some(BufferFacts { size: old.size, per_bank, page, rounded_page, kind, layout, cores })
    }
}

/// The device of a buffer; 0 if unknown.
///
/// # Safety
/// As `facts`.
pub(crate) unsafe fn device(library: &Library, buffer: usize) -> usize {
    // SAFETY: as in `facts`.
    unsafe {
        match library.read_method() {
            ReadMethod::Functions => usize::try_from(query(library, Symbol::BufferDevice, buffer)).unwrap_or(0),
            ReadMethod::OldLayout => old_layout(library, buffer).map_or(0, |old| old.device),
            ReadMethod::Unsupported => 0,
        }
    }
}

/// Returns kind and address of a buffer that is freed.
///
/// # Safety
/// As `facts`.
#[inline]
pub(crate) unsafe fn place(library: &Library, buffer: usize) -> Option<(u8, u64)> {
    // SAFETY: as in `facts`. The real free reads the address first, and throws the same exception.
    unsafe {
        let kind = match library.read_method() {
            ReadMethod::Functions => low(query(library, Symbol::BufferType, buffer)),
            ReadMethod::OldLayout => old_layout(library, buffer)?.kind,
            ReadMethod::Unsupported => return None,
        };
        let kind = *KINDS.get(usize::try_from(kind).ok()?)?;
        Some((kind, query(library, Symbol::BufferAddress, buffer)))
    }
}

/// Decodes a `std::optional<uint32_t>` in a register: bit 32 is set if it has a value.
fn optional(register: u64) -> u32 {
    if register >> 32 & 1 == 1 { low(register) } else { 0 }
}

/// Reads the members of a buffer before 0.79. The kernel copies them until one buffer was found to have the known layout: in an unknown
/// version, the device pointer may be invalid and a buffer may be shorter.
unsafe fn old_layout(library: &Library, buffer: usize) -> Option<Old> {
    let is_known = library.is_layout_known();
    // SAFETY: a buffer with the known layout has these words, and the third points to its device, which is alive.
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
    // SAFETY: `buffer` is a buffer of `library`, and `query` calls functions of that library for buffers.
    let (pages, page) = unsafe { (low(query(library, Symbol::BufferPages, buffer)), query(library, Symbol::BufferPageSize, buffer)) };
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
    fn a_library_without_functions_is_unsupported() {
        let none = Library::for_tests(&[]);
        assert_eq!(ReadMethod::of(&none), ReadMethod::Unsupported);
        let old = [
            Symbol::BufferAddress,
            Symbol::BufferPerBank,
            Symbol::BufferPageSize,
            Symbol::BufferPages,
            Symbol::MeshTable,
            Symbol::DeviceTable,
        ];
        assert_eq!(ReadMethod::of(&Library::for_tests(&old)), ReadMethod::OldLayout);
    }
}
