//! Values that `--deep` reads directly from the chip: telemetry tags of its firmware and counters of its command queues.

use std::time::Duration;

use crate::missing::Reading;

/// Telemetry tags, by their number in the firmware.
pub mod tag {
    #![allow(missing_docs, reason = "each is named as its firmware names it")]
    pub const BOARD_TEMPERATURE: u16 = 13;
    pub const ETH_LIVE_STATUS: u16 = 21;
    pub const GDDR_STATUS: u16 = 22;
    pub const GDDR_SPEED: u16 = 23;
    pub const GDDR_FW_VERSION: u16 = 25;
    pub const FLASH_BUNDLE_VERSION: u16 = 28;
    pub const TIMER_HEARTBEAT: u16 = 32;
    pub const ENABLED_TENSIX_COL: u16 = 34;
    pub const ENABLED_ETH: u16 = 35;
    pub const ENABLED_GDDR: u16 = 36;
    pub const INPUT_CURRENT: u16 = 39;
    pub const NOC_TRANSLATION: u16 = 40;
    pub const FAN_RPM: u16 = 41;
    pub const GDDR_TEMPERATURES: [u16; 4] = [42, 43, 44, 45];
    pub const GDDR_CORRECTED_ERRORS: [u16; 4] = [46, 47, 48, 49];
    pub const GDDR_UNCORRECTED_ERRORS: u16 = 50;
    pub const MAX_GDDR_TEMPERATURE: u16 = 51;
    pub const BOARD_POWER_LIMIT: u16 = 53;
    pub const INPUT_POWER: u16 = 54;
    pub const ENABLED_TENSIX_ROW: u16 = 59;
    pub const AICLK_LIMIT_MAX: u16 = 63;
    pub const AICLK_MAX_ARBITER: u16 = 66;
    pub const AICLK_REASON: u16 = 69;
}

/// How often a tag is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagPace {
    /// In every sample. If the counters of the queues leave little room, once in several samples.
    Often,
    /// Once, until the chip is reset.
    Once,
}

/// The tags that are read from a chip.
pub const TAGS: &[(u16, TagPace)] = &[
    (tag::TIMER_HEARTBEAT, TagPace::Often),
    (tag::BOARD_TEMPERATURE, TagPace::Often),
    (tag::ETH_LIVE_STATUS, TagPace::Often),
    (tag::INPUT_CURRENT, TagPace::Often),
    (tag::FAN_RPM, TagPace::Often),
    (tag::GDDR_TEMPERATURES[0], TagPace::Often),
    (tag::GDDR_TEMPERATURES[1], TagPace::Often),
    (tag::GDDR_TEMPERATURES[2], TagPace::Often),
    (tag::GDDR_TEMPERATURES[3], TagPace::Often),
    (tag::INPUT_POWER, TagPace::Often),
    (tag::AICLK_MAX_ARBITER, TagPace::Often),
    (tag::AICLK_REASON, TagPace::Often),
    (tag::GDDR_STATUS, TagPace::Often),
    (tag::GDDR_CORRECTED_ERRORS[0], TagPace::Often),
    (tag::GDDR_CORRECTED_ERRORS[1], TagPace::Often),
    (tag::GDDR_CORRECTED_ERRORS[2], TagPace::Often),
    (tag::GDDR_CORRECTED_ERRORS[3], TagPace::Often),
    (tag::GDDR_UNCORRECTED_ERRORS, TagPace::Often),
    (tag::MAX_GDDR_TEMPERATURE, TagPace::Often),
    (tag::BOARD_POWER_LIMIT, TagPace::Often),
    (tag::GDDR_SPEED, TagPace::Once),
    (tag::GDDR_FW_VERSION, TagPace::Once),
    (tag::FLASH_BUNDLE_VERSION, TagPace::Once),
    (tag::ENABLED_TENSIX_COL, TagPace::Once),
    (tag::ENABLED_TENSIX_ROW, TagPace::Once),
    (tag::ENABLED_ETH, TagPace::Once),
    (tag::ENABLED_GDDR, TagPace::Once),
    (tag::NOC_TRANSLATION, TagPace::Once),
    (tag::AICLK_LIMIT_MAX, TagPace::Once),
];

/// One direct sample of a chip.
#[derive(Clone, Debug, PartialEq)]
pub struct DeepSample {
    /// The age of the sample. An idle chip is read at most once in 30 s.
    pub age: Duration,
    /// The values of [`TAGS`] that the firmware publishes.
    pub tags: Vec<(u16, u32)>,
    /// The command queues of the program on the chip, or `not_held` if no process holds the chip.
    pub dispatch: Reading<Dispatch>,
}

/// The command queues of a chip over two samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// Cores that the program may use, if it reports them.
    pub worker_cores: Option<u32>,
    /// Time between the two samples. `None` in the first sample.
    pub elapsed: Option<Duration>,
    /// The command queues in use.
    pub queues: Vec<Queue>,
}

/// Counters of one command queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The counters now.
    pub now: Counters,
    /// The counters in the previous sample.
    pub before: Option<Counters>,
}

/// Counters of a queue's dispatch firmware. Times are cycles of the chip's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The number of times that the queue started to wait for host commands.
    pub blocked: u32,
    /// The number of times that a wait ended.
    pub unblocked: u32,
    /// The number of completed programs.
    pub programs: u32,
    /// The chip's clock.
    pub timestamp: u64,
    /// Average working time of the workers in completed programs.
    pub average_runtime: u64,
    /// Time with at least one running program.
    pub busy: u64,
    /// Start of the current work, or 0 if there is none.
    pub busy_since: u64,
    /// The parts of the chip on which programs run.
    pub sub_devices: Vec<SubDevice>,
}

/// A part of a chip with its own workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubDevice {
    /// The number of workers.
    pub workers: u32,
    /// The number of workers that have finished the last launch.
    pub completed: u32,
    /// Time of the last launch.
    pub launched: u64,
    /// Time that the finished workers have worked since the last launch.
    pub runtime: u64,
}

impl SubDevice {
    /// Returns the number of workers that have not finished.
    pub(crate) fn in_flight(&self) -> u32 {
        self.workers.saturating_sub(self.completed)
    }
}

impl DeepSample {
    /// Returns the value of a tag. All ones mean that the firmware has no value.
    pub fn tag(&self, tag: u16) -> Reading<u32> {
        match self.tags.iter().find(|(known, _)| *known == tag) {
            Some((_, u32::MAX)) => Err(crate::Missing::NoSource),
            Some((_, value)) => Ok(*value),
            None => Err(crate::Missing::NotExposed),
        }
    }
}
