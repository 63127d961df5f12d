//! Unique ids of the devices of this process, if the program sets them.

use std::sync::OnceLock;

static UNIQUE_IDS: OnceLock<Vec<(u32, u64)>> = OnceLock::new();

/// Sets UMD's unique id of each device, so that its memory is shown on the right chip even if the device's number is ambiguous. Call it
/// once, before the first report. Returns `false` if it was called before.
pub fn name_devices(unique_ids: Vec<(u32, u64)>) -> bool {
    UNIQUE_IDS.set(unique_ids).is_ok()
}

/// The unique id of a device; 0 if it was not set.
pub(crate) fn unique_id(device: u32) -> u64 {
    UNIQUE_IDS.get().and_then(|ids| ids.iter().find(|(id, _)| *id == device)).map_or(0, |(_, unique_id)| *unique_id)
}
