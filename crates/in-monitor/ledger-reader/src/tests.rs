//! The reader with bytes that were written by hand from docs/ledger.md, by an attacker, and by the writer.

mod against_writer;
mod clocks;
mod fields;
mod hooked;
mod hostile;
mod interleaved;
mod killed;
mod model;
mod stopped;
mod torn;

use std::fs::File;
use std::io::Write;

use ttmon_model::ledger::Ledger;

use crate::list::Listing;
use crate::{ReadError, Region};

/// Stores the bytes in a file on tmpfs.
fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// Reads the entries, which are private to the reader.
fn list(region: &Region) -> Listing {
    crate::list::list(region).unwrap()
}

/// Bytes of all live buffers.
fn live_bytes(ledger: &Ledger) -> u64 {
    ledger.allocators.iter().flat_map(|allocator| &allocator.rows).map(|row| row.used).fold(0, u64::saturating_add)
}

fn open(bytes: &[u8]) -> Result<Region, ReadError> {
    Region::open(file(bytes))
}
