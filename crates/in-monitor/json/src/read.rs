//! Reads documents of a recording or of another host. Additions of newer writers are skipped. Fields that an older writer does not support
//! are missing (`not_exposed`).

use std::collections::HashMap;
use std::time::Instant;

use ttmon_model::units::UnixTime;
use ttmon_model::{Process, ProcessKey, Snapshot};

use crate::SCHEMA;
use crate::document::Document;
use crate::item::Item;
use crate::snapshot::read_document;

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

/// The processes of a document by pid. A document has each pid once.
pub(crate) struct Owners(HashMap<u32, ProcessKey>);

impl Owners {
    pub(crate) fn new(processes: &[Process]) -> Self {
        Self(processes.iter().map(|process| (process.key.pid, process.key)).collect())
    }

    pub(crate) fn of(&self, item: &Item<'_>) -> Option<ProcessKey> {
        let pid = item.small("pid")?;
        Some(self.0.get(&pid).copied().unwrap_or(ProcessKey { pid, start_ticks: 0 }))
    }
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

/// Returns the time of a document without parsing the rest.
pub fn time_of(text: &str) -> Option<UnixTime> {
    // A string with this text may come earlier, for example the name of the host.
    text.match_indices("\"time\"").find_map(|(from, name)| {
        let mut parts = text[from + name.len()..].splitn(3, '"');
        (parts.next()?.trim() == ":").then_some(())?;
        UnixTime::parse_rfc3339(parts.next()?)
    })
}
