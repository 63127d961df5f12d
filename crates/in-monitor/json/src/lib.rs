//! The public JSON document, schema 1. Fields may be added, but none is renamed or removed.
//!
//! Names, order and values come from the field tables of `ttmon_model::fields`. The document itself and each object in a list has a key
//! `missing`: `{"temperature": "remote_chip", "memory.kinds.dram.peak": "no_source"}`. It has the reason of every `null`, and no other
//! entries. Model types are not serializable, so the format can change only in this crate.

mod device;
mod document;
mod event;
mod frame;
mod line;
mod memory;
mod parts;
mod process;
mod read;
pub mod recording;
mod table;
mod value;

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};

use serde::ser::{Serialize, SerializeMap, Serializer};
use ttmon_model::limits::DOCUMENT_TEXTS_MAX;
use ttmon_model::sample::Problem;
use ttmon_model::{Missing, Snapshot};

use device::DeviceJson;
pub use document::Document;
pub use event::{event_line, held_json, read_event, refusal_json};
pub use frame::{frame_line, read_frame};
pub use line::line_json;
pub use memory::{GroupedMemoryJson, MemoryJson, MemoryParts};
pub use parts::{BuffersJson, DevicesJson, ProcessesJson};
use process::ProcessJson;
pub use read::{ReadError, read, read_within, time_of};
use table::Pairs;
use value::Escaping;
pub use value::rounded;

/// Number of bytes that are written at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Version of the document's format.
pub const SCHEMA: u32 = 1;

/// A snapshot, serialized as the public document.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotJson<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// Version of the program that writes the document.
    pub version: &'a str,
}

/// Layout of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Indented, for users and for single documents.
    Pretty,
    /// One line per document, for a stream.
    Line,
}

/// Returns the document as text, without a final newline.
pub fn to_string(document: &impl Serialize, layout: Layout) -> String {
    let text = match layout {
        Layout::Pretty => serde_json::to_string_pretty(document),
        Layout::Line => serde_json::to_string(document),
    };
    value::escape_invisible(text.expect("keys are texts, and no value of a snapshot refuses to be written"))
}

/// Writes the document and a newline in pieces, because the document may list a million buffers.
pub fn write(document: &impl Serialize, layout: Layout, out: &mut dyn Write) -> io::Result<()> {
    // serde_json writes a few bytes at a time and never splits a character. The buffer does not split characters either.
    let mut out = BufWriter::with_capacity(PIECE_BYTES, Escaping(out));
    match layout {
        Layout::Pretty => serde_json::to_writer_pretty(&mut out, document)?,
        Layout::Line => serde_json::to_writer(&mut out, document)?,
    }
    out.write_all(b"\n")?;
    out.flush()
}

impl Serialize for SnapshotJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.entries(&mut map)?;
        map.end()
    }
}

impl SnapshotJson<'_> {
    fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let snapshot = self.snapshot;
        let devices: Vec<_> = snapshot.devices.iter().map(|device| DeviceJson { snapshot, device }).collect();
        let processes: Vec<_> = snapshot.processes.iter().map(ProcessJson).collect();
        let reasons = snapshot.driver.as_ref().err().map(|reason| ("driver", reason.name()));

        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("version", self.version)?;
        map.serialize_entry("host", &snapshot.host)?;
        map.serialize_entry("time", &snapshot.time.rfc3339())?;
        // The reason is in `missing`.
        map.serialize_entry("driver", &snapshot.driver.as_ref().ok())?;
        map.serialize_entry("origin", snapshot.origin.name())?;
        map.serialize_entry("devices", &devices)?;
        map.serialize_entry("processes", &processes)?;
        map.serialize_entry("processes_age_s", &(snapshot.scan_age.as_millis() as f64 / 1e3))?;
        map.serialize_entry("problems", &bounded(&snapshot.problems))?;
        map.serialize_entry("missing", &Pairs(reasons.into_iter().collect()))
    }
}

/// Returns the first problems, and the number of the others if there are more than a reader accepts.
fn bounded(problems: &[Problem]) -> Vec<Pairs<&'static str, Cow<'_, str>>> {
    let shown = if problems.len() > DOCUMENT_TEXTS_MAX { DOCUMENT_TEXTS_MAX - 1 } else { problems.len() };
    let row = |part, reason: Missing, detail| Pairs(vec![("part", part), ("reason", reason.name().into()), ("detail", detail)]);
    let mut list: Vec<_> = problems[..shown].iter().map(|one| row((&one.part).into(), one.reason, (&one.detail).into())).collect();
    if shown < problems.len() {
        let detail = format!("{} more are not listed", problems.len() - shown);
        list.push(row("problems".into(), Missing::NotTracked, detail.into()));
    }
    list
}

#[cfg(test)]
mod tests;
