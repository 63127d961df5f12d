//! The sensors, clocks and counters of a chip at one tick.

use crate::board::Board;
use crate::chip::Chip;
use crate::load::Activity;
use crate::random::{Purpose, Random, whole};
use crate::spec::TICKS_PER_SECOND;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strain {
    /// The temperature follows the load.
    None,
    /// Just below the limit, with a reduced clock.
    Throttle,
    /// At the limit or slightly above it.
    Limit,
}

/// The values of a chip's files, rounded like in the files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Telemetry {
    pub(crate) celsius: f64,
    /// Firmware truncates watts and amperes.
    pub(crate) watts: u64,
    pub(crate) amperes: u64,
    pub(crate) millivolts: u64,
    pub(crate) aiclk_mhz: u64,
    pub(crate) fan_rpm: u64,
    pub(crate) heartbeat: u64,
    /// Words sent over PCIe in both directions since the first tick.
    pub(crate) words: f64,
}

/// The rate of the heartbeat. Wormhole's rate is not documented. Blackhole's firmware counts its updates, ten per second.
const HEARTBEATS_PER_SECOND: u64 = 10;
/// PCIe reads of the driver itself on an idle chip.
const HOUSEKEEPING_WORDS_PER_TICK: f64 = 50.0;
/// Traffic of a busy chip: 0.6 to 2.5 GB/s, depending on the size of a word. A single lane carries less.
const WORDS_PER_SECOND_WIDE: f64 = 40e6;
const WORDS_PER_SECOND_NARROW: f64 = 15e6;
/// Below this load, the clock is at its idle value.
const IDLE_LOAD: f64 = 0.05;

impl Telemetry {
    /// Computes the state at a tick. This is a pure function and does not use the previous tick.
    pub(crate) fn at(chip: &Chip, lanes: u32, seed: u64, tick: u64, activity: Activity, strain: Strain) -> Self {
        let Board { idle, busy, limits, has_fan, .. } = chip.board;
        let random = Random::new(seed, Purpose::Jitter, chip.id.into());
        let jitter = |channel: u64| 2.0 * random.unit(tick * 4 + channel) - 1.0;
        let own = 2.0 * Random::new(seed, Purpose::Chips, chip.id.into()).unit(2) - 1.0;
        let load = if strain == Strain::None { activity.load.min(1.0) } else { 0.9 };
        let between = |idle: f64, busy: f64, share: f64| idle + (busy - idle) * share;

        let limit = limits.celsius as f64;
        let celsius = match strain {
            Strain::None => between(idle.celsius, busy.celsius, activity.heat.min(1.0)) + 1.5 * own + 0.15 * jitter(0),
            Strain::Throttle => 0.97 * limit + 0.2 * jitter(0),
            Strain::Limit => limit + 0.5 + 0.4 * jitter(0),
        };
        let watts = whole(between(idle.watts, busy.watts, load) * (1.0 + 0.03 * own + 0.01 * jitter(1)));
        let millivolts = whole(between(idle.millivolts, busy.millivolts, load) + 2.0 * jitter(2));
        let start = Random::new(seed, Purpose::Counters, chip.id.into()).at(100) % 1_000_000;
        let rate = if lanes >= 8 { WORDS_PER_SECOND_WIDE } else { WORDS_PER_SECOND_NARROW };
        Self {
            celsius,
            watts,
            amperes: watts * 1000 / millivolts,
            millivolts,
            aiclk_mhz: aiclk_mhz(chip.board, load, strain),
            fan_rpm: if *has_fan { 1200 + whole(55.0 * (celsius - 35.0)) } else { 0 },
            heartbeat: (start + tick * HEARTBEATS_PER_SECOND / TICKS_PER_SECOND) % u64::from(u32::MAX),
            words: activity.work * rate / TICKS_PER_SECOND as f64 + HOUSEKEEPING_WORDS_PER_TICK * tick as f64,
        }
    }
}

fn aiclk_mhz(board: &Board, load: f64, strain: Strain) -> u64 {
    let silicon = board.silicon;
    let (idle, busy) = (silicon.aiclk_idle_mhz, silicon.aiclk_busy_mhz);
    match strain {
        Strain::Limit => idle,
        Strain::Throttle => busy * 4 / 5,
        Strain::None if load <= IDLE_LOAD => idle,
        // Blackhole lowers its clock slightly near its power limit.
        Strain::None if silicon.arch == ttmon_model::Arch::Blackhole => busy - whole((load - 0.8).max(0.0) * 300.0),
        Strain::None => busy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::Layout;
    use crate::spec::Spec;

    fn at(spec: &str, tick: u64, load: f64, strain: Strain) -> Telemetry {
        let layout = Layout::new(&Spec::parse(spec).unwrap(), 1);
        let activity = Activity { load, heat: load, work: load * tick as f64 };
        Telemetry::at(&layout.chips[0], 16, 1, tick, activity, strain)
    }

    #[test]
    fn load_shows_everywhere() {
        for spec in ["n150", "n300", "galaxy", "galaxy-bh", "p100a", "p150", "p300"] {
            let (idle, busy) = (at(spec, 400, 0.0, Strain::None), at(spec, 400, 1.0, Strain::None));
            assert!(busy.celsius > idle.celsius + 15.0, "{spec}");
            assert!(busy.watts > 2 * idle.watts && busy.amperes > idle.amperes, "{spec}");
            assert!(busy.aiclk_mhz > idle.aiclk_mhz && busy.millivolts > idle.millivolts, "{spec}");
            assert!(busy.words > 1000.0 * idle.words, "{spec}");
        }
        assert_eq!(at("n300", 0, 0.0, Strain::None).aiclk_mhz, 500);
        assert_eq!(at("n300", 0, 0.5, Strain::None).aiclk_mhz, 1000);
        assert_eq!(at("p150", 0, 0.0, Strain::None).aiclk_mhz, 800);
        assert_eq!(at("p150", 0, 0.5, Strain::None).aiclk_mhz, 1350);
    }

    #[test]
    fn strain_shows_in_temperature_and_clock() {
        for tick in 0..200 {
            let (hot, throttled) = (at("p150", tick, 0.5, Strain::Limit), at("p150", tick, 0.5, Strain::Throttle));
            assert!((90.0..92.0).contains(&hot.celsius), "{hot:?}");
            assert!((87.0..88.0).contains(&throttled.celsius) && throttled.aiclk_mhz == 1080, "{throttled:?}");
        }
    }

    #[test]
    fn heartbeats_count_and_only_fans_have_a_speed() {
        let (first, later) = (at("p150", 0, 0.5, Strain::None), at("p150", 4, 0.5, Strain::None));
        assert_eq!(later.heartbeat - first.heartbeat, 10);
        assert!((1200..5000).contains(&first.fan_rpm));
        assert_eq!(at("p300", 0, 0.5, Strain::None).fan_rpm, 0);
    }
}
