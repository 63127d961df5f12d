//! Reads a chip of Tenstorrent's simulator while a program of TT-Metal runs on it. `--deep` reads a chip behind the kernel driver in the
//! same way.
//!
//! ```text
//! simulator SOCKET [SECONDS [PROGRAMS]]
//! ```
//!
//! SOCKET is `/tmp/tt-umd-sim-server-N/tt-umd-sim-0.sock` of a program that was started with `TT_METAL_SIMULATOR_SERVE_OVER_SOCKETS=1`.
//! Each sample is printed. The command fails if a share is outside 0 to 1, if a sample reads more than 60 words, or if the chip did not
//! count PROGRAMS. docs/deep.md describes the whole procedure.

mod socket;

use std::cell::Cell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};

use socket::Simulator;
use ttmon_deep::{Session, Tile, Transport, Window, contents};
use ttmon_model::attributes::{Attr, Attributes, Raw};
use ttmon_model::deep::{Counters, DeepSample};
use ttmon_model::sample::{DeviceSample, Origin, Users};
use ttmon_model::units::UnixTime;
use ttmon_model::{Arch, Device, DeviceId, Missing, Reading, Sample, Snapshot};

const INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of words in a sample, after the first one.
const WORDS_MAX: u64 = 60;
const SECONDS: u64 = 60;
/// The address of TT-Metal's counters in the L1 of a dispatch core.
const COUNTERS: usize = 0x1_A180;
const SIGNATURE: u32 = 0x4449_5350;
/// The number of the program's worker cores. The last row of the grid is for dispatch.
const WORKER_CORES: u16 = 72;

/// The results over all samples.
#[derive(Default)]
struct Seen {
    samples: u32,
    /// The number of samples with a share, with a clock that did not advance, and with work that began later than now.
    shares: u32,
    standing: u32,
    early: u32,
    lowest: Option<f64>,
    highest: f64,
    programs: u32,
    words: u64,
    slowest: Duration,
    faults: Vec<String>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).map(|text| text.parse::<u64>());
    let (Some(path), Ok(seconds), Ok(programs)) = (arguments.first(), number(1).transpose(), number(2).transpose()) else {
        eprintln!("usage: simulator SOCKET [SECONDS [PROGRAMS]]");
        return ExitCode::from(2);
    };
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(SECONDS));
    let words = Rc::new(Cell::new(0));
    let mut chip = Simulator { socket: PathBuf::from(path), stand_ins: Vec::new(), words: Rc::clone(&words) };
    let Some(core) = find_core(&mut chip, end) else {
        eprintln!("simulator: no core has counters at {COUNTERS:#x}: not a program with fast dispatch, or another version of TT-Metal");
        return ExitCode::FAILURE;
    };
    println!("counters on core {},{}", core.x, core.y);
    // On a simulator, TT-Metal does not publish the block that names the core. These words replace it.
    chip.stand_ins = contents::queues(Arch::Wormhole, WORKER_CORES, &[(core, Counters::default())]);
    chip.stand_ins.retain(|(tile, _, _)| *tile != core);
    let mut seen = watch(Session::new(chip, Arch::Wormhole), &words, end);
    if let Some(programs) = programs.filter(|programs| *programs != u64::from(seen.programs)) {
        seen.faults.push(format!("expected {programs} programs, found {}", seen.programs));
    }
    if seen.words > WORDS_MAX {
        seen.faults.push(format!("expected at most {WORDS_MAX} words per sample, found {}", seen.words));
    }
    let Seen { samples, shares, standing, early, lowest, highest, programs, words, slowest, faults } = seen;
    println!(
        "{samples} samples, at most {words} words and {slowest:.1?}; {shares} shares from {:.4} to {highest:.4}",
        lowest.unwrap_or_default()
    );
    println!("{standing} with a clock that stood still, {early} with a start later than now; {programs} programs");
    faults.iter().for_each(|fault| eprintln!("simulator: {fault}"));
    if faults.is_empty() && shares > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the first core with the counters of a queue, as soon as the firmware of the program has started.
fn find_core(chip: &mut Simulator, end: Instant) -> Option<Tile> {
    let tiles: Vec<Tile> = (18..=27).flat_map(|y| (18..=25).map(move |x| Tile { x, y })).collect();
    while Instant::now() < end {
        if let Ok(mut window) = chip.open() {
            let has_counters = |tile: &&Tile| {
                let mut words = [0; 2];
                let is_read = window.configure(**tile, 0).is_ok() && window.read(COUNTERS, &mut words).is_ok();
                is_read && words[1] == SIGNATURE
            };
            if let Some(tile) = tiles.iter().find(has_counters) {
                return Some(*tile);
            }
        }
        std::thread::sleep(INTERVAL / 5);
    }
    None
}

/// Samples the chip until it is gone or the time is over.
fn watch(mut session: Session<Simulator>, words: &Cell<u64>, end: Instant) -> Seen {
    let (started, mut seen) = (Instant::now(), Seen::default());
    while Instant::now() < end {
        let asked = Instant::now();
        words.set(0);
        let sample = session.sample(started.elapsed(), Some(true), Duration::ZERO);
        if sample == Err(Missing::Gone) {
            break;
        }
        seen.add(&sample, asked.elapsed(), words.get());
        print(started.elapsed(), &sample);
        std::thread::sleep(INTERVAL.saturating_sub(asked.elapsed()));
    }
    seen
}

impl Seen {
    fn add(&mut self, sample: &Reading<DeepSample>, took: Duration, words: u64) {
        self.samples += 1;
        // The first sample also reads the tables.
        if self.samples > 1 {
            self.words = self.words.max(words);
        }
        self.slowest = self.slowest.max(took);
        let Ok(sample) = sample else { return };
        for queue in sample.dispatch.iter().flat_map(|dispatch| &dispatch.queues) {
            self.programs = self.programs.max(queue.now.programs);
            self.standing += u32::from(queue.before.as_ref().is_some_and(|before| before.timestamp == queue.now.timestamp));
            self.early += u32::from(queue.now.busy_since > queue.now.timestamp);
        }
        let device = device(sample);
        for share in [device.utilization, device.core_efficiency].into_iter().flatten() {
            if !(0.0..=1.0).contains(&share) {
                self.faults.push(format!("expected a share from 0 to 1, found {share}"));
            }
        }
        if let Ok(share) = device.utilization {
            self.shares += 1;
            self.lowest = Some(self.lowest.map_or(share, |lowest| lowest.min(share)));
            self.highest = self.highest.max(share);
        }
    }
}

fn print(at: Duration, sample: &Reading<DeepSample>) {
    let sample = match sample {
        Ok(sample) => sample,
        Err(reason) => return println!("{:6.1} s {reason}", at.as_secs_f64()),
    };
    let device = device(sample);
    let share = |reading: Reading<f64>| reading.map_or_else(|reason| reason.to_string(), |share| format!("{:.2} %", 100.0 * share));
    let rate = device.programs_per_s.map_or_else(|reason| reason.to_string(), |rate| format!("{rate:.1}"));
    for queue in sample.dispatch.iter().flat_map(|dispatch| &dispatch.queues) {
        let Counters { timestamp, programs, busy, busy_since, blocked, unblocked, .. } = queue.now;
        print!(
            "{:6.1} s clock {timestamp} busy {busy} since {busy_since} waits {blocked}/{unblocked} programs {programs}",
            at.as_secs_f64()
        );
        println!(": utilization {}, cores {}, programs/s {rate}", share(device.utilization), share(device.core_efficiency));
    }
    if let Err(reason) = &sample.dispatch {
        println!("{:6.1} s {} tags, counters: {reason}", at.as_secs_f64(), sample.tags.len());
    }
}

/// Returns the fields of a device with this sample, computed by the product's own code.
fn device(deep: &DeepSample) -> Device {
    let mut attributes = Attributes::all_missing(Missing::NotExposed);
    attributes.set(Attr::PciDevice, Ok(Raw::Number(0x401E)));
    let device = DeviceSample {
        id: DeviceId(0),
        bdf: Err(Missing::NotExposed),
        was_listed: true,
        attributes,
        counted: None,
        beat: None,
        users: Ok(Users { pids: vec![1], hidden: 0, is_complete: true }),
        deep: Ok(deep.clone()),
    };
    let sample = Sample {
        at: Duration::ZERO,
        time: UnixTime(0),
        scan_age: Duration::ZERO,
        host: String::new(),
        origin: Origin::Sim,
        driver: Err(Missing::NotExposed),
        cluster: None,
        proven: Vec::new(),
        devices: vec![device],
        processes: Vec::new(),
        regions: Vec::new(),
        ledgers: Vec::new(),
        denied_processes: 0,
        problems: Vec::new(),
    };
    Snapshot::derive(&sample, None).devices.swap_remove(0)
}
