//! Buffers now against those of an earlier `ttmon mem --json --buffers`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use ttmon_model::Missing;
use ttmon_model::snapshot::Buffer;
use ttmon_print::{Change, Sign};

use crate::failure::Failure;

/// A buffer of the earlier look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Earlier {
    key: Key,
    size: u64,
    tag: String,
}

/// Process, allocator, kind, address.
type Key = (u32, String, String, String);

/// Reads the earlier look.
pub(crate) fn read(path: &Path) -> Result<Vec<Earlier>, Failure> {
    let wrong = |why: String| Failure::new(format!("--diff {}: {why}; make it with: ttmon mem --json --buffers -f FILE", path.display()));
    let text = fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let document: Value = serde_json::from_slice(&text).map_err(|error| wrong(format!("not JSON: {error}")))?;
    let buffers = document["buffers"].as_array().ok_or_else(|| wrong("it has no buffers".to_owned()))?;
    buffers.iter().map(|buffer| earlier(buffer).ok_or_else(|| wrong(format!("this is not a buffer: {buffer}")))).collect()
}

fn earlier(buffer: &Value) -> Option<Earlier> {
    let text = |key: &str| buffer[key].as_str().map(str::to_owned);
    Some(Earlier {
        key: (u32::try_from(buffer["pid"].as_u64()?).ok()?, text("allocator")?, text("kind")?, text("address")?),
        size: buffer["size"].as_u64()?,
        tag: text("tag").unwrap_or_default(),
    })
}

/// What is new, gone, and of another size.
pub(crate) fn compare(earlier: &[Earlier], now: &[Buffer]) -> Vec<Change> {
    let mut before: BTreeMap<&Key, &Earlier> = earlier.iter().map(|earlier| (&earlier.key, earlier)).collect();
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
