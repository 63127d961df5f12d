//! A recording from any source: its marks, its frames, and its documents.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use ttmon_model::units::UnixTime;
use ttmon_json::read_frame;
use ttmon_json::recording::Reader;

fuzz_target!(|input: &[u8]| {
    let Ok(mut reader) = Reader::new(Cursor::new(input)) else { return };
    let count = reader.len();
    for number in 0..count.min(64) {
        assert!(reader.behind_frame_of(number) > number);
        if let Ok(line) = reader.line(number) {
            let _ = read_frame(line);
        }
    }
    assert!(reader.line(count).is_err());
    assert!(reader.number_at(UnixTime(u64::MAX)) < count);
});
