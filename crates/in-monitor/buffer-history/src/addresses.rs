//! The addresses at which a trace draws buffers: all kinds of memory of a chip are in one address space.

use std::collections::HashMap;

use ttmon_model::Kind;

use crate::trace::KINDS;

/// Start of the addresses of L1, which is drawn after all of DRAM.
const L1_START: u64 = 1 << 40;
/// Buffers without a real address are drawn after all others. Each kind starts at a multiple of `1 << GENERATED_SHIFT`, from this one on.
const GENERATED_START: u64 = 8;
const GENERATED_SHIFT: u32 = 44;
/// Maximum address. The viewers use doubles for addresses.
const ADDRESS_MAX: u64 = 1 << 52;

/// Generates addresses for buffers without one. The addresses of freed buffers are used again.
#[derive(Debug, Default)]
pub(crate) struct AddressGenerator {
    next: u64,
    free: HashMap<u64, Vec<u64>>,
}

impl AddressGenerator {
    pub(crate) fn next_address(&mut self, kind: u8, size: u64) -> u64 {
        if let Some(again) = self.free.get_mut(&size).and_then(Vec::pop) {
            return again;
        }
        let start = (GENERATED_START + u64::from(kind)) << GENERATED_SHIFT;
        let next = start.saturating_add(self.next).min(ADDRESS_MAX);
        self.next = self.next.saturating_add(size);
        next
    }

    /// Releases an address. Addresses that were not generated are ignored.
    pub(crate) fn free(&mut self, address: u64, size: u64) {
        if address >> GENERATED_SHIFT >= GENERATED_START {
            self.free.entry(size).or_default().push(address);
        }
    }
}

/// Returns the address at which a buffer is drawn.
pub(crate) fn drawn_at(kind: u8, address: u64) -> u64 {
    let is_l1 = matches!(KINDS.get(usize::from(kind)), Some(Kind::L1 | Kind::L1Small));
    let start = if is_l1 { L1_START } else { 0 };
    start.saturating_add(address).min(ADDRESS_MAX)
}
