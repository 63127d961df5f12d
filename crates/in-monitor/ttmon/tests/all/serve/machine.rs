//! Values of the machine, which are the same for all clients.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::serve::server::{DRAM, Server, alloc, me};

/// Only worker cores count. Figures that do not fit the message are answered as the largest value.
#[test]
fn the_capacities_of_devices_are_answered() {
    let server = Server::with(&["--sim", "n300,idle"]);
    server.prints("Device 0: Wormhole_B0 (12GB DRAM, 91MB L1) [Local]");
    server.prints("Device 1: Wormhole_B0 (12GB DRAM, 91MB L1) [Remote]");
    server.prints("   Total: 2 device(s) detected");
    let mut client = server.connect();
    assert_eq!((client.info(-1).devices, client.info(-1).is_available), (2, true));
    let info = client.info(0);
    assert_eq!((info.arch, info.dram_bytes, info.dram_channels, info.dram_channel_bytes), (2, 12 << 30, 12, 1 << 30));
    assert_eq!((info.l1_bytes, info.l1_bytes_per_core, info.is_available), (64 * 1_499_136, 1_499_136, true));
    assert!(!client.info(7).is_available);
    let server = Server::with(&["--sim", "p150,idle"]);
    let info = server.connect().info(0);
    assert_eq!((info.arch, info.dram_bytes, info.dram_channels, info.dram_channel_bytes), (3, 8 * 4_278_190_080, 8, 4_278_190_080));
}

/// Device numbers are those that a process sees with TT_VISIBLE_DEVICES.
#[test]
fn devices_are_metal_ids() {
    let server = Server::with(&["--sim", "n150x3,idle"]);
    let mut command = crate::serve::server::other_command(&server);
    command.env("TT_VISIBLE_DEVICES", "2");
    let mut other = crate::serve::server::Other::from(command);
    other.prints(&[alloc(0, 1, 4096, DRAM)]);
    let mut client = server.connect();
    assert_eq!((client.usage(0).dram, client.usage(2).dram), (0, 4096), "its device 0 is the machine's 2");
}

/// A program on TT-Metal's mock or simulated chips uses no chip of this machine, in any report or query.
#[test]
fn mock_chips_are_none_of_the_machine_s() {
    let server = Server::with(&["--sim", "n150,idle"]);
    let mut command = crate::serve::server::other_command(&server);
    command.env("TT_METAL_SIMULATOR", "/somewhere");
    let mut mock = crate::serve::server::Other::from(command);
    mock.prints(&[alloc(0, 1, 4096, DRAM)]);
    let mut client = server.connect();
    client.send(&[alloc(0, 1, 100, DRAM)]);
    assert_eq!(client.usage(0).dram, 100);
    assert_eq!(mock.order("usage 0"), "4096");
}

/// Only programs provide the number of a remote chip. The number stays known after the program ends.
#[test]
fn remote_chips_have_the_numbers_that_ledgers_prove() {
    let server = Server::with(&["--sim", "t3k,procs=1", "--log", "json"]);
    let mut client = server.connect();
    server.until("all chips are in use", || (0..8).all(|number| client.usage(number).dram > 0));
    assert!((0..8).all(|number| client.info(number).dram_bytes == 12 << 30), "{:?}", client.info(7));
    let program = || {
        server.output().lines().find_map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).ok()?;
            event["pid"].as_i64().filter(|_| event["op"] == "alloc")
        })
    };
    server.until("it has an event", || program().is_some());
    let pid = rustix::process::Pid::from_raw(i32::try_from(program().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    server.until("its memory is free", || (0..8).all(|number| client.usage(number).dram == 0));
    // A report with this number refers to that chip of the machine.
    client.send(&[alloc(6, 1, 4096, DRAM)]);
    assert_eq!(client.usage(6).dram, 4096);
    assert!(!server.errors().contains("of which nothing is known"), "{}", server.errors());
}

/// No program runs, so the chip with this number is unknown. All chips are alike, and the client gets its own figures.
#[test]
fn a_remote_chip_without_a_number_is_not_answered_as_nothing() {
    let server = Server::with(&["--sim", "t3k,idle"]);
    let mut client = server.connect();
    let info = client.info(6);
    assert_eq!((info.is_available, info.arch, info.dram_bytes), (true, 2, 12 << 30));
    client.send(&[alloc(6, 1, 4096, DRAM)]);
    assert_eq!(client.usage(6).dram, 4096);
    assert!(!client.info(8).is_available);
    server.prints("asks for device 8, of which nothing is known");
}

/// A number refers to a device in the view of its process. In another view the same number is another device.
#[test]
fn numbers_of_different_views_are_not_added() {
    let server = Server::start();
    let mut command = crate::serve::server::other_command(&server);
    command.env("TT_VISIBLE_DEVICES", "1");
    let mut other = crate::serve::server::Other::from(command);
    other.prints(&[alloc(0, 1, 4096, DRAM)]);
    let mut same = crate::serve::server::Other::connect(&server);
    same.prints(&[alloc(0, 1, 10, DRAM)]);
    let mut client = server.connect();
    client.send(&[alloc(0, 1, 100, DRAM)]);
    assert_eq!(client.usage(0).dram, 110);
    assert_eq!(other.order("usage 0"), "4096");
}

#[test]
fn without_devices_it_tracks_anyway() {
    let server = Server::start();
    server.prints("🚀 Allocation Server started");
    server.prints(&format!("   Listening on: {}", server.socket().display()));
    let mut client = server.connect();
    server.prints("   No devices detected\n   Server will track allocations anyway");
    assert_eq!((client.info(-1).devices, client.info(-1).is_available), (0, false));
}

#[test]
fn a_simulated_machine_never_takes_the_default_socket() {
    let output =
        crate::command(&["serve", "--sim", "n150", "--socket", "/tmp/tt_allocation_server.sock", "--listen", "off"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("give another --socket"));
}

/// The service's own figures include entries of its socket, with any state directory.
#[test]
fn the_api_knows_what_the_socket_heard() {
    let server = Server::with(&["--sim", "n300,idle"]);
    let mut client = server.connect();
    client.send(&[alloc(0, 1, 1 << 30, DRAM)]);
    assert_eq!(client.usage(0).dram, 1 << 30);
    let used = || server.json("/api/v1/snapshot")["devices"][0]["memory"]["kinds"]["dram"]["used"].as_u64();
    server.until("the API has it", || used() == Some(1 << 30));
}

/// A process with a ledger also reports the same buffers on the socket. They count once. The answer also has buffers that are only in the
/// ledger.
#[test]
fn a_ledger_of_its_own_is_not_counted_twice() {
    let server = Server::with(&["--here"]);
    let mut program = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "serve::machine::a_tracked_program", "--nocapture"])
        .env("TRACKED", server.socket())
        .env("TTMON_TRACKING", "1")
        .env("TTMON_HANDOVER", server.path("handover.sock"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(program.stderr.take().unwrap());
    assert!(output.lines().map_while(Result::ok).any(|line| line.contains("reported")));
    let device = i32::try_from(program.id()).unwrap();
    server.until("its ledger's figures", || server.usage(device).dram == 1000);
    let json = server.ttmon_json(&["mem", "--json", "--pid", &program.id().to_string()]);
    let process = &json["processes"][0];
    assert_eq!((&process["status"], &process["kinds"]["dram"]["used"]), (&"tracked".into(), &1000.into()), "{process}");
    writeln!(program.stdin.take().unwrap(), "end").unwrap();
    program.wait().unwrap();
    server.until("it ended", || server.usage(device).dram == 0);
    // The service received the ledger and keeps it.
    server.signal(ttmon_testing::Signal::USR1);
    server.prints(&format!("PID {} (", program.id()));
}

/// Not a test. The code of a child process.
#[test]
fn a_tracked_program() {
    let Ok(socket) = std::env::var("TRACKED") else { return };
    // No other program of this machine uses this number.
    let device = me();
    let _ = ttmon_client::report_allocation(device, 1000, 0, 0x1000);
    let mut client = crate::serve::server::Client::new(std::path::Path::new(&socket), ttmon_allocation_server::protocol::Size::B144);
    client.send(&[alloc(device, 0x1000, 1000, DRAM)]).usage(device);
    eprintln!("reported");
    let _ = std::io::stdin().lines().next();
}
