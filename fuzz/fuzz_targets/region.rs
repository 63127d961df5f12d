//! TT-Metal's statistics, as any user may write them to /dev/shm.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ttmon_model::region::{Region, unique_id_of};

fuzz_target!(|input: &[u8]| {
    let _ = Region::parse(input);
    if let Ok(name) = std::str::from_utf8(input) {
        let _ = unique_id_of(name);
    }
});
