//! What a client sends to the service, and what a service responds.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let response = ttmon_serve::response_bytes(input);
    assert!(response.is_empty() || response.starts_with(b"HTTP/1."), "a response is HTTP");
    ttmon_hosts::read_answer(input);
});
