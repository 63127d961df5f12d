//! The writer's functions for the hook: circular buffers of programs, launches, coverage, failures, entries live at free-alls, marks.

use std::{fs::File, thread};

use proptest::prelude::*;
use ttmon_ledger::layout::{CODES, Coverage, FAILURES, Lost, Op, Refused, STACKS, code, failure, flag, header, stack};
use ttmon_ledger::writer::{AllocatorId, Buffer, Circular, Failure, Frame, RowFigures, SelfCheck, Writer};
use ttmon_ledger_reader::{Lines, LiveEvents, Region};
use ttmon_model::Kind;
use ttmon_model::event::Refused as What;
use ttmon_model::ledger::{BufferKind, FeatureState, Marked};

use crate::made::{circular, key, open, refused, writer};
use crate::raw::{Raw, Truth};

fn raw(writer: &Writer) -> Raw {
    Raw::of(writer.descriptor().expect("descriptor"))
}

fn truth(writer: &Writer) -> Truth {
    raw(writer).truth()
}

fn region(writer: &Writer) -> Region {
    let file = File::open(format!("/proc/self/fd/{}", writer.descriptor().expect("descriptor"))).expect("open");
    Region::open(file).expect("a ledger")
}

fn list(writer: &Writer) -> LiveEvents {
    region(writer).live_events().expect("list")
}

fn word(writer: &Writer, at: u64) -> u64 {
    raw(writer).word(usize::try_from(at).expect("within the ledger"))
}

/// Number of stacks, and of allocations whose stack did not fit.
fn stack_counts(writer: &Writer) -> (u64, u64) {
    (word(writer, header::STACKS_USED), word(writer, header::STACKS_REFUSED))
}

fn sized(size: u64) -> Buffer {
    Buffer { size, ..Buffer::default() }
}

#[derive(Clone, Debug)]
enum Step {
    Add { allocator: usize, program: u32, address: u32 },
    Remove { program: u32 },
    FreeAll { allocator: usize },
    Reopen { allocator: usize },
    Buffer { allocator: usize, address: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let allocator = 0..3_usize;
    prop_oneof![
        // Numbers that share a chain.
        8 => (allocator.clone(), 0..6_u32, 0..50_u32)
            .prop_map(|(allocator, program, address)| Step::Add { allocator, program: program * 2048, address }),
        4 => (0..6_u32).prop_map(|program| Step::Remove { program: program * 2048 }),
        1 => allocator.clone().prop_map(|allocator| Step::FreeAll { allocator }),
        1 => allocator.clone().prop_map(|allocator| Step::Reopen { allocator }),
        2 => (allocator, 0..8_u64).prop_map(|(allocator, address)| Step::Buffer { allocator, address }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]
    #[test]
    fn circulars_behave_like_a_list(steps in prop::collection::vec(step(), 0..400)) {
        let writer = writer(1024);
        let mut session = writer.session().expect("session");
        let mut ids: Vec<AllocatorId> = (0..3).map(|number| open(&mut session, number)).collect();
        let mut model: Vec<(usize, u32, u32)> = Vec::new();
        for step in steps {
            match step {
                Step::Add { allocator, program, address } => {
                    session.add_circular(&Circular { program, address, ..circular(ids[allocator]) }).expect("room");
                    model.push((allocator, program, address));
                }
                Step::Remove { program } => {
                    session.remove_program(program);
                    model.retain(|held| held.1 != program);
                }
                Step::FreeAll { allocator } => {
                    session.free_all(ids[allocator]);
                    model.retain(|held| held.0 != allocator);
                }
                Step::Reopen { allocator } => {
                    session.close_allocator(ids[allocator]);
                    prop_assert_eq!(session.add_circular(&circular(ids[allocator])), Err(Lost::NoAllocator));
                    ids[allocator] = open(&mut session, u32::try_from(allocator).expect("small"));
                    model.retain(|held| held.0 != allocator);
                }
                Step::Buffer { allocator, address } => {
                    session.insert(key(ids[allocator], 4, address), &sized(10)).expect("room");
                }
            }
        }
        drop(session);
        let mut held: Vec<(usize, u32, u32)> =
            truth(&writer).circulars.iter().flat_map(|(allocator, of)| of.iter().map(|one| (*allocator, one.0, one.1))).collect();
        held.sort_unstable();
        let read = region(&writer).figures_with_circulars().expect("circulars");
        let slot = |index: usize| usize::from(read.allocators[index].slot);
        let address = |address: u64| u32::try_from(address).expect("in L1");
        let mut read: Vec<(usize, u32, u32)> =
            read.circulars.iter().map(|one| (slot(one.allocator), one.program, address(one.address))).collect();
        read.sort_unstable();
        model.sort_unstable();
        prop_assert_eq!(&held, &model);
        prop_assert_eq!(&read, &model);
    }
}

#[test]
fn a_circular_buffer_is_read_as_written() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let id = open(&mut session, 0);
    let other = Circular { chip: Some(7), cores: [1, 2, 3, 4], is_dataflow: true, is_global: true, program: 9, ..circular(id) };
    session.add_circular(&other).expect("room");
    drop(session);
    assert_eq!(truth(&writer).circulars[&0], [(9, 0x1_9D60, 4096, [1, 2, 3, 4], 7, 3)]);
    let read = region(&writer);
    let ledger = read.figures_with_circulars().expect("circulars");
    let one = ledger.circulars[0];
    assert_eq!((one.chip, one.cores, one.is_global), (Some(7), [1, 2, 3, 4], true));
    assert_eq!(ledger.allocators[0].rows[0].used, 0, "its bytes are not the row's");
    let event = read.events(0).expect("events").events[1];
    assert_eq!(
        (event.op, event.kind, event.address, event.size, event.page),
        (Op::AddCircular, BufferKind::Of(Kind::Cb), 0x1_9D60, 4096, 9)
    );
}

/// A table that is full of dead buffers is cleared, and only live ones stay.
#[test]
fn a_full_table_of_dead_circulars_is_cleared() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let (id, other) = (open(&mut session, 0), open(&mut session, 1));
    session.add_circular(&Circular { program: 5, ..circular(other) }).expect("room");
    for program in 1..65_536 {
        session.add_circular(&Circular { program, ..circular(id) }).expect("room");
    }
    assert_eq!(session.add_circular(&circular(id)), Err(Lost::NoMemory));
    session.free_all(id);
    session.add_circular(&Circular { program: 5, address: 1, ..circular(id) }).expect("the dead are cleared");
    drop(session);
    let truth = truth(&writer);
    assert_eq!(truth.circulars.values().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(truth.lost[Lost::NoMemory as usize], 1);
    writer.session().expect("session").remove_program(5);
    assert!(self::truth(&writer).circulars.is_empty());
}

#[test]
fn launches_are_counted_without_the_lock() {
    let quiet = writer(1024);
    quiet.launched_on(&[3]);
    quiet.hit(3);
    quiet.cost(3);
    assert!(quiet.descriptor().is_none(), "no ledger is made for that");

    let writer = writer(1024);
    let held = writer.session().expect("session");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    writer.launched_on(&[0, 1, 300, 7]);
                    writer.launched_on(&[44]);
                    writer.hit(5);
                    writer.cost(70);
                }
            });
        }
    });
    drop(held);
    let raw = raw(&writer);
    let launches = raw.launches();
    // The searches for 300 and 44 start at the same record.
    assert_eq!(launches.keys().copied().collect::<Vec<_>>(), [0, 1, 7, 44, 300]);
    assert!(launches.values().all(|(programs, time)| *programs == 4000 && *time > 0));
    assert_eq!(raw.coverage(5).1, 4000);
    assert_eq!(raw.word(0x200), 0, "no events");
    let ledger = region(&writer).figures().expect("figures");
    assert_eq!(ledger.launches.iter().map(|chip| chip.metal_id).collect::<Vec<_>>(), [0, 1, 7, 44, 300]);
    assert!(ledger.coverage.is_empty(), "a feature without a name is not reported");
    assert_eq!(ledger.cost, (4000, 280_000));
}

#[test]
fn coverage_changes_once() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    session.cover(2, "allocate_buffer", Coverage::Found, "");
    session.cover(2, "allocate_buffer", Coverage::Found, "");
    session.cover(63, &"é".repeat(50), Coverage::Missing, &"x".repeat(200));
    session.cover(64, "beyond the table", Coverage::Found, "");
    writer.hit(2);
    drop(session);
    let first = raw(&writer);
    assert_eq!(first.coverage(2), (1 << 8 | 1, 1, "allocate_buffer".into(), String::new()));
    assert_eq!(first.coverage(63), (1 << 8 | 3, 0, "é".repeat(19), "x".repeat(71)));
    writer.session().expect("session").cover(2, "allocate", Coverage::SteppedAside, "unknown layout");
    assert_eq!(raw(&writer).coverage(2), (2 << 8 | 2, 1, "allocate".into(), "unknown layout".into()));
    let ledger = region(&writer).figures().expect("figures");
    let states: Vec<_> = ledger.coverage.iter().map(|feature| (feature.name.chars().next(), feature.hits, feature.state)).collect();
    assert_eq!(states, [(Some('a'), 1, FeatureState::SteppedAside), (Some('é'), 0, FeatureState::Missing)]);
}

#[test]
fn a_failure_names_the_largest_of_its_row() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let id = open(&mut session, 0);
    let (tag, operation) = (session.tag("layer 7"), session.tag("ttnn::matmul"));
    let code = session.code("model.py", "forward", 1).expect("room");
    let stack = session.add_stack(3, &[Frame { code, line: 12 }], false);
    // More than the table lists, so that the largest one is unlisted.
    for number in 0..1500_u64 {
        let buffer = Buffer { size: number, per_bank: 64, tag, operation, stack, flags: flag::CACHE, ..Buffer::default() };
        session.insert(key(id, 0, number * 64), &buffer).expect("room");
        session.insert(key(id, 1, number * 64), &sized(1 << 30)).expect("room");
    }
    session.remove(key(id, 0, 1499 * 64)).expect("live");
    let message = "x".repeat(500);
    session.failed(&Failure { tag, operation, stack, message: &message, ..refused(id, 0, 1 << 50) });
    session.failed(&Failure { what: Refused::Clash, ..refused(id, 2, 7) });
    for _ in 0..70 {
        session.failed(&refused(id, 0, 5));
    }
    drop(session);
    let truth = truth(&writer);
    assert_eq!((truth.failures, truth.rows[&0].failed, truth.rows[&2].failed), (72, 71, 1));
    let region = region(&writer);
    let refusals = region.refusals(&region.lines().expect("lines")).expect("refusals");
    let last = region.last_event().expect("events");
    assert!(refusals.iter().map(|refused| refused.event).eq(last - 63..=last), "the last 64");
    let largest = &refusals[0].refusal.largest;
    let sizes: Vec<u64> = largest.iter().map(|large| large.size).collect();
    assert_eq!(sizes, (1491..=1498).rev().collect::<Vec<_>>());
    let first = &largest[0];
    assert_eq!((first.address, first.per_bank), (1498 * 64, 64));
    let line = first.line.as_ref().map(ToString::to_string);
    assert_eq!((first.tag.as_str(), first.operation.as_str(), line.as_deref()), ("layer 7", "ttnn::matmul", Some("model.py:12 forward")));
    let record = (0..64).map(|slot| FAILURES.offset + slot * u64::from(FAILURES.stride)).find(|at| word(&writer, *at) == 9);
    let flags = word(&writer, record.expect("the first of them") + failure::LARGEST + 24) >> 32 & 0xFFFF;
    assert_eq!(flags, u64::from(flag::CACHE));
}

#[test]
fn stacks_are_known_by_their_hash() {
    let writer = writer(1024);
    assert_eq!(writer.stack(1), None, "no ledger yet");
    let mut session = writer.session().expect("session");
    let long = format!("/{}/model.py", "long".repeat(200));
    let inner = session.code("/lib/ttnn/decorators.py", "FastOperation.__call__", 200).expect("room");
    let outer = session.code(&long, "forward", 10).expect("room");
    assert_eq!((inner, outer), (0, 1));
    assert_eq!(session.code("/lib/ttnn/decorators.py", "FastOperation.__call__", 200), Some(inner), "the same texts");
    assert_eq!(session.code("/lib/ttnn/decorators.py", "FastOperation.__call__", 201), Some(2), "another function");
    let frames = [Frame { code: inner, line: 214 }, Frame { code: outer, line: 14 }];
    assert_eq!(session.add_stack(0xABC, &frames, false), 1);
    assert_eq!(session.add_stack(0xABC, &frames, false), 1, "another thread was first");
    // A hash with the same position in the index.
    assert_eq!(session.add_stack(0xABC | 1 << 40, &[Frame { code: outer, line: 15 }; 70], true), 2);
    drop(session);
    assert_eq!([0xABC, 0xABC | 1 << 40, 5].map(|hash| writer.stack(hash)), [Some(1), Some(2), None]);
    let stacks = region(&writer).lines().expect("stacks");
    let lines = |number| stacks.frames(number).iter().map(|frame| (&*frame.function, frame.line)).collect::<Vec<_>>();
    assert_eq!(lines(1), [("FastOperation.__call__", 214), ("forward", 14)]);
    let is_cut =
        |number: u64| word(&writer, STACKS.offset + (number - 1) * u64::from(STACKS.stride)) >> stack::FLAGS_SHIFT & stack::CUT != 0;
    assert_eq!((is_cut(1), lines(2).len(), is_cut(2), stack_counts(&writer)), (false, 64, true, (2, 0)));
    let file = &stacks.frames(1)[1].file;
    assert!(file.len() == 375 && file.ends_with("/model.py"), "{file}");
    let flags = word(&writer, (CODES.offset + u64::from(CODES.stride) + code::FLAGS) & !7) >> (8 * (code::FLAGS & 7));
    assert_ne!(flags & code::FILE_CUT, 0);
}

#[test]
fn a_full_table_of_stacks_is_said() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    for hash in 1..=65_536 {
        assert_eq!(u64::from(session.add_stack(hash, &[], false)), hash);
    }
    assert_eq!(session.add_stack(70_000, &[], false), stack::TABLE_FULL);
    drop(session);
    assert_eq!((writer.stack(65_536), writer.stack(70_001)), (Some(65_536), Some(stack::TABLE_FULL)));
    assert_eq!(stack_counts(&writer), (65_536, 2));

    // The frame table becomes full first.
    let writer = self::writer(1024);
    let mut session = writer.session().expect("session");
    let code = session.code("a.py", "f", 1).expect("room");
    let frames = [Frame { code, line: 1 }; 64];
    assert_eq!((1..=8193).map(|hash| session.add_stack(hash, &frames, false)).last(), Some(stack::TABLE_FULL));
    drop(session);
    assert_eq!(stack_counts(&writer), (8192, 1));

    // The function table becomes full before the frame table.
    let writer = self::writer(1024);
    let mut session = writer.session().expect("session");
    assert!((0..8192).all(|line| session.code("a.py", "f", line) == Some(line)));
    assert_eq!((session.code("a.py", "f", 9000), session.code("a.py", "f", 8191)), (None, Some(8191)));
}

#[test]
fn a_failure_has_the_programs_error_message() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let id = open(&mut session, 0);
    let message = "Out of Memory: é".repeat(40);
    session.failed(&Failure { what: Refused::Clash, message: &message, ..refused(id, 1, 1 << 45) });
    drop(session);
    let [refused] = &region(&writer).refusals(&Lines::default()).expect("refusals")[..] else { panic!("one") };
    let refusal = &refused.refusal;
    assert_eq!((refusal.what, refusal.kind, refusal.size), (What::Clash, BufferKind::Of(Kind::L1), 1 << 45));
    assert_eq!((refusal.banks, refusal.free_per_bank, refusal.largest_free_per_bank, refusal.largest.len()), (12, 10, 5, 0));
    assert!(message.starts_with(&refusal.message) && (382..message.len()).contains(&refusal.message.len()));
    let event = region(&writer).events(0).expect("events").events[1];
    assert_eq!((event.op, event.number), (Op::Failed, refused.event));
}

#[test]
fn buffers_left_by_a_free_all_are_found_before_and_after_the_sweep() {
    let writer = writer(1024);
    let id = open(&mut writer.session().expect("session"), 0);
    let insert = |id, address, size| writer.session().expect("session").insert(key(id, 0, address), &sized(size)).expect("room");
    for number in 0..10 {
        insert(id, number * 64, 100 + number);
    }
    writer.session().expect("session").remove(key(id, 0, 0));
    writer.session().expect("session").close_allocator(id);
    let sum = (101..110).sum::<u64>();
    let check = |count: u64, bytes: u64, text: &str| {
        truth(&writer);
        let listing = list(&writer);
        let closed = listing.ledger.allocators[0].rows[0].at_close.expect("closed");
        assert_eq!(closed.all, (count, bytes), "{text}");
        let bytes_listed: u64 = listing.left.iter().map(|left| left.size).sum();
        assert_eq!((listing.left.len() as u64, bytes_listed), (count, bytes), "{text}");
    };
    check(9, sum, "not swept");
    let id = open(&mut writer.session().expect("session"), 0);
    insert(id, 64, 7);
    insert(id, 640, 8);
    check(9, sum, "some are swept, one key was taken again");
    for number in 0..100 {
        insert(id, 10_000 + number * 64, 1);
    }
    check(9, sum, "all are swept");
    writer.session().expect("session").free_all(id);
    writer.session().expect("session").free_all(id);
    check(9 + 102, sum + 115, "the second free-all found nothing");
    assert_eq!(list(&writer).ledger.allocators[0].rows[0].at_close.map(|closed| closed.last), Some((102, 115)));
}

/// Unlisted buffers, and buffers that do not fit in the table, are still counted.
#[test]
fn buffers_left_without_room_are_counted() {
    let writer = writer(1024);
    let id = open(&mut writer.session().expect("session"), 0);
    for _ in 0..6 {
        let mut session = writer.session().expect("session");
        for number in 0..1500_u64 {
            session.insert(key(id, 0, number * 64), &sized(10)).expect("room");
        }
        session.free_all(id);
    }
    let listing = list(&writer);
    assert_eq!(listing.ledger.allocators[0].rows[0].at_close.map(|closed| closed.all), Some((9000, 90_000)));
    let (listed, most) = (listing.left.len() as u64, 4096 + 1024);
    assert!((4096..=most).contains(&listed), "{listed}");
    truth(&writer);
}

/// The rows of a reused slot belong to another allocator. The leaks of the old one are only a number.
#[test]
fn leaks_of_a_recycled_allocator_are_not_the_new_ones() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let first = open(&mut session, 0);
    session.insert(key(first, 0, 64), &sized(100)).expect("room");
    session.close_allocator(first);
    for number in 1..256 {
        let id = open(&mut session, number);
        session.close_allocator(id);
    }
    let new = open(&mut session, 1000);
    for number in 0..8 {
        session.insert(key(new, 0, number * 64), &sized(1)).expect("room");
    }
    drop(session);
    let listing = list(&writer);
    let forgotten = [header::LEFT_FORGOTTEN_COUNT, header::LEFT_FORGOTTEN_BYTES].map(|at| word(&writer, at));
    assert_eq!((listing.left.len(), forgotten), (0, [1, 100]));
    let mut rows = listing.ledger.allocators.iter().flat_map(|allocator| &allocator.rows);
    assert!(rows.all(|row| row.at_close.is_none_or(|closed| closed.all == (0, 0))));
    truth(&writer);
}

#[test]
fn marks_say_what_was_there() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let (id, other) = (open(&mut session, 0), open(&mut session, 1));
    session.insert(key(id, 0, 64), &Buffer { size: 100, per_bank: 10, ..Buffer::default() }).expect("room");
    drop(session);
    assert_eq!(list(&writer).mark, None);
    let mut session = writer.session().expect("session");
    session.mark();
    session.insert(key(id, 0, 128), &sized(50)).expect("room");
    session.insert(key(other, 1, 128), &sized(5)).expect("room");
    drop(session);
    let listing = list(&writer);
    assert_eq!(listing.mark, Some(4));
    let marked: Vec<_> = listing.ledger.allocators.iter().map(|allocator| allocator.rows[0].marked).collect();
    assert_eq!(marked, [Some(Marked { used: 100, allocated: 120, count: 1 }), Some(Marked::default())]);
    writer.session().expect("session").mark();
    let ledger = list(&writer).ledger;
    let marked: Vec<_> = ledger.allocators.iter().filter_map(|allocator| allocator.rows[0].marked).map(|mark| mark.used).collect();
    assert_eq!(marked, [150, 5]);
    assert_eq!(truth(&writer).rows[&0].mark, (7, 150, 2));
}

#[test]
fn the_inner_peak_can_be_reset_and_the_outer_stays() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let id = open(&mut session, 0);
    assert_eq!(session.figures_on(0, 0), Some(RowFigures::default()));
    assert_eq!((session.figures_on(1, 0), session.figures_on(0, 8)), (None, None));
    session.insert(key(id, 0, 64), &Buffer { size: 100, per_bank: 10, ..Buffer::default() }).expect("room");
    session.insert(key(id, 0, 128), &sized(50)).expect("room");
    session.remove(key(id, 0, 64)).expect("live");
    assert_eq!(session.figures_on(0, 0), Some(RowFigures { used: 50, allocated: 50, count: 1, peak: 150, peak_ever: 150 }));
    session.reset_peak_on(0, 0);
    session.insert(key(id, 0, 192), &sized(20)).expect("room");
    assert_eq!(session.figures_on(0, 0), Some(RowFigures { used: 70, allocated: 70, count: 2, peak: 70, peak_ever: 150 }));
    session.close_allocator(id);
    let left = Some(RowFigures { peak: 70, peak_ever: 150, ..RowFigures::default() });
    assert_eq!(session.figures_on(0, 0), left, "programs ask at their end");
    session.reset_peak_on(0, 0);
    assert_eq!(session.figures_on(0, 0), Some(RowFigures { peak_ever: 150, ..RowFigures::default() }));
}

#[test]
fn a_free_that_did_not_happen_is_taken_back() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let id = open(&mut session, 0);
    let buffer = Buffer { size: 100, per_bank: 10, ..Buffer::default() };
    session.insert(key(id, 0, 64), &buffer).expect("room");
    session.insert(key(id, 0, 128), &sized(50)).expect("room");
    session.remove(key(id, 0, 64)).expect("live");
    session.restore(key(id, 0, 64), &buffer);
    drop(session);
    let truth = truth(&writer);
    let row = &truth.rows[&0];
    assert_eq!((row.count, row.live_bytes, row.allocs, row.frees, row.peak), (2, 150, 2, 0, 150));
    // A buffer that has the address since keeps it. An entry that cannot be restored changes nothing.
    let mut session = writer.session().expect("session");
    session.restore(key(id, 0, 64), &sized(7));
    session.remove(key(id, 0, 128)).expect("live");
    session.restore(key(id, 0, 128), &sized(1 << 41));
    drop(session);
    let truth = self::truth(&writer);
    let row = &truth.rows[&0];
    assert_eq!((row.count, row.live_bytes, row.allocs, row.frees), (1, 100, 2, 1));
    assert_eq!(truth.lost[Lost::SizeOutOfRange as usize], 1);
}

#[test]
fn results_of_self_checks_are_recorded() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let id = open(&mut session, 0);
    for outcome in [SelfCheck::Same, SelfCheck::Different, SelfCheck::Inexact, SelfCheck::PerCore] {
        session.check(id, outcome);
    }
    session.check(id, SelfCheck::Shrunk { l1_lower_end: 0x3_0000 });
    drop(session);
    let read = |writer: &Writer| list(writer).ledger.allocators[0].self_check;
    let check = read(&writer);
    assert_eq!((check.checks, check.differences, check.l1_lower_end), (2, 1, Some(0x3_0000)));
    assert_eq!((check.is_inexact, check.is_restored, check.is_per_core), (true, false, true));
    let mut session = writer.session().expect("session");
    session.check(id, SelfCheck::Unshrunk);
    session.close_allocator(id);
    session.check(id, SelfCheck::Restored);
    let again = open(&mut session, 0);
    session.check(again, SelfCheck::Restored);
    drop(session);
    let check = read(&writer);
    assert_eq!((check.is_inexact, check.is_restored, check.is_per_core), (true, true, false), "only the first stays");
    assert_eq!((check.checks, check.l1_lower_end), (2, None));
}

/// The origin of the peak is requested after its buffers were freed.
#[test]
fn a_member_of_the_peak_keeps_its_operation_and_stack() {
    let writer = writer(1024);
    let mut session = writer.session().expect("session");
    let id = open(&mut session, 0);
    let (tag, operation) = (session.tag("layer 7"), session.tag("ttnn::matmul"));
    let code = session.code("model.py", "forward", 1).expect("room");
    let stacks = (1..=9).map(|line| session.add_stack(line.into(), &[Frame { code, line }], false)).max();
    assert_eq!(stacks, Some(9));
    session.insert(key(id, 0, 64), &Buffer { size: 4096, per_bank: 64, tag, operation, stack: 9, ..Buffer::default() }).expect("room");
    session.remove(key(id, 0, 64)).expect("there");
    drop(session);
    let ledger = region(&writer).final_ledger(0).expect("read").ledger;
    let peak = &ledger.allocators[0].rows[0].end.as_ref().expect("read for the last time").at_peak;
    let [gone] = peak.as_slice() else { panic!("one member, which is gone: {peak:?}") };
    let names = [&gone.tag, &gone.operation].map(|name| name.as_ref().map(|name| name.as_str()));
    assert_eq!((gone.bytes, gone.count, names), (4096, 1, [Some("layer 7"), Some("ttnn::matmul")]));
    assert_eq!(gone.line.as_ref().map(|line| line.line), Some(9));
}
