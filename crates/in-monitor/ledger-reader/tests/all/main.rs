//! The reader with bytes that were written by hand from docs/ledger.md, by an attacker, and by the writer.

mod against_writer;
mod clocks;
mod encoder;
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

use ttmon_ledger_reader::{ReadError, Region};

/// Stores the bytes in a file on tmpfs.
fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn open(bytes: &[u8]) -> Result<Region, ReadError> {
    Region::open(file(bytes))
}
