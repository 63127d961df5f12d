//! The line table of a code object, as any memory could hold it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ttmon_pystack::{Format, find_line};

fuzz_target!(|input: &[u8]| {
    let (head, table) = input.split_at(input.len().min(8));
    let mut numbers = [0; 8];
    numbers[..head.len()].copy_from_slice(head);
    let [first, offset] = [0, 4].map(|at| u32::from_le_bytes([numbers[at], numbers[at + 1], numbers[at + 2], 0]));
    for format in [Format::Pairs, Format::Locations] {
        find_line(format, table.iter().copied(), first, offset);
    }
});
