//! Which chips the device ids of this process are, where the program knows.

use std::sync::OnceLock;

static UNIQUE_IDS: OnceLock<Vec<(u32, u64)>> = OnceLock::new();

/// Tells UMD's unique id of each device, so that its memory is shown on the right chip also where the device's number
/// does not tell. To be called once, before the first report; `false` when that has been done already.
pub fn name_devices(unique_ids: Vec<(u32, u64)>) -> bool {
    UNIQUE_IDS.set(unique_ids).is_ok()
}

/// The unique id of a device; 0 where nobody told.
pub(crate) fn unique_id(device: u32) -> u64 {
    UNIQUE_IDS.get().and_then(|ids| ids.iter().find(|(id, _)| *id == device)).map_or(0, |(_, unique_id)| *unique_id)
}
