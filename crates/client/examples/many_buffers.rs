//! A program with many live buffers, for benches: `many_buffers COUNT`. Prints `ready` and ends with its standard input.

use std::io::{self, Read, Write};

use ttmon_client::{Options, Outcome, TTMON_DRAM, TTMON_L1};

fn main() {
    let count: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("usage: many_buffers COUNT");
    ttmon_client::start(Options { machine: 0 });
    for first in (0..count).step_by(1000) {
        let _layer = ttmon_client::tag(&format!("layers.{}.attention", first / 1000 % 64));
        for number in first..count.min(first + 1000) {
            let buffer_type = if number % 2 == 0 { TTMON_DRAM } else { TTMON_L1 };
            let outcome = ttmon_client::report_allocation(0, 1024 * (1 + number * 7919 % 4096), buffer_type, 0x1000 + number * 0x1000);
            assert_eq!(outcome, Outcome::Recorded);
        }
    }
    println!("ready");
    io::stdout().flush().expect("a reader");
    io::stdin().read_to_end(&mut Vec::new()).expect("a standard input");
}
