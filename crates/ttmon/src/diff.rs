//! Buffers now against those of an earlier `ttmon mem --json --buffers`.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;

use ttmon_model::Missing;
use ttmon_model::snapshot::Buffer;
use ttmon_print::{Change, Sign};

use crate::earlier::{self, Earlier};
use crate::failure::Failure;

/// Largest file read: some two million buffers.
const BYTES_MAX: u64 = 512 * 1024 * 1024;

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
    let buffers = earlier::parse(BufReader::new(file.take(BYTES_MAX)))
        .map_err(|error| wrong(if error.is_data() { error.to_string() } else { format!("not JSON: {error}") }))?;
    buffers.ok_or_else(|| wrong("it has no buffers".to_owned()))
}

/// What is new, gone, and of another size.
pub(crate) fn compare<'a>(earlier: impl Iterator<Item = &'a Earlier>, now: &[Buffer]) -> Vec<Change> {
    let mut before: Vec<&Earlier> = earlier.collect();
    before.sort_by(|a, b| key_of(a).cmp(&key_of(b)));
    before.dedup_by(|a, b| key_of(a) == key_of(b));
    let mut is_there = vec![false; before.len()];
    let mut changes = Vec::new();
    for buffer in now {
        let entry = &buffer.entry;
        let key: Key<'_> = (buffer.process.pid, &buffer.allocator, entry.kind.name(), entry.address);
        let sizes = match before.binary_search_by(|earlier| key_of(earlier).cmp(&key)) {
            Ok(found) => {
                is_there[found] = true;
                (Some(before[found].size), Some(entry.size))
            }
            Err(_) => (None, Some(entry.size)),
        };
        let sign = if sizes.0.is_some() { Sign::Resized } else { Sign::New };
        if sizes.0 != sizes.1 {
            changes.push(change(sign, key, sizes, entry.tag.as_deref().unwrap_or_default()));
        }
    }
    let gone = before.iter().zip(is_there).filter(|(_, is_there)| !is_there);
    changes.extend(gone.map(|(earlier, _)| change(Sign::Gone, key_of(earlier), (Some(earlier.size), None), &earlier.tag)));
    changes.sort_by_key(|change| change.sign);
    changes
}

/// Process, allocator, kind, address.
type Key<'a> = (u32, &'a str, &'a str, u64);

fn key_of(earlier: &Earlier) -> Key<'_> {
    (earlier.pid, &earlier.allocator, &earlier.kind, earlier.address)
}

fn change(sign: Sign, (pid, _, kind, address): Key<'_>, (before, now): (Option<u64>, Option<u64>), tag: &str) -> Change {
    let reading = |size: Option<u64>| size.ok_or(Missing::NoSource);
    let (kind, address) = (kind.to_owned(), format!("{address:#x}"));
    Change { sign, pid, kind, address, before: reading(before), now: reading(now), tag: tag.to_owned() }
}
