//! The buffers of a simulated program. The sums of its ledger match the plan, and its banks are filled like an allocator would fill them.

use std::collections::VecDeque;

use ttmon_client::hooked;
use ttmon_ledger::layout::{kind, origin};
use ttmon_ledger::writer::{AllocatorId, AllocatorSpec, Buffer, Chip as LedgerChip, Circular, Key, KindGeometry};
use ttmon_model::product::{Arch, Product};
use ttmon_model::{Kind, PerKind};

use crate::bank::{Bank, End};
use crate::chip::Chip;

/// Bytes of a page: a tile of 32 x 32 16-bit values.
const PAGE_BYTES: u64 = 2048;
const ALIGNMENT: u32 = 32;
/// Bytes that TT-Metal reserves at the start of DRAM.
const DRAM_BASE: u64 = 0x40000;
/// One part in this many of DRAM is for traces, and of L1 for small buffers. Each has its own end of a bank.
const TRACE_SHARE: u64 = 64;
const SMALL_SHARE: u64 = 16;
/// The kinds with banks, and their numbers in a ledger.
const BANKED: [(Kind, u8); 4] =
    [(Kind::Dram, kind::DRAM), (Kind::L1, kind::L1), (Kind::L1Small, kind::L1_SMALL), (Kind::Trace, kind::TRACE)];
/// Bytes that firmware and kernels take at the start of L1.
const L1_BASE: u64 = 0x19000;
/// Smallest buffer. Smaller ones would leave no useful hole.
const PIECE_BYTES_MIN: u64 = 1 << 16;

#[derive(Debug)]
pub(crate) struct Buffers {
    allocator: Option<AllocatorId>,
    kinds: PerKind<Option<Live>>,
    /// Total bytes of the circular buffers, or 0 if they do not exist yet.
    circular_bytes: u64,
}

#[derive(Debug)]
struct Live {
    bank: Bank,
    banks: u64,
    /// Address and size of each buffer. Weights stay. Of the other buffers, the oldest is freed first.
    weights: Vec<(u64, u64)>,
    passing: VecDeque<(u64, u64)>,
}

impl Live {
    fn per_bank(&self, size: u64) -> u64 {
        size.div_ceil(self.banks).next_multiple_of(ALIGNMENT.into())
    }

    fn sum(&self) -> u64 {
        self.weights.iter().chain(&self.passing).map(|(_, size)| size).sum()
    }
}

impl Buffers {
    /// Opens the allocator of a chip, without buffers.
    pub(crate) fn new(chip: &Chip) -> Self {
        let kinds = geometry(chip.product);
        let chips = [LedgerChip { metal_id: chip.id, unique_id: chip.unique_id, flags: 0 }];
        let spec = AllocatorSpec { given_id: chip.id, origin: origin::HOOK, mesh: (1, 1), kinds, chips: &chips };
        let allocator = hooked::with(|session| session.open_allocator(&spec).ok()).flatten();
        let live = |kind: Kind| {
            let (_, number) = BANKED.into_iter().find(|(banked, _)| *banked == kind)?;
            let geometry = kinds[usize::from(number)];
            let end = if matches!(kind, Kind::Dram | Kind::Trace) { End::Low } else { End::High };
            let bank = Bank::new(geometry.base, geometry.bank_bytes, end);
            Some(Live { bank, banks: geometry.banks.into(), weights: Vec::new(), passing: VecDeque::new() })
        };
        Self { allocator, kinds: PerKind::from_fn(live), circular_bytes: 0 }
    }

    /// Allocates and frees buffers until the chip's memory matches the plan. The first call divides the memory into `pieces` buffers.
    pub(crate) fn become_like(&mut self, chip: &Chip, used: &PerKind<u64>, pieces: u64) {
        let Some(allocator) = self.allocator else { return };
        for (kind, number) in BANKED {
            if let Some(live) = &mut self.kinds[kind] {
                adjust(live, (allocator, number), used[kind], pieces);
            }
        }
        if self.circular_bytes != used[Kind::Cb] {
            self.circular_bytes = used[Kind::Cb];
            circulars(allocator, chip, used[Kind::Cb]);
        }
        hooked::writer().launched_on(&[chip.id]);
    }
}

/// Returns the number, size and start of the banks. A bank of DRAM is a channel, and a bank of L1 is a core.
fn geometry(product: &Product) -> [KindGeometry; 6] {
    let (banks, channel_bytes) = (product.dram_banks, product.arch.dram_bytes_per_bank());
    let (trace, small) = (channel_bytes / TRACE_SHARE, product.arch.l1_bytes_per_core() / SMALL_SHARE / PAGE_BYTES * PAGE_BYTES);
    let (dram, l1) = (channel_bytes - trace - DRAM_BASE, product.arch.l1_bytes_per_core() - small - L1_BASE);
    let kind = |banks: u64, base: u64, bank_bytes: u64| KindGeometry {
        banks: u32::try_from(banks).unwrap_or(u32::MAX),
        alignment: ALIGNMENT,
        bank_bytes,
        base,
    };
    let mut kinds = [KindGeometry::default(); 6];
    kinds[usize::from(kind::DRAM)] = kind(banks, DRAM_BASE, dram);
    kinds[usize::from(kind::TRACE)] = kind(banks, DRAM_BASE + dram, trace);
    kinds[usize::from(kind::L1)] = kind(product.cores, L1_BASE, l1);
    kinds[usize::from(kind::L1_SMALL)] = kind(product.cores, L1_BASE + l1, small);
    kinds
}

fn adjust(live: &mut Live, (allocator, number): (AllocatorId, u8), wanted: u64, pieces: u64) {
    let is_first = live.weights.is_empty();
    let mut sum = live.sum();
    while sum > wanted {
        let Some((address, size)) = live.passing.pop_front().or_else(|| live.weights.pop()) else { break };
        hooked::with(|session| session.remove(Key { allocator, kind: number, address }));
        live.bank.give(address, live.per_bank(size));
        sum -= size;
    }
    let mut piece = if is_first { (wanted / pieces.max(1)).max(PIECE_BYTES_MIN) } else { u64::MAX };
    while sum < wanted {
        // The last buffer takes the rest.
        let rest = wanted - sum;
        let size = if rest / 2 < piece { rest } else { piece };
        let per_bank = live.per_bank(size);
        // A fragmented bank may have no room. The rest is then allocated in smaller buffers.
        let Some(address) = live.bank.take(per_bank) else {
            piece = size / 2;
            if piece < PIECE_BYTES_MIN {
                break;
            }
            continue;
        };
        // In the first call, every other buffer is a weight, so that freed activations leave holes.
        let is_weight = is_first && live.weights.len() <= live.passing.len();
        let _tag = ttmon_client::tag(if is_weight { "weights" } else { "activations" });
        let sizes = (u32::try_from(per_bank), u32::try_from(PAGE_BYTES));
        let (Ok(per_bank), Ok(page)) = sizes else { break };
        hooked::with(|session| {
            let buffer = Buffer { size, per_bank, page, tag: hooked::tag(session), ..Buffer::default() };
            session.insert(Key { allocator, kind: number, address }, &buffer)
        });
        if is_weight {
            live.weights.push((address, size));
        } else {
            live.passing.push_back((address, size));
        }
        sum += size;
    }
}

/// Creates three circular buffers of one program: two on every core, and one on the left half, so that the halves differ.
fn circulars(allocator: AllocatorId, chip: &Chip, bytes: u64) {
    let tiles = bytes / chip.product.cores / PAGE_BYTES;
    let (columns, rows) = grid(chip.product);
    // Each chip has its own program number, because a ledger identifies programs only by number.
    let program = chip.id + 1;
    let (right, more) = (tiles - tiles / 2, tiles / 2 * 2);
    let (all, left) = ([0, 0, columns - 1, rows - 1], [0, 0, columns / 2 - 1, rows - 1]);
    let first = right.div_ceil(2);
    hooked::with(|session| {
        session.remove_program(program);
        let mut at = L1_BASE;
        for (tiles, cores) in [(first, all), (right - first, all), (more, left)] {
            let size = tiles * PAGE_BYTES;
            let (Ok(address), Ok(size)) = (u32::try_from(at), u32::try_from(size)) else { return };
            if size > 0 {
                let circular = Circular { allocator, chip: None, program, address, size, cores, is_dataflow: false, is_global: false };
                // The ledger counts buffers that could not be recorded.
                let _ = session.add_circular(&circular);
            }
            at += u64::from(size);
        }
    });
}

/// Returns columns and rows of a chip's cores. The number of columns is even.
fn grid(product: &Product) -> (u8, u8) {
    let known: &[u8] = if product.arch == Arch::Wormhole { &[8] } else { &[14, 12, 10] };
    let columns = known.iter().copied().find(|columns| product.cores.is_multiple_of(u64::from(*columns))).unwrap_or(2);
    (columns, u8::try_from(product.cores / u64::from(columns)).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banks_are_within_the_chip_and_grids_have_all_cores() {
        for card_type in ["n150", "n300", "p100a", "p150a", "p300c", "galaxy-wormhole", "galaxy-blackhole"] {
            let product = Product::by_card_type(card_type).unwrap();
            let kinds = geometry(product);
            let bytes = |number: u8| kinds[usize::from(number)].bank_bytes * u64::from(kinds[usize::from(number)].banks);
            assert!(bytes(kind::DRAM) + bytes(kind::TRACE) <= product.dram_bytes(), "{card_type}");
            assert!(bytes(kind::L1) + bytes(kind::L1_SMALL) <= product.cores * product.arch.l1_bytes_per_core(), "{card_type}");
            let (columns, rows) = grid(product);
            assert_eq!(u64::from(columns) * u64::from(rows), product.cores, "{card_type}");
            assert!(columns.is_multiple_of(2));
        }
    }
}
