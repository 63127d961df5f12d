//! Clocks that jump, stop, restart or belong to another process. The live buffers and their sums do not depend on clocks.

use ttmon_testing::encoder::{Encoder, Shape, filled};

use super::{list, live_bytes, open};
use crate::entry::Entry;
use crate::list::Listing;

const CLOCK: u64 = 0x0A0;
const MONOTONIC: u64 = 0x0A8;
const REALTIME: u64 = 0x0B0;
const COUNTER: u64 = 0x0B8;
const YEAR_NS: u64 = 365 * 24 * 3_600_000_000_000;

fn listed(region: &Encoder) -> Listing {
    list(&open(&region.bytes).unwrap())
}

/// Everything except the times.
fn timeless(listing: &Listing) -> (Vec<Entry>, u64, u64, Vec<(u64, u64)>) {
    let entries = listing.entries.iter().map(|entry| Entry { time: 0, ..*entry }).collect();
    let rows = listing.figures.ledger.allocators.iter().flat_map(|allocator| &allocator.rows).map(|row| (row.used, row.peak)).collect();
    (entries, live_bytes(&listing.figures.ledger), listing.figures.ledger.events, rows)
}

#[test]
fn live_buffers_do_not_depend_on_clocks() {
    let whole = filled(Shape::small(), 20, 64);
    let expected = timeless(&listed(&whole));
    assert_eq!(expected.0.len(), 20);
    for clock in [0, 1, 7, u32::MAX] {
        for field in [MONOTONIC, REALTIME, COUNTER] {
            for value in [0, 1, YEAR_NS, 1 << 62, u64::MAX] {
                let mut region = whole.clone();
                region.put32(CLOCK, clock);
                region.put64(field, value);
                let listing = listed(&region);
                assert_eq!(timeless(&listing), expected, "clock {clock}, {field:#x} {value:#x}");
                let recorded = open(&region.bytes).unwrap().events(0).unwrap();
                assert!(recorded.events.is_sorted_by_key(|event| event.number), "clock {clock}, {field:#x} {value:#x}");
            }
        }
    }
}

/// If the wall clock was different when the ledger was created, all times move by the same amount.
#[test]
fn times_move_with_the_wall_clock_of_the_creation() {
    let mut region = filled(Shape::small(), 20, 64);
    let before = listed(&region);
    region.put64(REALTIME, region.get64(REALTIME) + YEAR_NS);
    for (before, after) in before.entries.iter().zip(&listed(&region).entries) {
        assert_eq!(after.time, before.time + YEAR_NS);
    }
}

/// A clock that ran backwards between two events: each event keeps its time, and the order is that of the events.
#[test]
fn events_keep_their_order_when_time_runs_backwards() {
    let mut region = filled(Shape::small(), 20, 64);
    let expected = timeless(&listed(&region));
    for n in 1..=20_u64 {
        let entry = Encoder::at(region.entries, u32::try_from(n - 1).unwrap());
        region.put64(entry + 0x18, 1_000_000 - n * 1_000);
        let event = Encoder::at(region.events, u32::try_from(n).unwrap());
        region.put64(event, 1_000_000 - n * 1_000);
    }
    let listing = listed(&region);
    assert_eq!(timeless(&listing), expected);
    assert!(listing.entries.is_sorted_by(|a, b| a.time > b.time));
    let recorded = open(&region.bytes).unwrap().events(0).unwrap();
    assert!(recorded.events.is_sorted_by_key(|event| event.number) && recorded.events.is_sorted_by(|a, b| a.time >= b.time));
}
