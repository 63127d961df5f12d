//! A cluster descriptor that the user names.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(cluster) = ttmon_collect::parse_cluster(text) {
        assert!(!cluster.chips.is_empty());
    }
});
