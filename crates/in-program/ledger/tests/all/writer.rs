//! Compares the writer with a simple model, through an independent decoder of the bytes.

use std::collections::{BTreeMap, HashMap};
use std::thread;

use proptest::prelude::*;
use ttmon_ledger::layout::{Lost, status};
use ttmon_ledger::writer::{AllocatorSpec, Buffer, LiveBuffer, Released, Writer};

use crate::made::{self, Random, key, open, writer};
use crate::raw::{Raw, Truth};

fn truth(writer: &Writer) -> Truth {
    Raw::of(writer.descriptor().expect("a descriptor")).truth()
}

fn sized(size: u64) -> Buffer {
    Buffer { size, ..Buffer::default() }
}

#[derive(Clone, Debug)]
enum Step {
    Insert { allocator: usize, kind: u8, address: u64, size: u64, per_bank: u32 },
    Remove { allocator: usize, kind: u8, address: u64 },
    Reference { allocator: usize, kind: u8, address: u64 },
    Unreference { allocator: usize, kind: u8, address: u64 },
    RemoveNewest { allocator: usize, address: u64 },
    Failed { allocator: usize, kind: u8 },
    FreeAll { allocator: usize },
    Reopen { allocator: usize },
    Mark,
}

const ALLOCATORS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    let place = || (0..ALLOCATORS, 0_u8..8, (0_u64..200).prop_map(|page| page * 4096));
    prop_oneof![
        60 => (place(), 0_u64..1_000_000, prop_oneof![Just(0), 1_u32..10_000]).prop_map(
            |((allocator, kind, address), size, per_bank)| Step::Insert { allocator, kind, address, size, per_bank }),
        30 => place().prop_map(|(allocator, kind, address)| Step::Remove { allocator, kind, address }),
        10 => place().prop_map(|(allocator, kind, address)| Step::Reference { allocator, kind, address }),
        10 => place().prop_map(|(allocator, kind, address)| Step::Unreference { allocator, kind, address }),
        5 => place().prop_map(|(allocator, _, address)| Step::RemoveNewest { allocator, address }),
        3 => place().prop_map(|(allocator, kind, _)| Step::Failed { allocator, kind }),
        1 => (0..ALLOCATORS).prop_map(|allocator| Step::FreeAll { allocator }),
        1 => (0..ALLOCATORS).prop_map(|allocator| Step::Reopen { allocator }),
        2 => Just(Step::Mark),
    ]
}

#[derive(Clone, Debug)]
struct Live {
    size: u64,
    allocated: u64,
    refs: u32,
    made: usize,
}

#[derive(Default)]
struct Model {
    /// Keyed by (allocator, kind, address).
    live: HashMap<(usize, u8, u64), Live>,
    /// Peak bytes and peak allocated bytes, by (allocator, kind).
    peaks: BTreeMap<(usize, u8), (u64, u64)>,
    failed: HashMap<(usize, u8), u64>,
    replaced: u64,
}

impl Model {
    fn sums(&self, allocator: usize, kind: u8) -> (u64, u64, u64) {
        let of_row = self.live.iter().filter(|(key, _)| (key.0, key.1) == (allocator, kind));
        of_row.fold((0, 0, 0), |sums, (_, live)| (sums.0 + live.size, sums.1 + live.allocated, sums.2 + 1))
    }

    fn insert(&mut self, place: (usize, u8, u64), live: Live) {
        self.replaced += u64::from(self.live.insert(place, live).is_some());
        let sums = self.sums(place.0, place.1);
        let peak = self.peaks.entry((place.0, place.1)).or_default();
        *peak = (peak.0.max(sums.0), peak.1.max(sums.1));
    }

    fn forget(&mut self, allocator: usize) {
        self.live.retain(|key, _| key.0 != allocator);
    }
}

fn allocated(kind: u8, size: u64, per_bank: u32) -> u64 {
    match (kind, per_bank) {
        (_, 0) => size,
        (0, per_bank) => u64::from(per_bank) * 12,
        (1, per_bank) => u64::from(per_bank) * 64,
        _ => size,
    }
}

#[allow(clippy::too_many_lines, reason = "one arm for each step of the model")]
fn check(steps: &[Step]) {
    let writer = writer(1024);
    let mut ids = Vec::new();
    // The current slot of each of the model's allocators.
    let mut slots = Vec::new();
    let mut opened = 0;
    let mut model = Model::default();
    let mut open_next = || {
        let id = open(&mut writer.session().expect("session"), opened);
        opened += 1;
        (id, opened as usize - 1)
    };
    for _ in 0..ALLOCATORS {
        let (id, slot) = open_next();
        ids.push(id);
        slots.push(slot);
    }
    for (made, step) in steps.iter().enumerate() {
        match *step {
            Step::Reopen { allocator } => {
                writer.session().expect("session").close_allocator(ids[allocator]);
                let (id, slot) = open_next();
                (ids[allocator], slots[allocator]) = (id, slot);
                model.forget(allocator);
                model.peaks.retain(|key, _| key.0 != allocator);
                model.failed.retain(|key, _| key.0 != allocator);
            }
            _ => apply(&mut writer.session().expect("session"), &ids, &mut model, made, step),
        }
    }
    let truth = truth(&writer);
    let live: HashMap<(usize, u64), (u64, u32)> =
        model.live.iter().map(|(key, live)| ((slots[key.0] * 8 + usize::from(key.1), key.2), (live.size, live.refs))).collect();
    let unlisted: u64 = truth.rows.values().map(|row| row.unlisted_count).sum();
    assert_eq!(truth.live.len() as u64 + unlisted, live.len() as u64);
    for (key, entry) in &truth.live {
        assert_eq!(live.get(key), Some(&(entry.size, entry.refs)), "{key:?}");
    }
    for (&(allocator, kind), &(peak, peak_allocated)) in &model.peaks {
        let row = &truth.rows[&(slots[allocator] * 8 + usize::from(kind))];
        assert_eq!((row.live_bytes, row.allocated, row.count), model.sums(allocator, kind));
        assert_eq!((row.peak, row.peak_allocated), (peak, peak_allocated));
        assert_eq!(row.failed, model.failed.get(&(allocator, kind)).copied().unwrap_or(0));
    }
    assert_eq!(truth.lost[Lost::Replaced as usize], model.replaced);
    assert_eq!(truth.status & status::INEXACT, 0);
}

fn apply(
    session: &mut ttmon_ledger::writer::Session<'_>,
    ids: &[ttmon_ledger::writer::AllocatorId],
    model: &mut Model,
    made: usize,
    step: &Step,
) {
    match *step {
        Step::Insert { allocator, kind, address, size, per_bank } => {
            let buffer = Buffer { size, per_bank, tag: 3, ..Buffer::default() };
            session.insert(key(ids[allocator], kind, address), &buffer).expect("room");
            let allocated = allocated(kind, size, per_bank);
            // A replaced buffer is freed before the new one is stored, so it is not included in the new peak.
            let was_there = model.live.remove(&(allocator, kind, address)).is_some();
            model.insert((allocator, kind, address), Live { size, allocated, refs: 1, made });
            model.replaced += u64::from(was_there);
        }
        Step::Remove { allocator, kind, address } => {
            let size = session.remove(key(ids[allocator], kind, address));
            assert_eq!(size, model.live.remove(&(allocator, kind, address)).map(|live| live.size));
        }
        Step::Reference { allocator, kind, address } => {
            let refs = made::reference(session, key(ids[allocator], kind, address));
            let live = model.live.get_mut(&(allocator, kind, address));
            assert_eq!(
                refs,
                live.map(|live| {
                    live.refs += 1;
                    live.refs
                })
            );
        }
        Step::Unreference { allocator, kind, address } => {
            let place = (allocator, kind, address);
            let refs = session.unreference(key(ids[allocator], kind, address)).map(|released| released.refs);
            let expected = model.live.get_mut(&place).map(|live| {
                live.refs -= 1;
                live.refs
            });
            assert_eq!(refs, expected);
            if expected == Some(0) {
                model.live.remove(&place);
            }
            let found = session.find(key(ids[allocator], kind, address));
            assert_eq!(found, model.live.get(&place).map(|live| LiveBuffer { size: live.size, refs: live.refs }));
        }
        Step::RemoveNewest { allocator, address } => {
            let at = |kind: &u8| model.live.get(&(allocator, *kind, address)).map(|live| (live.made, *kind));
            let candidates: Vec<_> = (0_u8..8).filter_map(|kind| at(&kind)).collect();
            let newest = session.newest_of(ids[allocator], address, &[0, 1, 2, 3, 4, 5, 6, 7]);
            let kinds = u32::try_from(candidates.len()).expect("eight");
            assert_eq!(newest, candidates.iter().max().map(|(_, kind)| (*kind, kinds)));
            if let Some((kind, _)) = newest {
                session.remove(key(ids[allocator], kind, address));
                model.live.remove(&(allocator, kind, address));
            }
        }
        Step::Failed { allocator, kind } => {
            session.failed(&made::refused(ids[allocator], kind, 1 << 50));
            *model.failed.entry((allocator, kind)).or_default() += 1;
        }
        Step::FreeAll { allocator } => {
            session.free_all(ids[allocator]);
            model.forget(allocator);
        }
        Step::Mark => session.mark(),
        Step::Reopen { .. } => unreachable!("handled by the caller"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn behaves_like_a_map(steps in prop::collection::vec(step(), 0..3000)) {
        check(&steps);
    }
}

#[test]
fn more_than_the_capacity_is_counted_and_not_listed() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let id = open(&mut session, 0);
    for number in 0..3000_u64 {
        session.insert(key(id, 0, number * 4096), &sized(number + 1)).expect("room");
    }
    assert_eq!(session.find(key(id, 0, 2500 * 4096)), Some(LiveBuffer { size: 2501, refs: 1 }));
    assert_eq!(made::reference(&mut session, key(id, 0, 2500 * 4096)), Some(2));
    assert_eq!(session.unreference(key(id, 0, 2500 * 4096)), Some(Released { size: 2501, refs: 1, flags: 0 }));
    drop(session);
    let before = truth(&writer);
    assert_eq!((before.live.len(), before.rows[&0].unlisted_count, before.rows[&0].count), (1024, 1976, 3000));
    assert_eq!(before.rows[&0].live_bytes, (1..=3000).sum::<u64>());
    assert_eq!(before.status & (status::OVERFLOW | status::INEXACT), status::OVERFLOW);

    let mut session = writer.session().expect("session");
    for number in (0..3000_u64).rev() {
        assert_eq!(session.remove(key(id, 0, number * 4096)), Some(number + 1));
    }
    session.insert(key(id, 0, 0), &sized(1)).expect("room");
    drop(session);
    let after = truth(&writer);
    assert_eq!((after.rows[&0].count, after.rows[&0].unlisted_count, after.live.len()), (1, 0, 1));
    assert_eq!(after.rows[&0].peak, (1..=3000).sum::<u64>());
}

#[test]
fn free_all_is_one_event_and_the_dead_are_swept() {
    let writer = writer(1 << 17);
    let mut session = writer.session().expect("session");
    let id = open(&mut session, 0);
    for number in 0..100_000_u64 {
        session.insert(key(id, 1, number * 64), &sized(64)).expect("room");
    }
    drop(session);
    let before = truth(&writer).seq;
    writer.session().expect("session").free_all(id);
    let after = truth(&writer);
    assert_eq!((after.seq - before, after.live.len(), after.rows[&1].count), (2, 0, 0));
    assert_eq!((after.rows[&1].frees, after.rows[&1].peak), (100_000, 6_400_000));

    // A dead key is not found and can be reused immediately. The slots are reused, so the table does not grow.
    let mut session = writer.session().expect("session");
    assert_eq!(session.remove(key(id, 1, 64)), None);
    for number in 0..100_000_u64 {
        session.insert(key(id, 1, number * 128), &sized(32)).expect("room");
    }
    drop(session);
    let after = truth(&writer);
    assert_eq!((after.live.len(), after.rows[&1].count, after.rows[&1].unlisted_count), (100_000, 100_000, 0));
    let used = Raw::of(writer.descriptor().expect("descriptor")).word(0x208);
    assert!(used <= 100_200, "{used} slots used for 100,000 live ones");
}

#[test]
fn a_full_table_of_dead_entries_makes_room() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let id = open(&mut session, 0);
    for round in 0..5_u64 {
        for number in 0..1024_u64 {
            session.insert(key(id, 0, (round * 1024 + number) * 64), &sized(1)).expect("room");
        }
        session.free_all(id);
    }
    session.insert(key(id, 0, 0), &sized(1)).expect("room");
    drop(session);
    let truth = truth(&writer);
    assert_eq!((truth.rows[&0].unlisted_count, truth.live.len()), (0, 1));
}

#[test]
fn allocators_are_recycled() {
    let writer = writer(1024);
    let mut first = None;
    for number in 0..1000_u32 {
        let mut session = writer.session().expect("session");
        let id = open(&mut session, number);
        let stale = *first.get_or_insert(id);
        assert_eq!(session.allocator(1, number), Some(id));
        session.insert(key(id, 0, 4096), &sized(100)).expect("room");
        if number > 0 {
            assert_eq!(session.remove(key(stale, 0, 4096)), None, "a closed allocator has no buffers");
            assert_eq!(session.insert(key(stale, 0, 8192), &sized(1)), Err(Lost::NoAllocator));
        }
        if number % 2 == 0 {
            session.remove(key(id, 0, 4096));
        }
        session.close_allocator(id);
        assert_eq!(session.allocator(1, number), None);
    }
    let raw = Raw::of(writer.descriptor().expect("descriptor"));
    let truth = raw.truth();
    assert_eq!((truth.live.len(), raw.word(0x210)), (0, 256));
    assert_eq!(truth.lost[Lost::NoAllocator as usize], 999);
    // Events in rows are valid from the last reuse of a slot on.
    let first_valid = raw.word(0x288);
    assert_eq!(raw.event(first_valid).map(|event| event.0), Some(9), "an OPEN");
    assert!(truth.seq / 2 - first_valid <= 4);
}

#[test]
fn a_device_opened_again_goes_on_in_its_slot() {
    const GIB: u64 = 1 << 30;
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let first = open(&mut session, 0);
    session.insert(key(first, 0, 1 << 32), &sized(GIB - 5)).expect("room");
    session.insert(key(first, 0, 1 << 33), &sized(5)).expect("room");
    session.failed(&made::refused(first, 1, 77));
    session.close_allocator(first);
    for _ in 0..1000 {
        let id = open(&mut session, 0);
        assert_eq!(session.find(key(id, 0, 1 << 32)), None, "what was closed stays dead");
        for number in 0..10_u64 {
            session.insert(key(id, 0, number * 4096), &sized(1000)).expect("room");
        }
        session.close_allocator(id);
        assert_eq!(session.insert(key(id, 0, 0), &sized(1)), Err(Lost::NoAllocator), "of no use any more");
    }
    drop(session);
    let file = std::fs::File::open(format!("/proc/self/fd/{}", writer.descriptor().expect("descriptor"))).expect("open");
    let region = ttmon_ledger_reader::Region::open(file).expect("a ledger");
    let ledger = region.final_ledger(0).expect("read").ledger;
    let [allocator] = ledger.allocators.as_slice() else { panic!("one slot") };
    assert_eq!((allocator.generation, allocator.is_open(), allocator.rows.len()), (1001, false, 2));
    let row = &allocator.rows[0];
    assert_eq!((row.peak, row.peak_allocated, row.allocations, row.count, row.used), (GIB, GIB, 10_002, 0, 0));
    assert_eq!(allocator.rows[1].refused, 1);
    let [peak] = row.end.as_ref().expect("read for the last time").at_peak.as_slice() else { panic!("one group") };
    assert_eq!((peak.bytes, peak.count, peak.is_named()), (GIB, 2, false), "5 bytes and the others, both known: {peak:?}");
    assert_eq!(peak.tag, None, "none is lost");
    let recorded = region.events(0).expect("events");
    assert_eq!((recorded.overrun, recorded.events.len() as u64), (0, ledger.events));
}

#[test]
fn another_chip_or_geometry_is_another_device() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let one = made::spec(0);
    let chips = [ttmon_ledger::writer::Chip { metal_id: 0, unique_id: 0xDEF, flags: 0 }];
    let mut kinds = one.kinds;
    kinds[0].bank_bytes += 1;
    let specs = [one, AllocatorSpec { chips: &chips, ..one }, AllocatorSpec { kinds, ..one }, AllocatorSpec { origin: 2, ..one }];
    for spec in &specs {
        let id = session.open_allocator(spec).expect("free");
        session.insert(key(id, 0, 64), &sized(1)).expect("room");
        session.close_allocator(id);
    }
    let again = specs.each_ref().map(|spec| session.open_allocator(spec).expect("free"));
    let fifth = session.open_allocator(&one).expect("the first is open");
    assert!(!again.contains(&fifth));
    drop(session);
    let raw = Raw::of(writer.descriptor().expect("descriptor"));
    assert_eq!((raw.word(0x210), raw.word(0x288)), (5, 0));
}

#[test]
fn no_allocator_is_left_while_all_are_open() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let ids: Vec<_> = (0..256).map(|number| open(&mut session, number)).collect();
    assert_eq!(session.open_allocator(&made::spec(256)), Err(Lost::NoAllocator));
    session.close_allocator(ids[77]);
    let again = open(&mut session, 256);
    assert_ne!(again, ids[77]);
    assert_eq!(session.allocator(1, 256), Some(again));
    assert_eq!(session.allocator(1, 255), Some(ids[255]));
    drop(session);
    assert_eq!(truth(&writer).status & status::INEXACT, status::INEXACT);
}

#[test]
fn sizes_and_kinds_out_of_range_are_refused() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let id = open(&mut session, 0);
    assert_eq!(session.insert(key(id, 0, 0), &sized(1 << 40)), Err(Lost::SizeOutOfRange));
    assert_eq!(session.insert(key(id, 8, 0), &sized(1)), Err(Lost::NoAllocator));
    session.insert(key(id, 0, 0), &sized((1 << 40) - 1)).expect("room");
    drop(session);
    assert_eq!(truth(&writer).rows[&0].live_bytes, (1 << 40) - 1);
}

#[test]
fn another_size_at_a_live_key_gets_another_slot() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let id = open(&mut session, 0);
    session.insert(key(id, 0, 64), &sized(10)).expect("room");
    drop(session);
    let before = truth(&writer).live[&(0, 64)].clone();
    writer.session().expect("session").insert(key(id, 0, 64), &sized(20)).expect("room");
    let after = truth(&writer);
    assert_ne!(after.live[&(0, 64)].slot, before.slot);
    assert_eq!((after.live[&(0, 64)].size, after.rows[&0].peak, after.lost[Lost::Replaced as usize]), (20, 20, 1));
    let raw = Raw::of(writer.descriptor().expect("descriptor"));
    let done = after.seq / 2;
    assert_eq!(raw.event(done - 1).map(|event| (event.0, event.3)), Some((2, 10)), "FREE");
    assert_eq!(raw.event(done).map(|event| (event.0, event.3)), Some((1, 20)), "ALLOC");
}

#[test]
fn tags_are_interned_until_there_is_no_room() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    assert_eq!(session.tag(""), 0);
    let first = session.tag("layer 7");
    assert_eq!((first, session.tag("layer 7")), (1, 1));
    for number in 2..4095 {
        assert_eq!(session.tag(&format!("tag {number}")), number);
    }
    assert_eq!([session.tag("one more"), session.tag("and more"), session.tag("tag 99")], [4095, 4095, 99]);
    drop(session);
    let raw = Raw::of(writer.descriptor().expect("descriptor"));
    assert_eq!((raw.tag(0), raw.tag(1), raw.tag(4095)), (String::new(), "layer 7".to_owned(), "(other)".to_owned()));
    assert_eq!(raw.word(0x218), 4096);
}

#[test]
fn a_peak_larger_than_the_peak_copies_still_sums_up() {
    let writer = writer(1 << 16);
    let mut session = writer.session().expect("session");
    let id = open(&mut session, 0);
    for number in 0..40_000_u64 {
        session.insert(key(id, 0, number * 64), &sized(number + 1)).expect("room");
    }
    for number in 0..39_000_u64 {
        session.remove(key(id, 0, number * 64));
    }
    drop(session);
    let after = truth(&writer);
    assert_eq!(after.rows[&0].peak, (1..=40_000).sum::<u64>());
    assert_eq!(after.rows[&0].peak_lost_count, 39_000 - 16_384);
}

fn stress(threads: u64, rounds: u64) {
    let writer = writer(1 << 16);
    let id = open(&mut writer.session().expect("session"), 0);
    let expected: u64 = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|number| {
                let writer = &writer;
                scope.spawn(move || {
                    let mut random = Random(number);
                    let mut mine = BTreeMap::new();
                    for _ in 0..rounds {
                        let address = (number << 32) + random.below(300) * 64;
                        let size = random.below(5000);
                        let mut session = writer.session().expect("nobody waits for a second");
                        match mine.remove(&address) {
                            Some(size) => assert_eq!(session.remove(key(id, 0, address)), Some(size)),
                            None => {
                                session.insert(key(id, 0, address), &sized(size)).expect("room");
                                mine.insert(address, size);
                            }
                        }
                    }
                    mine.values().sum::<u64>()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).sum()
    });
    let truth = truth(&writer);
    assert_eq!(truth.rows[&0].live_bytes, expected);
    assert_eq!(truth.seq / 2, threads * rounds + 1);
    assert_eq!(truth.lost, [0; 8]);
}

#[test]
fn four_threads_leave_exact_figures() {
    stress(4, 100_000);
}

#[test]
fn sixty_four_threads_leave_exact_figures() {
    stress(64, 3000);
}

#[test]
fn sixty_four_threads_start_it_together() {
    for _ in 0..20 {
        let writer = writer(1024);
        thread::scope(|scope| {
            for _ in 0..64 {
                scope.spawn(|| writer.session().expect("started by one of them").mark());
            }
        });
        let truth = truth(&writer);
        assert_eq!((truth.seq, truth.lost), (128, [0; 8]));
    }
}
