//! JSON of live buffers, written and read: their list, their stacks, and their groups.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};
use ttmon_model::groups::{BufferGroup, GroupKey};
use ttmon_model::ledger::{Buffer, BufferKind, BufferLayout};
use ttmon_model::limits::{DOCUMENT_ENTRIES_MAX, DOCUMENT_FRAMES_MAX};
use ttmon_model::snapshot::{BufferAllocator, MappedBuffer};
use ttmon_model::stack::{SourceLine, Stack};
use ttmon_model::units::UnixTime;
use ttmon_model::{DeviceId, KernelType, Kind, ProcessKey};

use crate::allocator::OTHERS;
use crate::item::Item;
use crate::line::line_json;
use crate::object::Lazy;
use crate::read::{Owners, list};
use crate::{Document, ReadError};

pub(crate) fn buffers_json(buffers: &[MappedBuffer], now: UnixTime) -> impl Serialize {
    Lazy(move || buffers.iter().map(move |buffer| BufferJson { buffer, now }))
}

struct BufferJson<'a> {
    buffer: &'a MappedBuffer,
    now: UnixTime,
}

impl Serialize for BufferJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = &self.buffer.buffer;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("pid", &self.buffer.process().pid)?;
        map.serialize_entry("allocator", &self.buffer.allocator.id)?;
        map.serialize_entry("kind", entry.kind.name())?;
        map.serialize_entry("address", &format_args!("{:#x}", entry.address))?;
        map.serialize_entry("size", &entry.size)?;
        map.serialize_entry("per_bank", &entry.per_bank)?;
        map.serialize_entry("page_size", &entry.page_size)?;
        map.serialize_entry("layout", &entry.layout.map(BufferLayout::name))?;
        map.serialize_entry("cores", &entry.cores)?;
        map.serialize_entry("devices", &device_ids(self.buffer.devices()))?;
        map.serialize_entry("refs", &entry.refs)?;
        map.serialize_entry("age_s", &age_seconds(entry.time, self.now))?;
        map.serialize_entry("tag", &entry.tag.as_deref())?;
        if let Some(operation) = entry.operation.as_deref() {
            map.serialize_entry("op", operation)?;
        }
        if let Some(stack) = &entry.stack {
            map.serialize_entry("line", &line_json(Some(&stack.line)))?;
            if stack.number > 0 {
                map.serialize_entry("stack", &stack.number)?;
            }
        }
        if let Some(kernel_type) = entry.kernel_type {
            map.serialize_entry("kernel_type", kernel_type.name())?;
        }
        map.end()
    }
}

pub(crate) fn group_json(group: &BufferGroup, now: UnixTime) -> Value {
    let (name, key) = match &group.key {
        GroupKey::Line(line) => ("line", line_json(line.as_deref())),
        GroupKey::Text(text) => ("name", text.as_deref().map(String::as_str).into()),
    };
    let oldest = group.oldest.and_then(|oldest| age_seconds(oldest, now));
    json!({
        name: key,
        "bytes": group.bytes,
        "count": group.count,
        "largest": group.largest,
        "oldest_age_s": oldest,
        "since_bytes": group.since,
        "growth_bytes": group.growth,
    })
}

pub(crate) fn device_ids(ids: &[DeviceId]) -> impl Serialize {
    Lazy(|| ids.iter().map(|id| id.0))
}

/// Returns the age in seconds, to the millisecond. Returns `None` if the time is unknown, and 0 if the clock was set back since.
fn age_seconds(time: UnixTime, now: UnixTime) -> Option<f64> {
    let millis = now.0.saturating_sub(time.0) / 1_000_000;
    (time.0 > 0).then_some(millis as f64 / 1000.0)
}

/// Reads the live buffers, if the document has them.
pub(crate) fn buffers(document: &Document<'_>, now: UnixTime, owners: &Owners) -> Result<Vec<MappedBuffer>, ReadError> {
    let stacks = stacks(document)?;
    list(document, "buffers", DOCUMENT_ENTRIES_MAX, "a buffer", |item| buffer(item, now, owners, &stacks))
}

fn buffer(item: &Item<'_>, now: UnixTime, owners: &Owners, stacks: &Frames) -> Option<MappedBuffer> {
    let allocator = BufferAllocator { id: item.text("allocator").ok()?, process: owners.of(item)?, devices: item.ids("devices") };
    let small = |name| NonZeroU32::new(u32::try_from(item.whole(name).ok()?).unwrap_or(u32::MAX));
    Some(MappedBuffer {
        buffer: Buffer {
            // The index is not used, because the document has no ledgers. The id identifies the allocator.
            allocator: 0,
            kind: item.meaning("kind", buffer_kind).ok()?,
            address: item.address("address").ok()?,
            size: item.whole("size").ok()?,
            per_bank: small("per_bank"),
            page_size: small("page_size"),
            layout: item.meaning("layout", BufferLayout::from_name).ok(),
            cores: small("cores"),
            refs: u32::try_from(item.whole("refs").ok()?).unwrap_or(u32::MAX),
            time: item.float("age_s").map_or(UnixTime(0), |age| before(now, age)),
            tag: item.text("tag").ok().map(Arc::from),
            operation: item.text("op").ok().map(Arc::from),
            stack: stack(item, allocator.process, stacks),
            is_per_core: false,
            is_cached: false,
            kernel_type: item.meaning("kernel_type", KernelType::from_name).ok(),
        },
        allocator: Arc::new(allocator),
    })
}

pub(crate) fn buffer_kind(name: &str) -> Option<BufferKind> {
    Kind::from_name(name).map(BufferKind::Of).or_else(|| OTHERS.into_iter().find(|kind| kind.name() == name))
}

/// Returns the time that is this many seconds before another, to the millisecond.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, and ages are neither negative nor centuries")]
fn before(now: UnixTime, seconds: f64) -> UnixTime {
    UnixTime(now.0.saturating_sub(((seconds * 1000.0).round() as u64).saturating_mul(1_000_000)).max(1))
}

/// Returns the stacks of the buffers, in the order of the buffers, and the number of omitted stacks.
pub(crate) fn stacks_json(buffers: &[MappedBuffer]) -> (Vec<Value>, usize) {
    let (mut seen, mut stacks) = (HashSet::new(), Vec::new());
    let (mut frames, mut left_out) = (0, 0);
    for buffer in buffers {
        let Some(stack) = buffer.buffer.stack.as_ref().filter(|stack| stack.number > 0) else { continue };
        let pid = buffer.process().pid;
        if !seen.insert((pid, stack.number)) {
            continue;
        }
        frames += stack.frames.len();
        if frames > DOCUMENT_FRAMES_MAX {
            left_out += 1;
            continue;
        }
        let lines: Vec<Value> = stack.frames.iter().map(|frame| line_json(Some(frame))).collect();
        stacks.push(json!({"pid": pid, "stack": stack.number, "frames": lines}));
    }
    (stacks, left_out)
}

/// The frames of stacks by process and number.
type Frames = HashMap<(u32, u32), Vec<Arc<SourceLine>>>;

fn stacks(document: &Document<'_>) -> Result<Frames, ReadError> {
    let read = |item: &Item<'_>| {
        let frames = item.list("frames")?.iter().take(DOCUMENT_FRAMES_MAX).map(crate::line::read).collect();
        Some(((item.small("pid")?, item.small("stack")?), frames))
    };
    Ok(list(document, "stacks", DOCUMENT_FRAMES_MAX, "a stack", read)?.into_iter().collect())
}

/// Reads the stack of a buffer: its line, and the other lines if the document has them.
fn stack(item: &Item<'_>, process: ProcessKey, stacks: &Frames) -> Option<Arc<Stack>> {
    let line = crate::line::line(item, "line")?;
    let number = item.small("stack").unwrap_or(0);
    let frames = stacks.get(&(process.pid, number)).cloned();
    Some(Arc::new(Stack { number, frames: frames.unwrap_or_else(|| vec![line.clone()]), line }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_age_is_missing() {
        let now = UnixTime(1_700_000_000_000_000_000);
        assert_eq!(age_seconds(UnixTime(now.0 - 1_234_567_890), now), Some(1.234));
        assert_eq!(age_seconds(UnixTime(now.0 + 1), now), Some(0.0));
        assert_eq!(age_seconds(UnixTime(0), now), None);
    }
}
