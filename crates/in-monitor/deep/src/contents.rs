//! Builds the memory contents that a [`Session`](crate::Session) reads, for simulated chips and tests.

use ttmon_model::Arch;
use ttmon_model::deep::Counters;

use crate::dispatch::{BLOCK_BYTES_WITH_CORES, BLOCK_SIGNATURE, BLOCK_VERSION, BLOCK_WORDS, CORES_AT, CORES_BYTES, QUEUES_AT};
use crate::dispatch::{COMPLETED_AT, COUNTERS_BYTES, COUNTERS_SIGNATURE, COUNTERS_VERSION, LAUNCHED_AT, RUNTIME_AT, WORKERS_AT};
use crate::table::Layout;
use crate::transport::Tile;

/// Consecutive words in a tile: the tile, the start address, and the words.
pub type Run = (Tile, u64, Vec<u32>);

/// Addresses of the tables in the memory of the management cores.
const TABLE: u32 = 0x1000_1000;
const DATA: u32 = 0x1000_2000;
const BLOCK: u32 = 0x1007_6000;
/// Address of the counters in L1, the same as in TT-Metal.
const COUNTERS: u32 = 0x1_A180;

/// Returns a telemetry table with these tags and values. It is empty for an architecture that cannot be read.
pub fn tags(arch: Arch, values: &[(u16, u32)]) -> Vec<Run> {
    let Some(layout) = Layout::of(arch) else { return Vec::new() };
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
    let entries = (0_u32..).zip(values).map(|(index, (tag, _))| u32::from(*tag) | index << 16);
    let table = [0x100, count].into_iter().chain(entries).collect();
    let pointers = if layout.table_first { vec![TABLE, DATA] } else { vec![DATA, TABLE] };
    vec![
        (layout.arc, layout.pointers, pointers),
        (layout.arc, layout.base + u64::from(TABLE), table),
        (layout.arc, layout.base + u64::from(DATA), values.iter().map(|(_, value)| *value).collect()),
    ]
}

/// Returns the block that a TT-Metal program publishes, and the counters of each of its queues on the core of the queue.
pub fn queues(arch: Arch, worker_cores: u16, queues: &[(Tile, Counters)]) -> Vec<Run> {
    let Some(layout) = Layout::of(arch) else { return Vec::new() };
    let mut block = [0xFF; 4 * BLOCK_WORDS];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &BLOCK_VERSION.to_le_bytes());
    put(4, &BLOCK_SIGNATURE.to_le_bytes());
    put(8, &[0]);
    put(9, &COUNTERS.to_le_bytes());
    put(QUEUES_AT, &[u8::try_from(queues.len()).unwrap_or(u8::MAX)]);
    for (queue, (core, _)) in queues.iter().enumerate() {
        put(CORES_AT + CORES_BYTES * queue + 4, &(u32::from(core.x) << 16 | u32::from(core.y)).to_le_bytes());
    }
    put(50, &worker_cores.to_le_bytes());
    let words = block.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
    let mut written =
        vec![(layout.arc, layout.metal_block, vec![BLOCK, BLOCK_BYTES_WITH_CORES]), (layout.arc, layout.base + u64::from(BLOCK), words)];
    written.extend(queues.iter().map(|(core, counters)| (*core, u64::from(COUNTERS), counter_words(counters))));
    written
}

fn counter_words(counters: &Counters) -> Vec<u32> {
    let mut words = vec![0; usize::try_from(COUNTERS_BYTES / 4).unwrap_or_default()];
    let mut put = |at: u64, value: &[u32]| {
        let at = usize::try_from(at / 4).unwrap_or_default();
        words[at..at + value.len()].copy_from_slice(value);
    };
    put(0, &[COUNTERS_VERSION, COUNTERS_SIGNATURE, counters.blocked, counters.unblocked, counters.programs]);
    for (at, value) in [(24, counters.timestamp), (32, counters.average_runtime), (40, counters.busy), (48, counters.busy_since)] {
        put(at, &halves(value));
    }
    for (index, part) in (0..).zip(&counters.sub_devices) {
        put(LAUNCHED_AT + 8 * index, &halves(part.launched));
        put(RUNTIME_AT + 8 * index, &halves(part.runtime));
        put(COMPLETED_AT + 4 * index, &[part.completed]);
        put(WORKERS_AT + 4 * index, &[part.workers]);
    }
    words
}

#[allow(clippy::cast_possible_truncation, reason = "the halves of a number")]
fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Session;
    use crate::fake::Fake;
    use std::time::Duration;
    use ttmon_model::deep::{SubDevice, TAGS, tag};

    #[test]
    fn written_contents_are_read() {
        for (arch, core) in [(Arch::Wormhole, Tile { x: 19, y: 27 }), (Arch::Blackhole, Tile { x: 16, y: 11 })] {
            let part = |number: u32| SubDevice { workers: number, completed: number + 1, launched: u64::from(number) << 33, runtime: 5 };
            let counters = Counters {
                blocked: 1,
                unblocked: 2,
                programs: u32::MAX,
                timestamp: u64::MAX,
                average_runtime: 1 << 40,
                busy: 3,
                busy_since: 4 << 32,
                sub_devices: vec![part(60), part(4)],
            };
            let mut values: Vec<(u16, u32)> = TAGS.iter().map(|(tag, _)| (*tag, u32::from(*tag))).collect();
            values.iter_mut().filter(|(known, _)| *known == tag::FLASH_BUNDLE_VERSION).for_each(|(_, value)| *value = 0x130D_0000);
            let fake = Fake::new(arch);
            fake.write_runs(&tags(arch, &values));
            fake.write_runs(&queues(arch, 64, &[(core, counters.clone())]));
            let sample = Session::new(fake, arch).sample(Duration::ZERO, Some(true), Duration::ZERO).unwrap();
            assert_eq!(sample.tags, values);
            let dispatch = sample.dispatch.unwrap();
            assert_eq!((dispatch.worker_cores, &dispatch.queues[0].now), (Some(64), &counters), "{arch:?}");
        }
        assert!(tags(Arch::Grayskull, &[(1, 1)]).is_empty() && queues(Arch::Grayskull, 1, &[]).is_empty());
    }
}
