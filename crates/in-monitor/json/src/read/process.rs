//! Reads a process of the document.

use ttmon_model::fields::PROCESS;
use ttmon_model::snapshot::{DeviceUse, Unmapped};
use ttmon_model::{Process, ProcessKey};

use super::device::{figures, id};
use super::item::Item;

pub(super) fn read(item: &Item<'_>) -> Option<Process> {
    let mut process = Process::absent();
    item.fields(PROCESS, &mut process);
    // The document does not have the ticks. The start time identifies the same process in the next document.
    let start_ticks = process.start_time.map_or(0, |time| time.0 / 1_000_000);
    process.key = ProcessKey { pid: item.small("pid")?, start_ticks };
    process.devices = item.list("devices")?.iter().map(device_use).collect::<Option<_>>()?;
    // A process without the list has only known chips.
    process.unmapped = item.list("unmapped").unwrap_or_default().iter().map(unmapped_chip).collect::<Option<_>>()?;
    Some(process)
}

fn device_use(item: &Item<'_>) -> Option<DeviceUse> {
    Some(DeviceUse { device: id(item)?, metal_ids: item.wholes("metal_ids"), kinds: figures(item) })
}

fn unmapped_chip(item: &Item<'_>) -> Option<Unmapped> {
    let id = item.meaning("id", |text| text.parse().ok()).ok()?;
    Some(Unmapped { id, unique_id: item.meaning("unique_id", |text| text.parse().ok()), kinds: figures(item) })
}
