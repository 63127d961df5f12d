//! The document of a snapshot, written and read. Single parts of it are for requests to the service.
//!
//! Some values are not in the document, so they differ afterwards: the ticks of a process's start (its start time replaces them), closed
//! allocators, single circular buffers, and digits of a fraction that were not written.

use std::borrow::Cow;
use std::time::Duration;

use serde::ser::{Serialize, SerializeMap, Serializer};
use ttmon_model::limits::{DOCUMENT_DEVICES_MAX, DOCUMENT_PROCESSES_MAX, DOCUMENT_TEXTS_MAX, DOCUMENT_USES_MAX};
use ttmon_model::sample::{Origin, Problem};
use ttmon_model::snapshot::MappedBuffer;
use ttmon_model::{Missing, Process, Snapshot};

use crate::buffer::buffers_json;
use crate::device::DeviceJson;
use crate::item::Item;
use crate::object::Pairs;
use crate::process::ProcessJson;
use crate::read::{Owners, known, list};
use crate::{Document, ReadError, SCHEMA, allocator, buffer, device, frame, process};

/// A snapshot, serialized as the public document.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotJson<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// Version of the program that writes the document.
    pub version: &'a str,
}

impl Serialize for SnapshotJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.entries(&mut map)?;
        map.end()
    }
}

impl<'a> SnapshotJson<'a> {
    pub(crate) fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let snapshot = self.snapshot;
        let reasons = snapshot.driver.as_ref().err().map(|reason| ("driver", reason.name()));
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("version", self.version)?;
        map.serialize_entry("host", &snapshot.host)?;
        map.serialize_entry("time", &snapshot.time.rfc3339())?;
        // The reason is in `missing`.
        map.serialize_entry("driver", &snapshot.driver.as_ref().ok())?;
        map.serialize_entry("origin", snapshot.origin.name())?;
        map.serialize_entry("devices", &self.devices())?;
        map.serialize_entry("processes", &self.processes())?;
        map.serialize_entry("processes_age_s", &(snapshot.scan_age.as_millis() as f64 / 1e3))?;
        map.serialize_entry("problems", &problems_json(&snapshot.problems))?;
        map.serialize_entry("missing", &Pairs(reasons.into_iter().collect()))
    }

    fn devices(&self) -> Vec<DeviceJson<'a>> {
        let snapshot = self.snapshot;
        snapshot.devices.iter().map(|device| DeviceJson { snapshot, device }).collect()
    }

    fn processes(&self) -> Vec<ProcessJson<'a>> {
        self.snapshot.processes.iter().map(ProcessJson).collect()
    }
}

/// A part of a snapshot as a document of its own.
#[derive(Clone, Copy, Debug)]
pub struct PartJson<'a> {
    /// The snapshot.
    pub snapshot: SnapshotJson<'a>,
    /// The part.
    pub part: Part<'a>,
}

/// What a document has after its header.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// The devices.
    Devices,
    /// The processes.
    Processes,
    /// These live buffers, and the number of all of them.
    Buffers(&'a [MappedBuffer], usize),
}

impl Serialize for PartJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SnapshotJson { snapshot, version } = self.snapshot;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("version", version)?;
        map.serialize_entry("host", &snapshot.host)?;
        map.serialize_entry("time", &snapshot.time.rfc3339())?;
        map.serialize_entry("origin", snapshot.origin.name())?;
        match self.part {
            Part::Devices => map.serialize_entry("devices", &self.snapshot.devices())?,
            Part::Processes => map.serialize_entry("processes", &self.snapshot.processes())?,
            Part::Buffers(buffers, count) => {
                map.serialize_entry("count", &count)?;
                map.serialize_entry("buffers", &buffers_json(buffers, snapshot.time))?;
                map.serialize_entry("problems", &problems_json(&snapshot.problems))?;
            }
        }
        map.end()
    }
}

/// Returns the first problems, and the number of the others if there are more than a reader accepts.
fn problems_json(problems: &[Problem]) -> Vec<Pairs<&'static str, Cow<'_, str>>> {
    let shown = if problems.len() > DOCUMENT_TEXTS_MAX { DOCUMENT_TEXTS_MAX - 1 } else { problems.len() };
    let row = |part, reason: Missing, detail| Pairs(vec![("part", part), ("reason", reason.name().into()), ("detail", detail)]);
    let mut list: Vec<_> = problems[..shown].iter().map(|one| row((&one.part).into(), one.reason, (&one.detail).into())).collect();
    if shown < problems.len() {
        let detail = format!("{} more are not listed", problems.len() - shown);
        list.push(row("problems".into(), Missing::NotTracked, detail.into()));
    }
    list
}

pub(crate) fn read_document(document: &Document<'_>) -> Result<Snapshot, ReadError> {
    let head = Item::new(&document.head).ok_or(ReadError::Shape("the document"))?;
    match head.whole("schema") {
        Ok(schema) if schema == u64::from(SCHEMA) => {}
        Ok(other) => return Err(ReadError::Schema(other)),
        Err(_) => return Err(ReadError::Shape("schema")),
    }
    for name in ["devices", "processes"] {
        if !document.has_list(name) {
            return Err(ReadError::Shape(name));
        }
    }
    let time = head.time("time").map_err(|_| ReadError::Shape("time"))?;
    let processes = processes(document)?;
    let owners = Owners::new(&processes);
    Ok(Snapshot {
        host: head.text("host").map_err(|_| ReadError::Shape("host"))?,
        time,
        lists_time: time,
        driver: head.text("driver"),
        origin: if head.text("origin").as_deref() == Ok(Origin::Sim.name()) { Origin::Sim } else { Origin::Local },
        devices: list(document, "devices", DOCUMENT_DEVICES_MAX, "a device", device::read)?,
        allocators: allocator::allocators(document, &owners)?,
        buffers: buffer::buffers(document, time, &owners)?,
        circulars: frame::circulars(document, &owners)?,
        // Earlier versions have neither of these members, and read processes at the time of the document.
        denied_processes: head.whole("denied_processes").unwrap_or(0),
        scan_age: head.float("processes_age_s").ok().and_then(|age| Duration::try_from_secs_f64(age).ok()).unwrap_or_default(),
        processes,
        problems: known(document, "problems", DOCUMENT_TEXTS_MAX, problem)?,
    })
}

fn processes(document: &Document<'_>) -> Result<Vec<Process>, ReadError> {
    let (mut processes, mut uses) = (Vec::new(), 0);
    document.each("processes", DOCUMENT_PROCESSES_MAX, |value| {
        let process = Item::new(value).and_then(|item| process::read(&item)).ok_or(ReadError::Shape("a process"))?;
        uses += process.devices.len() + process.unmapped.len();
        if uses > DOCUMENT_USES_MAX {
            return Err(ReadError::TooMuch("devices of processes"));
        }
        processes.push(process);
        Ok(())
    })?;
    Ok(processes)
}

/// Reads a problem; `None` if it has a reason that this version does not know.
fn problem(item: &Item<'_>) -> Option<Problem> {
    Some(Problem {
        part: item.text("path").or_else(|_| item.text("part")).ok()?,
        reason: Missing::from_name(&item.text("reason").ok()?)?,
        detail: item.text("detail").ok()?,
    })
}
