//! JSON of a device: the rows of `DEVICE`, its kinds of memory, and its processes.

use serde::ser::{Serialize, SerializeMap, Serializer};
use ttmon_model::fields::{DEVICE, DEVICE_KIND, PROCESS_KIND, Value};
use ttmon_model::memory::KindMemory;
use ttmon_model::snapshot::DeviceUse;
use ttmon_model::{Device, Process, Snapshot};

use crate::table::{Kinds, Reasons};
use crate::value::ReadingJson;

/// Rows of `DEVICE` with this prefix are members of this object.
pub(crate) const MEMORY: &str = "memory";

pub(crate) struct DeviceJson<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) device: &'a Device,
}

impl Serialize for DeviceJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let device = self.device;
        let processes: Vec<_> = self.snapshot.processes_on(device.id).map(|(process, use_of)| HolderJson { process, use_of }).collect();
        let mut reasons = Reasons::default();
        reasons.note_rows(DEVICE, device);
        reasons.note_kinds("memory.kinds", &kinds(device));

        let mut map = serializer.serialize_map(None)?;
        for field in DEVICE.iter().filter(|field| part_of_memory(field.name).is_none()) {
            map.serialize_entry(field.name, &ReadingJson::of(field, device))?;
        }
        map.serialize_entry(MEMORY, &MemoryJson(device))?;
        map.serialize_entry("processes", &processes)?;
        map.serialize_entry("missing", &reasons)?;
        map.end()
    }
}

struct MemoryJson<'a>(&'a Device);

impl Serialize for MemoryJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for field in DEVICE {
            if let Some(part) = part_of_memory(field.name) {
                map.serialize_entry(part, &ReadingJson::of(field, self.0))?;
            }
        }
        map.serialize_entry("kinds", &kinds(self.0))?;
        map.end()
    }
}

/// Returns `used` for `memory.used`.
pub(crate) fn part_of_memory(name: &str) -> Option<&str> {
    name.strip_prefix(MEMORY)?.strip_prefix('.')
}

fn kinds(device: &Device) -> Kinds<'_, KindMemory> {
    Kinds { table: DEVICE_KIND, items: &device.memory.kinds }
}

/// A process on this device. `memory` is its DRAM use on the device. Values that do not depend on the device are in the document's
/// `processes`, by pid.
struct HolderJson<'a> {
    process: &'a Process,
    use_of: &'a DeviceUse,
}

impl Serialize for HolderJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (name, memory) = (self.process.name.clone().map(Value::Text), self.use_of.dram().map(Value::Integer));
        let source = self.use_of.source().map(|source| Value::Text(source.name().to_owned()));
        let kinds = Kinds { table: PROCESS_KIND, items: &self.use_of.kinds };
        let mut reasons = Reasons::default();
        reasons.note("name", name.as_ref().err().copied());
        reasons.note("memory", memory.as_ref().err().copied());
        reasons.note("source", source.as_ref().err().copied());
        reasons.note("metal_ids", self.use_of.metal_ids.as_ref().err().copied());
        reasons.note_kinds("kinds", &kinds);

        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("pid", &self.process.key.pid)?;
        map.serialize_entry("name", &ReadingJson::plain(name))?;
        map.serialize_entry("memory", &ReadingJson::plain(memory))?;
        map.serialize_entry("status", self.process.status.name())?;
        map.serialize_entry("source", &ReadingJson::plain(source))?;
        map.serialize_entry("metal_ids", &self.use_of.metal_ids.as_ref().ok())?;
        map.serialize_entry("kinds", &kinds)?;
        map.serialize_entry("missing", &reasons)?;
        map.end()
    }
}
