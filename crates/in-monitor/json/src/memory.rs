//! The document of `ttmon mem`: that of the snapshot, with the allocators of tracked processes, their buffers and their blocks.

use serde::ser::{Serialize, SerializeMap, Serializer};
use ttmon_model::groups::BufferGroup;

use crate::SnapshotJson;
use crate::allocator::{AllocatorJson, blocks};
use crate::buffer::{buffers_json, group_json, stacks_json};
use crate::object::Lazy;

/// A snapshot with its allocators, serialized as a document.
#[derive(Clone, Copy, Debug)]
pub struct MemoryJson<'a> {
    /// The snapshot.
    pub snapshot: SnapshotJson<'a>,
    /// Additional parts.
    pub parts: MemoryParts<'a>,
}

/// Optional parts of the document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryParts<'a> {
    /// Every live buffer.
    pub buffers: bool,
    /// Number of buffers that were not requested.
    pub buffers_left_out: usize,
    /// The banks of each kind of an allocator's memory.
    pub banks: bool,
    /// The blocks of those banks.
    pub blocks: bool,
    /// The buffers grouped by line, tag or operation, and the number of groups that were not requested.
    pub groups: Option<(&'a [BufferGroup], usize)>,
}

impl Serialize for MemoryJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { snapshot: SnapshotJson { snapshot, .. }, parts } = *self;
        let mut map = serializer.serialize_map(None)?;
        self.snapshot.entries(&mut map)?;
        let open = snapshot.allocators.iter().filter(|allocator| allocator.is_open);
        let allocators = open.map(|allocator| AllocatorJson { allocator, has_banks: parts.banks });
        map.serialize_entry("allocators", &allocators.collect::<Vec<_>>())?;
        map.serialize_entry("denied_processes", &snapshot.denied_processes)?;
        if parts.blocks {
            map.serialize_entry("blocks", &Lazy(|| blocks(&snapshot.allocators)))?;
        }
        if parts.buffers {
            if parts.buffers_left_out > 0 {
                map.serialize_entry("buffers_left_out", &parts.buffers_left_out)?;
            }
            let (stacks, left_out) = stacks_json(&snapshot.buffers);
            if !stacks.is_empty() {
                map.serialize_entry("stacks", &stacks)?;
            }
            if left_out > 0 {
                map.serialize_entry("stacks_left_out", &left_out)?;
            }
            map.serialize_entry("buffers", &buffers_json(&snapshot.buffers, snapshot.time))?;
        }
        if let Some((groups, left_out)) = parts.groups {
            if left_out > 0 {
                map.serialize_entry("groups_left_out", &left_out)?;
            }
            map.serialize_entry("groups", &groups.iter().map(|group| group_json(group, snapshot.time)).collect::<Vec<_>>())?;
        }
        map.end()
    }
}
