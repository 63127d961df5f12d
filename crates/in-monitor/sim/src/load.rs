//! The load of a process on its chips over time.
//!
//! The load of some minutes is computed once and repeats. Each process has a different period, so the machine as a whole does not repeat
//! soon. Heat follows the load with a delay, and traffic is the sum of the load. Both are stored per tick.

use crate::random::{Purpose, Random, whole};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rhythm {
    /// Requests arrive at random.
    Serve,
    /// Long steps, with a pause for the host after each.
    Train,
    /// Load and pauses alternate.
    Bench,
    /// Short experiments with pauses.
    Explore,
}

/// Number of ticks in which a chip warms up or cools down by 63 %: 20 s.
const HEAT_TICKS: f64 = 80.0;
const PERIOD_TICKS_MIN: u64 = 1200;
const PERIOD_TICKS_SPREAD: u64 = 1200;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Activity {
    /// The load, from 0 to 1.
    pub(crate) load: f64,
    /// The smoothed load, from 0 to 1.
    pub(crate) heat: f64,
    /// The sum of the load over all earlier ticks.
    pub(crate) work: f64,
}

#[derive(Debug)]
pub(crate) struct Trace {
    /// The activity at each tick. `work` begins at 0.
    ticks: Vec<Activity>,
    work: f64,
}

impl Trace {
    pub(crate) fn new(seed: u64, process: u64, rhythm: Rhythm) -> Self {
        let random = Random::new(seed, Purpose::Load, process);
        let period = PERIOD_TICKS_MIN + random.at(u64::MAX) % PERIOD_TICKS_SPREAD;
        let loads: Vec<f64> = (0..period).map(|tick| load(random, rhythm, tick)).collect();
        let warm = |heat: f64, load: f64| heat + (load - heat) / HEAT_TICKS;
        // One period is simulated in advance, so that the first tick is as warm as the last.
        let mut heat = loads.iter().fold(0.0, |heat, load| warm(heat, *load));
        let mut work = 0.0;
        let ticks = loads.iter().map(|load| {
            let now = Activity { load: *load, heat, work };
            heat = warm(heat, *load);
            work += load;
            now
        });
        Self { ticks: ticks.collect(), work }
    }

    /// Returns the activity at a tick while the process runs.
    pub(crate) fn at(&self, tick: u64) -> Activity {
        let period = self.ticks.len() as u64;
        let index = usize::try_from(tick % period).expect("an index below the length of a list");
        let now = self.ticks[index];
        Activity { work: now.work + (tick / period) as f64 * self.work, ..now }
    }

    /// Returns the activity after the process ended. Work stops at once, and heat decreases.
    pub(crate) fn after(&self, end: u64, tick: u64) -> Activity {
        let last = self.at(end);
        let cooling = tick.saturating_sub(end) as f64;
        Activity { load: 0.0, heat: last.heat * (-cooling / HEAT_TICKS).exp(), work: last.work }
    }
}

fn load(random: Random, rhythm: Rhythm, tick: u64) -> f64 {
    let time = tick as f64;
    let grain = 0.08 * random.unit(tick);
    let swing = random.smooth(time / 40.0 + 10_000.0);
    let load = match rhythm {
        Rhythm::Serve => 0.15 + 0.75 * swing,
        Rhythm::Train if tick % 60 < 52 => 0.82 + 0.08 * swing,
        Rhythm::Train => 0.25,
        Rhythm::Bench if tick % 200 < 140 => 0.70 + 0.15 * swing,
        Rhythm::Bench => 0.02,
        Rhythm::Explore => ((swing - 0.7) * 2.5).max(0.0),
    };
    (load + grain).min(1.0)
}

/// Returns the share of temporary memory that is live, from 0 to 1.
pub(crate) fn level(random: Random, rhythm: Rhythm, tick: u64) -> f64 {
    const STEP_TICKS: u64 = 60;
    let time = tick as f64;
    match rhythm {
        Rhythm::Serve => random.smooth(time / 60.0),
        // Activations grow in the forward pass and shrink in the backward pass.
        Rhythm::Train => 1.0 - (2.0 * ((tick % STEP_TICKS) as f64 / STEP_TICKS as f64) - 1.0).abs(),
        Rhythm::Bench | Rhythm::Explore => whole(random.smooth(time / 30.0) * 4.0) as f64 / 4.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RHYTHMS: [Rhythm; 4] = [Rhythm::Serve, Rhythm::Train, Rhythm::Bench, Rhythm::Explore];

    #[test]
    fn work_is_the_sum_of_load_across_rounds() {
        for (process, rhythm) in (0..).zip(RHYTHMS) {
            let trace = Trace::new(3, process, rhythm);
            let mut work = 0.0;
            for tick in 0..6000 {
                let now = trace.at(tick);
                assert!((now.work - work).abs() < 1e-6, "{rhythm:?} {tick}");
                assert!((0.0..=1.0).contains(&now.load) && (0.0..=1.0).contains(&now.heat), "{rhythm:?} {tick}: {now:?}");
                work += now.load;
            }
            assert!(work > 0.0, "{rhythm:?} does nothing");
        }
    }

    #[test]
    fn heat_moves_slowly_and_is_there_from_the_start() {
        let trace = Trace::new(3, 0, Rhythm::Train);
        assert!(trace.at(0).heat > 0.6);
        for tick in 0..3000 {
            assert!((trace.at(tick + 1).heat - trace.at(tick).heat).abs() <= 1.0 / HEAT_TICKS, "{tick}");
        }
    }

    #[test]
    fn the_end_stops_work_and_lets_heat_fade() {
        let trace = Trace::new(3, 0, Rhythm::Train);
        let (last, soon, late) = (trace.at(100), trace.after(100, 101), trace.after(100, 1000));
        assert_eq!((soon.load, soon.work), (0.0, last.work));
        assert!(soon.heat > 0.9 * last.heat && late.heat < 0.001, "{soon:?} {late:?}");
    }

    #[test]
    fn levels_are_shares() {
        let random = Random::new(1, Purpose::Memory, 0);
        for rhythm in RHYTHMS {
            let levels: Vec<f64> = (0..4000).map(|tick| level(random, rhythm, tick)).collect();
            assert!(levels.iter().all(|level| (0.0..=1.0).contains(level)), "{rhythm:?}");
            assert!(levels.iter().any(|level| *level != levels[0]), "{rhythm:?} stands still");
        }
    }
}
