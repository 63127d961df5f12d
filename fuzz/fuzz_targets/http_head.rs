//! What a client sends to the service, and what a service answers to a client.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let answer = ttmon_serve::answer_bytes(input);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "an answer is HTTP");
    ttmon_hosts::read_answer(input);
});
