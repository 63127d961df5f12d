//! Two users and root on one Unix socket, where the kernel identifies them. Needs root: `cargo xtask ci` runs it in its stage `root`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use ttmon_ledger::layout::{Refused, WriterKind, kind};
use ttmon_ledger::writer::{AllocatorSpec, Buffer, Chip, ClockChoice, Config, Failure, Frame, Key, KindGeometry, Writer};
use ttmon_testing::{KilledOnDrop, Service, TOKEN, copied};

use crate::{TTMON, start_service};

const ONE: u32 = 65_534;
const OTHER: u32 = 64_321;

/// Copies of the programs that other users can start, because the build directory may be closed to them.
struct Programs {
    own: PathBuf,
    ttmon: PathBuf,
    _directory: TempDir,
}

impl Programs {
    fn copy() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        let own = copied(&std::env::current_exe().expect("a path"), directory.path());
        Self { own, ttmon: copied(Path::new(TTMON), directory.path()), _directory: directory }
    }

    /// Starts a tracked program of a user with one buffer of this size.
    fn start(&self, uid: u32, bytes: u64) -> KilledOnDrop {
        let mut command = Command::new(&self.own);
        command.args(["--exact", "host::users::a_program_of_a_user", "--nocapture"]).uid(uid).gid(uid);
        command.env("BYTES", bytes.to_string()).env("TTMON_TRACKING", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a program");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        assert!(output.lines().map_while(Result::ok).any(|line| line.contains("reported")));
        KilledOnDrop(child)
    }

    /// Requests a path of the API as a user, and returns the answer.
    fn request(&self, service: &Service, uid: u32, path: &str) -> String {
        let mut command = Command::new(&self.own);
        command.args(["--exact", "host::users::a_client_of_a_user", "--nocapture"]).uid(uid).gid(uid);
        let output = command.env("REQUEST", path).env("API", &service.api).output().expect("the client");
        let text = String::from_utf8(output.stdout).expect("text");
        text.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{text}")).to_owned()
    }
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

/// Not a test. The code of a child process.
#[test]
fn a_client_of_a_user() {
    use std::io::{Read, Write};
    let (Some(path), Some(api)) = (std::env::var("REQUEST").ok(), std::env::var_os("API")) else { return };
    let mut stream = std::os::unix::net::UnixStream::connect(api).expect("a connection");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n\r\n").expect("a question");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    println!("\n{}", answer.split_once("\r\n\r\n").expect("a body").1);
}

/// Whether a text contains the source file of each of the two programs.
fn names_files(text: &str) -> [bool; 2] {
    [1000, 2000].map(|bytes| text.contains(&file_of(bytes)))
}

/// Without a service, source lines have the same access rule as buffers.
#[test]
#[ignore = "needs root"]
fn lines_of_own_processes_alone() {
    let programs = Programs::copy();
    let running = [programs.start(ONE, 1000), programs.start(OTHER, 2000)];
    for (uid, sees) in [(ONE, [true, false]), (OTHER, [false, true]), (0, [true, true])] {
        let run = |arguments: &[&str]| {
            let mut command = ttmon_testing::command(&programs.ttmon, arguments);
            let output = command.arg("--no-server").uid(uid).gid(uid).output().expect("ttmon");
            let [text, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            (text, errors, output.status.code())
        };
        for arguments in
            [&["mem", "--by", "line"][..], &["mem", "--by", "line", "--json"], &["mem", "--buffers"], &["mem", "--json", "--buffers"]]
        {
            assert_eq!(names_files(&run(arguments).0), sees, "{uid} {arguments:?}");
        }
        for (program, sees) in running.iter().zip(sees) {
            let pid = program.id().to_string();
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
    let programs = Programs::copy();
    let (one, other) = (programs.start(ONE, 1000), programs.start(OTHER, 2000));
    let service = start_service(&["--interval", "0.2"]);
    let pids = [one.id(), other.id()].map(u64::from);
    let knows = |pid: u64| {
        let document = service.unix("/api/v1/snapshot").json();
        document["processes"]
            .as_array()
            .is_some_and(|processes| processes.iter().any(|process| process["pid"] == pid && process["status"] == "tracked"))
    };
    service.until("known", || pids.iter().all(|pid| knows(*pid)));
    for (uid, sees) in [(ONE, [true, false]), (OTHER, [false, true]), (0, [true, true])] {
        let [memory, events, buffers] = PATHS.map(|path| {
            let text = programs.request(&service, uid, path);
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
        assert_eq!(names_files(&service.with(path, JSON).body), [false, false], "{path}");
    }
    for path in PATHS {
        let answer = service.with(path, &format!("{JSON}Authorization: Bearer {TOKEN}\r\n"));
        assert_eq!(names_files(&answer.body), [true, true], "{path}");
    }
}
