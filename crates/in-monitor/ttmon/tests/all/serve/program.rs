//! The server as a program: its paths, its limits, its output, its signals.

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use ttmon_allocation_server::protocol::{Request, Size, Type};
use ttmon_testing::{Signal, TIMEOUT};

use crate::command;
use crate::serve::server::{DRAM, L1, Other, Server, alloc, event, free, me};

#[test]
fn a_second_server_names_the_first() {
    let mut server = Server::start();
    let mut command = command(&["serve", "--listen", "off", "--socket"]);
    command.arg(server.socket()).arg("--state-dir").arg(server.path("other")).arg("--api").arg(server.path("api2.sock"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains(&format!("a server listens there already (pid {})", server.pid())), "{message}");
    assert_eq!(server.usage(0).dram, 0, "the first one serves on");
    assert_eq!(server.stop(), Some(0));
    assert!(!server.socket().exists());
}

#[test]
fn a_state_directory_has_one_server() {
    let server = Server::start();
    let mut command = command(&["serve", "--listen", "off", "--socket"]);
    command.arg(server.path("b.sock")).arg("--state-dir").arg(server.state()).arg("--api").arg(server.path("api2.sock"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains(&format!("another server keeps its state there (pid {})", server.pid())), "{message}");
}

/// A state directory on a disk works as in memory, with a warning. Readers find its content.
#[test]
fn a_private_state_directory_on_a_disk_is_used_with_a_warning() {
    let disk =
        tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o755)).tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let state = disk.path().join("state");
    let mut server = Server::with(&["--here", "--state-dir", state.to_str().unwrap()]);
    server.prints("is not on tmpfs");
    let mut client = server.connect();
    // No other program of this machine uses this number.
    let device = me();
    client.send(&[alloc(device, 1, 4096, DRAM)]);
    assert_eq!(client.usage(device).dram, 4096);
    let found = || {
        let mut command = command(&["mem", "--no-server", "--json", "--pid", &me().to_string()]);
        command.env("TTMON_STATE_DIR", &state);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(found().contains("\"used\": 4096") || found().contains("\"used\":4096"), "{}", found());
    server.kill();
    server.start_again();
    server.prints("Took over 1 entries of 1 process from");
    assert_eq!(server.usage(device).dram, 4096);
}

#[test]
fn every_user_may_connect_by_default() {
    let server = Server::start();
    assert_eq!(std::fs::symlink_metadata(server.socket()).unwrap().mode() & 0o777, 0o666);
    let server = Server::with(&["--socket-mode", "0600"]);
    assert_eq!(std::fs::symlink_metadata(server.socket()).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_client_that_leaves_before_its_answer_affects_no_other() {
    let server = Server::start();
    for _ in 0..200 {
        let mut client = server.connect();
        client.send(&[Request::new(Type::Query), Request::new(Type::Query)]);
    }
    assert_eq!(server.usage(0).dram, 0);
}

#[test]
fn only_the_client_that_never_reads_is_closed() {
    let server = Server::with(&["--log", "json"]);
    let mut good = server.connect();
    good.send(&[alloc(0, 1, 5, DRAM)]);
    let mut bad = server.connect();
    let questions: Vec<u8> = (0..1000).flat_map(|_| Request::new(Type::Query).encode(Size::B144).as_bytes().to_vec()).collect();
    // Write until the server stops reading.
    while bad.stream.write_all(&questions).is_ok() {}
    assert_eq!(good.usage(0).dram, 5);
    server.until("it is counted", || server.counters()["counters"]["peers_dropped"] == 1);
}

#[test]
fn new_clients_are_refused_until_descriptors_are_free() {
    let mut server = Server::start();
    server.kill();
    // A hard limit, so that the server cannot raise it.
    let inner = &server.command;
    let mut command = Command::new("sh");
    command.arg("-c").arg("ulimit -n 128; exec \"$0\" \"$@\"").arg(inner.get_program()).args(inner.get_args());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    server.until("it listens", || UnixStream::connect(server.socket()).is_ok());
    let mut kept = server.connect();
    kept.send(&[alloc(0, 1, 5, DRAM)]);
    assert_eq!(kept.usage(0).dram, 5);
    let connections: Vec<UnixStream> = (0..300).map_while(|_| UnixStream::connect(server.socket()).ok()).collect();
    assert_eq!(kept.usage(0).dram, 5, "who was there is served");
    let shed = connections.iter().rev().take(1).all(|stream| {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        matches!((&*stream).read(&mut [0; 1]), Ok(0) | Err(_))
    });
    assert!(shed, "the last of {} is rejected", connections.len());
    drop(connections);
    server.until("it recovers", || {
        let mut stream = UnixStream::connect(server.socket()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(Request::new(Type::Query).encode(Size::B144).as_bytes()).is_ok() && stream.read_exact(&mut [0; 144]).is_ok()
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Every accepted client is tracked. Without a descriptor for its process a client is rejected, and counted once.
#[test]
fn every_client_is_tracked_or_refused_at_the_limit_of_descriptors() {
    let server = Server::with(&["--log", "json"]);
    let mut first = server.connect();
    first.send(&[alloc(0, 1, 1, DRAM)]);
    assert_eq!(first.usage(0).dram, 1);
    let pid = rustix::process::Pid::from_raw(i32::try_from(server.pid()).unwrap());
    let limit = rustix::process::Rlimit { current: Some(64), maximum: Some(64) };
    rustix::process::prlimit(pid, rustix::process::Resource::Nofile, limit).unwrap();
    let mut answered = vec![first];
    let mut refused = 0;
    for id in 2..=100 {
        let mut client = server.connect();
        let requests = [alloc(0, id, 1, DRAM), Request::new(Type::Query)];
        let bytes: Vec<u8> = requests.iter().flat_map(|request| request.encode(Size::B144).as_bytes().to_vec()).collect();
        if client.stream.write_all(&bytes).is_ok() && client.stream.read_exact(&mut [0; 144]).is_ok() {
            answered.push(client);
        } else {
            refused += 1;
        }
    }
    assert!(refused > 0 && answered.len() > 1, "{refused} refused, {} answered", answered.len());
    assert_eq!(answered[0].usage(0).dram, answered.len() as u64);
    let counters = server.counters();
    assert_eq!(counters["counters"]["connections_refused"], refused, "{counters}");
}

/// No process reads the server's output, so the pipe is full after 64 KiB.
#[test]
fn a_full_pipe_on_stdout_stops_nothing() {
    let mut server = Server::start();
    server.kill();
    let mut child = server.command.spawn().unwrap();
    server.until("it listens", || UnixStream::connect(server.socket()).is_ok());
    assert_eq!(server.usage(0).dram, 0);
    let mut client = server.connect();
    for round in 0..50 {
        let many: Vec<Request> = (0..1000).flat_map(|id| [alloc(0, round << 32 | id, 1, DRAM), free(0, round << 32 | id)]).collect();
        client.send(&many);
    }
    assert_eq!(client.usage(0).dram, 0);
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "and it ends on request");
}

#[test]
fn signals_under_load_lose_nothing() {
    let mut server = Server::with(&["--log", "json"]);
    let mut client = server.connect();
    for round in 0..100 {
        let many: Vec<Request> = (0..100).map(|id| alloc(0, round << 32 | id, 1, DRAM)).collect();
        client.send(&many);
        server.signal(Signal::USR1);
    }
    assert_eq!(client.usage(0).dram, 10_000);
    assert_eq!(server.counters()["entries"], 10_000);
    assert_eq!(server.stop(), Some(0));
    server.prints("Allocation Server stopped");
}

#[test]
fn statistics_are_sums_over_all_processes() {
    let server = Server::with(&["-q"]);
    let mut other = Other::connect(&server);
    other.prints(&[alloc(0, 1, 1024, DRAM), event(Type::CbAlloc, 1, 7, 2048, 0)]);
    server.connect().send(&[alloc(0, 1, 512, DRAM), alloc(0, 2, 64, L1)]).usage(0);
    server.signal(Signal::USR1);
    server.prints(
        "📊 Current Statistics:\n  Device 0:\n    Buffers: 3\n    DRAM: 1536 bytes (1.5 KB)\n    L1: 64 bytes (0.0625 KB)\n    \
         Total: 1600 bytes\n  Device 1:\n    Buffers: 0\n    DRAM: 0 bytes (0 KB)\n    L1: 0 bytes (0 KB)\n    CB: 2048 bytes (2 KB)\n    \
         Total: 0 bytes\n  Active allocations: 4\n  Processes: 2, ",
    );
}

#[test]
fn quiet_keeps_dumps_and_warnings() {
    let server = Server::with(&["-q"]);
    let mut client = server.connect();
    client.send(&[alloc(0, 1, 5, DRAM), alloc(-1, 1, 1, DRAM), Request::new(Type::DumpRemaining)]).usage(0);
    server.prints("📋 DUMP_REMAINING complete.");
    server.prints("⚠️  Invalid device_id -1 - ignoring message");
    assert!(!server.output().contains("Allocated 5 bytes"), "{}", server.output());
}

#[test]
fn requested_dumps_are_printed() {
    let server = Server::with(&["-q"]);
    let mut client = server.connect_in(Size::B72);
    client.send(&[Request::new(Type::DumpRemaining)]);
    server.prints("✓ No buffers remaining - perfect cleanup!");
    let mut client = server.connect();
    client.send(&[
        alloc(1, 0x20, 1 << 20, DRAM),
        alloc(0, 0x10, 1536, DRAM),
        Request::new(Type::DumpRemaining),
        Request::new(Type::DumpKernels),
    ]);
    client.usage(0);
    server.prints("📋 DUMP_KERNELS complete.");
    let pid = me();
    let box_of = |title: &str| format!("╔{0}╗\n║           {title}                       ║\n╚{0}╝\n", "═".repeat(62));
    let expected = format!(
        "📋 Received DUMP_REMAINING request...\n\n{}Total tracked allocations: 2\n\nDevice 0:\n  DRAM: 1 buffers, 0.00146484 MB total\n    \
         - Buffer 0x10: 1.5 KB (PID {pid}, ref_count=1)\n\nDevice 1:\n  DRAM: 1 buffers, 1 MB total\n    - Buffer 0x20: 1024 KB (PID {pid}, \
         ref_count=1)\n\nTotal remaining buffers: 2\n\n📋 DUMP_REMAINING complete.\n\n{}Total kernel allocations: 0\n\n📋 DUMP_KERNELS complete.\n",
        box_of("REMAINING ALLOCATED BUFFERS"),
        box_of("DETAILED KERNEL ALLOCATIONS")
    );
    assert!(server.output().contains(&expected), "{}", server.output());
}

/// Any number of requests for a dump on stdout during a dump cause only one more dump. A client that requests a dump for itself does not
/// wait longer.
#[test]
fn a_flood_of_dump_requests_causes_a_few_dumps() {
    let server = Server::with(&["-q"]);
    let mut client = server.connect();
    let many: Vec<Request> = (0..1000).map(|id| alloc(0, id, 1, DRAM)).collect();
    client.send(&many).usage(0);
    for _ in 0..20 {
        client.send(&vec![Request::new(Type::DumpRemaining); 1000]);
    }
    client.usage(0);
    let mut asker = UnixStream::connect(server.socket()).unwrap();
    asker.write_all(b"\n").unwrap();
    asker.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    asker.read_to_string(&mut text).unwrap();
    assert!(text.contains("Total tracked allocations: 1000"), "{text}");
    server.prints("📋 DUMP_REMAINING complete.");
    let dumps = server.output().matches("DUMP_REMAINING complete").count();
    assert!(dumps < 1000, "{dumps}");
}

/// The state directory is removed, but live entries are still known.
#[test]
fn a_dump_needs_no_state_directory() {
    let server = Server::with(&["-q"]);
    let mut client = server.connect();
    client.send(&[alloc(0, 1, 1, DRAM)]).usage(0);
    std::fs::remove_dir_all(server.state()).unwrap();
    client.send(&[Request::new(Type::DumpRemaining)]);
    server.prints("Total remaining buffers: 1");
}

#[test]
fn the_end_of_a_process_is_reported_at_once() {
    let server = Server::start();
    server.prints("Ends of processes are noticed at once");
    let mut other = Other::connect(&server);
    other.prints(&[alloc(0, 1, 1 << 20, DRAM)]);
    let pid = other.pid();
    other.kill();
    server.prints(&format!(
        "\n⚠️  Detected dead processes, cleaning up orphaned buffers...\n   PID {pid} is dead, removing its buffers...\n   ✓ Removed 1 buffers (1 \
         MB) from PID {pid}\n\n"
    ));
}

#[test]
fn a_process_has_as_many_devices_as_a_ledger_lists() {
    let server = Server::with(&["--log", "json"]);
    let mut client = server.connect();
    let many: Vec<Request> = (0..300).map(|device| alloc(device, 1, 1, DRAM)).collect();
    client.send(&many).usage(0);
    assert_eq!((client.usage(255).dram, client.usage(256).dram), (1, 0));
    assert_eq!(server.counters()["counters"]["entries_refused"], 44);
}

/// Runs shell commands before the shell executes the server.
fn started_by(server: &Server, words: &str) -> std::process::Child {
    let inner = &server.command;
    // Resets the signals that the caller of the tests ignores.
    let mut command = Command::new("env");
    command
        .args(["--default-signal=HUP", "sh", "-c"])
        .arg(format!("{words}; exec \"$0\" \"$@\""))
        .arg(inner.get_program())
        .args(inner.get_args());
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    server.until("it listens", || UnixStream::connect(server.socket()).is_ok());
    child
}

#[test]
fn signals_ignored_by_nohup_stay_ignored() {
    let mut server = Server::start();
    server.kill();
    let mut child = started_by(&server, "trap '' HUP");
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
    assert_eq!(server.usage(0).dram, 0);
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut child = started_by(&server, "true");
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "without nohup it ends with its terminal");
}

#[test]
fn directories_are_readable_with_any_umask() {
    let mut server = Server::start();
    server.kill();
    std::fs::remove_dir_all(server.state()).unwrap();
    let mut child = started_by(&server, "umask 077");
    assert_eq!(std::fs::metadata(server.state()).unwrap().mode() & 0o777, 0o755);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Closing a received descriptor may take as long as its sender wants, so none is received.
#[test]
fn descriptors_are_not_received() {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    use std::os::fd::AsFd;
    let server = Server::start();
    let mut client = server.connect();
    let (mut kept, sent) = UnixStream::pair().unwrap();
    let descriptors = [sent.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
    let message = alloc(0, 1, 64, DRAM).encode(Size::B144);
    // Either the kernel or the server refuses the descriptor.
    if sendmsg(&client.stream, &[std::io::IoSlice::new(message.as_bytes())], &mut control, SendFlags::empty()).is_ok() {
        assert!(client.is_closed());
    }
    drop(sent);
    assert_eq!(kept.read(&mut [0]).unwrap(), 0, "it is nowhere any more");
    assert_eq!(server.usage(0).dram, 0);
}

#[test]
fn readiness_is_notified_when_the_sockets_exist() {
    let server = Server::start();
    let notify = server.path("notify.sock");
    let listener = std::os::unix::net::UnixDatagram::bind(&notify).unwrap();
    listener.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut command = command(&["serve", "--listen", "off", "--socket"]);
    command.arg(server.path("c.sock")).arg("--state-dir").arg(server.path("c")).arg("--api").arg(server.path("api3.sock"));
    let mut child = command.env("NOTIFY_SOCKET", &notify).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut text = [0; 64];
    let length = listener.recv(&mut text).unwrap();
    assert_eq!(&text[..length], b"READY=1");
    assert!(UnixStream::connect(server.path("c.sock")).is_ok());
    child.kill().unwrap();
    child.wait().unwrap();
}
