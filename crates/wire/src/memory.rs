//! The document of `ttmon mem`: the snapshot's, with the allocators of tracked processes and their buffers.

use serde::ser::{Serialize, SerializeMap, Serializer};
use ttmon_model::fields::ALLOCATOR_KIND;
use ttmon_model::snapshot::{Allocator, AllocatorKind, Buffer};
use ttmon_model::units::UnixTime;
use ttmon_model::{Kind, Missing};

use crate::SnapshotJson;
use crate::table::{Reasons, Rows};

/// A snapshot with its allocators.
#[derive(Clone, Copy, Debug)]
pub struct MemoryJson<'a> {
    /// The snapshot.
    pub snapshot: SnapshotJson<'a>,
    /// Whether its buffers were asked for.
    pub has_buffers: bool,
}

impl Serialize for MemoryJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let snapshot = self.snapshot.snapshot;
        let mut map = serializer.serialize_map(None)?;
        self.snapshot.entries(&mut map)?;
        map.serialize_entry(
            "allocators",
            &snapshot.allocators.iter().filter(|allocator| allocator.is_open).map(AllocatorJson).collect::<Vec<_>>(),
        )?;
        if self.has_buffers {
            map.serialize_entry("buffers", &BuffersJson { buffers: &snapshot.buffers, now: snapshot.time })?;
        }
        map.end()
    }
}

struct AllocatorJson<'a>(&'a Allocator);

impl Serialize for AllocatorJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let allocator = self.0;
        let mut reasons = Reasons::default();
        for (kind, item) in known(allocator) {
            for field in ALLOCATOR_KIND {
                reasons.note(format!("kinds.{}.{}", kind.name(), field.name), (field.get)(item).err());
            }
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &allocator.id)?;
        map.serialize_entry("pid", &allocator.process.pid)?;
        map.serialize_entry("mesh", &allocator.mesh.map(|(rows, columns)| format!("{rows}x{columns}")))?;
        map.serialize_entry("devices", &allocator.devices.iter().map(|id| id.0).collect::<Vec<_>>())?;
        map.serialize_entry("unmapped", &allocator.unmapped.iter().map(u64::to_string).collect::<Vec<_>>())?;
        map.serialize_entry("source", "ledger")?;
        // Which hooks were hit: the client has none.
        reasons.note("coverage", Some(Missing::NoSource));
        map.serialize_entry("coverage", &None::<u8>)?;
        map.serialize_entry("kinds", &KindsJson(allocator))?;
        map.serialize_entry("missing", &reasons)?;
        map.end()
    }
}

fn known(allocator: &Allocator) -> impl Iterator<Item = (Kind, &AllocatorKind)> {
    allocator.kinds.iter().filter_map(|(kind, item)| Some((kind, item.as_ref()?)))
}

/// The kinds that had an event.
struct KindsJson<'a>(&'a Allocator);

impl Serialize for KindsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let others = self.0.others.iter().map(|(kind, item)| (kind.name(), KindJson(item)));
        serializer.collect_map(known(self.0).map(|(kind, item)| (kind.name(), KindJson(item))).chain(others))
    }
}

struct KindJson<'a>(&'a AllocatorKind);

impl Serialize for KindJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        Rows { table: ALLOCATOR_KIND, item: self.0 }.entries(&mut map)?;
        let (count, bytes) = self.0.unlisted;
        if count > 0 {
            map.serialize_entry("unlisted", &UnlistedJson { count, bytes })?;
        }
        map.end()
    }
}

struct UnlistedJson {
    count: u64,
    bytes: u64,
}

impl Serialize for UnlistedJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([("count", self.count), ("bytes", self.bytes)])
    }
}

struct BuffersJson<'a> {
    buffers: &'a [Buffer],
    now: UnixTime,
}

impl Serialize for BuffersJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.buffers.iter().map(|buffer| BufferJson { buffer, now: self.now }))
    }
}

struct BufferJson<'a> {
    buffer: &'a Buffer,
    now: UnixTime,
}

impl Serialize for BufferJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = &self.buffer.entry;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("pid", &self.buffer.process.pid)?;
        map.serialize_entry("allocator", &self.buffer.allocator)?;
        map.serialize_entry("kind", entry.kind.name())?;
        map.serialize_entry("address", &format!("{:#x}", entry.address))?;
        map.serialize_entry("size", &entry.size)?;
        map.serialize_entry("per_bank", &entry.per_bank)?;
        map.serialize_entry("page_size", &entry.page_size)?;
        map.serialize_entry("layout", &entry.layout)?;
        map.serialize_entry("cores", &entry.cores)?;
        map.serialize_entry("devices", &self.buffer.devices.iter().map(|id| id.0).collect::<Vec<_>>())?;
        map.serialize_entry("refs", &entry.refs)?;
        map.serialize_entry("age_s", &age_seconds(entry.time, self.now))?;
        map.serialize_entry("tag", &entry.tag)?;
        map.end()
    }
}

/// To the millisecond; `None` where the time is not known, 0 where the clock was set back since.
fn age_seconds(time: UnixTime, now: UnixTime) -> Option<f64> {
    let millis = now.0.saturating_sub(time.0) / 1_000_000;
    (time.0 > 0).then_some(millis as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_never_made_up() {
        let now = UnixTime(1_700_000_000_000_000_000);
        assert_eq!(age_seconds(UnixTime(now.0 - 1_234_567_890), now), Some(1.234));
        assert_eq!(age_seconds(UnixTime(now.0 + 1), now), Some(0.0));
        assert_eq!(age_seconds(UnixTime(0), now), None);
    }
}
