//! The public JSON document, schema 1. Fields may be added, but none is renamed or removed.
//!
//! Names, order and values come from the field tables of `ttmon_model::fields`. The document itself and each object in a list has a key
//! `missing`: `{"temperature": "remote_chip", "memory.kinds.dram.peak": "no_source"}`. It has the reason of every `null`, and no other
//! entries. Model types are not serializable, so the format can change only in this crate.

mod allocator;
mod buffer;
mod device;
mod document;
mod event;
mod figure;
mod frame;
mod item;
mod line;
mod memory;
mod object;
mod process;
mod read;
pub mod recording;
mod snapshot;
mod value;

use std::io::{self, BufWriter, Write};

use serde::ser::Serialize;

pub use document::Document;
pub use event::{event_line, held_json, read_event, refusal_json};
pub use frame::{frame_line, read_frame};
pub use line::line_json;
pub use memory::{MemoryJson, MemoryParts};
pub use read::{ReadError, read, read_within, time_of};
pub use snapshot::{Part, PartJson, SnapshotJson};
use value::Escaping;
pub use value::rounded;

/// Number of bytes that are written at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Version of the document's format.
pub const SCHEMA: u32 = 1;

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

#[cfg(test)]
mod tests;
