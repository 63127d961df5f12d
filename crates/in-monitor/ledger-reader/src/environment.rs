//! The devices that a program sees. A program may change them after its ledger was created, so they are read with the figures.

use super::bytes::{text_at, u32_at};
use ttmon_ledger::layout::header;

/// The device settings in a program's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// TT_VISIBLE_DEVICES of the program; `None` if it is not set.
    pub visible_devices: Option<String>,
    /// Whether the text is truncated because the list was longer than its field.
    pub is_visible_cut: bool,
    /// Whether the chips are mock, or simulated by TT-Metal.
    pub is_mock: bool,
}

impl Environment {
    /// Offset in the header.
    pub(super) const AT: u64 = header::VISIBLE_IS_SET;

    pub(super) fn decode(bytes: &[u8]) -> Self {
        let visible_is = u32_at(bytes, header::VISIBLE_IS_SET - Self::AT);
        Self {
            visible_devices: (visible_is != 0).then(|| text_at(bytes, header::VISIBLE - Self::AT, header::VISIBLE_BYTES)),
            // An unknown value of a later version is treated as truncated, too.
            is_visible_cut: visible_is > header::VISIBLE_WHOLE,
            is_mock: u32_at(bytes, header::FLAGS - Self::AT) & header::FLAG_MOCK != 0,
        }
    }
}
