//! Attacks on the allocation socket and on the hand-over: a full state directory, pinned memory, and floods of the log.

use std::fs::{self, File};
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType};
use ttmon_allocation_server::protocol::{Request, Size, Type, Usage};
use ttmon_ledger::layout::WriterKind;
use ttmon_ledger::writer::{ClockChoice, Config, Writer};
use ttmon_testing::until;

use crate::host::{ALLOCATIONS, ATTACKER, Actor, BYSTANDER, HANDOVER, Host, STATE, hold, metric, strength};
use crate::isolation::Pids;
use crate::watch::Watch;
use crate::{Case, Role};

pub(crate) const CASES: &[Case] = &[
    ("state_of_one_user_leaves_room_for_others", Pids::Private, state),
    ("handed_over_memory_is_bounded", Pids::Machine, handed_over),
    ("dumps_of_one_user_leave_room_for_others", Pids::Private, dumps),
    ("printed_dumps_of_one_user_are_limited", Pids::Private, printed_dumps),
    ("bad_connections_write_a_short_log", Pids::Private, bad_connections),
];

pub(crate) const ROLES: &[Role] = &[
    ("allocations", allocations),
    ("one_buffer", one_buffer),
    ("hand_over", hand_over),
    ("dumps", unread_dumps),
    ("printed_dumps", ask_for_printed_dumps),
    ("one_dump", one_dump),
    ("nonsense", nonsense),
];

/// Processes with a million allocations each. Two of them exceed the share of a user.
fn state() {
    let processes = strength(12, 60);
    let host = Host::start();
    let watch = Watch::begin(&host);
    let attackers: Vec<Actor> = (0..processes).map(|_| Actor::begin(ATTACKER, "allocations", &["1000000"])).collect();
    let refused = || metric("ttmon_allocation_socket_total{what=\"memory_refused\"}").unwrap_or_default();
    until("refused what is beyond its share", || refused() > 1e5);
    let used: u64 = fs::read_dir(STATE).unwrap().map(|file| file.unwrap().metadata().map_or(0, |file| file.blocks() * 512)).sum();
    println!("  state: {} MB", used >> 20);
    assert!(used < 200 << 20, "{used}");
    for uid in [BYSTANDER, 0] {
        Actor::start(uid, "one_buffer", &[]).finish();
    }
    watch.finish();
    drop(attackers);
    // The state of alerts stays.
    let is_ledger = |file: &fs::DirEntry| file.file_name().to_string_lossy().contains(".ledger");
    until("state given back", || !fs::read_dir(STATE).unwrap().any(|file| is_ledger(&file.unwrap())));
    host.gives_back();
}

fn request(kind: Type, id: u64, size: u64) -> Request {
    let process_id = std::process::id().cast_signed();
    Request { kind, device_id: 0, size, buffer_type: 0, process_id, buffer_id: id, timestamp: 0 }
}

/// COUNT: reports this many live buffers.
fn allocations(arguments: &[String]) {
    let mut stream = UnixStream::connect(ALLOCATIONS).unwrap();
    let mut bytes = Vec::new();
    for id in 0..arguments[0].parse().unwrap() {
        bytes.extend_from_slice(request(Type::Alloc, id, 1).encode(Size::B144).as_bytes());
        if bytes.len() >= 1 << 16 {
            stream.write_all(&bytes).unwrap();
            bytes.clear();
        }
    }
    stream.write_all(&bytes).unwrap();
    hold();
}

/// Reports one very large buffer, and checks that the answer has it.
fn one_buffer(_: &[String]) {
    const BYTES: u64 = 7 << 30;
    let mut stream = UnixStream::connect(ALLOCATIONS).unwrap();
    stream.write_all(request(Type::Alloc, 1, BYTES).encode(Size::B144).as_bytes()).unwrap();
    stream.write_all(request(Type::Query, 0, 0).encode(Size::B144).as_bytes()).unwrap();
    let mut answer = [0; 144];
    stream.read_exact(&mut answer).unwrap();
    assert!(Usage::decode(&answer).unwrap().dram >= BYTES);
    println!("ready");
}

/// Ledgers of processes that end at once: without seals, longer than their header claims, sealed with all pages filled, and one that its
/// process tries to extend afterwards.
fn handed_over() {
    let host = Host::start();
    let watch = Watch::begin(&host);
    let send = |how: &str| Actor::start(ATTACKER, "hand_over", &[how]).finish();
    let counted = |what: &str| metric(&format!("ttmon_allocation_socket_total{{what=\"{what}\"}}")).unwrap_or_default();
    for how in ["unsealed", "long", "huge"] {
        let before = counted("handed_refused");
        send(how);
        until("refused", || counted("handed_refused") > before);
        assert_eq!(held(host.pid()), 0, "{how}");
    }
    const LEDGERS: u32 = 20;
    for number in 1..=LEDGERS {
        let sender = Actor::start(ATTACKER, "hand_over", &[if number == 1 { "growing" } else { "sealed" }]);
        until("taken", || counted("handed_over") >= f64::from(number));
        sender.finish();
    }
    until("no more than a share held", || held(host.pid()) <= 128 << 20);
    println!("  handed over: {} MB held", held(host.pid()) >> 20);
    watch.finish();
}

/// More unread dumps than the service keeps.
fn dumps() {
    let host = Host::start();
    let watch = Watch::begin(&host);
    let attacker = Actor::start(ATTACKER, "dumps", &["100"]);
    let refused = || metric("ttmon_allocation_socket_total{what=\"peers_dropped\"}").unwrap_or_default();
    until("refused", || refused() >= 36.0);
    for uid in [BYSTANDER, 0] {
        Actor::start(uid, "one_dump", &[]).finish();
    }
    watch.finish();
    drop(attacker);
    host.gives_back();
}

/// Dumps on the service's own output.
fn printed_dumps() {
    const DUMPS: f64 = 20_000.0;
    let host = Host::start();
    let watch = Watch::begin(&host);
    let before = host.log_bytes();
    let attacker = Actor::start(ATTACKER, "printed_dumps", &[]);
    let left_out = || metric("ttmon_allocation_socket_total{what=\"complaints_left_out\"}").unwrap_or_default();
    until("all counted", || left_out() >= DUMPS * 0.99);
    let printed = host.log_bytes() - before;
    println!("  log: {printed} bytes");
    assert!(printed < 128 << 10, "{printed}");
    watch.finish();
    drop(attacker);
    host.gives_back();
}

/// Requests 20,000 dumps of either kind, on 10 connections.
fn ask_for_printed_dumps(_: &[String]) {
    let streams: Vec<UnixStream> = (0..10)
        .map(|_| {
            let mut stream = UnixStream::connect(ALLOCATIONS).unwrap();
            let both = [Type::DumpRemaining, Type::DumpKernels].map(|kind| request(kind, 0, 0).encode(Size::B144).as_bytes().to_vec());
            stream.write_all(&both.concat().repeat(1000)).unwrap();
            stream
        })
        .collect();
    hold();
    drop(streams);
}

/// COUNT: requests this many dumps, each longer than the buffer of a socket, and reads none.
fn unread_dumps(arguments: &[String]) {
    let mut stream = UnixStream::connect(ALLOCATIONS).unwrap();
    let mut bytes = Vec::new();
    for id in 0..10_000 {
        let request = Request { device_id: i32::try_from(id / 10).unwrap(), ..request(Type::Alloc, id, 1) };
        bytes.extend_from_slice(request.encode(Size::B144).as_bytes());
    }
    stream.write_all(&bytes).unwrap();
    let count: usize = arguments[0].parse().unwrap();
    let asking: Vec<UnixStream> = (0..count)
        .map(|_| {
            let mut stream = UnixStream::connect(ALLOCATIONS).unwrap();
            stream.write_all(b"\n").unwrap();
            stream
        })
        .collect();
    hold();
    drop((stream, asking));
}

/// Requests and reads one dump.
fn one_dump(_: &[String]) {
    let mut stream = UnixStream::connect(ALLOCATIONS).unwrap();
    stream.write_all(b"\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("REMAINING ALLOCATED BUFFERS"), "{} bytes", text.len());
    println!("ready");
}

/// Returns the bytes of the in-memory files that a process has open.
fn held(pid: u32) -> u64 {
    let mut files = std::collections::BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
        let is_memory = fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("/memfd:"));
        if let Ok(file) = fs::metadata(entry.path()).map(|file| (file.ino(), file.blocks() * 512))
            && is_memory
        {
            files.insert(file.0, file.1);
        }
    }
    files.values().sum()
}

/// HOW: hands over an invalid copy of this process's ledger, and ends.
fn hand_over(arguments: &[String]) {
    let ledger = own_ledger();
    let length = ledger.metadata().unwrap().len();
    let copy = File::from(rustix::fs::memfd_create("copy", MemfdFlags::ALLOW_SEALING).unwrap());
    let (length, is_sealed) = match arguments[0].as_str() {
        "unsealed" => (length, false),
        "long" => (length + 4096, true),
        "huge" => (1 << 30, true),
        _ => (length, true),
    };
    copy.set_len(length).unwrap();
    let mut piece = vec![0; 4096];
    for offset in (0..length).step_by(4096) {
        let count = ledger.read_at(&mut piece, offset).unwrap();
        // Fills the empty parts of the ledger too, so that they take memory.
        if count == 0 || piece.iter().all(|byte| *byte == 0) {
            piece.fill(0xFF);
        }
        let rest = usize::try_from((length - offset).min(4096)).unwrap();
        copy.write_all_at(&piece[..rest], offset).unwrap();
    }
    if arguments[0] == "huge" {
        copy.write_all_at(&length.to_le_bytes(), 0x10).unwrap();
    }
    if is_sealed {
        rustix::fs::fcntl_add_seals(&copy, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).unwrap();
    }
    let mut message = *b"TTMONHND\0\0\0\0\0\0\0\0";
    message[8..].copy_from_slice(&u64::from(std::process::id()).to_le_bytes());
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [copy.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    let address = SocketAddrUnix::new(HANDOVER).unwrap();
    rustix::net::sendmsg_addr(&socket, &address, &[IoSlice::new(&message)], &mut control, SendFlags::empty()).unwrap();
    if arguments[0] == "growing" {
        let is_refused = |result: std::io::Result<()>| result.is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied);
        assert!(is_refused(copy.set_len(1 << 30)) && is_refused(copy.write_all_at(&[1; 4096], length)));
    }
    hold();
}

static WRITER: Writer =
    Writer::new(Config { kind: WriterKind::Client, version: "test", clock: ClockChoice::Auto, machine: 0, on_created: None });

/// Returns a ledger of this process that no service has received.
fn own_ledger() -> File {
    drop(WRITER.session().unwrap());
    File::open(format!("/proc/self/fd/{}", WRITER.descriptor().unwrap())).unwrap()
}

fn bad_connections() {
    let connections = strength(20_000, 396_185);
    let host = Host::start();
    let watch = Watch::begin(&host);
    let before = host.log_bytes();
    Actor::start(ATTACKER, "nonsense", &[&connections.to_string()]).finish();
    let left_out = || metric("ttmon_allocation_socket_total{what=\"complaints_left_out\"}").unwrap_or_default();
    until("all counted", || left_out() >= connections as f64 * 0.99);
    let printed = host.log_bytes() - before;
    println!("  log: {printed} bytes");
    assert!(printed < 16 << 10, "{printed}");
    watch.finish();
    host.gives_back();
}

/// COUNT: opens connections and sends bytes that are not the protocol.
fn nonsense(arguments: &[String]) {
    for _ in 0..arguments[0].parse().unwrap() {
        let mut stream = UnixStream::connect(ALLOCATIONS).unwrap();
        stream.write_all(&[0xFF; 128]).unwrap();
    }
    println!("ready");
}
