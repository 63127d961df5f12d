//! Tests that need root. `cargo xtask ci` runs them in its stage `root`; plain `cargo test` skips them with a message.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ttmon_allocation_server::protocol::Request;
use ttmon_testing::copied;

use crate::TTMON;
use crate::serve::server::{DRAM, Other, Server, alloc, free, other_command_of};

/// An abandoned socket in a sticky directory that the user of the server may not remove.
#[test]
#[ignore = "needs root"]
fn the_owner_of_an_abandoned_socket_is_reported() {
    let directory = tempfile::Builder::new().prefix("ttmon-test-").tempdir_in("/dev/shm").unwrap();
    let program = copied(Path::new(TTMON), directory.path());
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let socket = directory.path().join("a.sock");
    drop(UnixListener::bind(&socket).unwrap());
    std::os::unix::fs::chown(&socket, Some(4711), None).unwrap();
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    let mut command = Command::new(program);
    command.args(["serve", "--listen", "off", "--socket"]).arg(&socket).arg("--state-dir").arg(directory.path().join("state"));
    command.arg("--api").arg(directory.path().join("api.sock")).arg("--handover").arg(directory.path().join("handover.sock"));
    let output = command.uid(65_534).gid(65_534).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("an abandoned socket of user 4711, which this user may not remove"), "{message}");
    assert!(socket.exists());
}

/// A small tmpfs that is unmounted when this is dropped.
struct SmallTmpfs(PathBuf);

impl SmallTmpfs {
    fn mount(at: &Path) -> Self {
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m,mode=755", "none"]).arg(at).status().unwrap();
        assert!(status.success());
        Self(at.to_owned())
    }

    fn grow(&self) {
        assert!(Command::new("mount").args(["-o", "remount,size=64m"]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for SmallTmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// With a full state directory, entries that do not fit are refused, counted and reported. Accepted entries are exact and can be freed.
/// When there is room again, new entries are accepted.
#[test]
#[ignore = "needs root"]
fn a_full_state_directory_refuses_only_new_entries() {
    const MANY: u64 = 100_000;
    let mut server = Server::with(&["--log", "json"]);
    server.kill();
    let small = SmallTmpfs::mount(&server.state());
    server.start_again();
    let mut client = server.connect();
    let all: Vec<Request> = (0..MANY).map(|id| alloc(0, id, 1, DRAM)).collect();
    for chunk in all.chunks(1000) {
        client.send(chunk);
    }
    let taken = client.usage(0).dram;
    let counters = server.counters();
    assert!(taken > 0 && taken < MANY, "{taken}");
    let refused = counters["counters"]["memory_refused"].as_u64().unwrap();
    assert_eq!((counters["counters"]["allocations"].as_u64(), taken + refused), (Some(taken), MANY), "{counters}");
    server.prints("is full - ignoring message");
    // Another process cannot add any entry, and gets a message with a remedy.
    let mut other = Other::connect(&server);
    other.prints(&[alloc(0, 1, 1, DRAM)]);
    server.prints("make room there");
    // A server that is killed and started again on the full directory has all entries.
    server.kill();
    server.start_again();
    let mut client = server.connect();
    assert_eq!(client.usage(0).dram, taken);
    let frees: Vec<Request> = (0..MANY).map(|id| free(0, id)).collect();
    for chunk in frees.chunks(1000) {
        client.send(chunk);
    }
    assert_eq!(client.usage(0).dram, 0, "frees need no room");
    client.send(&[alloc(0, 1, 7, DRAM)]);
    assert_eq!(client.usage(0).dram, 7, "and give it back");
    client.send(&[free(0, 1)]);
    small.grow();
    other.order("again");
    server.until("it goes on", || {
        other.prints(&[alloc(0, 1, 5, DRAM)]);
        server.usage(0).dram == 5
    });
}

/// A dump over the socket has only totals of other users' buffers, without addresses. It has all of the user's own buffers, and root sees
/// all.
#[test]
#[ignore = "needs root"]
fn dumps_over_the_socket_obey_the_access_rules() {
    let server = Server::with(&["-q"]);
    let program = copied(&std::env::current_exe().unwrap(), server.directory.path());
    let mut own = Other::connect(&server);
    own.prints(&[alloc(0, 0xABC0, 1024, DRAM)]);
    let mut stranger = Other::from(other_command_of(&server, &program, 65_534));
    stranger.prints(&[alloc(0, 0xDEF0, 2048, DRAM)]);
    let seen = stranger.order("dump");
    assert!(seen.contains("  DRAM: 2 buffers, 0.00292969 MB total|    - Buffer 0xdef0: 2 KB"), "{seen}");
    assert!(seen.contains("|    - 1 of other users: 1 KB|") && !seen.contains("0xabc0"), "{seen}");
    let whole = own.order("dump");
    assert!(whole.contains("0xabc0") && whole.contains("0xdef0"), "{whole}");
    // The output of the service itself has all buffers, because only the operator reads it.
    stranger.prints(&[Request::new(ttmon_allocation_server::protocol::Type::DumpRemaining)]);
    server.prints("Buffer 0xabc0: 1 KB");
}
