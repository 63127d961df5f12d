//! Peaks of several allocators together on a chip that they share.

use ttmon_ledger::layout::shared;
use ttmon_model::PerKind;
use ttmon_model::ledger::{BufferKind, LedgerShared, LedgerSharedPeak};

use super::bytes::{u32_at, u64_at};
use super::clock::Converter;
use super::numbers::{kind_number, origin_writer};

/// Decodes the peaks of a chip since a second allocator was opened, of all allocators on the chip.
pub(super) fn decode(record: &[u8], converter: &Converter) -> Option<LedgerShared> {
    let peaks = PerKind::from_fn(|kind| {
        let at = shared::peaks(kind_number(BufferKind::Of(kind)).into());
        LedgerSharedPeak {
            used: u64_at(record, at),
            time: converter.unix(u64_at(record, at + shared::TIME)),
            allocated: u64_at(record, at + shared::ALLOCATED),
        }
    });
    let metal_id = u32_at(record, shared::KEY).checked_sub(1)?;
    Some(LedgerShared { metal_id, origin: origin_writer(u32_at(record, shared::KEY + 4)), peaks })
}
