//! Groups live buffers by line, tag or operation.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;

use crate::ledger::Buffer;
use crate::stack::SourceLine;
use crate::units::UnixTime;

/// What buffers are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy {
    /// The line that requested the buffers.
    Line,
    /// The tag of the buffers.
    Tag,
    /// The operation that created the buffers.
    Op,
}

/// The common property of a group's buffers, or `None` if unknown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupKey {
    /// A line.
    Line(Option<Arc<SourceLine>>),
    /// A tag or an operation.
    Text(Option<Arc<String>>),
}

/// A group of live buffers. Bytes are per chip, as requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferGroup {
    /// The common property of the buffers.
    pub key: GroupKey,
    /// Bytes of the buffers.
    pub bytes: u64,
    /// Number of buffers.
    pub count: u64,
    /// Bytes of the largest buffer.
    pub largest: u64,
    /// When the oldest was allocated, if known.
    pub oldest: Option<UnixTime>,
    /// Bytes allocated since a time, if one was given.
    pub since: Option<u64>,
    /// Change of the bytes since the last mark of the programs, if known.
    pub growth: Option<i64>,
}

/// Groups buffers, most bytes first. With `since`, also sums the bytes of buffers that were allocated at that time or later.
pub fn groups<'a>(buffers: impl Iterator<Item = &'a Buffer>, by: GroupBy, since: Option<UnixTime>) -> Vec<BufferGroup> {
    let keyed = buffers.map(|buffer| {
        let key = match by {
            GroupBy::Line => GroupKey::Line(buffer.line().cloned()),
            GroupBy::Tag => GroupKey::Text(buffer.tag.clone()),
            GroupBy::Op => GroupKey::Text(buffer.operation.clone()),
        };
        (key, buffer)
    });
    let new = |key: &GroupKey| BufferGroup {
        key: key.clone(),
        bytes: 0,
        count: 0,
        largest: 0,
        oldest: None,
        since: since.map(|_| 0),
        growth: None,
    };
    let add = |group: &mut BufferGroup, buffer: &Buffer| {
        group.bytes = group.bytes.saturating_add(buffer.size);
        group.count += 1;
        group.largest = group.largest.max(buffer.size);
        if buffer.time.0 > 0 {
            group.oldest = Some(group.oldest.map_or(buffer.time, |oldest| oldest.min(buffer.time)));
            if since.is_some_and(|since| buffer.time >= since) {
                group.since = group.since.map(|bytes| bytes.saturating_add(buffer.size));
            }
        }
    };
    group_by(keyed, new, add, |group| group.bytes).into_iter().map(|(_, group)| group).collect()
}

/// Groups items with the same key. The groups with the most bytes come first, and equal ones in the order of their keys.
pub fn group_by<K: Eq + Hash + Ord, T, G, B: Ord>(
    items: impl IntoIterator<Item = (K, T)>,
    new: impl Fn(&K) -> G,
    add: impl Fn(&mut G, T),
    bytes: impl Fn(&G) -> B,
) -> Vec<(K, G)> {
    let mut found: HashMap<K, G> = HashMap::new();
    for (key, item) in items {
        let group = match found.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let group = new(entry.key());
                entry.insert(group)
            }
        };
        add(group, item);
    }
    let mut groups: Vec<(K, G)> = found.into_iter().collect();
    groups.sort_by(|(key, group), (other_key, other)| (Reverse(bytes(group)), key).cmp(&(Reverse(bytes(other)), other_key)));
    groups
}

/// Sums counts and bytes by key, in the order of [`group_by`].
pub fn sums<K: Eq + Hash + Ord>(items: impl IntoIterator<Item = (K, (u64, u64))>) -> Vec<(K, (u64, u64))> {
    let add = |sum: &mut (u64, u64), (count, bytes): (u64, u64)| {
        *sum = (sum.0.saturating_add(count), sum.1.saturating_add(bytes));
    };
    group_by(items, |_| (0, 0), add, |sum| sum.1)
}

/// Sums changes of bytes by key, in the order of [`group_by`].
pub fn changes<K: Eq + Hash + Ord>(items: impl IntoIterator<Item = (K, i64)>) -> Vec<(K, i64)> {
    group_by(items, |_| 0, |sum: &mut i64, bytes| *sum = sum.saturating_add(bytes), |sum| *sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::BufferKind;
    use crate::memory::Kind;
    use crate::stack::Stack;

    fn buffer(size: u64, time: u64, line: u32, tag: &str) -> Buffer {
        let line = (line > 0).then(|| Arc::new(SourceLine { file: "m.py".into(), line, function: "f".into() }));
        let stack = line.map(|line| Arc::new(Stack::of_line(line)));
        Buffer {
            allocator: 0,
            kind: BufferKind::Of(Kind::Dram),
            address: 0,
            size,
            per_bank: None,
            page_size: None,
            layout: None,
            cores: None,
            refs: 1,
            time: UnixTime(time),
            tag: (!tag.is_empty()).then(|| Arc::new(tag.to_owned())),
            operation: None,
            stack,
            is_per_core: false,
            is_cached: false,
            kernel_type: None,
        }
    }

    #[test]
    fn groups_add_up() {
        let buffers = [buffer(10, 5, 7, "a"), buffer(30, 9, 7, ""), buffer(20, 0, 8, "a"), buffer(5, 3, 0, "a")];
        let by = |by| groups(buffers.iter(), by, Some(UnixTime(5)));
        let tuples = |groups: &[BufferGroup]| {
            groups.iter().map(|group| (group.bytes, group.count, group.largest, group.since.unwrap_or(u64::MAX))).collect::<Vec<_>>()
        };
        let lines = by(GroupBy::Line);
        assert_eq!(tuples(&lines), [(40, 2, 30, 40), (20, 1, 20, 0), (5, 1, 5, 0)]);
        assert_eq!(lines.iter().map(|group| group.oldest).collect::<Vec<_>>(), [Some(UnixTime(5)), None, Some(UnixTime(3))]);
        assert!(matches!(lines[2].key, GroupKey::Line(None)));
        assert_eq!(tuples(&by(GroupBy::Tag)), [(35, 3, 20, 10), (30, 1, 30, 30)]);
        assert_eq!(tuples(&by(GroupBy::Op)), [(65, 4, 30, 40)]);
        assert!(groups([].into_iter(), GroupBy::Line, None).is_empty());
        assert_eq!(groups(buffers.iter(), GroupBy::Op, None)[0].since, None);
    }
}
