//! The memory of a process on a chip: permanent and temporary buffers.

use ttmon_model::product::Product;
use ttmon_model::{Kind, PerKind};

use crate::load::{Rhythm, level};
use crate::random::{Purpose, Random, whole};

/// Shares of a chip's memory (DRAM, L1) for a process that is alone on the chip.
#[derive(Clone, Copy, Debug)]
struct Appetite {
    dram_kept: f64,
    dram_passing: f64,
    trace: f64,
    l1_kept: f64,
    l1_passing: f64,
    l1_small: f64,
    cb: f64,
}

fn appetite(rhythm: Rhythm) -> Appetite {
    match rhythm {
        // Weights and some traces stay. The KV cache follows the requests.
        Rhythm::Serve => {
            Appetite { dram_kept: 0.46, dram_passing: 0.28, trace: 0.004, l1_kept: 0.06, l1_passing: 0.18, l1_small: 0.02, cb: 0.22 }
        }
        // Weights, gradients and optimizer stay. Activations grow and shrink with each step.
        Rhythm::Train => {
            Appetite { dram_kept: 0.38, dram_passing: 0.40, trace: 0.0, l1_kept: 0.03, l1_passing: 0.25, l1_small: 0.01, cb: 0.28 }
        }
        Rhythm::Bench | Rhythm::Explore => {
            Appetite { dram_kept: 0.07, dram_passing: 0.06, trace: 0.001, l1_kept: 0.15, l1_passing: 0.20, l1_small: 0.02, cb: 0.15 }
        }
    }
}

/// Share of memory that is used. A tenth stays free: TT-Metal reserves some memory, and full chips are a bad example.
const USABLE: f64 = 0.9;
/// Bytes of a tile of 32 x 32 16-bit values. Buffers consist of whole tiles.
const TILE_BYTES: u64 = 2048;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Share<'a> {
    pub(crate) seed: u64,
    pub(crate) process: u64,
    pub(crate) rhythm: Rhythm,
    pub(crate) chip: u32,
    pub(crate) product: &'a Product,
    /// Number of processes with memory on the chip.
    pub(crate) sharers: u64,
    /// The number of buffers per process. With more buffers, memory changes in smaller steps.
    pub(crate) buffers: u64,
}

impl Share<'_> {
    pub(crate) fn used(&self, tick: u64) -> PerKind<u64> {
        let appetite = appetite(self.rhythm);
        let Product { arch, cores, .. } = self.product;
        // The chips of a mesh differ slightly.
        let size = 0.95 + 0.05 * Random::new(self.seed, Purpose::Memory, self.process).unit(self.chip.into());
        let part = |bytes: u64, share: f64| bytes as f64 * USABLE * size * share / self.sharers as f64;
        let (dram, l1) = (|share| part(self.product.dram_bytes(), share), |share| part(cores * arch.l1_bytes_per_core(), share));
        let level = level(Random::new(self.seed, Purpose::Memory, self.process), self.rhythm, tick);
        let passing = |bytes: f64| self.passing(bytes, level);
        let mut used = PerKind::default();
        used[Kind::Dram] = tiles(dram(appetite.dram_kept)) + passing(dram(appetite.dram_passing));
        used[Kind::Trace] = tiles(dram(appetite.trace));
        used[Kind::L1] = tiles(l1(appetite.l1_kept)) + passing(l1(appetite.l1_passing));
        used[Kind::L1Small] = tiles(l1(appetite.l1_small));
        // The same on every core.
        used[Kind::Cb] = tiles(l1(appetite.cb) / *cores as f64) * cores;
        used
    }

    /// Returns the live bytes of temporary buffers at a level. Half of a process's buffers are temporary.
    fn passing(&self, bytes: f64, level: f64) -> u64 {
        let buffers = (self.buffers / 2).max(1);
        let live = whole(level * buffers as f64 + 0.5).min(buffers);
        whole(bytes / buffers as f64) * live
    }
}

fn tiles(bytes: f64) -> u64 {
    whole(bytes) / TILE_BYTES * TILE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const RHYTHMS: [Rhythm; 4] = [Rhythm::Serve, Rhythm::Train, Rhythm::Bench, Rhythm::Explore];

    fn share(rhythm: Rhythm, card_type: &str, sharers: u64, buffers: u64) -> Share<'static> {
        let product = Product::by_card_type(card_type).unwrap();
        Share { seed: 5, process: 1, rhythm, chip: 2, product, sharers, buffers }
    }

    #[test]
    fn all_sharers_together_fit() {
        for rhythm in RHYTHMS {
            for (card_type, sharers, buffers) in [("n150", 1, 64), ("n300", 62, 1), ("p150a", 7, 1 << 20)] {
                let share = share(rhythm, card_type, sharers, buffers);
                let l1_bytes = share.product.cores * share.product.arch.l1_bytes_per_core();
                for tick in 0..500 {
                    let used = share.used(tick);
                    let bar = |kinds: &[Kind]| kinds.iter().map(|kind| used[*kind]).sum::<u64>();
                    assert!(bar(&Kind::DRAM_BAR) * sharers <= share.product.dram_bytes(), "{card_type} {rhythm:?} {tick}");
                    assert!(bar(&Kind::L1_BAR) * sharers <= l1_bytes, "{card_type} {rhythm:?} {tick}");
                    assert!(used[Kind::Dram] > 0 && used[Kind::L1] > 0 && used[Kind::Cb] > 0 && used[Kind::Kernel] == 0);
                }
            }
        }
    }

    #[test]
    fn more_buffers_move_in_finer_steps() {
        let values = |buffers| {
            let share = share(Rhythm::Serve, "n300", 1, buffers);
            let mut values: Vec<u64> = (0..2000).map(|tick| share.used(tick)[Kind::Dram]).collect();
            values.sort_unstable();
            values.dedup();
            values.len()
        };
        assert_eq!(values(1), 2);
        assert!((values(16)..values(4096)).contains(&values(128)));
    }
}
