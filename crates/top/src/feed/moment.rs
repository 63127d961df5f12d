//! A line of a recording: the machine with its memory as far as a screen shows it, and what happened.

use std::cmp::Reverse;
use std::mem;

use ttmon_model::event::{Event, Op};
use ttmon_model::ledger::BufferKind;
use ttmon_model::order::BufferOrder;
use ttmon_model::snapshot::Buffer;
use ttmon_model::{Kind, ProcessKey, Snapshot};
use ttmon_source::happenings::Happening;

/// Buffers of a moment that are kept, as many as anybody scrolls through.
const BUFFERS_MAX: usize = 1000;
/// Blocks of all banks together; tables beyond are left out.
const BLOCKS_MAX: usize = 4000;
const CIRCULARS_MAX: usize = 1000;
const EVENTS_MAX: usize = 200;

/// What a screen calls an event, and what documents call it; circular buffers have words of their own.
const WORDS: [(&str, Op); 10] = [
    ("alloc", Op::Alloc),
    ("free", Op::Free),
    ("free all", Op::FreeAll),
    ("open", Op::Open),
    ("close", Op::Close),
    ("REFUSED", Op::OutOfMemory),
    ("CLASH", Op::Clash),
    ("mark", Op::Mark),
    (CIRCULAR, Op::Alloc),
    (CIRCULARS_GONE, Op::Free),
];
const CIRCULAR: &str = "cb";
const CIRCULARS_GONE: &str = "program gone";

/// A snapshot as a line of a recording, with what happened before it.
pub fn line_of(mut snapshot: Snapshot, version: &str, happenings: &[Happening]) -> String {
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
    let last = &happenings[happenings.len().saturating_sub(EVENTS_MAX)..];
    let events: Vec<Event> = last.iter().map(|happening| event(&snapshot, happening)).collect();
    ttmon_wire::moment_line(&snapshot, version, &events)
}

/// The largest of every process, then the second largest of every process, and so on: nobody's are left out because of somebody
/// else's. They come in the order of their size.
fn keep_largest(buffers: &mut Vec<Buffer>) {
    if buffers.len() > BUFFERS_MAX {
        buffers.sort_by_key(|buffer| (buffer.process(), Reverse(buffer.entry.size)));
        let (mut rank, mut last) = (0, None);
        let mut ranked: Vec<(usize, Buffer)> = Vec::with_capacity(buffers.len());
        for buffer in mem::take(buffers) {
            rank = if last == Some(buffer.process()) { rank + 1 } else { 0 };
            last = Some(buffer.process());
            ranked.push((rank, buffer));
        }
        ranked.sort_by_key(|(rank, buffer)| (*rank, Reverse(buffer.entry.size)));
        buffers.extend(ranked.into_iter().take(BUFFERS_MAX).map(|(_, buffer)| buffer));
    }
    BufferOrder::Size.keep_first(buffers, BUFFERS_MAX);
}

fn event(snapshot: &Snapshot, happening: &Happening) -> Event {
    let allocator = snapshot.allocators.iter().find(|one| one.process == happening.process && one.slot == happening.slot);
    let op = WORDS.iter().find(|(word, _)| *word == happening.what).map_or(Op::Mark, |(_, op)| *op);
    Event {
        time: Some(happening.time),
        pid: happening.process.pid,
        number: None,
        op,
        kind: Some(happening.kind),
        // One that is closed by now has no generation any more: what was before the second dot is enough to know it by.
        allocator: Some(allocator.map_or_else(|| format!("{}.{}", happening.process.pid, happening.slot), |one| one.id.clone())),
        devices: allocator.map_or_else(Vec::new, |one| one.devices.clone()),
        unmapped: Vec::new(),
        address: Some(happening.address),
        size: Some(happening.size),
        refs: None,
        program: None,
        tag: happening.tag.clone(),
        overrun: None,
        refusal: None,
    }
}

/// What happened, of processes that the moment still knows.
pub(super) fn happenings(snapshot: &Snapshot, events: Vec<Event>) -> Vec<Happening> {
    let known = |pid: u32| snapshot.processes.iter().map(|process| process.key).find(|key: &ProcessKey| key.pid == pid);
    let happening = |event: Event| {
        let kind = event.kind?;
        let what = match (event.op, kind) {
            (Op::Alloc, BufferKind::Of(Kind::Cb)) => CIRCULAR,
            (Op::Free, BufferKind::Of(Kind::Cb)) => CIRCULARS_GONE,
            (op, _) => WORDS.iter().find(|(_, known)| *known == op)?.0,
        };
        Some(Happening {
            time: event.time?,
            process: known(event.pid)?,
            what,
            kind,
            slot: event.allocator?.split('.').nth(1)?.parse().ok()?,
            address: event.address?,
            size: event.size?,
            tag: event.tag,
        })
    };
    events.into_iter().filter_map(happening).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::tests::machine;
    use ttmon_model::units::UnixTime;

    #[test]
    fn memory_and_events_come_back() {
        let snapshot = machine::hooked();
        let allocator = &snapshot.allocators[0];
        let happened: Vec<Happening> = WORDS
            .iter()
            .map(|(what, _)| Happening {
                time: UnixTime(snapshot.time.0 - 5_000_000),
                process: allocator.process,
                what,
                kind: BufferKind::Of(if [CIRCULAR, CIRCULARS_GONE].contains(what) { Kind::Cb } else { Kind::L1 }),
                slot: allocator.slot,
                address: 0x1000,
                size: 4096,
                tag: Some("layer 7".to_owned()),
            })
            .collect();
        let line = line_of(snapshot.clone(), "1", &happened);
        let (read, events) = ttmon_wire::read_moment(&line).unwrap();
        let back = happenings(&read, events);
        let told =
            |list: &[Happening]| list.iter().map(|one| (one.what, one.kind, one.slot, one.address, one.tag.clone())).collect::<Vec<_>>();
        assert_eq!(told(&back), told(&happened));
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
    fn a_moment_is_bounded() {
        let mut snapshot = machine::hooked();
        let many = |_| snapshot.buffers[0].clone();
        snapshot.buffers = (0..5000).map(many).collect();
        let (read, _) = ttmon_wire::read_moment(&line_of(snapshot, "1", &[])).unwrap();
        assert_eq!(read.buffers.len(), BUFFERS_MAX);
    }

    #[test]
    fn no_process_is_without_buffers_because_of_another_one() {
        let buffer = machine::hooked().buffers[0].clone();
        let of = |pid: u32, size: u64| {
            let mut buffer = buffer.clone();
            Arc::make_mut(&mut buffer.allocator).process.pid = pid;
            buffer.entry.size = size;
            buffer
        };
        let mut buffers: Vec<Buffer> = (0..5000).map(|size| of(1, 1_000_000 + size)).chain((0..300).map(|size| of(2, 1 + size))).collect();
        keep_largest(&mut buffers);
        assert_eq!(buffers.len(), BUFFERS_MAX);
        let sizes = |pid: u32| buffers.iter().filter(|one| one.process().pid == pid).map(|one| one.entry.size).collect::<Vec<_>>();
        assert_eq!((sizes(1).len(), sizes(1)[0], sizes(2).len(), sizes(2)[0]), (700, 1_004_999, 300, 300));
        assert!(buffers.is_sorted_by_key(|one| Reverse(one.entry.size)));
    }
}
