//! The document of `ttmon mem`: that of the snapshot, with the allocators of tracked processes, their buffers and their blocks.

use std::collections::HashSet;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};
use ttmon_model::fields::{ALLOCATOR_BANKS, ALLOCATOR_KIND, Field};
use ttmon_model::groups::{BufferGroup, GroupKey};
use ttmon_model::ledger::{BufferLayout, HookFeature, LedgerSelfCheck};
use ttmon_model::limits::DOCUMENT_FRAMES_MAX;
use ttmon_model::memory::Source;
use ttmon_model::snapshot::{Allocator, AllocatorKind, Block, MappedBuffer};
use ttmon_model::units::UnixTime;
use ttmon_model::{DeviceId, Kind};

use crate::SnapshotJson;
use crate::line::line_json;
use crate::table::{Lazy, Object, Pairs, kernel_types_entry};
use crate::value::ReadingJson;

/// A snapshot with its allocators, serialized as a document.
#[derive(Clone, Copy, Debug)]
pub struct MemoryJson<'a> {
    /// The snapshot.
    pub snapshot: SnapshotJson<'a>,
    /// Additional parts.
    pub parts: MemoryParts,
}

/// A snapshot with its allocators, and its buffers grouped by line, tag or operation.
#[derive(Clone, Copy, Debug)]
pub struct GroupedMemoryJson<'a> {
    /// The snapshot with its allocators.
    pub memory: MemoryJson<'a>,
    /// The groups.
    pub groups: &'a [BufferGroup],
    /// Number of groups that were not requested.
    pub left_out: usize,
}

impl Serialize for GroupedMemoryJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.memory.entries(&mut map)?;
        if self.left_out > 0 {
            map.serialize_entry("groups_left_out", &self.left_out)?;
        }
        let now = self.memory.snapshot.snapshot.time;
        map.serialize_entry("groups", &self.groups.iter().map(|group| group_json(group, now)).collect::<Vec<_>>())?;
        map.end()
    }
}

/// Optional parts of the document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryParts {
    /// Every live buffer.
    pub buffers: bool,
    /// Number of buffers that were not requested.
    pub buffers_left_out: usize,
    /// The banks of each kind of an allocator's memory.
    pub banks: bool,
    /// The blocks of those banks.
    pub blocks: bool,
}

impl Serialize for MemoryJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.entries(&mut map)?;
        map.end()
    }
}

impl MemoryJson<'_> {
    fn entries<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let snapshot = self.snapshot.snapshot;
        self.snapshot.entries(map)?;
        let open = || snapshot.allocators.iter().filter(|allocator| allocator.is_open);
        let allocators = open().map(|allocator| AllocatorJson { allocator, has_banks: self.parts.banks });
        map.serialize_entry("allocators", &allocators.collect::<Vec<_>>())?;
        map.serialize_entry("denied_processes", &snapshot.denied_processes)?;
        if self.parts.blocks {
            map.serialize_entry("blocks", &Lazy(|| blocks(&snapshot.allocators)))?;
        }
        if self.parts.buffers {
            if self.parts.buffers_left_out > 0 {
                map.serialize_entry("buffers_left_out", &self.parts.buffers_left_out)?;
            }
            let (stacks, left_out) = stacks(&snapshot.buffers);
            if !stacks.is_empty() {
                map.serialize_entry("stacks", &stacks)?;
            }
            if left_out > 0 {
                map.serialize_entry("stacks_left_out", &left_out)?;
            }
            map.serialize_entry("buffers", &buffers_json(&snapshot.buffers, snapshot.time))?;
        }
        Ok(())
    }
}

struct AllocatorJson<'a> {
    allocator: &'a Allocator,
    has_banks: bool,
}

/// Returns the fields of a kind.
fn fields(has_banks: bool) -> impl Iterator<Item = &'static Field<AllocatorKind>> {
    ALLOCATOR_KIND.iter().chain(ALLOCATOR_BANKS.iter().filter(move |_| has_banks))
}

impl Serialize for AllocatorJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { allocator, has_banks } = *self;
        let kinds = || {
            let others = allocator.others.iter().map(|(kind, item)| (kind.name(), KindJson { item, has_banks: false }));
            known(allocator).map(move |(kind, item)| (kind.name(), KindJson { item, has_banks })).chain(others)
        };
        let mut object = Object::new(serializer)?;
        for (kind, KindJson { item, has_banks }) in kinds() {
            for field in fields(has_banks) {
                object.note(format!("kinds.{kind}.{}", field.name), (field.get)(item).as_ref().err());
            }
        }
        object.entry("id", &allocator.id)?;
        object.entry("pid", &allocator.process.pid)?;
        object.entry("mesh", &allocator.mesh.map(|(rows, columns)| format!("{rows}x{columns}")))?;
        object.entry("devices", &device_ids(&allocator.devices))?;
        object.entry("unmapped", &allocator.unmapped.iter().map(u64::to_string).collect::<Vec<_>>())?;
        let source = kinds().find_map(|(_, kind)| kind.item.figure.source.ok());
        object.entry("source", source.unwrap_or(Source::Ledger).name())?;
        object.reading("coverage", &allocator.coverage.as_ref().map(|features| coverage(features)).map_err(|reason| *reason))?;
        object.entry("kinds", &Pairs(kinds().collect()))?;
        if allocator.coverage.is_ok() {
            object.entry("self_check", &self_check(&allocator.self_check))?;
        }
        object.end()
    }
}

fn known(allocator: &Allocator) -> impl Iterator<Item = (Kind, &AllocatorKind)> {
    allocator.kinds.iter().filter_map(|(kind, item)| Some((kind, item.as_ref()?)))
}

/// Returns the state of each feature of the hook, and how often the program called it, by name.
fn coverage(features: &[HookFeature]) -> Pairs<&str, Pairs<&'static str, Value>> {
    let is_first = |(index, feature): &(usize, &HookFeature)| !features[..*index].iter().any(|other| other.name == feature.name);
    let row = |(_, feature): (usize, &'_ HookFeature)| {
        let reason = feature.reason.as_ref().map(|reason| ("reason", json!(reason)));
        let values = [("state", json!(feature.state.name())), ("hits", json!(feature.hits))];
        Pairs(values.into_iter().chain(reason).collect())
    };
    Pairs(features.iter().enumerate().filter(is_first).map(|found| (found.1.name.as_str(), row(found))).collect())
}

fn self_check(check: &LedgerSelfCheck) -> Pairs<&'static str, Value> {
    Pairs(vec![
        ("checks", json!(check.checks)),
        ("differences", json!(check.differences)),
        ("inexact", json!(check.is_inexact)),
        ("restored", json!(check.is_restored)),
        ("per_core", json!(check.is_per_core)),
        ("shrunk", json!(check.l1_lower_end.is_some())),
    ])
}

struct KindJson<'a> {
    item: &'a AllocatorKind,
    has_banks: bool,
}

impl Serialize for KindJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let item = self.item;
        let mut map = serializer.serialize_map(None)?;
        for field in fields(self.has_banks) {
            map.serialize_entry(field.name, &ReadingJson::of(field, item))?;
        }
        if let Some(reason) = item.banks.as_ref().ok().and_then(|banks| banks.no_blocks).filter(|_| self.has_banks) {
            map.serialize_entry("no_blocks", reason.name())?;
        }
        if let Some(programs) = item.programs {
            map.serialize_entry("programs", &programs.count)?;
            map.serialize_entry("per_core", &programs.per_core)?;
        }
        kernel_types_entry(&mut map, item.figure.kernel_types.as_deref())?;
        let (count, bytes) = item.unlisted;
        if count > 0 {
            map.serialize_entry("unlisted", &Pairs(vec![("count", count), ("bytes", bytes)]))?;
        }
        map.end()
    }
}

struct BlockJson<'a> {
    allocator: &'a Allocator,
    kind: Kind,
    block: Block,
}

fn blocks(allocators: &[Allocator]) -> impl Iterator<Item = BlockJson<'_>> {
    let open = allocators.iter().filter(|allocator| allocator.is_open);
    let kinds = open.flat_map(|allocator| known(allocator).map(move |(kind, item)| (allocator, kind, item)));
    kinds.flat_map(|(allocator, kind, item)| {
        let table = item.banks.as_ref().map_or(&[][..], |banks| banks.table.as_slice());
        table.iter().map(move |block| BlockJson { allocator, kind, block: *block })
    })
}

impl Serialize for BlockJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("allocator", &self.allocator.id)?;
        map.serialize_entry("kind", self.kind.name())?;
        map.serialize_entry("address", &format_args!("{:#x}", self.block.address))?;
        map.serialize_entry("size", &self.block.size)?;
        map.serialize_entry("free", &self.block.is_free)?;
        map.end()
    }
}

/// Returns the stacks of the buffers, in the order of the buffers, and the number of omitted stacks.
fn stacks(buffers: &[MappedBuffer]) -> (Vec<Value>, usize) {
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

fn group_json(group: &BufferGroup, now: UnixTime) -> Value {
    let (name, key) = match &group.key {
        GroupKey::Line(line) => ("line", line_json(line.as_deref())),
        GroupKey::Text(text) => ("name", text.as_deref().map(String::as_str).into()),
    };
    let oldest = group.oldest.and_then(|oldest| age_seconds(oldest, now));
    let BufferGroup { bytes, count, largest, since, growth, .. } = group;
    json!({name: key, "bytes": bytes, "count": count, "largest": largest, "oldest_age_s": oldest, "since_bytes": since, "growth_bytes": growth})
}

fn device_ids(ids: &[DeviceId]) -> impl Serialize {
    Lazy(|| ids.iter().map(|id| id.0))
}

/// Returns the age in seconds, to the millisecond. Returns `None` if the time is unknown, and 0 if the clock was set back since.
fn age_seconds(time: UnixTime, now: UnixTime) -> Option<f64> {
    let millis = now.0.saturating_sub(time.0) / 1_000_000;
    (time.0 > 0).then_some(millis as f64 / 1000.0)
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
