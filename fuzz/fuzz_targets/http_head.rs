//! What a client sends to the service, and what a service responds.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use ttmon_serve::{MetricsDetail, Options};

fn options() -> Options {
    Options {
        version: "0",
        interval: Duration::from_secs(1),
        allow_remote: false,
        token: None,
        tls: None,
        metrics_detail: MetricsDetail::Full,
        process_metrics: false,
        state: None,
        fleet: None,
        alerts: Default::default(),
        complain: |_| {},
    }
}

fuzz_target!(|input: &[u8]| {
    let response = ttmon_serve::response_bytes(options(), input);
    assert!(response.is_empty() || response.starts_with(b"HTTP/1."), "a response is HTTP");
    ttmon_hosts::read_answer(input);
});
