//! Buffers now against those of an earlier `ttmon mem --json --buffers`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;

use serde_json::Value;
use ttmon_model::Missing;
use ttmon_model::snapshot::Buffer;
use ttmon_print::{Change, Sign};

use crate::failure::Failure;

/// Largest file read: some two million buffers.
const BYTES_MAX: u64 = 512 * 1024 * 1024;

/// A buffer of the earlier look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Earlier {
    key: Key,
    devices: Vec<u32>,
    size: u64,
    tag: String,
}

impl Earlier {
    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.key.0
    }

    /// The devices it lay on.
    pub(crate) fn devices(&self) -> &[u32] {
        &self.devices
    }
}

/// Process, allocator, kind, address.
type Key = (u32, String, String, String);

/// Reads the earlier look.
pub(crate) fn read(path: &Path) -> Result<Vec<Earlier>, Failure> {
    let wrong = |why: String| Failure::new(format!("--diff {}: {why}; make it with: ttmon mem --json --buffers > FILE", path.display()));
    // Before it is opened: a pipe would wait for its writer, and a device may have no end.
    let metadata = fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if !metadata.is_file() {
        return Err(wrong("it is not a regular file".to_owned()));
    }
    if metadata.len() > BYTES_MAX {
        return Err(wrong("it has more than 512 MiB".to_owned()));
    }
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut document: Value =
        serde_json::from_reader(BufReader::new(file.take(BYTES_MAX))).map_err(|error| wrong(format!("not JSON: {error}")))?;
    // The rest of the document goes before its buffers are taken apart, and each of them as it is.
    let Some(Value::Array(buffers)) = document.as_object_mut().and_then(|document| document.remove("buffers")) else {
        return Err(wrong("it has no buffers".to_owned()));
    };
    drop(document);
    buffers.into_iter().map(|buffer| earlier(&buffer).ok_or_else(|| wrong(format!("this is not a buffer: {buffer}")))).collect()
}

fn earlier(buffer: &Value) -> Option<Earlier> {
    let text = |key: &str| buffer[key].as_str().map(str::to_owned);
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    Some(Earlier {
        key: (number(&buffer["pid"])?, text("allocator")?, text("kind")?, text("address")?),
        devices: buffer["devices"].as_array()?.iter().map(number).collect::<Option<_>>()?,
        size: buffer["size"].as_u64()?,
        tag: text("tag").unwrap_or_default(),
    })
}

/// What is new, gone, and of another size.
pub(crate) fn compare<'a>(earlier: impl Iterator<Item = &'a Earlier>, now: &[Buffer]) -> Vec<Change> {
    let mut before: BTreeMap<&Key, &Earlier> = earlier.map(|earlier| (&earlier.key, earlier)).collect();
    let mut changes = Vec::new();
    for buffer in now {
        let entry = &buffer.entry;
        let key = (buffer.process.pid, buffer.allocator.clone(), entry.kind.name().to_owned(), format!("{:#x}", entry.address));
        let tag = entry.tag.clone().unwrap_or_default();
        match before.remove(&key) {
            Some(earlier) if earlier.size == entry.size => {}
            Some(earlier) => changes.push(change(Sign::Resized, key, Some(earlier.size), Some(entry.size), tag)),
            None => changes.push(change(Sign::New, key, None, Some(entry.size), tag)),
        }
    }
    changes
        .extend(before.into_values().map(|earlier| change(Sign::Gone, earlier.key.clone(), Some(earlier.size), None, earlier.tag.clone())));
    changes.sort_by_key(|change| change.sign);
    changes
}

fn change(sign: Sign, (pid, _, kind, address): Key, before: Option<u64>, now: Option<u64>, tag: String) -> Change {
    let reading = |size: Option<u64>| size.ok_or(Missing::NoSource);
    Change { sign, pid, kind, address, before: reading(before), now: reading(now), tag }
}
