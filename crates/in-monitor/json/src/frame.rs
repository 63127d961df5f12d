//! A frame of a recording: the document with all its parts, circular buffers, and the events since the previous frame.

use serde_json::{Value, json};
use ttmon_model::Snapshot;
use ttmon_model::event::BufferEvent;
use ttmon_model::ledger::LedgerCircular;
use ttmon_model::limits::DOCUMENT_ENTRIES_MAX;
use ttmon_model::snapshot::Circular;

use crate::read::{Owners, known, list};
use crate::{Document, Layout, MemoryJson, MemoryParts, ReadError, SnapshotJson};

/// Returns the line of a frame.
pub fn frame_line(snapshot: &Snapshot, version: &str, events: &[BufferEvent]) -> String {
    let parts = MemoryParts { buffers: true, banks: true, blocks: true, ..MemoryParts::default() };
    let mut text = crate::to_string(&MemoryJson { snapshot: SnapshotJson { snapshot, version }, parts }, Layout::Line);
    let circulars: Vec<Value> = snapshot.circulars.iter().map(circular_json).collect();
    let events: Vec<String> = events.iter().map(crate::event_line).collect();
    // The document is an object. Insert two more entries before its end.
    text.pop();
    text + &format!(",\"circulars\":{},\"events\":[{}]}}", crate::to_string(&circulars, Layout::Line), events.join(","))
}

fn circular_json(circular: &Circular) -> Value {
    let entry = &circular.entry;
    json!({
        "pid": circular.process.pid,
        "devices": circular.devices.iter().map(|id| id.0).collect::<Vec<_>>(),
        "program": entry.program,
        "address": format!("{:#x}", entry.address),
        "size": entry.size,
        "cores": entry.cores,
        "global": entry.is_global,
    })
}

/// Reads the circular buffers. Only recordings have them.
pub(crate) fn circulars(document: &Document<'_>, owners: &Owners) -> Result<Vec<Circular>, ReadError> {
    let read = |item: &crate::item::Item<'_>| {
        let cores: Vec<u8> = item.ids("cores").iter().map(|number| u8::try_from(number.0).ok()).collect::<Option<_>>()?;
        Some(Circular {
            process: owners.of(item)?,
            slot: 0,
            devices: item.ids("devices"),
            entry: LedgerCircular {
                // The index is not used, as for buffers. The devices are those of the circular buffer.
                allocator: 0,
                chip: None,
                program: item.small("program")?,
                address: item.address("address").ok()?,
                size: item.whole("size").ok()?,
                cores: cores.try_into().ok()?,
                is_global: item.truth("global").ok()?,
            },
        })
    };
    list(document, "circulars", DOCUMENT_ENTRIES_MAX, "a circular buffer", read)
}

/// Reads a frame. Returns the snapshot, and the events before it.
pub fn read_frame(text: &str) -> Result<(Snapshot, Vec<BufferEvent>), ReadError> {
    let document = Document::read(text, None)?;
    // Events in an unknown format of a later version are skipped.
    let events = known(&document, "events", DOCUMENT_ENTRIES_MAX, crate::event::event)?;
    Ok((crate::snapshot::read_document(&document)?, events))
}
