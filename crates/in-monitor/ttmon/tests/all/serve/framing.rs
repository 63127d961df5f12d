//! Streams split at any position, messages of every size, and data that is not the protocol.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use ttmon_allocation_server::protocol::{Request, Size, Type, Usage};

use crate::serve::server::{Client, DRAM, L1, Server, alloc, event, free, me};

#[test]
fn a_message_split_at_any_place_counts() {
    let server = Server::start();
    for size in Size::ALL {
        let message = alloc(0, 0x1000, 64, DRAM).encode(size);
        for cut in 1..size.bytes() {
            let mut client = server.connect_in(size);
            let (front, back) = message.as_bytes().split_at(cut);
            client.raw(front);
            // The server may or may not read between these two writes. Both must work.
            std::thread::yield_now();
            client.raw(back);
            client.send(&[alloc(1, u64::try_from(cut).unwrap(), 1, L1)]);
            assert_eq!(client.usage(0).dram, 64, "{size:?} cut at {cut}");
            client.send(&[free(0, 0x1000), free(1, u64::try_from(cut).unwrap())]);
            let after = client.usage(0);
            assert_eq!((after.dram, client.usage(1).l1), (0, 0), "{size:?} cut at {cut}");
        }
    }
}

#[test]
fn messages_sent_byte_by_byte_count() {
    let server = Server::start();
    for size in Size::ALL {
        let mut client = server.connect_in(size);
        for byte in (1..4).flat_map(|id| alloc(0, id, 7, DRAM).encode(size).as_bytes().to_vec()) {
            client.raw(&[byte]);
        }
        assert_eq!(client.usage(0).dram, 21);
        client.send(&[free(0, 1), free(0, 2), free(0, 3)]);
        assert_eq!(client.usage(0), Usage::default());
    }
}

#[test]
fn queued_messages_of_every_size_all_count() {
    let server = Server::with(&["--quiet"]);
    for size in Size::ALL {
        let mut client = server.connect_in(size);
        let many: Vec<Request> = (0..10_000).map(|id| alloc(0, id, 3, if id % 2 == 0 { DRAM } else { L1 })).collect();
        client.send(&many);
        let usage = client.usage(0);
        assert_eq!((usage.dram, usage.l1), (15_000, 15_000), "{size:?}");
        let frees: Vec<Request> = (0..10_000).map(|id| free(0, id)).collect();
        assert_eq!(client.send(&frees).usage(0), Usage::default());
    }
}

#[test]
fn garbage_closes_only_its_own_connection() {
    let server = Server::start();
    let mut good = server.connect();
    good.send(&[alloc(0, 1, 100, DRAM)]);
    let mut bad_device = alloc(-7, 1, 1, DRAM).encode(Size::B144).as_bytes().to_vec();
    let mut padded = alloc(0, 1, 1, DRAM).encode(Size::B144).as_bytes().to_vec();
    padded[2] = 1;
    bad_device.extend_from_slice(&padded);
    for garbage in [&[0; 200][..], b"GET / HTTP/1.1\r\n\r\n", &[255; 4096], &bad_device, &padded] {
        let mut client = server.connect();
        let _ = client.stream.write_all(garbage);
        assert!(client.is_closed());
    }
    assert_eq!(good.usage(0).dram, 100);
    server.prints(&format!("[PID {}] connection closed: not the allocation protocol", me()));
}

#[test]
fn replies_have_the_size_of_their_request() {
    let server = Server::with(&["--sim", "n300,idle"]);
    server.connect().send(&[alloc(0, 1, 1 << 20, DRAM), event(Type::CbAlloc, 0, 2, 4096, 0)]).usage(0);
    for size in Size::ALL {
        let mut client = server.connect_in(size);
        // After a single request the server waits for more data, then answers in the size that it received.
        let first = client.usage(0);
        assert_eq!(first.cb, if size >= Size::B128 { 4096 } else { 0 }, "{size:?}");
        let again = client.usage(0);
        assert_eq!(again.cb, first.cb);
        if size > Size::B72 {
            assert_eq!(client.info(-1).devices, 2, "{size:?}");
            assert_eq!(client.info(0).dram_bytes, 12 << 30, "behind the right offset: {size:?}");
        }
    }
}

#[test]
fn a_reader_of_128_of_144_bytes_is_answered() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(&[Request { device_id: -1, ..Request::new(Type::DeviceInfoQuery) }]);
    let mut part = [0; 128];
    client.stream.read_exact(&mut part).unwrap();
    assert_eq!(part[0], Type::DeviceInfoResponse as u8);
    let mut rest = [1; 16];
    client.stream.read_exact(&mut rest).unwrap();
    assert_eq!(rest, [0; 16]);
}

/// `echo "" | nc -U`, with and without closing the connection.
#[test]
fn an_empty_line_is_answered_with_a_dump() {
    let server = Server::start();
    let mut client = server.connect();
    let many: Vec<Request> = (0..12).map(|id| alloc(3, 0x1000 * (id + 1), 2048, L1)).collect();
    client.send(&many).send(&[event(Type::KernelLoad, 0, 9, 57344, 1)]).usage(0);
    for is_closed in [true, false] {
        let mut asker = UnixStream::connect(server.socket()).unwrap();
        asker.write_all(b"\n").unwrap();
        if is_closed {
            asker.shutdown(Shutdown::Write).unwrap();
        }
        let mut text = String::new();
        asker.read_to_string(&mut text).unwrap();
        assert!(text.contains("Total tracked allocations: 12\n\nDevice 3:\n  L1: 12 buffers, 0.0234375 MB total\n"), "{text}");
        assert!(text.contains(&format!("    - Buffer 0x1000: 2 KB (PID {}, ref_count=1)\n", me())), "{text}");
        assert!(text.contains("    ... and 2 more\n") && text.contains("Kernel ID: 0x9\n"), "{text}");
        assert!(text.contains("  │   Type:      Fabric\n"), "{text}");
        assert!(text.contains("📊 Device 0 - Total: 0.0546875 MB (1 kernels)\n   Fabric: 0.0546875 MB (1 kernels)\n"), "{text}");
    }
    // None of them became an entry.
    assert_eq!(client.usage(0).kernel, 57344);
}

#[test]
fn foreign_structs_have_no_effect() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(&[alloc(0, 0, 5, DRAM)]);
    let mut helper = vec![0; 32];
    (helper[0], helper[10], helper[16]) = (8, 1, 5);
    helper[24..28].copy_from_slice(&me().to_le_bytes());
    let mut bogus = vec![0; 24];
    bogus[0] = 2;
    for fragment in [helper.repeat(2), helper, bogus] {
        let mut other = server.connect();
        let _ = other.stream.write_all(&fragment);
        other.stream.shutdown(Shutdown::Write).unwrap();
        assert!(other.is_closed());
    }
    let usage = client.usage(0);
    assert_eq!((usage.dram, usage.cb), (5, 0));
}

#[test]
fn bytes_are_little_endian() {
    let server = Server::start();
    let mut client = server.connect();
    let mut message = [0; 144];
    message[0] = 1;
    message[8..16].copy_from_slice(&[0, 0, 0x10, 0, 0, 0, 0, 0]);
    message[20..24].copy_from_slice(&me().to_le_bytes());
    client.raw(&message);
    client.send(&[Request::new(Type::Query)]);
    let reply = client.reply();
    assert_eq!(&reply[40..48], &[0, 0, 0x10, 0, 0, 0, 0, 0]);
    assert_eq!(reply[..8], [4, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn messages_of_servers_are_odd_and_harmless() {
    let server = Server::start();
    let mut client: Client = server.connect();
    client.send(&[Request::new(Type::Response), Request::new(Type::DeviceInfoResponse), alloc(0, 1, 9, DRAM)]);
    assert_eq!(client.usage(0).dram, 9);
    server.prints("Unknown message type: 4");
    server.prints("Unknown message type: 7");
}
