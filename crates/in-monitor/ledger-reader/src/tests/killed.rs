//! A writer that is killed at any time, while a reader has its ledger open.

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader, Write, stdout};
use std::process::{Child, Command, Stdio};
use std::thread;

use ttmon_ledger::layout::WriterKind;
use ttmon_ledger::writer::{AllocatorId, AllocatorSpec, Buffer, ClockChoice, Config, Key, KindGeometry, Writer};
use ttmon_model::ledger::{Exactness, Ledger};
use ttmon_testing::until;

use super::{list, live_bytes};
use crate::Region;
use crate::list::Listing;
use crate::numbers::buffer_kind;
use crate::peak::PeakSet;

/// Set for the process that is killed.
const VICTIM: &str = "TTMON_READER_TEST_VICTIM";
/// Number of kills without TTMON_KILLS; 30 take a second.
const ROUNDS: u64 = 60;

/// Not a test: the code of the victim. Without the variable it does nothing.
#[test]
fn victim() {
    if env::var_os(VICTIM).is_none() {
        return;
    }
    let config = Config { kind: WriterKind::Client, version: "1", clock: ClockChoice::Auto, machine: 1, on_created: None };
    let writer = Writer::beside_others(config, 1 << 10);
    let spec = AllocatorSpec { given_id: 0, origin: 1, mesh: (0, 0), kinds: [KindGeometry::default(); 6], chips: &[] };
    let allocator = writer.session().unwrap().open_allocator(&spec).unwrap();
    println!("\nledger {}", writer.descriptor().unwrap());
    stdout().flush().unwrap();
    thread::scope(|scope| {
        for thread in 0..3 {
            let writer = &writer;
            scope.spawn(move || work(writer, allocator, thread));
        }
    });
}

/// Grows and shrinks around the table's size, to cover peaks, sweeps, full peak copies and unlisted buffers.
fn work(writer: &Writer, allocator: AllocatorId, thread: u64) {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(thread + u64::from(std::process::id()));
    loop {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let Ok(mut session) = writer.session() else { continue };
        if random.is_multiple_of(50_021) {
            session.free_all(allocator);
        }
        let key = Key { allocator, kind: (random >> 40 & 1) as u8, address: (random >> 20) % 1_500 };
        if session.remove(key).is_none() {
            session.insert(key, &Buffer { size: random % 10_000, ..Buffer::default() }).unwrap();
        }
    }
}

/// Starts a writer, and opens its ledger.
pub(super) fn start() -> (Child, Region) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["tests::killed::victim", "--exact", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let descriptor = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("ledger ").map(str::to_owned)).unwrap();
    let file = File::open(format!("/proc/{}/fd/{descriptor}", child.id())).unwrap();
    (child, Region::open(file).unwrap())
}

/// Checks a writer that is idle: no entry is torn, totals are the sums of entries, and each peak set sums to its peak.
pub(super) fn check(region: &Region, round: u64) -> (Listing, Ledger) {
    let (listing, totals) = (list(region), region.figures().unwrap());
    assert_ne!(listing.figures.ledger.exactness, Exactness::Changing);
    assert_eq!((live_bytes(&listing.figures.ledger), listing.bad_entries), (live_bytes(&totals), 0));
    for row in totals.allocators.iter().flat_map(|allocator| &allocator.rows) {
        let of_row = || listing.entries.iter().filter(|entry| buffer_kind(entry.kind) == row.kind);
        assert_eq!(row.used, of_row().map(|entry| entry.size).sum::<u64>() + row.unlisted_bytes);
        assert_eq!(row.count, of_row().count() as u64 + row.unlisted_count);
        assert!(row.peak >= row.used);
    }
    let broken: Vec<&PeakSet> = listing.peak_sets.iter().filter(|set| !set.is_whole()).collect();
    assert!(broken.is_empty(), "round {round}: {broken:?}");
    let recorded = region.events(0).unwrap();
    assert_eq!(recorded.events.len() as u64 + recorded.overrun, recorded.next);
    assert!(recorded.events.is_sorted_by_key(|event| event.number));
    (listing, totals)
}

#[test]
fn a_kill_at_any_time_leaves_it_exact() {
    let rounds = env::var("TTMON_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let (mut recounted, mut overflowed, mut lost) = (0, 0, 0);
    for round in 0..rounds {
        let (mut child, region) = start();
        until("the writer works", || region.last_event().unwrap() > round * 1_237 % 25_000);
        if round % 2 == 0 {
            let _ = list(&region);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let (listing, totals) = check(&region, round);
        recounted += u32::from(totals.exactness == Exactness::Recounted);
        overflowed += u32::from(totals.allocators[0].rows.iter().any(|row| row.unlisted_count > 0));
        lost += u32::from(listing.peak_sets.iter().any(|set| set.lost.0 > 0));
    }
    println!("of {rounds} kills: {recounted} in the middle of an event, {overflowed} with unlisted, {lost} with forgotten members");
    assert!(rounds < ROUNDS || recounted > 0 && overflowed > 0, "{recounted} in the middle of an event, {overflowed} with unlisted");
}
