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
            let (stacks, left_out) = stacks_json(&snapshot.buffers);
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
