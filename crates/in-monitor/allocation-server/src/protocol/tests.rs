//! Compares messages with the vectors of the protocol's description, and decodes streams that are split at all positions.

use proptest::prelude::*;

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap_or_default(), 16).expect("hex")).collect()
}

/// Decodes a vector: the first bytes in hexadecimal, then zeros up to a size.
fn vector(hex: &str, size: Size) -> Vec<u8> {
    let mut message = bytes(hex);
    message.resize(size.bytes(), 0);
    message
}

const PID: i32 = 12345;
const TIME: u64 = 1_763_000_000_123_456_789;

fn event(kind: Type) -> Request {
    Request { process_id: PID, ..Request::new(kind) }
}

/// The requests in the description: name, header, contents, sizes.
fn requests() -> Vec<(&'static str, &'static str, Request, &'static [Size])> {
    let big = &Size::ALL[2..];
    vec![
        (
            "A ALLOC dev0 DRAM 1 MiB",
            "01000000 00000000 0000100000000000 00000000 39300000 0000002000000000 154d5fca286f7718",
            Request { size: 1 << 20, buffer_id: 0x2000_0000, timestamp: TIME, ..event(Type::Alloc) },
            &Size::ALL,
        ),
        (
            "F FREE",
            "02000000 00000000 0000000000000000 00000000 39300000 0000002000000000",
            Request { buffer_id: 0x2000_0000, ..event(Type::Free) },
            &Size::ALL,
        ),
        ("Q QUERY", "03", Request::new(Type::Query), &Size::ALL),
        ("I INFO -1", "06000000ffffffff", Request { device_id: -1, ..Request::new(Type::DeviceInfoQuery) }, &Size::ALL[1..]),
        ("U DUMP_REMAINING", "05", Request::new(Type::DumpRemaining), &Size::ALL),
        (
            "L ALLOC dev3 L1 65536",
            "01000000 03000000 0000010000000000 01000000 ffff3f00 00a0160000000000 154d5fca286f7718",
            Request {
                device_id: 3,
                size: 65536,
                buffer_type: 1,
                process_id: 4_194_303,
                buffer_id: 0x16_a000,
                timestamp: TIME,
                ..event(Type::Alloc)
            },
            &Size::ALL,
        ),
        (
            "CA CB_ALLOC",
            "08000000 00000000 0000010000000000 00000000 39300000 00a0010000000000 154d5fca286f7718",
            Request { size: 65536, buffer_id: 0x1_a000, timestamp: TIME, ..event(Type::CbAlloc) },
            big,
        ),
        (
            "CF CB_FREE",
            "09000000 00000000 0000010000000000 00000000 39300000 00a0010000000000",
            Request { size: 65536, buffer_id: 0x1_a000, ..event(Type::CbFree) },
            big,
        ),
        (
            "KL KERNEL_LOAD Fabric",
            "0a000000 00000000 00e0000000000000 01000000 39300000 00100000007f0000 154d5fca286f7718",
            Request { size: 57344, buffer_type: 1, buffer_id: 0x7f00_0000_1000, timestamp: TIME, ..event(Type::KernelLoad) },
            big,
        ),
        (
            "KU KERNEL_UNLOAD",
            "0b000000 00000000 00e0000000000000 00000000 39300000 00100000007f0000",
            Request { size: 57344, buffer_id: 0x7f00_0000_1000, ..event(Type::KernelUnload) },
            big,
        ),
        ("DK DUMP_KERNELS", "0c", Request::new(Type::DumpKernels), &Size::ALL[3..]),
    ]
}

#[test]
fn requests_are_the_vectors() {
    for (name, hex, request, sizes) in requests() {
        for size in Size::ALL {
            assert_eq!(sizes.contains(&size), size.has(request.kind), "{name}");
        }
        for size in sizes {
            let vector = vector(hex, *size);
            assert_eq!(request.encode(*size).as_bytes(), vector, "{name} {size:?}");
            let header = vector.first_chunk().expect("40 bytes");
            assert_eq!(Request::decode(header), Ok(request), "{name} {size:?}");
        }
    }
}

#[test]
fn replies_are_the_vectors() {
    let usage = Usage { dram: 1 << 20, l1: 2 << 20, l1_small: 4096, trace: 8192, cb: 65536, kernel: 57344 };
    let first = "04".to_owned() + &"00".repeat(39) + "0000100000000000 0000200000000000 0010000000000000 0020000000000000";
    let later = first.clone() + "0000010000000000 00e0000000000000";
    for (size, hex) in [(Size::B72, &first), (Size::B112, &first), (Size::B128, &later), (Size::B144, &later)] {
        let reply = usage.reply(size, 0);
        assert_eq!(reply.as_bytes(), vector(hex, size), "R{size:?}");
        let back = if size >= Size::B128 { usage } else { Usage { cb: 0, kernel: 0, ..usage } };
        assert_eq!(Usage::decode(reply.as_bytes()), Some(back));
    }
    let count = DeviceInfo { is_available: true, devices: 2, ..DeviceInfo::default() };
    let device = DeviceInfo {
        dram_bytes: 12 << 30,
        l1_bytes: 1_499_136 * 80,
        arch: 2,
        dram_channels: 12,
        dram_channel_bytes: 1 << 30,
        l1_bytes_per_core: 1_499_136,
        is_available: true,
        devices: 0,
    };
    for (size, place) in [(Size::B112, 72), (Size::B128, 88), (Size::B144, 88)] {
        let many = "07000000ffffffff".to_owned() + &"00".repeat(place + 32 - 8) + "0100000002000000";
        assert_eq!(count.reply(size, -1).expect("size").as_bytes(), vector(&many, size), "C{size:?}");
        let one = "07".to_owned()
            + &"00".repeat(place - 1)
            + "0000000003000000 0000260700000000 02000000 0c000000 00000040 00e01600 01000000 00000000";
        let reply = device.reply(size, 0).expect("size");
        assert_eq!(reply.as_bytes(), vector(&one, size), "D{size:?}");
        assert_eq!(DeviceInfo::decode(reply.as_bytes()), Some(device));
    }
    assert_eq!(count.reply(Size::B72, -1), None);
    assert_eq!(Usage::decode(&[4; 71]), None);
}

/// A channel of 4 GiB does not fit into its field.
#[test]
fn a14_figures_saturate() {
    let info = DeviceInfo { dram_channel_bytes: 4 << 30, ..DeviceInfo::default() };
    let back = DeviceInfo::decode(info.reply(Size::B144, 0).expect("size").as_bytes()).expect("reply");
    assert_eq!(back.dram_channel_bytes, u64::from(u32::MAX));
}

/// The result of decoding a stream that arrives in pieces. The decoder is called after each piece.
#[derive(Debug, Default, PartialEq)]
struct Received {
    requests: Vec<Request>,
    replies: Vec<Size>,
    malformed: Option<Malformed>,
    /// The wait at the end.
    wait: Option<Wait>,
}

fn receive<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Received {
    let mut framing = Framing::new();
    let mut received = Received::default();
    let mut bytes: Vec<u8> = Vec::new();
    for piece in pieces {
        bytes.extend_from_slice(piece);
        let mut from = 0;
        loop {
            match framing.next(&bytes[from..]) {
                Step::Request { request, size, used } => {
                    received.requests.push(request);
                    received.replies.extend(request.kind.is_query().then_some(size));
                    from += used;
                }
                Step::Wait { used, wait } => {
                    from += used;
                    received.wait = Some(wait);
                    break;
                }
                Step::Malformed(malformed) => {
                    received.malformed = Some(malformed);
                    return received;
                }
            }
        }
        bytes.drain(..from);
    }
    received
}

fn one_by_one(bytes: &[u8]) -> Received {
    receive(bytes.chunks(1))
}

fn alloc(size: Size, id: u64) -> Vec<u8> {
    Request { buffer_id: id, size: 64, ..event(Type::Alloc) }.encode(size).as_bytes().to_vec()
}

#[test]
fn f1_a_message_may_be_split_anywhere() {
    for size in Size::ALL {
        let stream: Vec<u8> = (1..4).flat_map(|id| alloc(size, id)).collect();
        let whole = receive([&stream[..]]);
        assert_eq!(whole.requests.len(), 3);
        for cut in 0..=stream.len() {
            let (front, back) = stream.split_at(cut);
            assert_eq!(receive([front, back]), whole, "{size:?} cut at {cut}");
        }
        assert_eq!(one_by_one(&stream), whole);
    }
}

#[test]
fn ten_thousand_messages_in_one_write() {
    for size in Size::ALL {
        let stream: Vec<u8> = (0..10_000).flat_map(|id| alloc(size, id)).collect();
        let received = receive([&stream[..]]);
        assert!(received.requests.iter().map(|request| request.buffer_id).eq(0..10_000));
        assert_eq!((received.malformed, received.wait), (None, Some(Wait::Message)));
    }
}

#[test]
fn a_lone_question_waits_for_its_grace() {
    for size in Size::ALL {
        let question = Request::new(Type::Query).encode(size);
        let mut framing = Framing::new();
        if size == Size::B144 {
            assert!(matches!(framing.next(question.as_bytes()), Step::Request { size: Size::B144, .. }));
            continue;
        }
        assert_eq!(framing.next(question.as_bytes()), Step::Wait { used: 0, wait: Wait::Grace });
        framing.settle();
        let request = Request::new(Type::Query);
        assert_eq!(framing.next(question.as_bytes()), Step::Request { request, size, used: size.bytes() });
        // The next message arrives when the size is known.
        assert_eq!(framing.next(question.as_bytes()), Step::Request { request, size, used: size.bytes() });
        assert_eq!(framing.size(), Some(size));
    }
}

#[test]
fn a_guess_that_was_too_low_is_mended() {
    let question = Request::new(Type::Query).encode(Size::B128);
    let (early, late) = question.as_bytes().split_at(72);
    let mut framing = Framing::new();
    assert_eq!(framing.next(early), Step::Wait { used: 0, wait: Wait::Grace });
    framing.settle();
    assert!(matches!(framing.next(early), Step::Request { size: Size::B72, used: 72, .. }));
    assert_eq!(framing.next(late), Step::Wait { used: 56, wait: Wait::Message });
    assert!(matches!(framing.next(question.as_bytes()), Step::Request { size: Size::B128, used: 128, .. }));
}

#[test]
fn invalid_messages_are_refused() {
    let cut = |bytes: &[u8]| one_by_one(bytes).malformed;
    assert_eq!(cut(&[0]), Some(Malformed::Type(0)));
    assert_eq!(cut(b"GET / HTTP/1.1\r\n"), Some(Malformed::Type(b'G')));
    let mut message = alloc(Size::B144, 1);
    message[17] = 1;
    assert_eq!(cut(&message), Some(Malformed::Padding));
    let mut message = alloc(Size::B144, 1);
    message[4..8].copy_from_slice(&(-2_i32).to_le_bytes());
    assert_eq!(cut(&message), Some(Malformed::Device(-2)));
    let mut message = alloc(Size::B72, 1);
    message[71] = 1;
    assert_eq!(cut(&message), Some(Malformed::Trailing(71)));
    // The first 72 bytes are a message, independent of the bytes that follow.
    let mut stream = alloc(Size::B144, 1);
    stream[80] = 9;
    let received = one_by_one(&stream);
    assert_eq!((received.requests.len(), received.malformed), (1, Some(Malformed::Trailing(80))));
    assert_eq!(receive([&stream[..]]), Received { wait: None, ..one_by_one(&stream) });
    // Later messages are checked just as strictly.
    let mut stream = [alloc(Size::B144, 1), alloc(Size::B144, 2)].concat();
    stream[144 + 143] = 1;
    assert_eq!(cut(&stream), Some(Malformed::Trailing(143)));
    let stream = [alloc(Size::B72, 1), vector("06000000ffffffff", Size::B72)].concat();
    assert_eq!(cut(&stream), Some(Malformed::TypeOfSize(Type::DeviceInfoQuery, Size::B72)));
}

/// Two helper structs of 32 bytes, a query of 24 bytes, and a single line feed. None of them is accepted.
#[test]
fn f12_f13_f14_fragments_are_not_messages() {
    let helper = bytes("0800000000000000000001000000000005000000000000003930000000000000");
    let bogus = bytes("020000000000000000000000000000000000000000000000");
    for (fragment, wait) in [(&helper[..], Wait::Rest), (&bogus[..], Wait::Rest), (b"\n", Wait::LineFeed), (&[3; 1], Wait::Rest)] {
        let received = one_by_one(fragment);
        assert_eq!((received.requests.len(), received.malformed, received.wait), (0, None, Some(wait)), "{fragment:?}");
    }
    let twice = [&helper[..], &helper[..]].concat();
    assert_eq!(one_by_one(&twice).malformed, Some(Malformed::Trailing(42)));
    assert_eq!(one_by_one(&twice).requests, []);
}

fn any_request(size: Size) -> impl Strategy<Value = Request> {
    let kinds: Vec<Type> = Type::ALL.into_iter().filter(|kind| size.has(*kind)).collect();
    let fields = (any::<u64>(), any::<u8>(), any::<i32>(), any::<u64>(), any::<u64>());
    (prop::sample::select(kinds), -1..300_i32, fields).prop_map(
        |(kind, device_id, (size, buffer_type, process_id, buffer_id, timestamp))| Request {
            kind,
            device_id,
            size,
            buffer_type,
            process_id,
            buffer_id,
            timestamp,
        },
    )
}

fn any_stream() -> impl Strategy<Value = (Size, Vec<Request>)> {
    prop::sample::select(Size::ALL.to_vec()).prop_flat_map(|size| (Just(size), prop::collection::vec(any_request(size), 1..12)))
}

proptest! {
    /// However a stream is split, all messages are received, and replies have the size of their queries.
    #[test]
    fn any_chunking((size, said) in any_stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let stream: Vec<u8> = said.iter().flat_map(|request| request.encode(size).as_bytes().to_vec()).collect();
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len())).collect();
        places.extend([0, stream.len()]);
        places.sort_unstable();
        let pieces = places.windows(2).map(|pair| &stream[pair[0]..pair[1]]);
        let received = receive(pieces);
        prop_assert_eq!(received.malformed, None);
        // A first query without further bytes is still in its grace period, unless its size is certain.
        let is_lone_question = said.len() == 1 && said[0].kind.is_query() && size != Size::B144;
        prop_assert_eq!(&received.requests, if is_lone_question { &[][..] } else { &said[..] });
        prop_assert!(received.replies.iter().all(|reply| *reply == size));
        prop_assert_eq!(&received, &one_by_one(&stream));
    }

    /// For any input, the decoder neither panics nor consumes bytes that do not exist, and the positions of splits have no effect.
    #[test]
    fn any_bytes(stream in prop::collection::vec(prop_oneof![3 => Just(0_u8), 1 => 0..16_u8, 1 => any::<u8>()], 0..600)) {
        let whole = receive([&stream[..]]);
        let cut = one_by_one(&stream);
        prop_assert_eq!(whole.malformed, cut.malformed);
        prop_assert_eq!(whole.requests, cut.requests);
    }
}
