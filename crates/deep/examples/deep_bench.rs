//! Measures the cost of samples of a chip in memory: CPU time, and words read. `cargo xtask bench deep` compares them with their limits.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use ttmon_deep::fake::Fake;
use ttmon_deep::{Session, Tile, contents};
use ttmon_model::Arch;
use ttmon_model::deep::{Counters, SubDevice, TAGS, tag};

const SAMPLES: u32 = 100_000;
/// The documented maximum of 0.2 ms.
const LIMIT: Duration = Duration::from_micros(200);

fn main() {
    for (arch, core) in [(Arch::Wormhole, Tile { x: 19, y: 27 }), (Arch::Blackhole, Tile { x: 16, y: 11 })] {
        let fake = Fake::new(arch);
        let value = |known: u16| if known == tag::FLASH_BUNDLE_VERSION { 0x130D_0000 } else { u32::from(known) };
        fake.write_runs(&contents::tags(arch, &TAGS.iter().map(|(known, _)| (*known, value(*known))).collect::<Vec<_>>()));
        let mut session = Session::new(fake.clone(), arch);
        let part = SubDevice { workers: 64, completed: 64, launched: 0, runtime: 0 };
        let mut sample = |turn: u32| {
            let counters = Counters { timestamp: u64::from(turn) * 1000, sub_devices: vec![part], ..Counters::default() };
            fake.write_runs(&contents::queues(arch, 64, &[(core, counters)]));
            let before = (cpu_time(), fake.reads());
            let sample = session.sample(Duration::from_millis(500) * turn, Some(true), Duration::ZERO);
            assert!(sample.is_ok_and(|sample| sample.dispatch.is_ok()), "a chip in memory answers");
            (cpu_time().saturating_sub(before.0), fake.reads() - before.1)
        };
        let (first, first_words) = sample(0);
        let mut costs: Vec<(Duration, u64)> = (1..=SAMPLES).map(&mut sample).collect();
        let words = costs.iter().map(|(_, words)| *words).max().unwrap_or_default();
        costs.sort_unstable();
        let median = costs[costs.len() / 2].0;
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let ratio = median.as_secs_f64() / LIMIT.as_secs_f64();
        println!("{}: cpu_us {:.2} ratio {ratio:.4} words {words}", arch.name(), micros(median));
        println!("{}, first sample: cpu_us {:.2} words {first_words}", arch.name(), micros(first));
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or_default(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
