//! The document of a service: a snapshot, a frame of a recording, an event.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ttmon_json::{Layout, SnapshotJson, event_line, read, read_event, read_frame, time_of, to_string};

fuzz_target!(|text: &str| {
    if let Ok((snapshot, _)) = read_frame(text) {
        let again = to_string(&SnapshotJson { snapshot: &snapshot, version: "0" }, Layout::Line);
        read(&again).expect("what we write can be read");
    }
    if let Ok(event) = read_event(text) {
        read_event(&event_line(&event)).expect("what we write can be read");
    }
    let _ = time_of(text);
});
