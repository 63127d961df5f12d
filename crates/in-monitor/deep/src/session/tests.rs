use super::*;
use crate::fake::Fake;
use crate::kernel::Kernel;

const CSM: u32 = 0x1000_0000;
const TABLE: u32 = CSM + 0x1000;
const DATA: u32 = CSM + 0x2000;
const BLOCK: u32 = CSM + 0x7_6000;
const COUNTERS: u32 = 0x1_A180;
const WORKER: Tile = Tile { x: 19, y: 27 };
const GRACE: Duration = Duration::from_secs(5);

struct Chip {
    fake: Fake,
    arch: Arch,
}

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Chip {
    fn new(arch: Arch) -> Self {
        let chip = Self { fake: Fake::new(arch), arch };
        chip.write_tags(&TAGS.iter().map(|(tag, _)| (*tag, u32::from(*tag) * 10)).collect::<Vec<_>>());
        chip.set(tag::FLASH_BUNDLE_VERSION, 0x130D_0000);
        chip.set(tag::NOC_TRANSLATION, 1);
        chip
    }

    fn arc(&self) -> Tile {
        Layout::of(self.arch).unwrap().arc
    }

    /// Writes to the memory of the management cores.
    fn csm(&self, address: u32, words: &[u32]) {
        let base = if self.arch == Arch::Wormhole { 0x8_0000_0000 } else { 0 };
        self.fake.write(self.arc(), base + u64::from(address), words);
    }

    fn pointers(&self, table: u32, data: u32) {
        match self.arch {
            Arch::Wormhole => self.fake.write(self.arc(), 0x8_8003_01D0, &[table, data]),
            _ => self.fake.write(self.arc(), 0x8003_0430, &[data, table]),
        }
    }

    fn write_tags(&self, values: &[(u16, u32)]) {
        self.pointers(TABLE, DATA);
        self.csm(TABLE, &[0x100, u32::try_from(values.len()).unwrap()]);
        for (index, (tag, value)) in (0_u32..).zip(values) {
            self.csm(TABLE + 8 + 4 * index, &[u32::from(*tag) | index << 16]);
            self.csm(DATA + 4 * index, &[*value]);
        }
    }

    fn set(&self, tag: u16, value: u32) {
        let index = TAGS.iter().position(|(known, _)| *known == tag).unwrap();
        self.csm(DATA + 4 * u32::try_from(index).unwrap(), &[value]);
    }

    fn metal(&self, address: u32, bytes: u32) {
        match self.arch {
            Arch::Wormhole => self.fake.write(self.arc(), 0x8_1007_5C00, &[address, bytes]),
            _ => self.fake.write(self.arc(), 0x8003_0458, &[address, bytes]),
        }
    }

    /// Writes the block that a program publishes.
    fn block(&self, signature: u32, flags: u8, counters: u32, cores: &[Tile]) {
        self.metal(BLOCK, 55);
        self.csm(BLOCK, &block(signature, flags, counters, cores));
    }

    fn running(&self, core: Tile, timestamp: u64, busy: u64, programs: u32) {
        let half = |number: u64, shift: u32| u32::try_from(number >> shift & 0xFFFF_FFFF).unwrap();
        let head = [1, 0x4449_5350, 5, 4, programs, 0, half(timestamp, 0), half(timestamp, 32), 0, 0, half(busy, 0), half(busy, 32), 0, 0];
        self.fake.write(core, u64::from(COUNTERS), &head);
        self.fake.write(core, u64::from(COUNTERS) + 184, &[64]);
        self.fake.write(core, u64::from(COUNTERS) + 216, &[64]);
    }

    fn session(&self) -> Session<Fake> {
        Session::new(self.fake.clone(), self.arch)
    }
}

fn block(signature: u32, flags: u8, counters: u32, cores: &[Tile]) -> [u32; 14] {
    let mut raw = [0xFF; 56];
    raw[..4].copy_from_slice(&1_u32.to_le_bytes());
    raw[4..8].copy_from_slice(&signature.to_le_bytes());
    raw[8] = flags;
    raw[9..13].copy_from_slice(&counters.to_le_bytes());
    raw[13] = u8::try_from(cores.len()).unwrap();
    for (queue, core) in cores.iter().enumerate() {
        let at = 14 + 12 * queue + 4;
        raw[at..at + 4].copy_from_slice(&(u32::from(core.x) << 16 | u32::from(core.y)).to_le_bytes());
    }
    raw[50..52].copy_from_slice(&64_u16.to_le_bytes());
    let words: Vec<u32> = raw.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    words.try_into().unwrap()
}

const SMC: u32 = 0x534D_435F;

/// Makes a table invalid.
type Spoil = fn(&Chip);
/// Makes a block invalid. The tile is one that no chip has.
type SpoilBlock = fn(&Chip, Tile);

#[test]
fn tags_are_read_on_both_architectures_and_followed() {
    for arch in [Arch::Wormhole, Arch::Blackhole] {
        let chip = Chip::new(arch);
        let mut session = chip.session();
        let sample = session.sample(at(0), Some(true), GRACE).unwrap();
        assert_eq!(sample.tags.len(), TAGS.len());
        assert_eq!(sample.tag(tag::INPUT_POWER), Ok(540), "{arch:?}");
        chip.set(tag::INPUT_POWER, 99);
        assert_eq!(session.sample(at(500), Some(true), GRACE).unwrap().tag(tag::INPUT_POWER), Ok(99));
        assert_eq!(chip.fake.open_now(), 0);
    }
}

#[test]
fn a_reset_makes_the_table_be_read_anew() {
    let chip = Chip::new(Arch::Wormhole);
    let mut session = chip.session();
    session.sample(at(0), Some(true), GRACE).unwrap();
    chip.write_tags(&[(tag::TIMER_HEARTBEAT, 1), (tag::GDDR_SPEED, 7)]);
    let sample = session.sample(at(500), Some(true), GRACE).unwrap();
    assert_eq!(sample.tags, [(tag::TIMER_HEARTBEAT, 1), (tag::GDDR_SPEED, 7)]);
}

#[test]
fn a_table_that_cannot_be_one_is_refused() {
    let cases: [(&str, Spoil, Missing); 9] = [
        ("no firmware yet", |chip| chip.pointers(0, 0), Missing::NoSource),
        ("off the bus", |chip| chip.pointers(u32::MAX, u32::MAX), Missing::OutOfRange),
        ("table outside", |chip| chip.pointers(0x2000_0000, DATA), Missing::NotExposed),
        ("data outside", |chip| chip.pointers(TABLE, CSM - 4), Missing::NotExposed),
        ("not aligned", |chip| chip.pointers(TABLE + 2, DATA), Missing::NotExposed),
        ("too many entries", |chip| chip.csm(TABLE, &[1, 256]), Missing::NotExposed),
        ("no entries", |chip| chip.csm(TABLE, &[1, 0]), Missing::NotExposed),
        ("beyond the end", |chip| chip.pointers(CSM + 0x8_0000 - 8, DATA), Missing::NotExposed),
        ("values outside", |chip| chip.pointers(TABLE, CSM + 0x8_0000 - 4), Missing::NoSource),
    ];
    for (name, spoil, reason) in cases {
        let chip = Chip::new(Arch::Wormhole);
        spoil(&chip);
        if name == "beyond the end" {
            chip.csm(CSM + 0x8_0000 - 8, &[1, 5]);
        }
        let sample = chip.session().sample(at(0), Some(true), GRACE);
        match (name, sample) {
            // Entries whose value would be outside are omitted. The first entry is inside.
            ("values outside", Ok(sample)) => assert_eq!(sample.tags.len(), 1),
            (_, sample) => assert_eq!(sample, Err(reason), "{name}"),
        }
    }
}

#[test]
fn utilization_needs_two_samples_of_the_same_block() {
    let chip = Chip::new(Arch::Wormhole);
    chip.block(SMC, 0, COUNTERS, &[WORKER]);
    chip.running(WORKER, 1000, 100, 7);
    let mut session = chip.session();
    let first = session.sample(at(0), Some(true), GRACE).unwrap().dispatch.unwrap();
    assert_eq!((first.worker_cores, first.elapsed, first.queues[0].before.as_ref()), (Some(64), None, None));
    assert_eq!(first.queues[0].now.sub_devices, [ttmon_model::deep::SubDevice { workers: 64, completed: 64, launched: 0, runtime: 0 }]);
    chip.running(WORKER, 2000, 470, 9);
    let second = session.sample(at(500), Some(true), GRACE).unwrap().dispatch.unwrap();
    let queue = &second.queues[0];
    let before = queue.before.as_ref().unwrap();
    assert_eq!((second.elapsed, before.busy, queue.now.busy, queue.now.programs), (Some(at(500)), 100, 470, 9));
    // Another program runs on another core.
    let other = Tile { x: 18, y: 18 };
    chip.block(SMC, 0, COUNTERS, &[other]);
    chip.running(other, 5, 5, 1);
    assert_eq!(session.sample(at(1000), Some(true), GRACE).unwrap().dispatch.unwrap().queues[0].before, None);
}

#[test]
fn counters_that_stand_still_keep_their_beginning() {
    let chip = Chip::new(Arch::Blackhole);
    let core = Tile { x: 16, y: 11 };
    chip.block(SMC, 0, COUNTERS, &[core]);
    chip.running(core, 1000, 100, 7);
    let mut session = chip.session();
    let elapsed = |session: &mut Session<Fake>, millis| session.sample(at(millis), Some(true), GRACE).unwrap().dispatch.unwrap().elapsed;
    assert_eq!([0, 500, 1000, 2500].map(|millis| elapsed(&mut session, millis)), [None, Some(at(500)), Some(at(1000)), Some(at(2500))]);
    chip.running(core, 1001, 100, 7);
    assert_eq!([3000, 3500].map(|millis| elapsed(&mut session, millis)), [Some(at(3000)), Some(at(500))]);
}

#[test]
fn a_block_that_cannot_be_trusted_is_never_followed() {
    let wild = Tile { x: 3, y: 200 };
    let cases: [(&str, SpoilBlock, Missing); 9] = [
        ("no block", |chip, _| chip.metal(0, 0), Missing::NoSource),
        ("too short", |chip, _| chip.metal(BLOCK, 52), Missing::NoSource),
        ("outside", |chip, _| chip.metal(0x8000_0000, 55), Missing::OutOfRange),
        ("signature removed", |chip, _| chip.block(0, 0, COUNTERS, &[WORKER]), Missing::NoSource),
        ("slow dispatch", |chip, _| chip.block(SMC, 1, COUNTERS, &[WORKER]), Missing::SlowDispatch),
        ("core out of range", |chip, wild| chip.block(SMC, 0, COUNTERS, &[WORKER, wild]), Missing::OutOfRange),
        ("beyond L1", |chip, _| chip.block(SMC, 0, (1464 << 10) - 4, &[WORKER]), Missing::OutOfRange),
        ("across two windows", |chip, _| chip.block(SMC, 0, (1 << 20) - 4, &[WORKER]), Missing::OutOfRange),
        ("no queue", |chip, _| chip.block(SMC, 0, COUNTERS, &[]), Missing::OutOfRange),
    ];
    for (name, spoil, reason) in cases {
        let chip = Chip::new(Arch::Wormhole);
        chip.block(SMC, 0, COUNTERS, &[WORKER]);
        chip.running(WORKER, 1, 1, 1);
        spoil(&chip, wild);
        let sample = chip.session().sample(at(0), Some(true), GRACE).unwrap();
        assert_eq!(sample.dispatch.err(), Some(reason), "{name}");
    }
    // The counters also have a signature. Firmware without the block is not searched for it.
    let chip = Chip::new(Arch::Wormhole);
    chip.block(SMC, 0, COUNTERS, &[WORKER]);
    assert_eq!(chip.session().sample(at(0), Some(true), GRACE).unwrap().dispatch, Err(Missing::NoSource));
    for old in [0x130C_0000, 0x5011_0000] {
        chip.set(tag::FLASH_BUNDLE_VERSION, old);
        assert_eq!(chip.session().sample(at(0), Some(true), GRACE).unwrap().dispatch, Err(Missing::NotExposed));
    }
}

#[test]
fn l1_is_read_only_while_a_process_holds_the_chip() {
    let chip = Chip::new(Arch::Wormhole);
    chip.block(SMC, 0, COUNTERS, &[WORKER]);
    chip.running(WORKER, 1, 1, 1);
    let of = |is_held| chip.session().sample(at(0), is_held, Duration::ZERO).unwrap().dispatch.err();
    assert_eq!([Some(true), Some(false), None].map(of), [None, Some(Missing::NotHeld), Some(Missing::NotExposed)]);
}

#[test]
fn an_idle_chip_keeps_its_values_with_their_age() {
    let chip = Chip::new(Arch::Wormhole);
    let mut session = chip.session();
    assert_eq!(session.sample(at(0), Some(false), GRACE), Err(Missing::IdleWait));
    assert_eq!(chip.fake.opens(), 0);
    let first = session.sample(at(6000), Some(false), GRACE).unwrap();
    chip.set(tag::INPUT_POWER, 1);
    let kept = session.sample(at(35_999), Some(false), GRACE).unwrap();
    assert_eq!((kept.age, kept.tags, kept.dispatch), (at(29_999), first.tags, Err(Missing::NotHeld)));
    assert_eq!(chip.fake.opens(), 1);
    assert_eq!(session.sample(at(36_000), Some(false), GRACE).unwrap().tag(tag::INPUT_POWER), Ok(1));
}

#[test]
fn failures_are_reasons_and_pass() {
    let chip = Chip::new(Arch::Wormhole);
    let mut session = chip.session();
    session.sample(at(0), Some(true), GRACE).unwrap();
    for reason in [Missing::Busy, Missing::NoPermission, Missing::Gone] {
        chip.fake.refuse(Some(reason));
        assert_eq!(chip.session().sample(at(0), Some(true), GRACE), Err(reason));
    }
    chip.fake.refuse(None);
    chip.fake.break_off(Some(Missing::Resetting));
    assert_eq!(session.sample(at(500), Some(true), GRACE), Err(Missing::Resetting));
    chip.fake.break_off(None);
    assert!(session.sample(at(1000), Some(true), GRACE).is_ok());
    chip.fake.set_dead(true);
    let opens = chip.fake.opens();
    for millis in (1500..11_500).step_by(500) {
        assert_eq!(session.sample(at(millis), Some(true), GRACE), Err(Missing::OutOfRange));
    }
    assert_eq!(chip.fake.opens(), opens + 1);
    chip.fake.set_dead(false);
    assert!(session.sample(at(11_500), Some(true), GRACE).is_ok());
    assert_eq!(chip.fake.open_now(), 0);
}

/// Returns the number of words in each sample after the first, with this many queues.
fn words(queues: u16, samples: u64) -> Vec<u64> {
    let chip = Chip::new(Arch::Wormhole);
    let cores: Vec<Tile> = (0..queues).map(|queue| Tile { y: WORKER.y - queue, ..WORKER }).collect();
    chip.block(SMC, 0, COUNTERS, &cores);
    cores.iter().for_each(|core| chip.running(*core, 1, 1, 1));
    let mut session = chip.session();
    session.sample(at(0), Some(true), GRACE).unwrap();
    let mut words = |turn: u64| {
        let before = chip.fake.reads();
        let dispatch = session.sample(at(500 * turn), Some(true), GRACE).unwrap().dispatch.unwrap();
        assert_eq!(dispatch.queues.len(), usize::from(queues));
        assert_eq!(dispatch.queues.iter().map(|queue| queue.now.sub_devices.len()).collect::<Vec<_>>(), vec![1; cores.len()]);
        chip.fake.reads() - before
    };
    let words = (1..=samples).map(&mut words).collect();
    assert_eq!(chip.fake.opens(), 1 + samples);
    words
}

#[test]
fn a_sample_after_the_first_reads_sixty_words_at_most() {
    assert!(words(1, 100).iter().all(|words| *words <= WORDS_MAX), "{:?}", words(1, 100));
    assert!(words(2, 100).iter().all(|words| *words <= WORDS_MAX), "{:?}", words(2, 100));
    // No program has three queues so far. All of them are read, and some tags.
    assert!(words(3, 100).iter().all(|words| *words <= 85), "{:?}", words(3, 100));
}

#[test]
fn every_tag_that_changes_is_followed_however_little_room_there_is() {
    for queues in 0..4_u16 {
        let chip = Chip::new(Arch::Wormhole);
        let cores: Vec<Tile> = (0..queues).map(|queue| Tile { y: WORKER.y - queue, ..WORKER }).collect();
        if queues > 0 {
            chip.block(SMC, 0, COUNTERS, &cores);
        }
        cores.iter().for_each(|core| chip.running(*core, 1, 1, 1));
        let mut session = chip.session();
        session.sample(at(0), Some(true), GRACE).unwrap();
        session.sample(at(500), Some(true), GRACE).unwrap();
        let changing = || TAGS.iter().filter(|(_, interval)| *interval == TagPace::Often).map(|(tag, _)| *tag);
        changing().for_each(|tag| chip.set(tag, 90_000 + u32::from(tag)));
        let samples = if queues < 2 { 1 } else { 7 };
        let last = (2..2 + samples).map(|turn| session.sample(at(500 * turn), Some(true), GRACE).unwrap()).last().unwrap();
        for tag in changing() {
            assert_eq!(last.tag(tag), Ok(90_000 + u32::from(tag)), "tag {tag}, {queues} queues");
        }
    }
}

#[test]
fn a_block_that_was_read_before_is_compared() {
    let chip = Chip::new(Arch::Wormhole);
    let other = Tile { x: 18, y: 18 };
    chip.block(SMC, 0, COUNTERS, &[WORKER]);
    chip.running(WORKER, 1, 1, 1);
    chip.running(other, 2, 2, 2);
    let mut session = chip.session();
    let mut turn = 0;
    let mut next = || {
        turn += 1;
        session.sample(at(500 * turn), Some(true), GRACE).unwrap().dispatch.map(|dispatch| dispatch.queues[0].now.programs)
    };
    assert_eq!([next(), next()], [Ok(1), Ok(1)]);
    // Another core, a flag, no signature, and a block at another address.
    chip.block(SMC, 0, COUNTERS, &[other]);
    assert_eq!(next(), Ok(2));
    chip.block(SMC, 1, COUNTERS, &[other]);
    assert_eq!(next(), Err(Missing::SlowDispatch));
    chip.block(SMC, 0, COUNTERS, &[WORKER]);
    assert_eq!(next(), Ok(1));
    chip.block(0, 0, COUNTERS, &[WORKER]);
    assert_eq!(next(), Err(Missing::NoSource));
    chip.block(SMC, 0, COUNTERS, &[WORKER]);
    assert_eq!(next(), Ok(1));
    chip.csm(BLOCK + 0x100, &block(SMC, 0, COUNTERS, &[other]));
    chip.metal(BLOCK + 0x100, 55);
    assert_eq!(next(), Ok(2));
}

#[test]
fn a_new_sub_device_is_noticed() {
    let cores = [WORKER, Tile { y: WORKER.y - 1, ..WORKER }];
    let chip = Chip::new(Arch::Wormhole);
    chip.block(SMC, 0, COUNTERS, &cores);
    cores.iter().for_each(|core| chip.running(*core, 1, 1, 1));
    let mut session = chip.session();
    session.sample(at(0), Some(true), GRACE).unwrap();
    chip.fake.write(cores[1], u64::from(COUNTERS) + 216, &[32, 16, 8]);
    let dispatch = session.sample(at(500), Some(true), GRACE).unwrap().dispatch.unwrap();
    let parts = |queue: &Queue| queue.now.sub_devices.iter().map(|part| part.workers).collect::<Vec<_>>();
    assert_eq!(dispatch.queues.iter().map(parts).collect::<Vec<_>>(), [vec![64], vec![32, 16, 8]]);
}

#[test]
fn power_down_is_not_awaited_for_a_chip_that_cannot_be_opened() {
    let directory = tempfile::tempdir().unwrap();
    let node = directory.path().join("0");
    let first = || Session::new(Kernel::new(&node, Arch::Wormhole), Arch::Wormhole).sample(at(0), Some(false), GRACE);
    assert_eq!(first(), Err(Missing::NoPermission));
    std::fs::write(&node, "").unwrap();
    assert_eq!(first(), Err(Missing::NotExposed));
}
