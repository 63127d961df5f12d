//! A reader that sees the writer's stores one by one, between any two pieces that it reads.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use ttmon_ledger::layout::Op;
use ttmon_model::ledger::{Exactness, Ledger};
use ttmon_testing::encoder::Shape;

use super::model::{Model, ROWS, Step, Truth};
use super::{list, live_bytes};
use crate::list::Listing;
use crate::numbers::kind_number;
use crate::peak::PeakSet;
use crate::{Event, ReadAt, Region};

/// Memory that a writer changes while it is read.
#[derive(Clone)]
struct Shared(Arc<Mutex<State>>);

struct State {
    memory: Vec<u8>,
    stores: VecDeque<(u64, u64)>,
    /// The number of pieces that are read before a number of stores, repeated.
    turns: Vec<(u32, u32)>,
    turn: usize,
    pieces: u32,
}

/// Flag in a turn: the number counts complete events instead of stores.
const EVENTS: u32 = 1 << 31;

/// Bytes per read: one word, so that records are torn wherever possible.
const PIECE: usize = 8;

impl State {
    fn piece_read(&mut self) {
        let (pieces, stores) = self.turns[self.turn % self.turns.len()];
        self.pieces += 1;
        if self.pieces > pieces {
            self.pieces = 0;
            self.turn += 1;
            self.store(stores);
        }
    }

    fn store(&mut self, count: u32) {
        let (mut stores, mut events) = if count < EVENTS { (count, 0) } else { (0, count - EVENTS) };
        while stores > 0 || events > 0 {
            let Some((offset, value)) = self.stores.pop_front() else { return };
            let at = usize::try_from(offset).unwrap();
            self.memory[at..at + 8].copy_from_slice(&value.to_le_bytes());
            stores = stores.saturating_sub(1);
            events -= u32::from(events > 0 && offset == 0x200 && value % 2 == 0);
        }
    }
}

impl ReadAt for Shared {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        let mut at = usize::try_from(offset).unwrap();
        for piece in buffer.chunks_mut(PIECE) {
            piece.copy_from_slice(state.memory.get(at..at + piece.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
            at += piece.len();
            state.piece_read();
        }
        Ok(())
    }
}

/// A script that is played to a reader in turns.
struct Playback {
    model: Model,
    shared: Shared,
    region: Region,
}

impl Playback {
    fn new(shape: Shape, script: &[Step], turns: &[(u32, u32)]) -> Self {
        let mut model = Model::new(shape);
        let memory = model.bytes();
        for &step in script {
            model.step(step);
        }
        let length = memory.len() as u64;
        let stores = std::mem::take(&mut model.stores);
        let state = State { memory, stores, turns: turns.to_vec(), turn: 0, pieces: 0 };
        let shared = Shared(Arc::new(Mutex::new(state)));
        let region = Region::over(Box::new(shared.clone()), 0, length).unwrap();
        Self { model, shared, region }
    }

    fn is_over(&self) -> bool {
        self.shared.0.lock().unwrap().stores.is_empty()
    }

    fn go_on(&self, stores: u32) {
        self.shared.0.lock().unwrap().store(stores);
    }

    fn truth(&self, totals: &Ledger) -> &Truth {
        &self.model.truths[usize::try_from(totals.events).unwrap()]
    }

    fn check_totals(&self, totals: &Ledger) {
        assert_ne!(totals.exactness, Exactness::Changing, "figures never are");
        if totals.exactness != Exactness::Exact {
            return;
        }
        let truth = self.truth(totals);
        for (row, figures) in ROWS.iter().zip(&truth.rows) {
            let read = &totals.allocators[usize::from(row / 8)].rows[0];
            assert_eq!((read.used, read.count, read.peak), (figures.used, figures.count, figures.peak));
            assert_eq!((read.unlisted_count, read.unlisted_bytes), figures.unlisted);
        }
        assert_eq!(live_bytes(totals), truth.rows[0].used + truth.rows[1].used);
    }

    fn check_list(&self, listing: &Listing) {
        if listing.figures.ledger.exactness != Exactness::Exact {
            return;
        }
        self.check_totals(&listing.figures.ledger);
        let truth = self.truth(&listing.figures.ledger);
        assert_eq!(listing.bad_entries, 0);
        assert_eq!(listing.entries.len(), truth.live.len(), "at event {}", listing.figures.ledger.events);
        for read in &listing.entries {
            let entry = truth.live[&read.slot];
            assert_eq!((read.event, read.address, read.size, read.refs), (entry.event, entry.address, entry.size, entry.refs));
            assert_eq!((read.per_bank, read.page, read.time % 1_000_000), (entry.per_bank, entry.page, entry.time - 1_000));
            assert_eq!(u16::from(read.kind) + 8 * read.allocator, entry.row);
            // Values that the event did not have are right, or unknown because the entry was freed before it was looked up.
            let detail = (read.layout, read.cores, read.flags, read.operation);
            let known = (entry.layout, entry.cores, entry.flags, entry.operation);
            assert!(detail == known || detail == (0, 0, 0, 0), "{detail:?} is not {known:?}");
        }
        for set in listing.peak_sets.iter().filter(|set| set.is_whole()) {
            let row = ROWS.iter().position(|&row| row == 8 * set.allocator + u16::from(set.kind)).unwrap();
            let mut sum = set.unlisted.1 + set.lost.1;
            let mut members = BTreeSet::new();
            for member in set.members(&listing.entries) {
                assert!(members.insert(member.event), "each once");
                sum += member.size;
            }
            assert_eq!(sum, truth.rows[row].peak);
            assert!(members.is_superset(&truth.rows[row].members) || set.lost.0 > 0);
        }
    }

    fn check_event(&self, event: &Event) {
        let (op, slot, entry) = self.model.log[usize::try_from(event.number).unwrap() - 1];
        assert_eq!((event.op as u64, event.slot, event.address, event.size), (op, slot, entry.address, entry.size));
        assert_eq!(8 * event.allocator + u16::from(kind_number(event.kind)), entry.row);
        if matches!(event.op, Op::Ref | Op::Unref) {
            assert_eq!(event.refs, entry.per_bank);
        }
    }

    /// Reads repeatedly until the end of the script. Returns the number of lists, and of exact ones.
    fn run(&self) -> (u32, u32) {
        let (mut next, mut seen, mut overrun) = (0, 0, 0);
        let (mut lists, mut exact) = (0, 0);
        while !self.is_over() {
            let listing = list(&self.region);
            self.check_list(&listing);
            lists += 1;
            exact += u32::from(listing.figures.ledger.exactness == Exactness::Exact);
            self.check_totals(&self.region.figures().unwrap());
            let recorded = self.region.events(next).unwrap();
            recorded.events.iter().for_each(|event| self.check_event(event));
            seen += recorded.events.len() as u64;
            overrun += recorded.overrun;
            next = recorded.next;
            assert_eq!(seen + overrun, next);
            self.go_on(1);
        }
        let last = list(&self.region);
        assert_eq!(last.figures.ledger.exactness, Exactness::Exact, "the writer has come to rest");
        assert!(last.peak_sets.iter().all(PeakSet::is_whole));
        self.check_list(&last);
        (lists, exact)
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..2_usize, 1..1_000_u64).prop_map(|(row, size)| Step::Alloc { row, size }),
        5 => any::<usize>().prop_map(Step::Free),
        2 => any::<usize>().prop_map(Step::Ref),
        1 => any::<usize>().prop_map(Step::Unref),
        1 => (0..2_usize).prop_map(|row| Step::FreeAll { row }),
        1 => Just(Step::Mark),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lists_are_exact_between_any_two_stores(
        script in prop::collection::vec(step(), 1..150),
        turns in prop::collection::vec((0..4_000_u32, 0..120_u32), 1..12),
        repair in prop::option::of(0..150_usize),
    ) {
        let mut script = script;
        if let Some(at) = repair.filter(|&at| at < script.len()) {
            script[at] = Step::Repair;
        }
        // Ensures that every list of turns makes progress.
        let mut turns = turns;
        turns.push((2_000, 40));
        Playback::new(Shape::small(), &script, &turns).run();
    }
}

/// A steady writer makes some events while a thousand words are read, at every alignment to the reads. The replay makes its lists exact.
#[test]
fn lists_of_a_busy_writer_are_exact() {
    let script: Vec<Step> =
        (0..400_usize).map(|n| if n % 2 == 0 { Step::Alloc { row: n / 2, size: n as u64 + 1 } } else { Step::Free(n * 7) }).collect();
    let (mut lists, mut exact) = (0, 0);
    for pieces in (930..1_330).step_by(8) {
        let played = Playback::new(Shape { entries: 200, ..Shape::small() }, &script, &[(pieces, EVENTS + 2)]).run();
        (lists, exact) = (lists + played.0, exact + played.1);
    }
    assert!(lists >= 100 && exact * 2 >= lists, "{exact} of {lists} lists were exact");
}

/// Slots that are reused immediately: a second lookup may find another entry.
#[test]
fn an_entry_is_not_taken_for_its_successor() {
    let alloc = |n: usize| Step::Alloc { row: n, size: n as u64 + 1 };
    let script: Vec<Step> = (0..600_usize).map(|n| if n < 3 || n % 2 == 0 { alloc(n) } else { Step::Free(n / 2) }).collect();
    for pieces in (900..1_100).step_by(3) {
        Playback::new(Shape::small(), &script, &[(pieces, EVENTS + 3), (12, EVENTS + 2)]).run();
    }
}

/// If the ring overflows, a list is not exact and reports that.
#[test]
fn more_events_than_the_ring_holds_are_reported() {
    let script: Vec<Step> = (0..12_000_usize).map(|n| if n < 10 { Step::Alloc { row: 0, size: 9 } } else { Step::Ref(n) }).collect();
    let play = Playback::new(Shape::small(), &script, &[(1_000, EVENTS + 300)]);
    play.go_on(EVENTS + 20);
    let listing = list(&play.region);
    assert!(!play.is_over());
    assert_eq!(listing.figures.ledger.exactness, Exactness::Changing);
    play.check_totals(&Ledger { exactness: Exactness::Exact, ..listing.figures.ledger });
    assert!(play.region.events(0).unwrap().overrun > 0);
}
