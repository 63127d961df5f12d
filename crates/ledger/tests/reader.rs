//! The reader with bytes that were written by hand from docs/ledger.md, by an attacker, and by the writer.

#![allow(clippy::unwrap_used, reason = "a test stops where it must")]

#[path = "reader/against_writer.rs"]
mod against_writer;
#[path = "reader/clocks.rs"]
mod clocks;
#[path = "reader/encoder.rs"]
mod encoder;
#[path = "reader/fields.rs"]
mod fields;
#[path = "reader/hooked.rs"]
mod hooked;
#[path = "reader/hostile.rs"]
mod hostile;
#[path = "reader/interleaved.rs"]
mod interleaved;
#[path = "reader/killed.rs"]
mod killed;
#[path = "reader/model.rs"]
mod model;
#[path = "reader/stopped.rs"]
mod stopped;
#[path = "reader/torn.rs"]
mod torn;

use std::fs::File;
use std::io::Write;

use ttmon_ledger::reader::{ReadError, Region};

/// Stores the bytes in a file on tmpfs.
fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn open(bytes: &[u8]) -> Result<Region, ReadError> {
    Region::open(file(bytes))
}
