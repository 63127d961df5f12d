//! Writes the inputs that the fuzzer begins with into `corpus/ledger_region`: one for each idea that a mutation finds late.
//!
//! `cargo run --manifest-path fuzz/Cargo.toml --example seeds` from the root of the repository.

use std::fs;
use std::path::Path;

const HEADER: u8 = 0;
const ROWS: u8 = 2;
const EVENTS: u8 = 5;
const CIRCULARS: u8 = 6;
const LAUNCHES: u8 = 7;
const COVERAGE: u8 = 8;
const FAILURES: u8 = 9;
const LEFT: u8 = 10;
const SHARED: u8 = 11;
const STACKS: u8 = 12;
const FRAMES: u8 = 13;
const CODES: u8 = 14;
const ENTRIES: u8 = 15;
const LATE: u8 = 0x80;

fn patch(table: u8, offset: u16, value: u64) -> Vec<u8> {
    let mut bytes = vec![table, 3];
    bytes.extend(offset.to_le_bytes());
    bytes.extend(value.to_le_bytes());
    bytes
}

fn main() -> std::io::Result<()> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/ledger_region");
    fs::create_dir_all(&directory)?;
    let write =
        |name: &str, head: [u8; 2], patches: &[Vec<u8>]| fs::write(directory.join(name), [head.to_vec(), patches.concat()].concat());
    write("empty", [0, 0], &[])?;
    write("whole", [20, 0], &[])?;
    write("stopped", [20, 1], &[])?;
    write("longer_records", [20, 2], &[])?;
    write("future_version", [20, 0], &[patch(HEADER, 0x008, 0x1000_0000_0003)])?;
    write("table_overlaps", [20, 0], &[patch(HEADER, 0x018, 0x2400)])?;
    write("table_outside", [20, 0], &[patch(HEADER, 0x068, u64::MAX - 7)])?;
    write("stride_zero", [20, 0], &[patch(HEADER, 0x020, 4)])?;
    write("huge_used", [20, 0], &[patch(HEADER, 0x208, u64::MAX), patch(HEADER, 0x210, u64::MAX), patch(HEADER, 0x218, u64::MAX)])?;
    write("huge_seq", [20, 0], &[patch(HEADER, 0x200, u64::MAX - 1)])?;
    write("seq_backwards", [20, 0], &[patch(LATE | HEADER, 0x200, 4), patch(LATE | HEADER, 0x200, 60)])?;
    write("row_of_nonsense", [20, 0], &[patch(ROWS, 0x48, u64::MAX), patch(ROWS, 0x38, u64::MAX), patch(ROWS, 0x70, u64::MAX)])?;
    write("free_all", [20, 0], &[patch(ROWS, 0x00, 10), patch(ROWS, 0x08, 640), patch(ROWS, 0x18, 10)])?;
    write("entry_of_nonsense", [20, 0], &[patch(ENTRIES, 0x28, u64::MAX), patch(ENTRIES, 0x50, u64::MAX), patch(ENTRIES, 0x80, 7)])?;
    let event = [
        patch(LATE | HEADER, 0x200, 44),
        patch(LATE | EVENTS, 21 * 48 + 24, 21 << 32 | 3),
        patch(LATE | EVENTS, 21 * 48 + 16, 2 << 56 | 64),
        patch(LATE | EVENTS, 22 * 48 + 24, 22 << 32 | 23),
        patch(LATE | EVENTS, 22 * 48 + 16, 1 << 56 | 64),
    ];
    write("replay", [20, 0], &event)?;
    write("repair", [20, 0], &[patch(LATE | HEADER, 0x200, 42), patch(LATE | EVENTS, 21 * 48 + 16, 8 << 56)])?;
    let circular = [
        patch(HEADER, 0x290, 8),
        patch(ROWS, 4 * 256 + 0x40, 1 << 8 | 2),
        patch(CIRCULARS, 0x00, 9 << 8 | 2),
        patch(CIRCULARS, 0x10, 0x0303_0000_0000_0005),
        patch(LATE | CIRCULARS, 0x00, 11 << 8 | 2),
        patch(LATE | HEADER, 0x200, 44),
    ];
    write("circular", [20, 0], &circular)?;
    let counts = [patch(HEADER, 0x2F8, u64::MAX), patch(HEADER, 0x300, u64::MAX), patch(LAUNCHES, 0, 1), patch(COVERAGE, 8, 1)];
    write("launches_and_coverage", [20, 0], &counts)?;
    let failure = [patch(HEADER, 0x2F0, 1), patch(FAILURES, 0x18, 1), patch(FAILURES, 0x30, u64::MAX), patch(FAILURES, 0, 1)];
    write("failure", [20, 0], &failure)?;
    let left = [
        patch(HEADER, 0x298, u64::MAX),
        patch(ROWS, 0x00, 10),
        patch(ROWS, 0xD8, 10),
        patch(LEFT, 0x00, 3 << 8 | 2),
        patch(HEADER, 0x318, 21),
        patch(ROWS, 0xF8, 21),
    ];
    let shared = [
        patch(HEADER, 0x348, u64::MAX),
        patch(SHARED, 0x00, 1 | 1 << 32),
        patch(SHARED, 0x40, u64::MAX),
        patch(SHARED, 0x48, u64::MAX),
    ];
    write("shared", [20, 0], &shared)?;
    let stacks = [
        patch(HEADER, 0x380, u64::MAX),
        patch(HEADER, 0x388, 8),
        patch(HEADER, 0x390, u64::MAX),
        patch(STACKS, 0x00, 1 | 0xFFFF << 32),
        patch(FRAMES, 0x08, 1 | 7 << 32),
        patch(CODES, 0x208, u64::MAX),
    ];
    write("stacks", [20, 0], &stacks)?;
    write("left_and_marked", [20, 1], &left)?;
    Ok(())
}
