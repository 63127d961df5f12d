//! Measures the cost of samples of a chip: CPU time, and words read: `cargo xtask bench deep`. The chip is simulated in memory, so the
//! response time of the hardware is not included.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use ttmon_deep::{Session, Tile, Transport, Window, contents};
use ttmon_model::deep::{Counters, SubDevice, TAGS, tag};
use ttmon_model::{Arch, Reading};
use ttmon_testing::measure::{Limit, Verdicts, load, quantile, thread_time};

const SAMPLES: u32 = 100_000;
/// The documented maximum of 0.2 ms.
const CPU_US_MAX: f64 = 200.0;
const WORDS_MAX: Limit = Limit::AtMost(60.0, "words");

fn main() {
    println!("# A sample of a chip, beside its limits\n\nload before: {}\n", load());
    let mut verdicts = Verdicts::default();
    for (arch, core) in [(Arch::Wormhole, Tile { x: 19, y: 27 }), (Arch::Blackhole, Tile { x: 16, y: 11 })] {
        let chip = Chip::default();
        let value = |known: u16| if known == tag::FLASH_BUNDLE_VERSION { 0x130D_0000 } else { u32::from(known) };
        chip.write(&contents::tags(arch, &TAGS.iter().map(|(known, _)| (*known, value(*known))).collect::<Vec<_>>()));
        let mut session = Session::new(chip.clone(), arch);
        let part = SubDevice { workers: 64, completed: 64, launched: 0, runtime: 0 };
        let mut sample = |turn: u32| {
            let counters = Counters { timestamp: u64::from(turn) * 1000, sub_devices: vec![part], ..Counters::default() };
            chip.write(&contents::queues(arch, 64, &[(core, counters)]));
            let before = (thread_time(), chip.words_read());
            let sample = session.sample(Duration::from_millis(500) * turn, Some(true), Duration::ZERO);
            assert!(sample.is_ok_and(|sample| sample.dispatch.is_ok()), "a chip in memory answers");
            (thread_time() - before.0, chip.words_read() - before.1)
        };
        let (first, first_words) = sample(0);
        let (costs, words): (Vec<Duration>, Vec<usize>) = (1..=SAMPLES).map(&mut sample).unzip();
        let words = quantile(&words, 100);
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let median = micros(quantile(&costs, 50));
        let line = format!("{}: cpu_us {median:.2} ratio {:.4} words {words}", arch.name(), median / CPU_US_MAX);
        verdicts.print(&line, &[(median, Limit::AtMost(CPU_US_MAX, "us")), (words as f64, WORDS_MAX)]);
        println!("{}, first sample: cpu_us {:.2} words {first_words}", arch.name(), micros(first));
    }
    println!("\nload after:  {}\n\n{verdicts}", load());
}

/// A chip in memory that counts the words read. Clones share the memory.
#[derive(Clone, Default)]
struct Chip(Rc<RefCell<Memory>>);

#[derive(Default)]
struct Memory {
    words: HashMap<(Tile, u64), u32>,
    words_read: usize,
}

impl Chip {
    fn write(&self, runs: &[contents::Run]) {
        for (tile, address, words) in runs {
            self.0.borrow_mut().words.extend((*address..).step_by(4).zip(words).map(|(address, word)| ((*tile, address), *word)));
        }
    }

    fn words_read(&self) -> usize {
        self.0.borrow().words_read
    }
}

impl Transport for Chip {
    type Open = ChipWindow;

    fn open(&mut self) -> Reading<ChipWindow> {
        Ok(ChipWindow { chip: self.clone(), tile: Tile { x: 0, y: 0 }, address: 0 })
    }
}

struct ChipWindow {
    chip: Chip,
    tile: Tile,
    address: u64,
}

impl Window for ChipWindow {
    fn configure(&mut self, tile: Tile, address: u64) -> Reading<()> {
        (self.tile, self.address) = (tile, address);
        Ok(())
    }

    fn read(&mut self, offset: usize, words: &mut [u32]) -> Reading<()> {
        let mut memory = self.chip.0.borrow_mut();
        memory.words_read += words.len();
        for (address, word) in (self.address + offset as u64..).step_by(4).zip(words) {
            *word = memory.words.get(&(self.tile, address)).copied().unwrap_or(0);
        }
        Ok(())
    }
}
