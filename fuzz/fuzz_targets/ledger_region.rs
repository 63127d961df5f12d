//! A ledger as an enemy would write it: a good one, with the input laid over it in patches, some of them while it is read.

#![no_main]

use std::io;
use std::sync::{Arc, Mutex};

use libfuzzer_sys::fuzz_target;
use ttmon_ledger_reader::{ReadAt, Region};

#[path = "../../crates/in-monitor/ledger-reader/tests/all/encoder.rs"]
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
    let totals = region.totals().expect("memory does not end");
    assert!(totals.allocators.len() <= 256);
    let listing = region.list().expect("memory does not end");
    assert!(listing.entries.len() <= 1 << 20 && listing.tags.len() <= 4096 && listing.peak_sets.len() <= 2048);
    assert!(listing.entries.iter().all(|entry| (entry.tag as usize) < listing.tags.len()));
    assert!(listing.entries.iter().chain(&listing.left).all(|entry| (entry.operation as usize) < listing.tags.len()));
    assert!(listing.left.len() <= (1 << 20) + 4096 && totals.launches.len() <= 256 && totals.coverage.len() <= 64 && totals.shared.len() <= 64);
    let stacks = region.stacks().expect("memory does not end");
    assert!(stacks.len() <= 65_536 && (0..=stacks.len()).all(|number| stacks.frames(number).count() <= 64));
    let circulars = region.circulars(&totals).expect("memory does not end");
    assert!(circulars.len() <= 65_536 && circulars.iter().all(|circular| circular.cores.iter().all(|&core| core < 64)));
    let failures = region.failures().expect("memory does not end");
    assert!(failures.len() <= 64 && failures.iter().all(|failure| failure.largest.len() <= 8));
    for set in &listing.peak_sets {
        let _ = set.is_whole();
        assert!(set.members(&listing.entries).count() <= (1 << 20) + 16_384);
    }
    let recorded = region.events(totals.events / 2).expect("memory does not end");
    assert!(recorded.events.len() <= 65_536);
    assert!(recorded.events.iter().all(|event| (event.tag as usize) < recorded.tags.len()));
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
