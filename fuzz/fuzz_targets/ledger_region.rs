//! A ledger as an enemy would write it: a good one, with the input laid over it in patches, some of them while it is read.

#![no_main]

use std::io;
use std::sync::{Arc, Mutex};

use libfuzzer_sys::fuzz_target;
use ttmon_ledger_reader::{LedgerDetail, EventCursor, ReadAt, Region};

#[path = "../../testing/src/encoder.rs"]
mod encoder;
#[path = "../src/patches.rs"]
mod patches;

fuzz_target!(|input: &[u8]| {
    let (start, patches) = patches::decode(input);
    let mut region = encoder::filled(start.shape, start.live, 64);
    if start.is_stopped {
        let seq = region.get64(0x200);
        region.put64(0x200, seq + 1);
    }
    let (now, later) = patches.split_at(patches.iter().position(|patch| patch.is_late).unwrap_or(patches.len()));
    for patch in now {
        patch.apply(&mut region.bytes);
    }
    let length = region.bytes.len() as u64;
    let memory = Memory { bytes: region.bytes, later: later.to_vec() };
    if let Ok(region) = Region::over(Box::new(Shared(Arc::new(Mutex::new(memory)))), 0, length) {
        read_all(&region);
    }
});

fn read_all(region: &Region) {
    let figures = region.figures().expect("memory does not end");
    assert!(figures.allocators.len() <= 256 && figures.launches.len() <= 256 && figures.coverage.len() <= 64 && figures.shared.len() <= 64);
    let lines = region.lines().expect("memory does not end");
    assert!(lines.len() <= 65_536 && (0..=lines.len()).all(|number| lines.frames(number).len() <= 64));
    let read_lines = || region.lines().expect("memory does not end");
    let ledger = region.ledger(|_| LedgerDetail::Blocks, read_lines, &mut |_, _| true).expect("memory does not end").expect("no limits");
    let allocators = ledger.allocators.len();
    assert!(ledger.buffers.len() <= 1 << 20 && ledger.buffers.iter().all(|buffer| usize::from(buffer.allocator) < allocators));
    assert!(ledger.circulars.len() <= 65_536 && ledger.circulars.iter().all(|circular| circular.allocator < allocators));
    assert!(ledger.circulars.iter().all(|circular| circular.cores.iter().all(|&core| core < 64)));
    let last = region.final_ledger(1000).expect("memory does not end");
    let mut rows = last.ledger.allocators.iter().flat_map(|allocator| &allocator.rows);
    assert!(last.left.len() <= 1000 && rows.all(|row| row.end.as_ref().is_some_and(|end| end.at_peak.len() <= 65)));
    let refusals = region.refusals(&lines).expect("memory does not end");
    assert!(refusals.len() <= 64 && refusals.iter().all(|refused| refused.refusal.largest.len() <= 8));
    let live = region.live_events().expect("memory does not end");
    assert!(live.live.len() <= 1 << 20 && live.left.len() <= (1 << 20) + 4096);
    let mut cursor = EventCursor::after(figures.events / 2);
    let new = cursor.read(region, |event| event.number % 100 == 0, 1000).expect("memory does not end");
    assert!(new.events.len() <= 1000 && cursor.seen() == new.next && cursor.refusals(region, &new).len() <= 64);
    assert!(region.events(figures.events / 2).expect("memory does not end").events.len() <= 65_536);
}

/// Memory that changes with each read.
struct Memory {
    bytes: Vec<u8>,
    later: Vec<patches::Patch>,
}

struct Shared(Arc<Mutex<Memory>>);

impl ReadAt for Shared {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut memory = self.0.lock().expect("one thread");
        if let Some(patch) = memory.later.pop() {
            patch.apply(&mut memory.bytes);
        }
        let at = usize::try_from(offset).expect("inside");
        buffer.copy_from_slice(memory.bytes.get(at..at + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}
