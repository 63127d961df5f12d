//! The document read back into a snapshot: of a recording, or of another host. What a newer writer added is passed over;
//! what an older one did not know yet is absent (`not_exposed`).
//!
//! Some things are not in the document and so are not the same afterwards: the ticks of a process's start (its start time
//! stands for them), allocators that were closed, circular buffers one by one, and fractions beyond the third digit.

mod device;
pub(crate) mod item;
pub(crate) mod memory;
mod process;

use std::fmt;

use serde_json::Value;
use ttmon_model::sample::{Origin, Problem};
use ttmon_model::units::UnixTime;
use ttmon_model::{Missing, Process, Snapshot};

use crate::SCHEMA;
use item::Item;

/// Why a text is no document of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// It is not JSON, for this reason.
    NotJson(String),
    /// It is of a schema that this program does not know.
    Schema(u64),
    /// A part is not there, or not what it should be.
    Shape(&'static str),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson(why) => write!(f, "not JSON: {why}"),
            Self::Schema(number) => write!(f, "schema {number} is not known to this ttmon, which knows {SCHEMA}"),
            Self::Shape(part) => write!(f, "{part} is missing or not what it should be"),
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads a document.
pub fn read(text: &str) -> Result<Snapshot, ReadError> {
    let value: Value = serde_json::from_str(text).map_err(|error| ReadError::NotJson(error.to_string()))?;
    read_document(&Item::new(&value).ok_or(ReadError::Shape("the document"))?)
}

pub(crate) fn read_document(document: &Item<'_>) -> Result<Snapshot, ReadError> {
    match document.whole("schema") {
        Ok(schema) if schema == u64::from(SCHEMA) => {}
        Ok(other) => return Err(ReadError::Schema(other)),
        Err(_) => return Err(ReadError::Shape("schema")),
    }
    let devices = document.list("devices").ok_or(ReadError::Shape("devices"))?;
    let processes = document.list("processes").ok_or(ReadError::Shape("processes"))?;
    let processes: Vec<Process> = processes.iter().map(process::read).collect::<Option<_>>().ok_or(ReadError::Shape("a process"))?;
    let time = document.moment("time").map_err(|_| ReadError::Shape("time"))?;
    Ok(Snapshot {
        host: document.text("host").map_err(|_| ReadError::Shape("host"))?,
        time,
        driver: document.text("driver"),
        origin: if document.text("origin").as_deref() == Ok(Origin::Sim.name()) { Origin::Sim } else { Origin::Local },
        devices: devices.iter().map(device::read).collect::<Option<_>>().ok_or(ReadError::Shape("a device"))?,
        allocators: memory::allocators(document, &processes).ok_or(ReadError::Shape("an allocator"))?,
        buffers: memory::buffers(document, time, &processes).ok_or(ReadError::Shape("a buffer"))?,
        circulars: memory::circulars(document, &processes).ok_or(ReadError::Shape("a circular buffer"))?,
        denied_processes: document.whole("denied_processes").unwrap_or(0),
        processes,
        problems: document.list("problems").unwrap_or_default().iter().filter_map(problem).collect(),
    })
}

fn problem(item: &Item<'_>) -> Option<Problem> {
    Some(Problem {
        part: item.text("path").or_else(|_| item.text("part")).ok()?,
        reason: Missing::from_name(&item.text("reason").ok()?)?,
        detail: item.text("detail").ok()?,
    })
}

/// The moment of a document, without reading the rest of it.
pub fn time_of(text: &str) -> Option<UnixTime> {
    // A host may be called so, too.
    text.match_indices("\"time\"").find_map(|(from, name)| {
        let mut parts = text[from + name.len()..].splitn(3, '"');
        (parts.next()?.trim() == ":").then_some(())?;
        UnixTime::parse_rfc3339(parts.next()?)
    })
}
