//! Which devices a program sees. It may say so when its ledger is there already: this is read with the figures.

use super::bytes::{text_at, u32_at};
use crate::layout::header;

/// What a program's environment says about devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// TT_VISIBLE_DEVICES as the program sees it; `None` where it is not set.
    pub visible_devices: Option<String>,
    /// Whether that text is only the beginning: the list was longer than its field.
    pub is_visible_cut: bool,
    /// Whether the chips are mock, or simulated by TT-Metal.
    pub is_mock: bool,
}

impl Environment {
    /// Where it stands in the header.
    pub(super) const AT: u64 = header::VISIBLE_IS_SET;

    pub(super) fn decode(bytes: &[u8]) -> Self {
        let visible_is = u32_at(bytes, header::VISIBLE_IS_SET - Self::AT);
        Self {
            visible_devices: (visible_is != 0).then(|| text_at(bytes, header::VISIBLE - Self::AT, header::VISIBLE_BYTES)),
            // What a later version may say besides is no whole list either.
            is_visible_cut: visible_is > header::VISIBLE_WHOLE,
            is_mock: u32_at(bytes, header::FLAGS - Self::AT) & header::FLAG_MOCK != 0,
        }
    }
}
