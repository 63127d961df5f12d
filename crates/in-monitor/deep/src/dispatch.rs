//! Counters of TT-Metal's dispatch firmware: where a program publishes them, and their contents.

use ttmon_model::deep::{Counters, SubDevice};
use ttmon_model::{Arch, Missing, Reading};

use crate::table::{Layout, OpenChip};
use crate::transport::{Tile, Window, window_bytes};

/// Minimum size of the block that a program publishes. The first version has 53 bytes, later ones have more.
const BLOCK_BYTES_MIN: u32 = 53;
/// Since this size, the block has the number of worker cores at byte 50.
pub(crate) const BLOCK_BYTES_WITH_CORES: u32 = 55;
/// Number of words of the block that are read.
pub(crate) const BLOCK_WORDS: usize = 14;
pub(crate) const BLOCK_VERSION: u32 = 1;
pub(crate) const BLOCK_SIGNATURE: u32 = 0x534D_435F;
const SLOW_DISPATCH: u8 = 1;
const QUEUES_MAX: u8 = 3;
const NO_CORE: u32 = u32::MAX;
/// Offsets in the block: the number of queues, then the cores of each queue.
pub(crate) const QUEUES_AT: usize = 13;
pub(crate) const CORES_AT: usize = 14;
pub(crate) const CORES_BYTES: usize = 12;

/// Size of the counters of a queue, in the L1 of its dispatch core.
pub(crate) const COUNTERS_BYTES: u64 = 248;
pub(crate) const COUNTERS_VERSION: u32 = 1;
pub(crate) const COUNTERS_SIGNATURE: u32 = 0x4449_5350;
const SUB_DEVICES: usize = 8;
pub(crate) const LAUNCHED_AT: u64 = 56;
pub(crate) const RUNTIME_AT: u64 = 120;
pub(crate) const COMPLETED_AT: u64 = 184;
pub(crate) const WORKERS_AT: u64 = 216;

/// The block that a program publishes about its command queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Address and size of the block.
    place: [u32; 2],
    words: [u32; BLOCK_WORDS],
    /// Number of cores that the program may use, if it publishes it.
    pub(crate) worker_cores: Option<u32>,
    pub(crate) counters: u64,
    /// The dispatch core of each queue in use.
    pub(crate) cores: Vec<Tile>,
}

/// Returns whether a tile can be a dispatch core. The coordinates are translated by the hardware, or else those of NoC 0.
fn is_worker(arch: Arch, tile: Tile, is_translated: bool) -> bool {
    let Tile { x, y } = tile;
    match (arch, is_translated) {
        (Arch::Wormhole, true) => (18..=25).contains(&x) && (18..=27).contains(&y),
        (Arch::Wormhole, false) => matches!(x, 1..=4 | 6..=9) && matches!(y, 1..=5 | 7..=11),
        (Arch::Blackhole, _) => matches!(x, 1..=7 | 10..=16) && (2..=11).contains(&y),
        (Arch::Grayskull, _) => false,
    }
}

impl Block {
    /// Finds and checks the block. If `known` is given, only the words that name the queues are read and compared with it.
    pub(crate) fn read(chip: &mut OpenChip<impl Window>, is_translated: bool, known: Option<&Self>) -> Reading<Self> {
        let (layout, mut place) = (chip.layout, [0; 2]);
        chip.read(layout.arc, layout.metal_block, &mut place)?;
        let [address, bytes] = place;
        if address == 0 || bytes < BLOCK_BYTES_MIN {
            return Err(Missing::NoSource);
        }
        let at = layout.in_csm(address, 4 * u32::try_from(BLOCK_WORDS).unwrap_or_default()).ok_or(Missing::OutOfRange)?;
        let mut words = [0; BLOCK_WORDS];
        if let Some(known) = known.filter(|known| known.place == place && known.is_complete()) {
            let named = &mut words[..known.words_with_queues()];
            chip.read(layout.arc, at, named)?;
            if *named == known.words[..named.len()] {
                return Ok(known.clone());
            }
        }
        chip.read(layout.arc, at, &mut words)?;
        Self::parse(&words, place, &layout, is_translated)
    }

    /// Returns whether the block is complete. The number of cores is written last.
    fn is_complete(&self) -> bool {
        self.place[1] < BLOCK_BYTES_WITH_CORES || self.worker_cores.is_some()
    }

    /// Returns the number of words up to the cores of the last queue.
    fn words_with_queues(&self) -> usize {
        let queues = usize::from(self.words[QUEUES_AT / 4].to_le_bytes()[QUEUES_AT % 4]);
        (CORES_AT + CORES_BYTES * queues).div_ceil(4).min(BLOCK_WORDS)
    }

    /// Checks the words of a block at this place.
    fn parse(words: &[u32; BLOCK_WORDS], place: [u32; 2], layout: &Layout, is_translated: bool) -> Reading<Self> {
        let raw: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let word = |at: usize| u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        if words[1] != BLOCK_SIGNATURE {
            return Err(Missing::NoSource);
        }
        if words[0] != BLOCK_VERSION {
            return Err(Missing::NotExposed);
        }
        if raw[8] & SLOW_DISPATCH != 0 {
            return Err(Missing::SlowDispatch);
        }
        let (counters, queues) = (u64::from(word(9)), raw[QUEUES_AT]);
        let size = window_bytes(layout.arch);
        let is_in_l1 = counters > 0 && counters.is_multiple_of(4) && counters + COUNTERS_BYTES <= layout.l1_bytes;
        let is_in_one_window = counters % size + COUNTERS_BYTES <= size;
        if !(is_in_l1 && is_in_one_window && (1..=QUEUES_MAX).contains(&queues)) {
            return Err(Missing::OutOfRange);
        }
        // Each queue has three cores: one for prefetch and two for dispatch.
        let core = |queue: u8| word(CORES_AT + CORES_BYTES * usize::from(queue) + 4);
        let tile =
            |core: u32| Tile { x: u16::try_from(core >> 16).unwrap_or_default(), y: u16::try_from(core & 0xFFFF).unwrap_or_default() };
        let cores: Vec<Tile> = (0..queues).map(core).filter(|core| *core != NO_CORE).map(tile).collect();
        if cores.is_empty() {
            return Err(Missing::NoSource);
        }
        if !cores.iter().all(|core| is_worker(layout.arch, *core, is_translated)) {
            return Err(Missing::OutOfRange);
        }
        let worker_cores = (place[1] >= BLOCK_BYTES_WITH_CORES).then(|| u32::from(raw[50]) | u32::from(raw[51]) << 8);
        Ok(Self { place, words: *words, worker_cores: worker_cores.filter(|cores| *cores > 0), counters, cores })
    }

    /// Reads the counters of a queue. Returns `None` if the core has none, for example while its firmware starts. `parts` is the number of
    /// its sub-devices if known. In that case, a new one is detected only if it follows the others.
    pub(crate) fn counters(&self, chip: &mut OpenChip<impl Window>, core: Tile, parts: Option<usize>) -> Reading<Option<Counters>> {
        let mut head = [0; 14];
        chip.read(core, self.counters, &mut head)?;
        if head[..2] != [COUNTERS_VERSION, COUNTERS_SIGNATURE] {
            return Ok(None);
        }
        let workers = self.workers(chip, core, parts)?;
        let mut sub_devices = Vec::new();
        for (index, workers) in (0..).zip(workers).filter(|(_, workers)| *workers > 0) {
            let mut part = |at: u64, words: &mut [u32]| chip.read(core, self.counters + at, words);
            let (mut completed, mut launched, mut runtime) = ([0], [0; 2], [0; 2]);
            part(COMPLETED_AT + 4 * index, &mut completed)?;
            part(LAUNCHED_AT + 8 * index, &mut launched)?;
            part(RUNTIME_AT + 8 * index, &mut runtime)?;
            sub_devices.push(SubDevice { workers, completed: completed[0], launched: long(launched), runtime: long(runtime) });
        }
        Ok(Some(Counters {
            blocked: head[2],
            unblocked: head[3],
            programs: head[4],
            timestamp: long([head[6], head[7]]),
            average_runtime: long([head[8], head[9]]),
            busy: long([head[10], head[11]]),
            busy_since: long([head[12], head[13]]),
            sub_devices,
        }))
    }

    fn workers(&self, chip: &mut OpenChip<impl Window>, core: Tile, parts: Option<usize>) -> Reading<[u32; SUB_DEVICES]> {
        let mut workers = [0; SUB_DEVICES];
        let first = parts.map_or(SUB_DEVICES, |parts| (parts + 1).min(SUB_DEVICES));
        chip.read(core, self.counters + WORKERS_AT, &mut workers[..first])?;
        if first < SUB_DEVICES && workers[first - 1] > 0 {
            chip.read(core, self.counters + WORKERS_AT, &mut workers)?;
        }
        Ok(workers)
    }
}

fn long([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}
