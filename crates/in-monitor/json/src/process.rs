//! JSON of one process: the fields of `PROCESS`, its totals, and its figures on each chip.

use std::slice;

use serde::ser::{Serialize, Serializer};
use ttmon_model::fields::{Field, PROCESS, PROCESS_KIND};
use ttmon_model::memory::Figure;
use ttmon_model::snapshot::{DeviceUse, Unmapped};
use ttmon_model::{Missing, PerKind, Process};

use crate::table::Object;

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
