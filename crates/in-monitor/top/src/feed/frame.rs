//! A line of a recording: a snapshot with the memory that a screen shows, and the events of buffers.

use std::cmp::Reverse;
use std::mem;

use ttmon_model::event::BufferEvent;
use ttmon_model::order::BufferOrder;
use ttmon_model::snapshot::MappedBuffer;
use ttmon_model::{Kind, Snapshot};

/// Maximum number of buffers per frame, enough for a user to scroll through.
const BUFFERS_MAX: usize = 1000;
/// Maximum number of blocks of all banks together. Further tables are left out.
const BLOCKS_MAX: usize = 4000;
const CIRCULARS_MAX: usize = 1000;
const EVENTS_MAX: usize = 200;

/// Formats a snapshot and the events before it as a line of a recording.
pub fn line_of(mut snapshot: Snapshot, version: &str, events: &[BufferEvent]) -> String {
    keep_largest(&mut snapshot.buffers);
    snapshot.circulars.truncate(CIRCULARS_MAX);
    let mut blocks = 0;
    for allocator in &mut snapshot.allocators {
        for kind in Kind::ALL {
            let Some(Ok(banks)) = allocator.kinds[kind].as_mut().map(|item| item.banks.as_mut()) else { continue };
            blocks += banks.table.len();
            if blocks > BLOCKS_MAX {
                banks.table = Vec::new();
            }
        }
    }
    ttmon_json::frame_line(&snapshot, version, &events[events.len().saturating_sub(EVENTS_MAX)..])
}

/// Keeps the largest buffer of every process, then the second largest of every process, and so on, so that no process is left out because
/// of another one. The result is sorted by size.
fn keep_largest(buffers: &mut Vec<MappedBuffer>) {
    if buffers.len() > BUFFERS_MAX {
        buffers.sort_by_key(|buffer| (buffer.process(), Reverse(buffer.buffer.size)));
        let (mut rank, mut last) = (0, None);
        let mut ranked: Vec<(usize, MappedBuffer)> = Vec::with_capacity(buffers.len());
        for buffer in mem::take(buffers) {
            rank = if last == Some(buffer.process()) { rank + 1 } else { 0 };
            last = Some(buffer.process());
            ranked.push((rank, buffer));
        }
        ranked.sort_by_key(|(rank, buffer)| (*rank, Reverse(buffer.buffer.size)));
        buffers.extend(ranked.into_iter().take(BUFFERS_MAX).map(|(_, buffer)| buffer));
    }
    BufferOrder::Size.keep_first(buffers, BUFFERS_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::tests::machine;
    use ttmon_model::event::Op;
    use ttmon_model::ledger::BufferKind;
    use ttmon_model::units::UnixTime;

    #[test]
    fn memory_and_events_come_back() {
        let snapshot = machine::hooked();
        let allocator = &snapshot.allocators[0];
        let event = |op: Op| BufferEvent {
            time: Some(UnixTime(snapshot.time.0 - 5_000_000)),
            pid: allocator.process.pid,
            number: Some(7),
            op,
            kind: Some(BufferKind::Of(Kind::L1)),
            allocator: Some(allocator.id.clone()),
            devices: allocator.devices.clone(),
            unmapped: Vec::new(),
            address: Some(0x1000),
            size: Some(4096),
            refs: None,
            program: None,
            tag: Some("layer 7".to_owned()),
            overrun: None,
            refusal: None,
            line: None,
        };
        let mut events: Vec<BufferEvent> =
            [Op::Alloc, Op::Free, Op::FreeAll, Op::Open, Op::Close, Op::Clash].into_iter().map(event).collect();
        events.push(BufferEvent { kind: Some(BufferKind::Of(Kind::Cb)), program: Some(3), ..event(Op::Alloc) });
        let line = line_of(snapshot.clone(), "1", &events);
        let (read, back) = ttmon_json::read_frame(&line).unwrap();
        assert_eq!(back, events);
        assert_eq!(read.buffers.len(), snapshot.buffers.len());
        let cores = |snapshot: &Snapshot| snapshot.circulars.iter().map(|one| (one.devices.clone(), one.entry.cores)).collect::<Vec<_>>();
        assert!(!snapshot.circulars.is_empty());
        assert_eq!(cores(&read), cores(&snapshot));
        let tables = |snapshot: &Snapshot| {
            let kinds = snapshot.allocators.iter().filter(|one| one.is_open).flat_map(|one| Kind::ALL.map(|kind| one.kinds[kind].clone()));
            kinds.flatten().filter_map(|kind| Some(kind.banks.ok()?.table)).collect::<Vec<_>>()
        };
        assert_eq!(tables(&read), tables(&snapshot));
    }

    #[test]
    fn a_frame_is_bounded() {
        let mut snapshot = machine::hooked();
        let many = |_| snapshot.buffers[0].clone();
        snapshot.buffers = (0..5000).map(many).collect();
        let (read, _) = ttmon_json::read_frame(&line_of(snapshot, "1", &[])).unwrap();
        assert_eq!(read.buffers.len(), BUFFERS_MAX);
    }

    #[test]
    fn no_process_is_without_buffers_because_of_another_one() {
        let buffer = machine::hooked().buffers[0].clone();
        let of = |pid: u32, size: u64| {
            let mut buffer = buffer.clone();
            Arc::make_mut(&mut buffer.allocator).process.pid = pid;
            buffer.buffer.size = size;
            buffer
        };
        let mut buffers: Vec<MappedBuffer> =
            (0..5000).map(|size| of(1, 1_000_000 + size)).chain((0..300).map(|size| of(2, 1 + size))).collect();
        keep_largest(&mut buffers);
        assert_eq!(buffers.len(), BUFFERS_MAX);
        let sizes = |pid: u32| buffers.iter().filter(|one| one.process().pid == pid).map(|one| one.buffer.size).collect::<Vec<_>>();
        assert_eq!((sizes(1).len(), sizes(1)[0], sizes(2).len(), sizes(2)[0]), (700, 1_004_999, 300, 300));
        assert!(buffers.is_sorted_by_key(|one| Reverse(one.buffer.size)));
    }
}
