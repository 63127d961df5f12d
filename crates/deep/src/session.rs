//! Samples of one chip, one after the other.

use std::time::Duration;

use ttmon_model::deep::{Counters, DeepSample, Dispatch, Queue, TAGS, TagPace, tag};
use ttmon_model::units::Version;
use ttmon_model::{Arch, Missing, Reading};

use crate::dispatch::Block;
use crate::pace::{Decision, Pace};
use crate::table::{Layout, Pointers, Table};
use crate::transport::{Tile, Transport, Window};

/// Tags that hardly ever change are read every so many samples.
const SELDOM_EVERY: u32 = 20;

/// A chip that is read again and again.
#[derive(Debug)]
pub struct Session<T> {
    transport: T,
    arch: Arch,
    pace: Pace,
    known: Option<Known>,
    /// Counters of the queues when the chip's time last moved.
    base: Option<(Duration, Vec<Place>)>,
    /// What was read last, and when.
    last: Option<(Duration, Reading<DeepSample>)>,
}

/// What stays the same until the chip is reset.
#[derive(Debug)]
struct Known {
    table: Table,
    values: Vec<(u16, u32)>,
    seldom_in: u32,
}

/// The counters of a queue, and where they were.
#[derive(Clone, Debug)]
struct Place {
    core: Tile,
    address: u64,
    counters: Counters,
}

/// Whether a process other than a reader of ttmon holds a chip; unknown with drivers that do not list their users.
pub(crate) type IsHeld = Option<bool>;

impl<T: Transport> Session<T> {
    /// A chip that was not read yet.
    pub fn new(transport: T, arch: Arch) -> Self {
        Self { transport, arch, pace: Pace::default(), known: None, base: None, last: None }
    }

    /// Notes whether a process holds the chip, between samples.
    pub fn note(&mut self, now: Duration, is_held: IsHeld) {
        self.pace.note(now, is_held == Some(true));
    }

    /// One sample, or the last one with its age where the chip may not be read now. `grace` is as in [`Pace::decide`].
    pub fn sample(&mut self, now: Duration, is_held: IsHeld, grace: Duration) -> Reading<DeepSample> {
        match self.pace.decide(now, is_held == Some(true), grace) {
            Decision::Read => {
                let sample = self.read(now, is_held);
                if sample == Err(Missing::OutOfRange) {
                    self.pace.back_off(now);
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
                None => Err(Missing::IdleWait),
            },
        }
    }

    fn read(&mut self, now: Duration, is_held: IsHeld) -> Reading<DeepSample> {
        let layout = Layout::of(self.arch).ok_or(Missing::NotOnThisArch)?;
        let mut window = self.transport.open().map_err(Missing::from)?;
        let tags = Self::read_tags(&mut self.known, &mut window, self.arch, &layout);
        let tags = tags.inspect_err(|_| (self.known, self.base) = (None, None))?;
        let dispatch = match is_held {
            Some(true) => read_dispatch(&mut window, self.arch, &layout, &tags),
            Some(false) => Err(Missing::NotHeld),
            None => Err(Missing::NotExposed),
        };
        let dispatch = match dispatch {
            Ok((worker_cores, places)) => Ok(self.compare(now, worker_cores, places)),
            Err(reason) => {
                self.base = None;
                Err(reason)
            }
        };
        Ok(DeepSample { age: Duration::ZERO, tags, dispatch })
    }

    /// Reads the table if it is new, then the values that may have changed.
    fn read_tags(known: &mut Option<Known>, window: &mut T::Open, arch: Arch, layout: &Layout) -> Reading<Vec<(u16, u32)>> {
        let pointers = Pointers::read(window, arch, layout)?;
        let of_pace = |wanted: fn(TagPace) -> bool| TAGS.iter().filter(move |(_, pace)| wanted(*pace)).map(|(tag, _)| *tag);
        let heartbeat = |values: &[(u16, u32)]| values.iter().find(|(known, _)| *known == tag::TIMER_HEARTBEAT).map(|(_, count)| *count);
        if let Some(before) = known.as_mut().filter(|known| known.table.pointers == pointers) {
            let is_seldom_due = before.seldom_in == 0;
            let wanted: fn(TagPace) -> bool = if is_seldom_due { |pace| pace != TagPace::Once } else { |pace| pace == TagPace::Often };
            let fresh = before.table.values(window, arch, layout, of_pace(wanted)).map_err(Missing::from)?;
            // A heartbeat that fell back means that the chip was reset, perhaps with other firmware.
            if heartbeat(&fresh) >= heartbeat(&before.values) {
                before.seldom_in = if is_seldom_due { SELDOM_EVERY } else { before.seldom_in } - 1;
                for (tag, value) in fresh {
                    if let Some(known) = before.values.iter_mut().find(|(known, _)| *known == tag) {
                        known.1 = value;
                    }
                }
                return checked(before.values.clone());
            }
        }
        let table = Table::read(window, arch, layout, pointers)?;
        let values = table.values(window, arch, layout, of_pace(|_| true)).map_err(Missing::from)?;
        *known = Some(Known { table, values: values.clone(), seldom_in: SELDOM_EVERY });
        checked(values)
    }

    /// Pairs counters with earlier ones of the same queue. The earlier ones stay until the chip's time moves on.
    fn compare(&mut self, now: Duration, worker_cores: Option<u32>, places: Vec<Place>) -> Dispatch {
        let before = |place: &Place| {
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

/// A chip that hangs answers with all ones, everywhere.
fn checked(values: Vec<(u16, u32)>) -> Reading<Vec<(u16, u32)>> {
    let is_dead = !values.is_empty() && values.iter().all(|(_, value)| *value == u32::MAX);
    if is_dead { Err(Missing::OutOfRange) } else { Ok(values) }
}

fn read_dispatch(window: &mut impl Window, arch: Arch, layout: &Layout, tags: &[(u16, u32)]) -> Reading<(Option<u32>, Vec<Place>)> {
    let value = |wanted: u16| tags.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
    let bundle = value(tag::FLASH_BUNDLE_VERSION).ok_or(Missing::NotExposed)?;
    let [patch, minor, major] = [8, 16, 24].map(|shift| bundle >> shift & 0xFF);
    // Bundles numbered 80.x are older than 18.x.
    if major >= 80 || Version::new(major, minor, patch) < layout.metal_block_since {
        return Err(Missing::NotExposed);
    }
    let is_translated = value(tag::NOC_TRANSLATION) != Some(0);
    let block = Block::read(window, arch, layout, is_translated)?;
    let mut places = Vec::new();
    for core in &block.cores {
        let counters = block.counters(window, arch, *core).map_err(Missing::from)?;
        places.extend(counters.map(|counters| Place { core: *core, address: block.counters, counters }));
    }
    if places.is_empty() { Err(Missing::NoSource) } else { Ok((block.worker_cores, places)) }
}

#[cfg(test)]
mod tests;
