//! Takes samples of one chip, one after the other.

use std::time::Duration;

use ttmon_model::deep::{Counters, DeepSample, Dispatch, Queue, TAGS, TagPace, tag};
use ttmon_model::units::Version;
use ttmon_model::{Arch, Missing, Reading};

use crate::dispatch::Block;
use crate::schedule::{ChipSchedule, Decision};
use crate::table::{Layout, OpenChip, Pointers, Table};
use crate::transport::{Tile, Transport, Window};

/// Maximum number of words that a sample reads, after the first. The counters of queues come first, and tags get the rest.
const WORDS_MAX: u64 = 60;
/// Minimum number of tags in each sample, independent of the number of queues: the heartbeat and some of the others in turn.
const TAGS_MIN: u64 = 4;
const POINTER_WORDS: u64 = 2;

/// A chip that is read repeatedly.
#[derive(Debug)]
pub struct Session<T> {
    transport: T,
    arch: Arch,
    schedule: ChipSchedule,
    known: Option<TelemetryState>,
    block: Option<Block>,
    /// Number of words that the counters of queues took in the last sample.
    dispatch_words: u64,
    /// Counters of the queues when the chip's clock last advanced.
    base: Option<(Duration, Vec<QueueCounters>)>,
    last: Option<(Duration, Reading<DeepSample>)>,
}

/// State that is constant until the chip is reset.
#[derive(Debug)]
struct TelemetryState {
    table: Table,
    values: Vec<(u16, u32)>,
    /// The index of the next changing tag to read.
    next: usize,
}

#[derive(Clone, Debug)]
struct QueueCounters {
    core: Tile,
    address: u64,
    counters: Counters,
}

/// Whether a process other than a reader of ttmon holds a chip. It is unknown with drivers that do not list their users.
pub(crate) type IsHeld = Option<bool>;

impl<T: Transport> Session<T> {
    /// Creates a session for a chip that was not read yet.
    pub fn new(transport: T, arch: Arch) -> Self {
        Self { transport, arch, schedule: ChipSchedule::default(), known: None, block: None, dispatch_words: 0, base: None, last: None }
    }

    /// Records between samples whether a process holds the chip.
    pub fn observe(&mut self, now: Duration, is_held: IsHeld) {
        self.schedule.observe(now, is_held == Some(true));
    }

    /// Returns a new sample, or the last one with its age if the chip may not be read now. `grace` is as in `ChipSchedule::decide`.
    pub fn sample(&mut self, now: Duration, is_held: IsHeld, grace: Duration) -> Reading<DeepSample> {
        match self.schedule.decide(now, is_held == Some(true), grace) {
            Decision::Read => {
                let sample = self.read(now, is_held);
                if sample == Err(Missing::OutOfRange) {
                    self.schedule.back_off(now);
                }
                self.last = Some((now, sample.clone()));
                sample
            }
            Decision::Wait | Decision::Keep => match self.last.clone() {
                Some((at, Ok(sample))) => {
                    let dispatch = if is_held == Some(false) { Err(Missing::NotHeld) } else { sample.dispatch };
                    Ok(DeepSample { age: now.saturating_sub(at), dispatch, ..sample })
                }
                Some((_, Err(reason))) => Err(reason),
                // The power-down is not awaited if the chip cannot be read after it.
                None => self.transport.check().and(Err(Missing::IdleWait)),
            },
        }
    }

    fn read(&mut self, now: Duration, is_held: IsHeld) -> Reading<DeepSample> {
        let layout = Layout::of(self.arch).ok_or(Missing::NotOnThisArch)?;
        let mut chip = OpenChip { window: self.transport.open()?, layout, words: 0 };
        let room = WORDS_MAX.saturating_sub(self.dispatch_words);
        let tags = Self::read_tags(&mut self.known, &mut chip, room);
        let tags = tags.inspect_err(|_| (self.known, self.block, self.base) = (None, None, None))?;
        chip.words = 0;
        let dispatch = match is_held {
            Some(true) => self.read_dispatch(&mut chip, &tags),
            Some(false) => Err(Missing::NotHeld),
            None => Err(Missing::NotExposed),
        };
        self.dispatch_words = chip.words;
        let dispatch = dispatch.inspect_err(|_| (self.block, self.base) = (None, None));
        let dispatch = dispatch.map(|(worker_cores, places)| self.compare(now, worker_cores, places));
        Ok(DeepSample { age: Duration::ZERO, tags, dispatch })
    }

    /// Reads the table if it is new, then as many of the changing values as `room` allows.
    fn read_tags(known: &mut Option<TelemetryState>, chip: &mut OpenChip<T::Open>, room: u64) -> Reading<Vec<(u16, u32)>> {
        let pointers = Pointers::read(chip)?;
        if let Some(before) = known.as_mut().filter(|known| known.table.pointers == pointers)
            && before.follow(chip, room.saturating_sub(POINTER_WORDS).max(TAGS_MIN))?
        {
            return checked(before.values.clone());
        }
        let table = Table::read(chip, pointers)?;
        let values = table.values(chip, TAGS.iter().map(|(tag, _)| *tag))?;
        *known = Some(TelemetryState { table, values: values.clone(), next: 0 });
        checked(values)
    }

    fn read_dispatch(&mut self, chip: &mut OpenChip<T::Open>, tags: &[(u16, u32)]) -> Reading<(Option<u32>, Vec<QueueCounters>)> {
        let value = |wanted: u16| tags.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
        let bundle = value(tag::FLASH_BUNDLE_VERSION).ok_or(Missing::NotExposed)?;
        let [patch, minor, major] = [8, 16, 24].map(|shift| bundle >> shift & 0xFF);
        // Bundles numbered 80.x are older than 18.x.
        if major >= 80 || Version::new(major, minor, patch) < chip.layout.metal_block_since {
            return Err(Missing::NotExposed);
        }
        let is_translated = value(tag::NOC_TRANSLATION) != Some(0);
        let block = Block::read(chip, is_translated, self.block.as_ref())?;
        let known = |core: Tile| {
            let (_, base) = self.base.as_ref().filter(|_| block.cores.len() > 1)?;
            let place = base.iter().find(|place| place.core == core && place.address == block.counters)?;
            Some(place.counters.sub_devices.len()).filter(|parts| *parts > 0)
        };
        let mut places = Vec::new();
        for core in &block.cores {
            let counters = block.counters(chip, *core, known(*core))?;
            places.extend(counters.map(|counters| QueueCounters { core: *core, address: block.counters, counters }));
        }
        let worker_cores = block.worker_cores;
        self.block = Some(block);
        if places.is_empty() { Err(Missing::NoSource) } else { Ok((worker_cores, places)) }
    }

    /// Pairs counters with earlier ones of the same queue. The earlier ones are kept until the chip's clock advances.
    fn compare(&mut self, now: Duration, worker_cores: Option<u32>, places: Vec<QueueCounters>) -> Dispatch {
        let before = |place: &QueueCounters| {
            let (_, base) = self.base.as_ref()?;
            let same = base.iter().find(|known| known.core == place.core && known.address == place.address)?;
            Some(same.counters.clone())
        };
        let queues: Vec<Queue> = places.iter().map(|place| Queue { now: place.counters.clone(), before: before(place) }).collect();
        let has_moved = |queue: &Queue| queue.before.as_ref().is_none_or(|before| before.timestamp != queue.now.timestamp);
        let elapsed = self.base.as_ref().map(|(at, _)| now.saturating_sub(*at));
        if queues.iter().any(has_moved) {
            self.base = Some((now, places));
        }
        Dispatch { worker_cores, elapsed, queues }
    }
}

impl TelemetryState {
    /// Reads the heartbeat and the next other tags, `room` words in total. Returns `false` if the heartbeat decreased: the chip was reset.
    fn follow(&mut self, chip: &mut OpenChip<impl Window>, room: u64) -> Reading<bool> {
        let is_wanted = |(tag, _): &&(u16, u32)| TAGS.contains(&(*tag, TagPace::Often)) && *tag != tag::TIMER_HEARTBEAT;
        let changing: Vec<u16> = self.values.iter().filter(is_wanted).map(|(tag, _)| *tag).collect();
        let count = usize::try_from(room - 1).unwrap_or(usize::MAX).min(changing.len());
        let others = changing.iter().cycle().skip(self.next).take(count).copied();
        let tags = std::iter::once(tag::TIMER_HEARTBEAT).chain(others);
        let fresh = self.table.values(chip, tags)?;
        let heartbeat = |values: &[(u16, u32)]| values.iter().find(|(known, _)| *known == tag::TIMER_HEARTBEAT).map(|(_, count)| *count);
        if heartbeat(&fresh) < heartbeat(&self.values) {
            return Ok(false);
        }
        self.next = (self.next + count) % changing.len().max(1);
        for (tag, value) in fresh {
            if let Some(known) = self.values.iter_mut().find(|(known, _)| *known == tag) {
                known.1 = value;
            }
        }
        Ok(true)
    }
}

/// Checks the values. A chip that hangs answers with all ones everywhere.
fn checked(values: Vec<(u16, u32)>) -> Reading<Vec<(u16, u32)>> {
    let is_dead = !values.is_empty() && values.iter().all(|(_, value)| *value == u32::MAX);
    if is_dead { Err(Missing::OutOfRange) } else { Ok(values) }
}

#[cfg(test)]
mod tests;
