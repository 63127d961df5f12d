//! Single parts of the document, for requests to the service.

use serde::ser::{Serialize, SerializeMap, Serializer};
use ttmon_model::snapshot::MappedBuffer;

use crate::device::DeviceJson;
use crate::memory::buffers_json;
use crate::process::ProcessJson;
use crate::{SCHEMA, SnapshotJson, bounded};

impl SnapshotJson<'_> {
    /// Writes the first entries of every document.
    fn head<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("version", self.version)?;
        map.serialize_entry("host", &self.snapshot.host)?;
        map.serialize_entry("time", &self.snapshot.time.rfc3339())?;
        map.serialize_entry("origin", self.snapshot.origin.name())
    }
}

/// The document with only the devices.
#[derive(Clone, Copy, Debug)]
pub struct DevicesJson<'a>(pub SnapshotJson<'a>);

impl Serialize for DevicesJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let snapshot = self.0.snapshot;
        let devices: Vec<_> = snapshot.devices.iter().map(|device| DeviceJson { snapshot, device }).collect();
        let mut map = serializer.serialize_map(None)?;
        self.0.head(&mut map)?;
        map.serialize_entry("devices", &devices)?;
        map.end()
    }
}

/// The document with only the processes.
#[derive(Clone, Copy, Debug)]
pub struct ProcessesJson<'a>(pub SnapshotJson<'a>);

impl Serialize for ProcessesJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let processes: Vec<_> = self.0.snapshot.processes.iter().map(ProcessJson).collect();
        let mut map = serializer.serialize_map(None)?;
        self.0.head(&mut map)?;
        map.serialize_entry("processes", &processes)?;
        map.end()
    }
}

/// The document with only live buffers: those in the answer, and their total number.
#[derive(Clone, Copy, Debug)]
pub struct BuffersJson<'a> {
    /// The snapshot.
    pub snapshot: SnapshotJson<'a>,
    /// The buffers in the answer.
    pub buffers: &'a [MappedBuffer],
    /// The total number.
    pub count: usize,
}

impl Serialize for BuffersJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.snapshot.head(&mut map)?;
        map.serialize_entry("count", &self.count)?;
        map.serialize_entry("buffers", &buffers_json(self.buffers, self.snapshot.snapshot.time))?;
        map.serialize_entry("problems", &bounded(&self.snapshot.snapshot.problems))?;
        map.end()
    }
}
