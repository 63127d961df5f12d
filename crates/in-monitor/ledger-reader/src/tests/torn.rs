//! Ledgers whose writer stopped in the middle of an event.

use ttmon_model::ledger::Exactness;
use ttmon_testing::encoder::{Encoder, Entry, Shape, filled};

use super::{list, live_bytes, open};

fn stopped(count: u32) -> Encoder {
    let mut region = filled(Shape::small(), count, 100);
    region.put64(0x200, 2 * u64::from(count) + 1);
    region
}

#[test]
fn an_allocation_that_became_live_counts() {
    let mut region = stopped(4);
    region.put64(0x208, 5);
    region.entry(4, &Entry::example(5, 0, 50));
    let read = open(&region.bytes).unwrap();
    let totals = read.figures().unwrap();
    assert_eq!((totals.exactness, totals.events), (Exactness::Recounted, 4));
    assert_eq!((totals.live_entries(), live_bytes(&totals)), (5, 450));
    let row = &totals.allocators[0].rows[0];
    assert_eq!((row.used, row.peak_allocated, row.count, row.peak), (450, 450, 5, 450));
    let listing = list(&read);
    assert_eq!(listing.figures.ledger, totals);
    assert!(listing.peak_sets[0].is_whole() && listing.peak_sets[0].live == (5, 450));
}

#[test]
fn an_allocation_that_did_not_become_live_does_not() {
    let mut region = stopped(4);
    region.put64(0x208, 5);
    region.entry(4, &Entry::example(5, 0, 50));
    region.put64(Encoder::at(region.entries, 4), 1);
    let listing = list(&open(&region.bytes).unwrap());
    assert_eq!(
        (listing.figures.ledger.exactness, live_bytes(&listing.figures.ledger), listing.entries.len()),
        (Exactness::Recounted, 400, 4)
    );
    assert_eq!(listing.bad_entries, 0);
}

#[test]
fn a_free_without_its_figures_counts() {
    let mut region = stopped(4);
    let copy = Encoder::at(region.peak_copies, 3);
    for (word, value) in Entry::example(2, 0, 100).words().into_iter().enumerate() {
        region.put64(copy + 8 * word as u64, value);
    }
    region.put64(copy + 0x38, 4);
    // In the peak copies, but not yet free: once in the peak, and still live.
    let listing = list(&open(&region.bytes).unwrap());
    assert_eq!((live_bytes(&listing.figures.ledger), listing.peak_sets[0].is_whole()), (400, true));
    // Free: no longer live, and the peak is unchanged.
    region.put64(Encoder::at(region.entries, 1), 0);
    let listing = list(&open(&region.bytes).unwrap());
    assert_eq!((live_bytes(&listing.figures.ledger), listing.figures.ledger.allocators[0].rows[0].peak), (300, 400));
    assert_eq!((listing.peak_sets[0].is_whole(), listing.peak_sets[0].gone.len()), (true, 1));
}

#[test]
fn a_member_in_the_table_and_in_the_peak_copies_counts_once() {
    let mut region = stopped(4);
    // The first is freed, the second is being freed.
    for (place, event) in [(0, 1), (1, 2)] {
        let copy = Encoder::at(region.peak_copies, place);
        for (word, value) in Entry::example(event, 0, 100).words().into_iter().enumerate() {
            region.put64(copy + 8 * word as u64, value);
        }
        region.put64(copy + 0x38, 4);
    }
    region.put64(Encoder::at(region.entries, 0), 0);
    let listing = list(&open(&region.bytes).unwrap());
    let set = &listing.peak_sets[0];
    assert_eq!((set.peak, set.live, set.gone.len(), set.is_whole()), (400, (3, 300), 1, true));
}

#[test]
fn a_member_that_is_lost_and_still_live_counts_once() {
    let mut region = stopped(4);
    let row = Encoder::at(region.rows, 0);
    // A fifth one was freed before, so that the peak exceeds the live bytes.
    region.put64(row + 0x48, 500);
    region.put64(row + 0x38, 4);
    region.put64(row + 0x70, 200);
    region.put64(row + 0x78, 2);
    let listing = list(&open(&region.bytes).unwrap());
    assert_eq!((listing.peak_sets[0].lost, listing.peak_sets[0].is_whole()), ((1, 100), true));
}

#[test]
fn a_free_all_without_its_figures_counts() {
    let mut region = stopped(4);
    region.put64(Encoder::at(region.rows, 0), 5);
    let listing = list(&open(&region.bytes).unwrap());
    assert_eq!((live_bytes(&listing.figures.ledger), listing.entries.len()), (0, 0));
    assert_eq!((listing.peak_sets[0].is_whole(), listing.peak_sets[0].gone.len()), (true, 4));
}

#[test]
fn unlisted_figures_and_allocated_bytes_survive_a_recount() {
    let mut region = stopped(2);
    let (allocator, row) = (Encoder::at(region.allocators, 0), Encoder::at(region.rows, 0));
    region.put32(allocator + 0x28, 12);
    region.put64(row + 0x98, 7);
    region.put64(row + 0xA0, 700);
    region.put64(row + 0xA8, 800);
    let row = &open(&region.bytes).unwrap().figures().unwrap().allocators[0].rows[0];
    assert_eq!((row.count, row.used, row.allocated), (9, 900, Some(12 * (2 + 3) + 800)));
}

#[test]
fn half_a_record_in_the_ring_is_not_an_event() {
    let mut region = filled(Shape::small(), 4, 100);
    let at = region.events.offset + 3 * u64::from(region.events.stride);
    region.put64(at + 24, 0);
    let recorded = open(&region.bytes).unwrap().events(0).unwrap();
    let numbers: Vec<u64> = recorded.events.iter().map(|event| event.number).collect();
    assert_eq!((numbers.as_slice(), recorded.overrun), (&[1, 2, 4][..], 1));
}
