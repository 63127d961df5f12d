//! Compares several allocators on the same chips with simple sums: their common peak, for readers of the ledger and for queries of the
//! program.

use std::{collections::BTreeMap, fs::File};

use proptest::prelude::*;
use ttmon_ledger::writer::{AllocatorId, AllocatorSpec, Buffer, Chip, Writer};
use ttmon_ledger_reader::{Region, buffer_kind};
use ttmon_model::Kind;
use ttmon_model::ledger::{BufferKind, Ledger, LedgerWriter};

use crate::made::{key, spec, writer};

/// A mesh, its halves, one of its chips, the hook's view of another, and a chip with a single allocator.
const ALLOCATORS: [(u32, &[u32]); 6] = [(1, &[0, 1, 2, 3]), (1, &[0, 1]), (1, &[2, 3]), (1, &[1]), (2, &[0, 2]), (1, &[9])];
const CHIPS: [u32; 5] = [0, 1, 2, 3, 9];
const KINDS: u8 = 3;

#[derive(Clone, Debug)]
enum Step {
    Open(usize),
    Close(usize),
    Insert { allocator: usize, kind: u8, address: u64, size: u64 },
    Remove { allocator: usize, kind: u8, address: u64 },
    FreeAll(usize),
    Reset { kind: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let (allocator, kind, address) = (|| 0..ALLOCATORS.len(), || 0..KINDS, || (0_u64..5).prop_map(|place| place * 64));
    prop_oneof![
        2 => allocator().prop_map(Step::Open),
        1 => allocator().prop_map(Step::Close),
        8 => (allocator(), kind(), address(), 1_u64..1000)
            .prop_map(|(allocator, kind, address, size)| Step::Insert { allocator, kind, address, size }),
        5 => (allocator(), kind(), address()).prop_map(|(allocator, kind, address)| Step::Remove { allocator, kind, address }),
        1 => allocator().prop_map(Step::FreeAll),
        1 => kind().prop_map(|kind| Step::Reset { kind }),
    ]
}

/// The key of a figure: origin, chip and kind.
type OriginChipKind = (u32, u32, u8);

#[derive(Default)]
struct Model {
    open: [Option<AllocatorId>; ALLOCATORS.len()],
    live: BTreeMap<(usize, u8, u64), u64>,
    peaks: BTreeMap<OriginChipKind, u64>,
    inner_peaks: BTreeMap<OriginChipKind, u64>,
}

impl Model {
    fn used(&self, (origin, chip, kind): OriginChipKind) -> u64 {
        let is_there = |allocator: usize| ALLOCATORS[allocator].0 == origin && ALLOCATORS[allocator].1.contains(&chip);
        self.live.iter().filter(|((allocator, of, _), _)| is_there(*allocator) && *of == kind).map(|(_, size)| size).sum()
    }

    fn note(&mut self) {
        for spot in spots() {
            let used = self.used(spot);
            for peaks in [&mut self.peaks, &mut self.inner_peaks] {
                let peak = peaks.entry(spot).or_default();
                *peak = used.max(*peak);
            }
        }
    }
}

fn spots() -> impl Iterator<Item = OriginChipKind> {
    (1..=2).flat_map(|origin| CHIPS.into_iter().flat_map(move |chip| (0..KINDS).map(move |kind| (origin, chip, kind))))
}

fn opened(writer: &Writer, number: usize) -> AllocatorId {
    let (origin, chips) = ALLOCATORS[number];
    let chips: Vec<Chip> = chips.iter().map(|id| Chip { metal_id: *id, unique_id: 0, flags: 0 }).collect();
    let given_id = u32::try_from(number).expect("small");
    let spec = AllocatorSpec { origin, chips: &chips, ..spec(given_id) };
    writer.session().expect("session").open_allocator(&spec).expect("free")
}

fn figures(writer: &Writer) -> Ledger {
    let file = File::open(format!("/proc/self/fd/{}", writer.descriptor().expect("descriptor"))).expect("open");
    Region::open(file).expect("a ledger").figures().expect("figures")
}

/// The peak as defined in docs/ledger.md: of a row, of the chip's record, or the current value.
fn recorded_peak(ledger: &Ledger, (origin, chip, kind): OriginChipKind) -> u64 {
    let (origin, kind) = (writer_of(origin), buffer_kind(kind));
    let here = ledger.allocators.iter().filter(|one| one.origin == origin && one.chips.iter().any(|there| there.metal_id == Some(chip)));
    let rows: Vec<_> = here.flat_map(|allocator| &allocator.rows).filter(|row| row.kind == kind).collect();
    let shared = ledger.shared.iter().find(|shared| (shared.metal_id, shared.origin) == (chip, origin));
    let of_rows = rows.iter().map(|row| row.peak).max().unwrap_or(0);
    let together = shared.map_or(0, |shared| if let BufferKind::Of(kind) = kind { shared.peaks[kind].used } else { 0 });
    of_rows.max(together).max(rows.iter().map(|row| row.used).sum())
}

fn writer_of(origin: u32) -> LedgerWriter {
    [LedgerWriter::Unknown, LedgerWriter::Client, LedgerWriter::Hook, LedgerWriter::Service][origin as usize]
}

fn apply(writer: &Writer, model: &mut Model, step: &Step) {
    let mut session = writer.session().expect("session");
    match *step {
        Step::Open(number) => {
            drop(session);
            if model.open[number].is_none() {
                model.open[number] = Some(opened(writer, number));
            }
        }
        Step::Close(number) => {
            if let Some(id) = model.open[number].take() {
                session.close_allocator(id);
                model.live.retain(|(allocator, ..), _| *allocator != number);
            }
        }
        Step::Insert { allocator, kind, address, size } => {
            let Some(id) = model.open[allocator] else { return };
            // An existing buffer is freed first.
            model.live.remove(&(allocator, kind, address));
            session.insert(key(id, kind, address), &Buffer { size, per_bank: 7, ..Buffer::default() }).expect("room");
            model.live.insert((allocator, kind, address), size);
        }
        Step::Remove { allocator, kind, address } => {
            let Some(id) = model.open[allocator] else { return };
            assert_eq!(session.remove(key(id, kind, address)), model.live.remove(&(allocator, kind, address)));
        }
        Step::FreeAll(number) => {
            let Some(id) = model.open[number] else { return };
            session.free_all(id);
            model.live.retain(|(allocator, ..), _| *allocator != number);
        }
        // As for a mesh: a row belongs to all its chips.
        Step::Reset { kind } => {
            CHIPS.iter().for_each(|chip| session.reset_peak_on(*chip, kind));
            model.inner_peaks.retain(|(.., of), _| *of != kind);
        }
    }
}

fn check(steps: &[Step]) {
    let writer = writer(1024);
    let mut model = Model::default();
    drop(writer.session().expect("session"));
    let mut were_open = [false; ALLOCATORS.len()];
    for step in steps {
        apply(&writer, &mut model, step);
        model.note();
        for (was, now) in were_open.iter_mut().zip(&model.open) {
            *was |= now.is_some();
        }
    }
    let ledger = figures(&writer);
    let session = writer.session().expect("session");
    for spot @ (origin, chip, kind) in spots() {
        assert_eq!(recorded_peak(&ledger, spot), model.peaks.get(&spot).copied().unwrap_or(0), "peak of {spot:?}");
        let known = ALLOCATORS.iter().zip(were_open).filter(|((_, chips), was)| *was && chips.contains(&chip));
        if known.map(|((origin, _), _)| *origin).max() == Some(origin) {
            let figures = session.figures_on(chip, kind).expect("an allocator was there");
            let peaks = [&model.inner_peaks, &model.peaks].map(|peaks| peaks.get(&spot).copied().unwrap_or(0));
            assert_eq!((figures.used, [figures.peak, figures.peak_ever]), (model.used(spot), peaks), "figures of {spot:?}");
        }
    }
    assert!(session.figures_on(77, 0).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn peaks_of_chips_are_those_of_plain_sums(steps in prop::collection::vec(step(), 0..120)) {
        check(&steps);
    }
}

/// The peak also has the occupied bytes and its time.
#[test]
fn two_at_once_had_more_than_either() {
    let writer = writer(1024);
    let (mesh, half) = (opened(&writer, 0), opened(&writer, 1));
    let put = |id, address, size| {
        let buffer = Buffer { size, per_bank: 5, ..Buffer::default() };
        writer.session().expect("session").insert(key(id, 0, address), &buffer).expect("room");
    };
    put(mesh, 64, 1000);
    put(half, 64, 300);
    put(half, 128, 200);
    writer.session().expect("session").remove(key(mesh, 0, 64)).expect("live");
    put(half, 192, 10);
    let ledger = figures(&writer);
    let chips: Vec<_> = ledger.shared.iter().map(|shared| (shared.metal_id, shared.origin)).collect();
    assert_eq!(chips, [0, 1].map(|chip| (chip, LedgerWriter::Client)), "only where both are");
    let peak = ledger.shared[0].peaks[Kind::Dram];
    assert_eq!((peak.used, peak.allocated), (1500, 3 * 5 * 12));
    assert!(peak.time.0 > 0 && peak.time <= ledger.last_time);
    assert!(ledger.shared[0].peaks.iter().all(|(kind, peak)| kind == Kind::Dram || peak.used == 0));
}

/// There are records for 64 chips. For more chips, the rows give a lower bound.
#[test]
fn chips_without_a_record_keep_a_lower_bound() {
    let writer = writer(1024);
    for given_id in 0..70 {
        let chips =
            [Chip { metal_id: given_id / 2 * 2, unique_id: 0, flags: 0 }, Chip { metal_id: 1000 + given_id / 2, unique_id: 0, flags: 0 }];
        let id = writer.session().expect("session").open_allocator(&AllocatorSpec { chips: &chips, ..spec(given_id) }).expect("free");
        writer.session().expect("session").insert(key(id, 0, 0), &Buffer { size: 5, ..Buffer::default() }).expect("room");
    }
    let ledger = figures(&writer);
    assert_eq!(ledger.shared.len(), 64);
    assert!(ledger.shared.iter().all(|shared| shared.peaks[Kind::Dram].used == 10));
}
