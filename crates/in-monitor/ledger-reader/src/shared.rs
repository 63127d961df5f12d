//! Peaks of several allocators together on a chip that they share.

use super::bytes::{u32_at, u64_at};
use super::clock::Converter;
use ttmon_ledger::layout::{allocator, shared};

/// The peaks of a chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedChip {
    /// TT-Metal's number of the chip.
    pub metal_id: u32,
    /// The origin of the allocators: [`layout::origin`](ttmon_ledger::layout::origin).
    pub origin: u32,
    /// Indexed by kind, for the kinds below `KINDS_MAX`.
    pub peaks: [SharedPeak; allocator::KINDS_MAX],
}

/// The peak since a second allocator was opened, of all allocators on the chip. Times are nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedPeak {
    /// Peak of the requested bytes.
    pub used: u64,
    /// Time of this peak.
    pub time: u64,
    /// Peak of the occupied bytes.
    pub allocated: u64,
    /// Time of this peak.
    pub allocated_time: u64,
}

impl SharedChip {
    pub(super) fn decode(record: &[u8], converter: &Converter) -> Option<Self> {
        let peaks = std::array::from_fn(|kind| {
            let at = shared::peaks(kind);
            SharedPeak {
                used: u64_at(record, at),
                time: converter.unix_ns(u64_at(record, at + shared::TIME)),
                allocated: u64_at(record, at + shared::ALLOCATED),
                allocated_time: converter.unix_ns(u64_at(record, at + shared::ALLOCATED_TIME)),
            }
        });
        Some(Self { metal_id: u32_at(record, shared::KEY).checked_sub(1)?, origin: u32_at(record, shared::KEY + 4), peaks })
    }
}
