//! JSON of one process: the fields of `PROCESS`, its totals, and its figures on each chip.

use std::slice;

use serde::ser::{Serialize, SerializeMap, Serializer};
use ttmon_model::fields::{Field, PROCESS, PROCESS_KIND, Value};
use ttmon_model::memory::Figure;
use ttmon_model::snapshot::{DeviceUse, Unmapped};
use ttmon_model::{Missing, PerKind, Process};

use crate::table::{Kinds, Reasons};
use crate::value::ReadingJson;

pub(crate) struct ProcessJson<'a>(pub(crate) &'a Process);

impl Serialize for ProcessJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let process = self.0;
        let totals = totals(process);
        let kinds = Kinds { table: total_rows(), items: &totals };
        let devices: Vec<_> = process.devices.iter().map(UseJson).collect();
        let unmapped: Vec<_> = process.unmapped.iter().map(UnmappedJson).collect();
        let mut reasons = Reasons::default();
        reasons.note_rows(PROCESS, process);
        reasons.note_kinds("kinds", &kinds);

        let mut map = serializer.serialize_map(None)?;
        for field in PROCESS {
            map.serialize_entry(field.name, &ReadingJson::of(field, process))?;
        }
        map.serialize_entry("kinds", &kinds)?;
        map.serialize_entry("devices", &devices)?;
        map.serialize_entry("unmapped", &unmapped)?;
        map.serialize_entry("missing", &reasons)?;
        map.end()
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
        let kinds = Kinds { table: PROCESS_KIND, items: &self.0.kinds };
        let mut reasons = Reasons::default();
        reasons.note("memory", self.0.dram().err());
        reasons.note("metal_ids", self.0.metal_ids.as_ref().err().copied());
        reasons.note_kinds("kinds", &kinds);

        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.0.device.0)?;
        map.serialize_entry("memory", &ReadingJson::plain(self.0.dram().map(Value::Integer)))?;
        map.serialize_entry("metal_ids", &self.0.metal_ids.as_ref().ok())?;
        map.serialize_entry("kinds", &kinds)?;
        map.serialize_entry("missing", &reasons)?;
        map.end()
    }
}

struct UnmappedJson<'a>(&'a Unmapped);

impl Serialize for UnmappedJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kinds = Kinds { table: PROCESS_KIND, items: &self.0.kinds };
        let mut reasons = Reasons::default();
        reasons.note("unique_id", self.0.unique_id.err());
        reasons.note_kinds("kinds", &kinds);

        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.0.id.to_string())?;
        map.serialize_entry("unique_id", &self.0.unique_id.ok().map(|id| id.to_string()))?;
        map.serialize_entry("kinds", &kinds)?;
        map.serialize_entry("missing", &reasons)?;
        map.end()
    }
}
