//! Two users and root on one Unix socket, where the kernel identifies them. Needs root: `cargo xtask ci` runs it in its stage `root`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use ttmon_ledger::layout::{Refused, WriterKind, kind};
use ttmon_ledger::writer::{AllocatorSpec, Buffer, Chip, ClockChoice, Config, Failure, Frame, Key, KindGeometry, Writer};

use crate::host::server::{Server, TOKEN};

const ONE: u32 = 65_534;
const OTHER: u32 = 64_321;

struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a tracked program of a user with one buffer of this size.
fn program(directory: &Path, uid: u32, bytes: u64) -> Program {
    let mut command = Command::new(directory.join("program"));
    command.args(["--exact", "host::users::a_program_of_a_user", "--nocapture"]).uid(uid).gid(uid);
    command.env("BYTES", bytes.to_string()).env("TTMON_TRACKING", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("a program");
    let said = BufReader::new(child.stdout.take().expect("its output"));
    assert!(said.lines().map_while(Result::ok).any(|line| line.contains("reported")));
    Program(child)
}

/// Returns the source file of the program with a buffer of this size.
fn file_of(bytes: u64) -> String {
    format!("of-{bytes}.py")
}

/// Not a test. The code of a child process.
#[test]
fn a_program_of_a_user() {
    let Some(bytes) = std::env::var("BYTES").ok().and_then(|bytes| bytes.parse().ok()) else { return };
    let config = Config { kind: WriterKind::Hook, version: "test", clock: ClockChoice::Auto, machine: 0, on_created: None };
    let writer = Writer::beside_others(config, 1024);
    let mut session = writer.session().expect("a session");
    let chips = [Chip { metal_id: 0, unique_id: 0, flags: 0 }];
    let spec = AllocatorSpec { given_id: 0, origin: 2, mesh: (1, 1), kinds: [KindGeometry::default(); 6], chips: &chips };
    let allocator = session.open_allocator(&spec).expect("room");
    let code = session.code(&format!("/me/{}", file_of(bytes)), "forward", 1).expect("room");
    let stack = session.add_stack(1, &[Frame { code, line: 42 }], false);
    session
        .insert(Key { allocator, kind: kind::DRAM, address: 0x1000 }, &Buffer { size: bytes, stack, ..Buffer::default() })
        .expect("room");
    let refused = Failure {
        what: Refused::OutOfMemory,
        allocator,
        kind: kind::DRAM,
        size: 1 << 40,
        per_bank: 1 << 36,
        banks: 12,
        free_per_bank: 1,
        largest_free_per_bank: 1,
        tag: 0,
        operation: 0,
        stack,
        message: "Out of Memory",
    };
    session.failed(&refused);
    drop(session);
    println!("\nreported");
    let _ = std::io::stdin().lines().next();
}

/// Requests a path of the API as a user, and returns the answer.
fn ask(server: &Server, directory: &Path, uid: u32, path: &str) -> String {
    let mut command = Command::new(directory.join("program"));
    command.args(["--exact", "host::users::asker_process", "--nocapture"]).uid(uid).gid(uid);
    let output = command.env("ASK", path).env("API", &server.api).output().expect("the asking process");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{text}")).to_owned()
}

/// Not a test. The code of a child process.
#[test]
fn asker_process() {
    use std::io::{Read, Write};
    let (Some(path), Some(api)) = (std::env::var("ASK").ok(), std::env::var_os("API")) else { return };
    let mut stream = std::os::unix::net::UnixStream::connect(api).expect("a connection");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n").expect("a question");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    println!("\n{}", answer.split_once("\r\n\r\n").expect("a body").1);
}

/// Copies of the programs that other users can start, because the build directory may be closed to them.
fn places() -> TempDir {
    let places = tempfile::tempdir_in("/dev/shm").expect("a directory");
    fs::set_permissions(places.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::copy(std::env::current_exe().expect("a path"), places.path().join("program")).expect("a copy");
    fs::copy(env!("CARGO_BIN_EXE_ttmon"), places.path().join("ttmon")).expect("a copy");
    places
}

/// Whether a text contains the source file of each of the two programs.
fn names_files(text: &str) -> [bool; 2] {
    [1000, 2000].map(|bytes| text.contains(&file_of(bytes)))
}

/// Without a service, source lines have the same access rule as buffers.
#[test]
#[ignore = "needs root"]
fn lines_of_own_processes_alone() {
    let places = places();
    let programs = [program(places.path(), ONE, 1000), program(places.path(), OTHER, 2000)];
    for (uid, sees) in [(ONE, [true, false]), (OTHER, [false, true]), (0, [true, true])] {
        let run = |arguments: &[&str]| {
            let mut command = Command::new(places.path().join("ttmon"));
            let output = command.args(arguments).args(["--no-server"]).uid(uid).gid(uid).env_remove("TTMON_SIM").output().expect("ttmon");
            let [text, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            (text, errors, output.status.code())
        };
        for arguments in
            [&["mem", "--by", "line"][..], &["mem", "--by", "line", "--json"], &["mem", "--buffers"], &["mem", "--json", "--buffers"]]
        {
            assert_eq!(names_files(&run(arguments).0), sees, "{uid} {arguments:?}");
        }
        for (program, sees) in programs.iter().zip(sees) {
            let pid = program.0.id().to_string();
            let of_process = [
                &["mem", "--by", "line", "--pid", &pid][..],
                &["events", "--pid", &pid],
                &["events", "--json", "--pid", &pid],
                &["oom", &pid],
                &["oom", &pid, "--json"],
                &["export", "--to", "chrome", &pid, "-o", "-"],
                &["export", "--to", "memory-viz", &pid, "-o", "-"],
            ];
            for arguments in of_process {
                let (text, errors, code) = run(arguments);
                assert_eq!((names_files(&text).contains(&true), code == Some(0)), (sees, sees), "{uid} {arguments:?} {errors}");
                assert_eq!(names_files(&errors), [false, false], "{uid} {arguments:?}");
            }
        }
    }
}

/// Paths of documents with buffers and their source lines.
const PATHS: [&str; 3] = ["/api/v1/memory?buffers=true", "/api/v1/memory/events?limit=100000", "/api/v1/buffers"];

#[test]
#[ignore = "needs root"]
fn own_in_full_and_others_in_totals() {
    let places = places();
    let (one, other) = (program(places.path(), ONE, 1000), program(places.path(), OTHER, 2000));
    let place = |name: &str| places.path().join(name).to_str().expect("text").to_owned();
    let (handover, socket, state) = (place("handover.sock"), place("alloc.sock"), place("state"));
    let server = Server::of(&[], &["--handover", &handover, "--socket", &socket, "--state-dir", &state, "--interval", "0.2"]);
    fs::set_permissions(server.api.parent().expect("a directory"), fs::Permissions::from_mode(0o755)).expect("a mode");
    let pids = [u64::from(one.0.id()), u64::from(other.0.id())];
    let knows = |pid: u64| {
        let document = server.unix("/api/v1/snapshot").json();
        document["processes"]
            .as_array()
            .is_some_and(|processes| processes.iter().any(|process| process["pid"] == pid && process["status"] == "tracked"))
    };
    server.until("known", || pids.iter().all(|pid| knows(*pid)));
    for (uid, sees) in [(ONE, [true, false]), (OTHER, [false, true]), (0, [true, true])] {
        let [memory, events, buffers] = PATHS.map(|path| {
            let text = ask(&server, places.path(), uid, path);
            assert_eq!(names_files(&text), sees, "{uid} {path}");
            serde_json::from_str::<Value>(&text).expect("a document")
        });
        let has = |document: &Value, list: &str, pid: u64| document[list].as_array().expect(list).iter().any(|item| item["pid"] == pid);
        for (index, pid) in pids.into_iter().enumerate() {
            let process =
                memory["processes"].as_array().expect("processes").iter().find(|process| process["pid"] == pid).expect("everybody's");
            // All users may read totals and names.
            assert_eq!(process["kinds"]["dram"]["used"], [1000, 2000][index], "{uid} {process}");
            assert!(process["name"].is_string() && process["uid"] == [ONE, OTHER][index], "{uid} {process}");
            assert_eq!(process["command"].is_string(), sees[index], "{uid} {process}");
            assert_eq!(process["missing"]["command"] == "no_permission", !sees[index], "{uid} {process}");
            for (document, list) in [(&memory, "allocators"), (&memory, "buffers"), (&events, "events"), (&buffers, "buffers")] {
                assert_eq!(has(document, list, pid), sees[index], "{uid} {list} of {pid}");
            }
        }
    }
    // Over HTTP the user is unknown, so only the token gives access to lines. Events are a stream unless JSON is requested.
    const JSON: &str = "Accept: application/json\r\n";
    for path in PATHS.into_iter().chain(["/api/v1/snapshot", "/api/v1/processes", "/metrics"]) {
        assert_eq!(names_files(&server.with(path, JSON).body), [false, false], "{path}");
    }
    for path in PATHS {
        let answer = server.with(path, &format!("{JSON}Authorization: Bearer {TOKEN}\r\n"));
        assert_eq!(names_files(&answer.body), [true, true], "{path}");
    }
}
