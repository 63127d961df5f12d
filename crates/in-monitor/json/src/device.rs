//! JSON of a device, written and read: the rows of `DEVICE`, its kinds of memory, and its processes.

use serde::ser::{Serialize, SerializeMap, Serializer};
use ttmon_model::fields::{DEVICE, DEVICE_KIND, PROCESS_KIND};
use ttmon_model::snapshot::DeviceUse;
use ttmon_model::{Device, DeviceId, Kind, Missing, Process, Snapshot, Source};

use crate::figure::{Kinds, kernel_types};
use crate::item::Item;
use crate::object::Object;
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
        let mut object = Object::new(serializer)?;
        for field in DEVICE.iter().filter(|field| part_of_memory(field.name).is_none()) {
            object.field(field, device)?;
        }
        // The reasons of a nested object are in the outer one.
        for field in DEVICE.iter().filter(|field| part_of_memory(field.name).is_some()) {
            object.note(field.name, (field.get)(device).as_ref().err());
        }
        object.note_kinds("memory.kinds", DEVICE_KIND, &device.memory.kinds);
        object.entry(MEMORY, &MemoryJson(device))?;
        object.entry("processes", &processes)?;
        object.end()
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
        let kinds = Kinds { table: DEVICE_KIND, items: &self.0.memory.kinds, types: |memory| memory.figure.kernel_types.as_deref() };
        map.serialize_entry("kinds", &kinds)?;
        map.end()
    }
}

/// Returns `used` for `memory.used`.
pub(crate) fn part_of_memory(name: &str) -> Option<&str> {
    name.strip_prefix(MEMORY)?.strip_prefix('.')
}

/// A process on this device. `memory` is its DRAM use on the device. Values that do not depend on the device are in the document's
/// `processes`, by pid.
struct HolderJson<'a> {
    process: &'a Process,
    use_of: &'a DeviceUse,
}

impl Serialize for HolderJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { process, use_of } = self;
        let mut object = Object::new(serializer)?;
        object.entry("pid", &process.key.pid)?;
        object.reading("name", &process.name)?;
        object.reading("memory", &use_of.kinds.dram())?;
        object.entry("status", process.status.name())?;
        object.reading("source", &use_of.source().map(Source::name))?;
        object.reading("metal_ids", &use_of.metal_ids)?;
        object.kinds(PROCESS_KIND, &use_of.kinds)?;
        object.end()
    }
}

pub(crate) fn read(item: &Item<'_>) -> Option<Device> {
    id(item)?;
    let mut device = Device::absent();
    item.fields(DEVICE, &mut device);
    let kinds = item.part("memory").and_then(|memory| memory.part("kinds"));
    for kind in Kind::ALL {
        let memory = &mut device.memory.kinds[kind];
        match kinds.as_ref().and_then(|kinds| kinds.part(kind.name())) {
            Some(kind) => {
                kind.fields(DEVICE_KIND, memory);
                memory.figure.kernel_types = kernel_types(&kind);
            }
            None => DEVICE_KIND.iter().for_each(|field| (field.set)(memory, Err(Missing::NotExposed))),
        }
    }
    Some(device)
}

pub(crate) fn id(item: &Item<'_>) -> Option<DeviceId> {
    item.small("id").map(DeviceId)
}
