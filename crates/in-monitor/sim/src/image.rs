//! The data that `--deep` reads from a simulated chip: the telemetry of its firmware and the counters of its command queue.

use ttmon_deep::contents::{self, Run};
use ttmon_deep::{Tile, image};
use ttmon_model::Arch;
use ttmon_model::deep::{Counters, SubDevice, tag};
use ttmon_model::units::Version;

use crate::chip::Chip;
use crate::load::Activity;
use crate::random::whole;
use crate::telemetry::{Strain, Telemetry};

/// The directory with an image for each chip on PCIe, at the root of a tree.
pub(crate) const DIRECTORY: &str = ".ttmon-chips";

/// Cycles of the chip's clock per tick: the clock runs at 1 GHz.
const CYCLES_PER_TICK: f64 = 250e6;
/// Number of programs that a chip under full load completes in a tick.
const PROGRAMS_PER_TICK: f64 = 300.0;
/// Share of the time in which a core works while the chip works. Cores finish at different times.
const CORE_SHARE: f64 = 0.8;
/// Below this load, the queue waits for the host.
const WAITING_LOAD: f64 = 0.1;
/// Power of losses and other consumers on a board.
const BOARD_WATTS: u64 = 9;
const BOARD_VOLTS: u64 = 12;
/// The firmware's number for throttling: the arbiter of the maximum clock decides, because of the temperature.
const THROTTLED_BY_TEMPERATURE: u32 = 1 << 16 | 4;

/// Returns the text of the image. If no process uses the chip, it has no command queue.
pub(crate) fn text(chip: &Chip, tick: u64, activity: Activity, now: &Telemetry, strain: Strain, is_used: bool) -> String {
    let mut words = contents::tags(chip.product.arch, &tags(chip, now, strain));
    if is_used {
        words.extend(queue(chip, tick, activity));
    }
    image::text(&words)
}

fn word(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX - 1)
}

/// Returns a mask with the lowest `count` bits set.
fn mask(count: u64) -> u32 {
    word((1 << count) - 1)
}

fn tags(chip: &Chip, now: &Telemetry, strain: Strain) -> Vec<(u16, u32)> {
    let (board, product) = (chip.board, chip.product);
    let is_blackhole = product.arch == Arch::Blackhole;
    let bundle = Version::parse(board.silicon.firmware_bundle).unwrap_or(Version::new(0, 0, 0));
    let (channels, eth) = if is_blackhole { (product.dram_banks, 14) } else { (product.dram_banks / 2, 16) };
    let board_watts = now.watts + BOARD_WATTS;
    let hottest = whole(now.celsius) + 3;
    // The temperatures at the bottom and top of two channels, which differ slightly.
    let temperatures = |pair: u64| (0..4).map(|place| word(hottest - (pair + place) % 4) << (8 * place)).fold(0, |all, one| all | one);
    let mut tags = vec![
        (tag::TIMER_HEARTBEAT, word(now.heartbeat)),
        (tag::BOARD_TEMPERATURE, word(whole((now.celsius - 6.0) * 65_536.0))),
        (tag::ETH_LIVE_STATUS, links(chip) << 16 | mask(eth)),
        (tag::GDDR_STATUS, (0..channels).map(|channel| 1_u32 << (2 * channel)).sum()),
        (tag::GDDR_SPEED, if is_blackhole { 16_000 } else { 12_000 }),
        (tag::GDDR_FW_VERSION, 0x0002_0006),
        (tag::FLASH_BUNDLE_VERSION, word(bundle.major.into()) << 24 | word(bundle.minor.into()) << 16 | word(bundle.patch.into()) << 8),
        (tag::ENABLED_ETH, mask(eth)),
        (tag::ENABLED_GDDR, mask(channels)),
        (tag::INPUT_CURRENT, word(board_watts / BOARD_VOLTS)),
        (tag::NOC_TRANSLATION, 1),
        (tag::FAN_RPM, if board.has_fan { word(now.fan_rpm) } else { u32::MAX }),
        (tag::GDDR_UNCORRECTED_ERRORS, 0),
        (tag::MAX_GDDR_TEMPERATURE, word(hottest)),
        (tag::BOARD_POWER_LIMIT, word(board.limits.watts + BOARD_WATTS)),
        (tag::INPUT_POWER, word(board_watts)),
        (tag::AICLK_LIMIT_MAX, word(board.silicon.aiclk_busy_mhz)),
        (tag::AICLK_REASON, if strain == Strain::None { 0 } else { THROTTLED_BY_TEMPERATURE }),
    ];
    let pairs = || (0..4_u16).zip(0..channels.div_ceil(2));
    tags.extend(pairs().map(|(index, pair)| (tag::GDDR_TEMPERATURES[usize::from(index)], temperatures(pair))));
    tags.extend(pairs().map(|(index, _)| (tag::GDDR_CORRECTED_ERRORS[usize::from(index)], 0)));
    tags.push(match is_blackhole {
        true => (tag::ENABLED_TENSIX_COL, mask(product.cores / 10)),
        false => (tag::ENABLED_TENSIX_ROW, mask(product.cores / 8)),
    });
    tags
}

/// Returns the links that are up: all links of a Galaxy, those to the other chip of a board, and none of a single card.
fn links(chip: &Chip) -> u32 {
    match chip.board {
        board if board.is_galaxy() => mask(if chip.product.arch == Arch::Blackhole { 14 } else { 16 }),
        board if board.chips > 1 || !chip.product.remote_chips.is_empty() => 0b11 << 8,
        _ => 0,
    }
}

fn queue(chip: &Chip, tick: u64, activity: Activity) -> Vec<Run> {
    let core = if chip.product.arch == Arch::Blackhole { Tile { x: 16, y: 11 } } else { Tile { x: 19, y: 27 } };
    let workers = word(chip.product.cores);
    let programs = whole(activity.work * PROGRAMS_PER_TICK);
    let is_waiting = activity.load < WAITING_LOAD;
    let counters = Counters {
        blocked: word(programs & 0xFFFF) + u32::from(is_waiting),
        unblocked: word(programs & 0xFFFF),
        programs: word(programs & 0xFFFF_FFFF),
        timestamp: whole(tick as f64 * CYCLES_PER_TICK),
        average_runtime: whole(activity.work * CORE_SHARE * CYCLES_PER_TICK),
        busy: whole(activity.work * CYCLES_PER_TICK),
        busy_since: 0,
        sub_devices: vec![SubDevice { workers, completed: workers, launched: 0, runtime: 0 }],
    };
    contents::queues(chip.product.arch, u16::try_from(chip.product.cores).unwrap_or(u16::MAX), &[(core, counters)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::Layout;
    use crate::machine::{Life, Machine};
    use crate::spec::Spec;
    use std::time::Duration;
    use ttmon_deep::Session;
    use ttmon_deep::image::Image;
    use ttmon_model::deep::DeepSample;

    /// Returns a chip's direct sample at two ticks, as seen by a reader.
    fn read(spec: &str, ticks: [u64; 2], strain: Strain) -> DeepSample {
        let machine = Machine::new(&Spec::parse(spec).unwrap(), 1).unwrap();
        let chip = &machine.chips[0];
        let lives = vec![Life::Running { pid: 1 }; machine.process_count()];
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0");
        let mut session = Session::new(Image::new(&path, chip.product.arch), chip.product.arch);
        let mut sample = None;
        for tick in ticks {
            let activity = machine.activity(chip, tick, &lives);
            let now = Telemetry::at(chip, 16, 1, tick, activity, strain);
            std::fs::write(&path, text(chip, tick, activity, &now, strain, true)).unwrap();
            sample = Some(session.sample(Duration::from_millis(250 * tick), Some(true), Duration::ZERO).unwrap());
        }
        sample.unwrap()
    }

    #[test]
    fn every_board_can_be_read() {
        for spec in ["n150", "n300", "galaxy", "galaxy-bh", "p100a", "p150", "p300"] {
            let sample = read(spec, [100, 104], Strain::None);
            let product = Layout::new(&Spec::parse(spec).unwrap(), 1).chips[0].product;
            let (tag, cores) = if product.arch == Arch::Blackhole { (tag::ENABLED_TENSIX_COL, 10) } else { (tag::ENABLED_TENSIX_ROW, 8) };
            assert_eq!(u64::from(sample.tag(tag).unwrap().count_ones()) * cores, product.cores, "{spec}");
            let dispatch = sample.dispatch.unwrap();
            let (now, before) = (&dispatch.queues[0].now, dispatch.queues[0].before.as_ref().unwrap());
            assert_eq!(now.timestamp - before.timestamp, 1_000_000_000, "{spec}");
            assert!(now.busy >= before.busy && now.busy > 0, "{spec}: {now:?}");
        }
    }

    #[test]
    fn heat_is_a_reason_to_throttle() {
        let reason = |strain| read("p150", [4, 8], strain).tag(tag::AICLK_REASON);
        assert_eq!([Strain::None, Strain::Throttle].map(reason), [Ok(0), Ok(THROTTLED_BY_TEMPERATURE)]);
    }
}
