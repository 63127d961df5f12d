//! The properties of an allocator, from its own functions: banks, their size and base.

use ttmon_ledger::layout::kind;
use ttmon_ledger::writer::KindGeometry;

use crate::buffer::low;
use crate::exceptions::catching;
use crate::library::Library;
use crate::symbols::Symbol;

/// Kinds of the ledger with banks, and TT-Metal's number for each.
pub(crate) const BANKED: [(u8, u32); 4] = [(kind::DRAM, 0), (kind::L1, 1), (kind::L1_SMALL, 3), (kind::TRACE, 4)];
/// A limit for valid bank sizes. The allocator of a sub-device has no DRAM, and returns 0 minus its base.
const BANK_BYTES_END: u64 = 1 << 40;

#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Geometry {
    /// Blocks are multiples of this size, in every kind; 1 if unknown.
    pub(crate) block: u64,
    pub(crate) kinds: [KindGeometry; 6],
}

/// The allocator's own statistics of a kind, per bank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statistics {
    pub(crate) allocated: u64,
    pub(crate) free: u64,
    pub(crate) largest_free: u64,
}

/// An allocator of TT-Metal to query.
#[derive(Clone, Copy)]
pub(crate) struct AllocatorQuery {
    library: &'static Library,
    allocator: u64,
}

impl AllocatorQuery {
    /// # Safety
    /// `allocator` points to an `AllocatorImpl` of `library` that lives as long as this value is used, and whose lock the
    /// calling thread does not hold.
    pub(crate) unsafe fn new(library: &'static Library, allocator: usize) -> Self {
        Self { library, allocator: allocator as u64 }
    }

    pub(crate) fn geometry(self) -> Geometry {
        // The alignment is a `u32`.
        let block = self.query(Symbol::Alignment, 0).map(|block| u64::from(low(block)));
        let block = block.filter(|block| block.is_power_of_two()).unwrap_or(1);
        let (l1, dram) = (self.by_place(Symbol::Base, 0).unwrap_or(0), self.by_place(Symbol::Base, 1).unwrap_or(0));
        let mut geometry = Geometry { block, ..Geometry::default() };
        for (kind, number) in BANKED {
            let bank_bytes = self.by_place(Symbol::BankSize, number).unwrap_or(u64::MAX);
            let banks = self.by_place(Symbol::Banks, number).map_or(0, low);
            if bank_bytes >= BANK_BYTES_END || banks == 0 {
                continue;
            }
            if let Some(place) = geometry.kinds.get_mut(usize::from(kind)) {
                *place = KindGeometry { banks, alignment: low(block), bank_bytes, base: 0 };
            }
        }
        let [in_dram, in_l1, small, trace, ..] = &mut geometry.kinds;
        let bases = [dram, l1, l1.saturating_add(in_l1.bank_bytes), dram.saturating_add(in_dram.bank_bytes)];
        for (kind, base) in [in_dram, in_l1, small, trace].into_iter().zip(bases) {
            kind.base = if kind.banks == 0 { 0 } else { base };
        }
        geometry
    }

    /// Walks all blocks of the kind, under the allocator's lock.
    pub(crate) fn statistics(self, number: u32) -> Option<Statistics> {
        let function = self.library.address(Symbol::Statistics);
        if function == 0 {
            return None;
        }
        // Larger than the four known words, in case the struct grows.
        let mut words = [0_u64; 16];
        let kind = [u64::from(number)];
        // SAFETY: a member function that takes a pointer to its result, the allocator, and a pointer to the kind's number.
        unsafe { catching(self.library, function, [(&raw mut words) as u64, self.allocator, kind.as_ptr() as u64])? };
        let [_total, allocated, free, largest_free, ..] = words;
        Some(Statistics { allocated, free, largest_free })
    }

    /// Calls a function that takes its number by reference.
    fn by_place(self, symbol: Symbol, number: u32) -> Option<u64> {
        let number = [u64::from(number)];
        self.query(symbol, number.as_ptr() as u64)
    }

    fn query(self, symbol: Symbol, argument: u64) -> Option<u64> {
        let function = self.library.address(symbol);
        if function == 0 {
            return None;
        }
        // SAFETY: a member function with one argument, on an allocator that the caller of `new` guarantees.
        unsafe { catching(self.library, function, [self.allocator, argument, 0]) }
    }
}
