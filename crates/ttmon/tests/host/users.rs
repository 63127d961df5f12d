//! Two users and root on one Unix socket, where the kernel identifies them. Needs root: `cargo xtask ci` runs it in its stage `root`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::server::Server;

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
    command.args(["--exact", "users::a_program_of_a_user", "--nocapture"]).uid(uid).gid(uid);
    command.env("BYTES", bytes.to_string()).env("TTMON_TRACKING", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("a program");
    let said = BufReader::new(child.stdout.take().expect("its output"));
    assert!(said.lines().map_while(Result::ok).any(|line| line.contains("reported")));
    Program(child)
}

/// Not a test. The code of a child process.
#[test]
fn a_program_of_a_user() {
    let Some(bytes) = std::env::var("BYTES").ok().and_then(|bytes| bytes.parse().ok()) else { return };
    let _ = ttmon_client::report_allocation(0, bytes, 0, 0x1000);
    println!("\nreported");
    let _ = std::io::stdin().lines().next();
}

/// Requests a path of the API as a user.
fn ask(server: &Server, directory: &Path, uid: u32, path: &str) -> Value {
    let mut command = Command::new(directory.join("program"));
    command.args(["--exact", "users::asker_process", "--nocapture"]).uid(uid).gid(uid);
    let output = command.env("ASK", path).env("API", &server.api).output().expect("the asking process");
    let text = String::from_utf8(output.stdout).expect("text");
    let line = text.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{text}"));
    serde_json::from_str(line).expect("a document")
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

#[test]
#[ignore = "needs root"]
fn own_in_full_and_others_in_totals() {
    let places = tempfile::tempdir_in("/dev/shm").expect("a directory");
    fs::set_permissions(places.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    // The build directory may be closed to other users.
    fs::copy(std::env::current_exe().expect("a path"), places.path().join("program")).expect("a copy");
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
        let memory = ask(&server, places.path(), uid, "/api/v1/memory?buffers=true");
        let events = ask(&server, places.path(), uid, "/api/v1/memory/events?limit=100000");
        let buffers = ask(&server, places.path(), uid, "/api/v1/buffers");
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
}
