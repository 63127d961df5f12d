//! Processes whose memory is reported by a hook, with banks, blocks and programs.

use std::num::NonZeroU32;

use proptest::collection::vec;
use proptest::prelude::*;
use ttmon_model::identity::{ChipPosition, unique_id_candidates};
use ttmon_model::ledger::{
    Buffer, BufferKind, BufferLayout, FeatureState, HookFeature, Ledger, LedgerAllocator, LedgerChip, LedgerCircular, LedgerGeometry,
    LedgerLaunches, LedgerRow, LedgerSample, LedgerSelfCheck, LedgerWriter,
};
use ttmon_model::units::UnixTime;
use ttmon_model::{Kind, PerKind, Sample, Snapshot};

use super::{NOW, SERIAL, asic_id, device, hold, process, sample};

const DRAM: LedgerGeometry = LedgerGeometry { banks: 12, bank_bytes: 1_072_693_184, base: 0x10_0040 };
const L1: LedgerGeometry = LedgerGeometry { banks: 64, bank_bytes: 1_360_544, base: 0x1_9D60 };
const L1_SMALL: LedgerGeometry = LedgerGeometry { banks: 64, bank_bytes: 32_768, base: L1.base + L1.bank_bytes };
const TRACE: LedgerGeometry = LedgerGeometry { banks: 12, bank_bytes: 0, base: DRAM.base + DRAM.bank_bytes };
const SECOND: u64 = 1_000_000_000;

/// An n300 with two programs. The first has overlapping buffers on a mesh over both chips and on a submesh of the left chip. The second has
/// unknown blocks.
#[must_use]
pub fn hooked() -> Snapshot {
    Snapshot::derive(&hooked_sample(0), Some(&hooked_sample(100)))
}

/// Returns the sample with this many launches fewer than at the end.
fn hooked_sample(launches_less: u64) -> Sample {
    let mut board = device(0, "n300");
    hold(&mut board, &[4242, 5000]);
    let at = std::time::Duration::from_secs(if launches_less == 0 { 12 } else { 10 });
    let first = process(4242, "python3", "/usr/bin/python3 /srv/models/mesh.py");
    let second = process(5000, "python3", "/usr/bin/python3 hybrid.py");
    let ledgers = vec![
        LedgerSample { owner: first.key, content: Ok(meshes(launches_less)) },
        LedgerSample { owner: second.key, content: Ok(without_blocks()) },
    ];
    Sample { processes: vec![first, second], ledgers, at, ..sample(vec![board]) }
}

fn chips() -> [LedgerChip; 2] {
    let right = unique_id_candidates(None, Some(SERIAL), Some(ChipPosition::Right), false)[0];
    [(0, asic_id(0)), (1, right)].map(|(metal_id, unique_id)| LedgerChip { metal_id: Some(metal_id), unique_id: Some(unique_id) })
}

fn meshes(launches_less: u64) -> Ledger {
    let mib = 1 << 20;
    let both = [buffer(0, Kind::Dram, 0x10_0040, 86 * 2048, mib * 2), buffer(0, Kind::Dram, 0x20_0040, 2048, 20_000)];
    let l1 = [buffer(0, Kind::L1, 0x14_0000, 4096, 262_144), buffer(0, Kind::L1, 0x14_2000, 8192, 500_000)];
    let small = buffer(0, Kind::L1Small, L1_SMALL.base + 32_768 - 64, 64, 4096);
    let left = buffer(1, Kind::Dram, 0x10_0040, 43 * 2048, mib);
    let buffers: Vec<Buffer> = both.into_iter().chain(l1).chain([small, left]).collect();
    let mut mesh = allocator(0, (1, 2), &chips(), &buffers);
    mesh.rows.push(LedgerRow { kind: BufferKind::Of(Kind::Cb), ..row(Kind::Cb, &[]) });
    let circular =
        |program, address, size, cores| LedgerCircular { allocator: 0, chip: None, program, address, size, cores, is_global: false };
    let launches = |metal_id| LedgerLaunches { metal_id, programs: 18_204 - launches_less, last: UnixTime(NOW.0 - 3 * SECOND) };
    Ledger {
        circulars: vec![circular(1, L1.base, 65_536, [0, 0, 7, 7]), circular(2, L1.base, 98_304, [0, 0, 0, 0])],
        has_circulars: true,
        launches: vec![launches(0), launches(1)],
        coverage: vec![
            feature("allocations", 6, FeatureState::Found, None),
            feature("circular buffers", 2, FeatureState::Found, None),
            feature("launches", 18_204, FeatureState::Found, None),
            feature("program cache", 0, FeatureState::Missing, Some("no such symbol")),
        ],
        ..ledger(vec![mesh, allocator(1, (1, 1), &chips()[..1], &buffers)], buffers)
    }
}

/// Returns a ledger without block tables: one kind has buffers with a different address on each core, another has more buffers than can be
/// listed. No circular buffer was ever seen.
fn without_blocks() -> Ledger {
    let buffers =
        vec![Buffer { is_per_core: true, ..buffer(0, Kind::L1, 0x14_0000, 4096, 262_144) }, buffer(0, Kind::Dram, 0x80_0040, 2048, 24_000)];
    let mut one = allocator(0, (1, 1), &chips()[..1], &buffers);
    one.self_check = LedgerSelfCheck { is_inexact: true, is_per_core: true, checks: 40, differences: 3, ..LedgerSelfCheck::default() };
    let dram = &mut one.rows[0];
    (dram.count, dram.used, dram.allocated) = (3, 72_000, Some(3 * 2048 * 12));
    (dram.unlisted_count, dram.unlisted_bytes) = (2, 48_000);
    Ledger { coverage: vec![feature("allocations", 2, FeatureState::Found, None)], ..ledger(vec![one], buffers) }
}

fn feature(name: &str, hits: u64, state: FeatureState, reason: Option<&str>) -> HookFeature {
    HookFeature { name: name.to_owned(), hits, state, reason: reason.map(str::to_owned) }
}

fn ledger(allocators: Vec<LedgerAllocator>, buffers: Vec<Buffer>) -> Ledger {
    Ledger { is_listed: true, has_blocks: true, events: 100, allocators, buffers, ..Ledger::empty(LedgerWriter::Hook) }
}

fn allocator(slot: u16, mesh: (u16, u16), chips: &[LedgerChip], buffers: &[Buffer]) -> LedgerAllocator {
    let geometry = PerKind::from_fn(|kind| match kind {
        Kind::Dram => Some(DRAM),
        Kind::L1 => Some(L1),
        Kind::L1Small => Some(L1_SMALL),
        Kind::Trace => Some(TRACE),
        Kind::Cb | Kind::Kernel => None,
    });
    let mine: Vec<&Buffer> = buffers.iter().filter(|buffer| buffer.allocator == slot).collect();
    let of = |kind: Kind| mine.iter().copied().filter(|buffer| buffer.kind == BufferKind::Of(kind)).collect::<Vec<_>>();
    let rows = [Kind::Dram, Kind::L1, Kind::L1Small].into_iter().filter(|kind| !of(*kind).is_empty());
    LedgerAllocator {
        slot,
        generation: 1,
        mesh: Some(mesh),
        origin: LedgerWriter::Hook,
        chips: chips.to_vec(),
        geometry,
        self_check: LedgerSelfCheck { checks: 7, ..LedgerSelfCheck::default() },
        rows: rows.map(|kind| row(kind, &of(kind))).collect(),
        ..LedgerAllocator::default()
    }
}

fn row(kind: Kind, buffers: &[&Buffer]) -> LedgerRow {
    let geometry = if kind == Kind::Dram { DRAM } else { L1 };
    let per_bank: u64 = buffers.iter().filter_map(|buffer| Some(u64::from(buffer.per_bank?.get()))).sum();
    let used = buffers.iter().map(|buffer| buffer.size).sum();
    LedgerRow {
        used,
        allocated: Some(per_bank * geometry.banks),
        count: buffers.len() as u64,
        peak: used,
        peak_time: UnixTime(NOW.0 - 9 * SECOND),
        capacity: Some(geometry.banks * geometry.bank_bytes),
        has_per_core: buffers.iter().any(|buffer| buffer.is_per_core),
        refused: 0,
        has_unknown_blocks: buffers.iter().any(|buffer| !buffer.is_per_core && buffer.per_bank.is_none()),
        ..LedgerRow::empty(BufferKind::Of(kind))
    }
}

fn buffer(allocator: u16, kind: Kind, address: u64, per_bank: u32, size: u64) -> Buffer {
    Buffer {
        allocator,
        kind: BufferKind::Of(kind),
        address,
        size,
        per_bank: NonZeroU32::new(per_bank),
        page_size: NonZeroU32::new(2048),
        layout: Some(BufferLayout::Interleaved),
        cores: None,
        refs: 1,
        time: UnixTime(NOW.0 - 5 * SECOND),
        tag: None,
        operation: None,
        stack: None,
        is_per_core: false,
        is_cached: false,
        kernel_type: None,
    }
}

/// A ledger that is completely full and has impossible numbers: 256 allocators on 64 chips each, and every circular buffer.
#[must_use]
pub fn overfull() -> Snapshot {
    let geometry = LedgerGeometry { banks: u64::from(u32::MAX), bank_bytes: u64::MAX, base: u64::MAX - 7 };
    let allocators = (0..256_u16).map(|slot| {
        let chip = |chip: u64| LedgerChip { metal_id: None, unique_id: Some(1_000_000 + u64::from(slot) * 32 + chip) };
        let chips: Vec<LedgerChip> = (0..64).map(chip).collect();
        let rows = Kind::ALL.map(|kind| LedgerRow { allocated: Some(u64::MAX), used: u64::MAX, count: u64::MAX, ..row(kind, &[]) });
        LedgerAllocator { geometry: PerKind::from_fn(|_| Some(geometry)), rows: rows.to_vec(), ..allocator(slot, (8, 8), &chips, &[]) }
    });
    let circular = |number: u32| LedgerCircular {
        allocator: (number % 256) as usize,
        chip: Some((number / 4 % 64) as usize),
        program: number,
        address: u64::from(number),
        size: u64::from(u32::MAX),
        cores: [(number % 60).to_le_bytes()[0], (number % 61).to_le_bytes()[0], 63, 63],
        is_global: false,
    };
    let buffers = (0..10_000_u64).map(|number| Buffer {
        allocator: u16::try_from(number % 256).unwrap(),
        ..buffer(0, if number % 2 == 0 { Kind::Dram } else { Kind::L1 }, number.wrapping_mul(u64::MAX / 7), u32::MAX, u64::MAX)
    });
    let mut board = device(0, "n300");
    hold(&mut board, &[4242]);
    let owner = process(4242, "python3", "python3 x.py");
    let content = Ledger { circulars: (0..65_536).map(circular).collect(), ..ledger(allocators.collect(), buffers.collect()) };
    let ledgers = vec![LedgerSample { owner: owner.key, content: Ok(content) }];
    Snapshot::derive(&Sample { processes: vec![owner], ledgers, ..sample(vec![board]) }, None)
}

/// Live buffers of one allocator that do not overlap: alternating gaps and sizes, in units of 32 bytes.
pub fn any_hooked() -> impl Strategy<Value = Snapshot> {
    let kind = || vec((0..200_u64, 1..300_u64), 0..30);
    (kind(), kind(), any::<bool>()).prop_map(|(dram, l1, is_listed)| {
        let buffers = |kind: Kind, base: u64, turns: Vec<(u64, u64)>| {
            let mut next = base;
            let mut buffers = Vec::new();
            for (gap, size) in turns {
                let address = next + gap * 32;
                buffers.push(buffer(0, kind, address, u32::try_from(size * 32).unwrap(), size * 1000));
                next = address + size * 32;
            }
            buffers
        };
        let mut all = buffers(Kind::Dram, DRAM.base, dram);
        all.extend(buffers(Kind::L1, L1.base, l1));
        let mut board = device(0, "n300");
        hold(&mut board, &[4242]);
        let owner = process(4242, "python3", "python3 x.py");
        let allocator = allocator(0, (1, 1), &chips()[..1], &all);
        let content = Ledger { is_listed, has_blocks: is_listed, ..ledger(vec![allocator], if is_listed { all } else { Vec::new() }) };
        let ledgers = vec![LedgerSample { owner: owner.key, content: Ok(content) }];
        Snapshot::derive(&Sample { processes: vec![owner], ledgers, ..sample(vec![board]) }, None)
    })
}
