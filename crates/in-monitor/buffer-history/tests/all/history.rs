//! Histories of real ledgers, updated while the writer continues, and read afterwards.

use ttmon_buffer_history::{GrowthSinceMark, History, growth_since_mark};
use ttmon_ledger::layout::{Refused, kind};
use ttmon_ledger::writer::{AllocatorId, Failure, Key, Session, TraceStep};
use ttmon_ledger_reader::Region;
use ttmon_model::Kind;
use ttmon_model::event::Refusal;
use ttmon_model::groups::{GroupBy, GroupKey};
use ttmon_model::ledger::BufferKind;
use ttmon_model::phase::Point;

use crate::ledger::{BANK, dram, put, put_at, refuse, writer};

/// Writes so many events that the ring of the recorder is overwritten more than once.
fn churn(session: &mut Session<'_>, allocator: AllocatorId) {
    for _ in 0..40_000 {
        put(session, allocator, 990, 10, 99);
        session.remove(dram(allocator, 990)).expect("live");
    }
}

fn refusals(region: &Region, history: &History) -> Vec<Refusal> {
    let refusals = region.refusals(&region.lines().expect("read")).expect("read").into_iter();
    refusals.map(|refused| history.complete(refused.event, refused.refusal)).collect()
}

#[test]
fn a_refusal_that_was_followed_is_known_after_the_ring_went_round() {
    let (writer, id, region) = writer();
    let mut history = History::default();
    let mut session = writer.session().expect("session");
    put(&mut session, id, 100, 200, 5);
    session.failed(&refuse(id, 750, 800, 700));
    history.follow(&region).expect("read");
    churn(&mut session, id);
    history.follow(&region).expect("read");
    let known = &refusals(&region, &history)[0];
    assert_eq!(known.window.as_ref().map(|window| window.bytes), Some(200));
    assert!(history.missed() > 0);
    // A history that is read only now no longer has the event.
    let late = &refusals(&region, &History::of(&region).expect("read"))[0];
    assert!(late.is_overrun && late.window.is_none());
    // Later events are known again.
    session.failed(&refuse(id, 750, 800, 700));
    history.follow(&region).expect("read");
    assert_eq!(refusals(&region, &history)[1].window.as_ref().map(|window| window.bytes), Some(200));
    assert_eq!(refusals(&region, &History::of(&region).expect("read"))[1].bank_bytes, BANK);
}

#[test]
fn a_phase_that_keeps_a_buffer_each_time_names_its_line() {
    let (writer, id, region) = writer();
    let mut session = writer.session().expect("session");
    let (step, warm) = (session.tag("step"), session.tag("load"));
    session.phase(true, warm, 5 << 20);
    put(&mut session, id, 0, 100, 1);
    session.phase(false, warm, 9 << 20);
    for turn in 0..10 {
        session.phase(true, step, (7 + turn) << 20);
        put(&mut session, id, 500, 200, 2);
        put(&mut session, id, 100 + 10 * turn, 10, 3);
        session.remove(dram(id, 500)).expect("live");
        session.phase(false, step, (8 + turn) << 20);
    }
    session.free_all(id);
    drop(session);
    let history = History::of(&region).expect("read");
    let phases = history.phases(&region.lines().expect("read"));
    let names: Vec<(&str, u64)> = phases.iter().map(|phase| (phase.name.as_str(), phase.count)).collect();
    assert_eq!(names, [("load", 1), ("step", 10)]);
    let [load, step] = [&phases[0], &phases[1]];
    assert_eq!((load.peak[0], load.change[0], load.growth.as_ref()), (1200, 1200, None));
    assert_eq!((load.host_rss_peak, load.host_rss_change, step.host_rss_change), (9 << 20, Some(4 << 20), Some(10 << 20)));
    assert_eq!((step.first_peak[0], step.peak[0], step.change[0], step.allocations), (12 * 310, 12 * 400, 12 * 100, 20));
    let growth = step.growth.as_ref().expect("a trend");
    assert_eq!(growth.bytes, [120, 0]);
    let kept: Vec<_> = growth.lines.iter().map(|held| (held.line.as_ref().map(|line| line.line), held.count, held.bytes)).collect();
    assert_eq!(kept, [(Some(3), 1, 120)]);
    // 100 bytes are taken at the start and 100 after them. The rest is one free block.
    assert_eq!(step.smallest_largest_free[0], Some(800));
    let tightest = history.tightest(0, BufferKind::Of(Kind::Dram)).expect("known");
    assert_eq!((tightest.bytes, tightest.points, &tightest.at), (800, 11, &Point::Phase("step".to_owned())));
}

#[test]
fn a_phase_that_frees_what_it_takes_has_no_leak() {
    let (writer, id, region) = writer();
    let mut session = writer.session().expect("session");
    let step = session.tag("step");
    // The result of each step is live until the next one, and the first step fills a cache.
    for turn in 0..20 {
        session.phase(true, step, 0);
        if turn == 0 {
            put(&mut session, id, 900, 10, 4);
        } else {
            session.remove(dram(id, 100 * ((turn - 1) % 2))).expect("live");
        }
        put(&mut session, id, 100 * (turn % 2), 50, 3);
        session.phase(false, step, 0);
    }
    drop(session);
    let phases = History::of(&region).expect("read").phases(&region.lines().expect("read"));
    let growth = phases[0].growth.as_ref().expect("a trend");
    assert_eq!((growth.bytes, growth.lines.len()), ([0, 0], 0), "{growth:?}");
}

#[test]
fn buffers_from_after_a_capture_that_live_at_a_replay_are_listed() {
    let (writer, id, region) = writer();
    let mut session = writer.session().expect("session");
    put(&mut session, id, 0, 10, 1);
    session.trace(id, TraceStep::Begin, 3);
    put(&mut session, id, 100, 10, 2);
    session.trace(id, TraceStep::End, 3);
    put(&mut session, id, 200, 10, 4);
    put(&mut session, id, 300, 10, 5);
    session.remove(dram(id, 300)).expect("live");
    session.trace(id, TraceStep::Replay, 3);
    session.trace(id, TraceStep::Replay, 3);
    session.trace(id, TraceStep::Release, 3);
    // Without a trace, nothing is overwritten. An unknown trace is ignored.
    put(&mut session, id, 400, 10, 6);
    session.trace(id, TraceStep::Replay, 3);
    session.trace(id, TraceStep::Replay, 77);
    drop(session);
    let traces = History::of(&region).expect("read").unsafe_traces(&region.lines().expect("read"));
    let [trace] = traces.as_slice() else { panic!("one: {traces:?}") };
    let lines: Vec<_> = trace.lines.iter().map(|held| (held.line.as_ref().map(|line| line.line), held.count, held.bytes)).collect();
    assert_eq!((trace.id, trace.replays, lines), (3, 2, vec![(Some(4), 1, 120)]));
}

#[test]
fn a_clash_names_the_buffers_in_the_way_and_the_lever() {
    let (writer, id, region) = writer();
    let mut session = writer.session().expect("session");
    let l1 = |address| Key { allocator: id, kind: kind::L1, address };
    put_at(&mut session, l1(100_000), 10_000, 7);
    put_at(&mut session, l1(90_000), 1_000, 8);
    put_at(&mut session, Key { allocator: id, kind: kind::L1_SMALL, address: 110_000 }, 1024, 9);
    let message = "Statically allocated circular buffers in program 0 clash with L1 buffers on core range [0-0 - 7-7]. \
                   L1 buffer allocated at 90000 and static circular buffer region ends at 90192";
    session.failed(&Failure { what: Refused::Clash, kind: kind::L1, message, ..refuse(id, 0, 0, 0) });
    drop(session);
    let found = &refusals(&region, &History::of(&region).expect("read"))[0];
    assert_eq!(found.bytes_over(), Some(192));
    let words = found.words("device 0");
    assert!(words.contains("reach 192 bytes into the L1 buffer at 0x15f90"), "{words}");
    assert!(words.contains("in the way: 1 buffer of /me/model.py:8 forward (1000B per core)"), "{words}");
    assert!(words.ends_with("l1_small_size is 4.0KB with 1.0KB in use: reducing it by 192 bytes makes room"), "{words}");
}

/// A kind without any buffers also has free space.
#[test]
fn a_clash_names_the_lever_of_an_unused_kind() {
    let (writer, id, region) = writer();
    let mut session = writer.session().expect("session");
    put_at(&mut session, Key { allocator: id, kind: kind::L1, address: 90_000 }, 1_000, 8);
    let message =
        "clash with L1 buffers on core range [0-0 - 7-7]. L1 buffer allocated at 90000 and static circular buffer region ends at 90192";
    session.failed(&Failure { what: Refused::Clash, kind: kind::L1, message, ..refuse(id, 0, 0, 0) });
    drop(session);
    let words = refusals(&region, &History::of(&region).expect("read"))[0].words("device 0");
    assert!(words.ends_with("l1_small_size is 4.0KB with 0B in use: reducing it by 192 bytes makes room"), "{words}");
}

#[test]
fn growth_since_the_mark_is_net() {
    let (writer, allocator, region) = writer();
    let by_line = || match growth_since_mark(&region, GroupBy::Line).expect("read") {
        GrowthSinceMark::Known(growth) => {
            let line = |key: &GroupKey| if let GroupKey::Line(Some(line)) = key { line.line } else { 0 };
            let mut lines: Vec<(u32, i64)> = growth.iter().map(|((_, key), bytes)| (line(key), *bytes)).collect();
            lines.sort_unstable();
            lines
        }
        other => panic!("{other:?}"),
    };
    let mut session = writer.session().expect("session");
    put(&mut session, allocator, 0, 10, 1);
    drop(session);
    assert_eq!(growth_since_mark(&region, GroupBy::Line).expect("read"), GrowthSinceMark::NoMark);
    let mut session = writer.session().expect("session");
    session.mark();
    put(&mut session, allocator, 20, 5, 2);
    // A buffer that was allocated and freed is no growth. Freeing a buffer from before the mark reduces the growth.
    put(&mut session, allocator, 40, 7, 3);
    session.remove(dram(allocator, 40)).expect("freed");
    session.remove(dram(allocator, 0)).expect("freed");
    drop(session);
    assert_eq!(by_line(), [(1, -120), (2, 60), (3, 0)]);
    let mut session = writer.session().expect("session");
    session.free_all(allocator);
    drop(session);
    assert_eq!(by_line(), [(1, -120), (2, 0), (3, 0)]);
}
