//! Reads a document of a recording or of another host into a snapshot. Additions of newer writers are skipped. Fields that an older writer
//! does not support are missing (`not_exposed`).
//!
//! Some values are not in the document, so they differ afterwards: the ticks of a process's start (its start time replaces them), closed
//! allocators, single circular buffers, and digits of a fraction that were not written.

mod device;
pub(crate) mod item;
pub(crate) mod memory;
mod process;

use std::time::{Duration, Instant};

use ttmon_model::limits::{DOCUMENT_DEVICES_MAX, DOCUMENT_PROCESSES_MAX, DOCUMENT_TEXTS_MAX, DOCUMENT_USES_MAX};
use ttmon_model::sample::{Origin, Problem};
use ttmon_model::units::UnixTime;
use ttmon_model::{Missing, Process, Snapshot};

use crate::SCHEMA;
use crate::document::Document;
use item::Item;
use memory::Owners;

/// Why a text is not a document of ttmon.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the texts document the causes")]
pub enum ReadError {
    #[error("not JSON: {0}")]
    NotJson(String),
    #[error("schema {0} is not known to this ttmon, which knows {SCHEMA}")]
    Schema(u64),
    #[error("{0} is missing or not what it should be")]
    Shape(&'static str),
    #[error("it has more {0} than any host has")]
    TooMuch(&'static str),
    #[error("reading it takes too long")]
    Late,
}

/// Reads a document.
pub fn read(text: &str) -> Result<Snapshot, ReadError> {
    read_within(text, None)
}

/// Reads a document before a deadline.
pub fn read_within(text: &str, deadline: Option<Instant>) -> Result<Snapshot, ReadError> {
    read_document(&Document::read(text, deadline)?)
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
        allocators: memory::allocators(document, &owners)?,
        buffers: memory::buffers(document, time, &owners)?,
        circulars: memory::circulars(document, &owners)?,
        // Earlier versions have neither of these members, and read processes at the time of the document.
        denied_processes: head.whole("denied_processes").unwrap_or(0),
        scan_age: head.float("processes_age_s").ok().and_then(|age| Duration::try_from_secs_f64(age).ok()).unwrap_or_default(),
        processes,
        problems: problems(document)?,
    })
}

/// Returns the elements of a list. All must be valid.
pub(crate) fn list<T>(
    document: &Document<'_>,
    name: &'static str,
    count_max: usize,
    element: &'static str,
    read: impl Fn(&Item<'_>) -> Option<T>,
) -> Result<Vec<T>, ReadError> {
    let mut list = Vec::new();
    document.each(name, count_max, |value| {
        list.push(Item::new(value).and_then(|item| read(&item)).ok_or(ReadError::Shape(element))?);
        Ok(())
    })?;
    Ok(list)
}

/// Returns the elements of a list that this version can read. A later version may have others.
pub(crate) fn known<T>(
    document: &Document<'_>,
    name: &'static str,
    count_max: usize,
    read: impl Fn(&Item<'_>) -> Option<T>,
) -> Result<Vec<T>, ReadError> {
    let mut list = Vec::new();
    document.each(name, count_max, |value| {
        list.extend(Item::new(value).and_then(|item| read(&item)));
        Ok(())
    })?;
    Ok(list)
}

fn problems(document: &Document<'_>) -> Result<Vec<Problem>, ReadError> {
    let mut problems = Vec::new();
    document.each("problems", DOCUMENT_TEXTS_MAX, |value| {
        problems.extend(Item::new(value).and_then(|item| problem(&item)));
        Ok(())
    })?;
    Ok(problems)
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

/// Returns the time of a document without parsing the rest.
pub fn time_of(text: &str) -> Option<UnixTime> {
    // A string with this text may come earlier, for example the name of the host.
    text.match_indices("\"time\"").find_map(|(from, name)| {
        let mut parts = text[from + name.len()..].splitn(3, '"');
        (parts.next()?.trim() == ":").then_some(())?;
        UnixTime::parse_rfc3339(parts.next()?)
    })
}
