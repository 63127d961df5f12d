//! The devices that a program sees. A program may change them after its ledger was created, so they are read with the figures.

use ttmon_ledger::layout::header;
use ttmon_model::ledger::VisibleDevices;

use super::bytes::{text_at, u32_at};

/// Offset of the environment in the header.
pub(super) const START: u64 = header::VISIBLE_IS_SET;

/// Decodes TT_VISIBLE_DEVICES of the program from a part of the header that begins at [`START`].
pub(super) fn visible_devices(bytes: &[u8]) -> VisibleDevices {
    match u32_at(bytes, header::VISIBLE_IS_SET - START) {
        0 => VisibleDevices::All,
        header::VISIBLE_WHOLE => VisibleDevices::Only(text_at(bytes, header::VISIBLE - START, header::VISIBLE_BYTES)),
        // An unknown value of a later version is treated as truncated, too.
        _ => VisibleDevices::Cut,
    }
}

/// Whether the chips are mock, or simulated by TT-Metal.
pub(super) fn is_mock(bytes: &[u8]) -> bool {
    u32_at(bytes, header::FLAGS - START) & header::FLAG_MOCK != 0
}
