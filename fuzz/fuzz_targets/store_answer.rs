//! An answer of a store of many hosts, to every query of the overview.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ttmon_hosts::fleet::{Overview, Vector};

fuzz_target!(|text: &str| {
    let answer = Vector::parse(text);
    if let Ok(vector) = &answer {
        assert!(vector.0.iter().all(|(_, value)| value.is_finite()), "values are numbers");
    }
    let overview = Overview::ask("http://store", |queries| answer.as_ref().map(|one| vec![one.clone(); queries.len()]));
    let document = overview.document("0", "", 10);
    for row in document["hosts"].as_array().into_iter().chain(document["workloads"].as_array()).flatten() {
        assert!(!row["chips"].is_string(), "no label replaces a value");
    }
});
