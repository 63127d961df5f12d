//! JSON of one process, written and read: the fields of `PROCESS`, its totals, and its figures on each chip.

use std::slice;

use serde::ser::{Serialize, Serializer};
use ttmon_model::fields::{Field, PROCESS, PROCESS_KIND};
use ttmon_model::memory::Figure;
use ttmon_model::snapshot::{DeviceUse, Unmapped};
use ttmon_model::{Missing, PerKind, Process, ProcessKey};

use crate::device::id;
use crate::figure::figures;
use crate::item::Item;
use crate::object::Object;

pub(crate) struct ProcessJson<'a>(pub(crate) &'a Process);

impl Serialize for ProcessJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let process = self.0;
        let devices: Vec<_> = process.devices.iter().map(UseJson).collect();
        let unmapped: Vec<_> = process.unmapped.iter().map(UnmappedJson).collect();
        let mut object = Object::new(serializer)?;
        for field in PROCESS {
            object.field(field, process)?;
        }
        object.kinds(total_rows(), &totals(process))?;
        object.entry("devices", &devices)?;
        object.entry("unmapped", &unmapped)?;
        object.end()
    }
}

/// Returns the totals over all chips. Only `used` is summed, because peaks of different chips occur at different times.
fn totals(process: &Process) -> PerKind<Figure> {
    PerKind::from_fn(|kind| Figure { used: process.total(kind), ..Figure::missing(Missing::NotTracked) })
}

fn total_rows() -> &'static [Field<Figure>] {
    PROCESS_KIND.iter().find(|field| field.name == "used").map_or(&[], slice::from_ref)
}

struct UseJson<'a>(&'a DeviceUse);

impl Serialize for UseJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = Object::new(serializer)?;
        object.entry("id", &self.0.device.0)?;
        object.reading("memory", &self.0.kinds.dram())?;
        object.reading("metal_ids", &self.0.metal_ids)?;
        object.kinds(PROCESS_KIND, &self.0.kinds)?;
        object.end()
    }
}

struct UnmappedJson<'a>(&'a Unmapped);

impl Serialize for UnmappedJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = Object::new(serializer)?;
        object.entry("id", &self.0.id.to_string())?;
        object.reading("unique_id", &self.0.unique_id.map(|id| id.to_string()))?;
        object.kinds(PROCESS_KIND, &self.0.kinds)?;
        object.end()
    }
}

pub(crate) fn read(item: &Item<'_>) -> Option<Process> {
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
