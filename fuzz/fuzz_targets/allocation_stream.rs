//! A stream of the allocation socket with any content: in one piece, byte by byte, and with waits in between.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ttmon_allocation_server::protocol::{Framing, Malformed, Request, Size, Step, Wait};

fuzz_target!(|input: &[u8]| {
    let (whole, bytes) = (decode(input, usize::MAX, false), decode(input, 1, false));
    assert_eq!((&whole.requests, whole.malformed), (&bytes.requests, bytes.malformed), "cutting a stream changes nothing");
    // With all the waiting, a question may be answered in too short a size, but never is anything made up.
    let patient = decode(input, 24, true);
    assert!(patient.requests.len() <= input.len() / 72);
});

#[derive(Default)]
struct Decoded {
    requests: Vec<Request>,
    malformed: Option<Malformed>,
}

fn decode(input: &[u8], piece: usize, waits: bool) -> Decoded {
    let mut framing = Framing::new();
    let mut decoded = Decoded::default();
    let mut bytes: Vec<u8> = Vec::new();
    for piece in input.chunks(piece.min(input.len().max(1))) {
        bytes.extend_from_slice(piece);
        let mut from = 0;
        loop {
            match framing.next(&bytes[from..]) {
                Step::Request { request, size, used } => {
                    assert!(used <= bytes.len() - from && used > 0);
                    assert!(request.device_id >= -1);
                    let again = request.encode(Size::B144);
                    assert_eq!(Request::decode(again.as_bytes().first_chunk().expect("40 bytes")), Ok(request));
                    assert!(size.has(request.kind));
                    decoded.requests.push(request);
                    from += used;
                }
                Step::Wait { used, wait } => {
                    assert!(used <= bytes.len() - from);
                    from += used;
                    if wait == Wait::Grace && waits {
                        framing.settle();
                        continue;
                    }
                    break;
                }
                Step::Malformed(malformed) => {
                    decoded.malformed = Some(malformed);
                    return decoded;
                }
            }
        }
        bytes.drain(..from);
    }
    decoded
}
