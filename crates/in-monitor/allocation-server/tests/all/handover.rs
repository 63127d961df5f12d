//! Handed-over ledgers, and everything else that can be sent to the same socket.

use std::fs::{self, File};
use std::io::{self, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType};
use ttmon_collect::handover::Receiver;
use ttmon_ledger::layout::WriterKind;
use ttmon_ledger::writer::{ClockChoice, Config, Writer};

static WRITER: Writer =
    Writer::new(Config { kind: WriterKind::Client, version: "test", clock: ClockChoice::Auto, machine: 0, on_created: None });

/// A descriptor of this process's ledger.
fn ledger() -> File {
    drop(WRITER.session().unwrap());
    File::open(format!("/proc/self/fd/{}", WRITER.descriptor().unwrap())).unwrap()
}

fn message() -> [u8; 16] {
    ttmon_ledger::handover::message(std::process::id())
}

fn send(path: &Path, message: &[u8], files: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(files)));
    }
    let address = SocketAddrUnix::new(path).unwrap();
    rustix::net::sendmsg_addr(&socket, &address, &[IoSlice::new(message)], &mut control, SendFlags::DONTWAIT).map(drop)
}

struct Place {
    _directory: tempfile::TempDir,
    path: PathBuf,
    receiver: Receiver,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("handover.sock");
    let receiver = Receiver::bind(&path, 0o600).unwrap();
    Place { _directory: directory, path, receiver }
}

#[test]
fn a_ledger_arrives_with_its_sender() {
    let mut place = place();
    assert!(place.receiver.receive(100).is_empty(), "nothing there is no wait");
    send(&place.path, &message(), &[ledger().as_fd()]).unwrap();
    poll(&mut [PollFd::new(&place.receiver, PollFlags::IN)], None).unwrap();
    let handed = place.receiver.receive(100);
    let [ledger] = handed.as_slice() else { panic!("{handed:?}") };
    assert_eq!(ledger.region.identity().pid, std::process::id());
    assert_eq!(ledger.uid, rustix::process::geteuid().as_raw());
    if let Some(sender) = ledger.sender {
        assert_eq!((sender.pid, sender.uid), (std::process::id(), rustix::process::geteuid().as_raw()));
    }
    assert_eq!(place.receiver.refused(), 0);
}

/// The name that the socket was bound with is public, but no longer reaches it.
#[test]
fn a_hidden_name() {
    let mut place = place();
    let hidden = place.path.with_file_name("hidden");
    place.receiver.hide(&hidden, 0o622).unwrap();
    assert!(send(&place.path, &message(), &[ledger().as_fd()]).is_err());
    send(&hidden, &message(), &[ledger().as_fd()]).unwrap();
    assert_eq!((place.receiver.receive(100).len(), place.receiver.path()), (1, hidden.as_path()));
    assert_eq!(fs::metadata(&hidden).unwrap().permissions().mode() & 0o777, 0o622);
    let too_long = place.path.with_file_name("x".repeat(108));
    assert!(place.receiver.hide(&too_long, 0o622).is_err() && hidden.exists(), "no sender could reach it there");
    drop(place.receiver);
    assert!(!hidden.exists());
}

#[test]
fn no_more_than_asked_for() {
    let mut place = place();
    for _ in 0..5 {
        send(&place.path, &message(), &[ledger().as_fd()]).unwrap();
    }
    assert_eq!((place.receiver.receive(2).len(), place.receiver.receive(9).len()), (2, 3));
}

#[test]
fn files_that_are_no_ledger_are_refused() {
    let memory = File::from(rustix::fs::memfd_create("not-a-ledger", MemfdFlags::CLOEXEC).unwrap());
    (&memory).write_all(&[7; 9000]).unwrap();
    let empty = rustix::fs::memfd_create("empty", MemfdFlags::CLOEXEC).unwrap();
    let (reading, writing) = io::pipe().unwrap();
    let (directory, device) = (File::open("/").unwrap(), File::open("/dev/null").unwrap());
    let source = File::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let ours = ledger();
    let longer = [&message()[..], b"more"].concat();
    let cases: &[(&[u8], &[BorrowedFd<'_>])] = &[
        (&message(), &[]),
        (&message(), &[memory.as_fd()]),
        (&message(), &[empty.as_fd()]),
        (&message(), &[reading.as_fd()]),
        (&message(), &[writing.as_fd()]),
        (&message(), &[directory.as_fd()]),
        (&message(), &[device.as_fd()]),
        (&message(), &[source.as_fd()]),
        (b"", &[ours.as_fd()]),
        (&message()[..15], &[ours.as_fd()]),
        (&longer, &[ours.as_fd()]),
        (b"TTMONXXX12345678", &[ours.as_fd()]),
    ];
    let open_files = || fs::read_dir("/proc/self/fd").unwrap().count();
    let mut place = place();
    for (number, (message, files)) in (1..).zip(cases) {
        send(&place.path, message, files).unwrap();
        while place.receiver.refused() < number {
            let handed = place.receiver.receive(1);
            assert!(handed.is_empty(), "case {number}: {handed:?}");
        }
    }
    // A message with several descriptors: the first is used if it is a ledger, the others are dropped.
    let before = open_files();
    send(&place.path, &message(), &[ours.as_fd(), memory.as_fd(), memory.as_fd()]).unwrap();
    let handed = place.receiver.receive(100);
    assert!(handed.len() <= 1, "{handed:?}");
    drop(handed);
    // Other tests open files too. A leak would show in every iteration.
    for _ in 0..200 {
        send(&place.path, &message(), &[ours.as_fd(), memory.as_fd(), memory.as_fd()]).unwrap();
        place.receiver.receive(100);
    }
    assert!(open_files() < before + 100, "descriptors are left open");
}

/// A copy of the ledger, `longer` bytes longer, with or without seals.
fn copy(longer: u64, seals: Option<SealFlags>) -> File {
    let ours = ledger();
    let copy = File::from(rustix::fs::memfd_create("copy", MemfdFlags::ALLOW_SEALING).unwrap());
    let mut head = [0; 4096];
    std::os::unix::fs::FileExt::read_exact_at(&ours, &mut head, 0).unwrap();
    (&copy).write_all(&head).unwrap();
    copy.set_len(ours.metadata().unwrap().len() + longer).unwrap();
    if let Some(seals) = seals {
        rustix::fs::fcntl_add_seals(&copy, seals).unwrap();
    }
    copy
}

/// A file that could grow, or that is longer than its ledger, is rejected.
#[test]
fn only_sealed_ledgers_of_their_own_length_are_taken() {
    let length = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    let mut place = place();
    let mut takes = |file: File| {
        send(&place.path, &message(), &[file.as_fd()]).unwrap();
        place.receiver.receive(1).len() == 1
    };
    assert!(takes(ledger()) && takes(copy(0, Some(length))));
    assert!(!takes(copy(0, None)), "no seal");
    assert!(!takes(copy(0, Some(SealFlags::SHRINK | SealFlags::GROW))), "another seal may follow");
    assert!(!takes(copy(0, Some(SealFlags::SHRINK | SealFlags::SEAL))), "it may grow");
    assert!(!takes(copy(4096, Some(length))), "longer than it says");
}

#[test]
fn only_an_abandoned_socket_gives_way() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let first = Receiver::bind(&path, 0o622).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o622);
    assert_eq!(Receiver::bind(&path, 0o600).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    // Simulates a kill: the socket exists without a listener.
    let kept = directory.path().join("kept");
    fs::rename(&path, &kept).unwrap();
    drop(first);
    fs::rename(&kept, &path).unwrap();
    let second = Receiver::bind(&path, 0o600).unwrap();
    assert_eq!(second.path(), path);
    drop(second);
    assert!(!path.exists());
    fs::write(&path, "a file of another user").unwrap();
    assert_eq!(Receiver::bind(&path, 0o600).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    assert_eq!(fs::read(&path).unwrap(), b"a file of another user");
    assert!(Receiver::bind(&directory.path().join("x".repeat(200)), 0o600).is_err(), "a path too long for a socket");
}

/// A process that has bound the path since keeps its socket.
#[test]
fn another_ones_socket_is_not_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("s");
    let first = Receiver::bind(&path, 0o600).unwrap();
    fs::remove_file(&path).unwrap();
    let _second = Receiver::bind(&path, 0o600).unwrap();
    drop(first);
    assert!(path.exists());
}
