//! The server is started by the first connection to its socket, and answers a common tool.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use ttmon_testing::{KilledOnDrop, free_port, until};

use crate::{TTMON, Tool, is_ok};

/// The variant of `nc` that supports Unix sockets.
const NETCAT: Tool = Tool { variable: "TTMON_TEST_NETCAT", stage: "systemd" };

/// `systemd-socket-activate` needs no running systemd. It listens, and starts the server at the first connection.
#[test]
#[ignore = "needs systemd and netcat-openbsd: cargo xtask ci --only systemd"]
fn the_first_connection_starts_the_server() {
    let mode = fs::Permissions::from_mode(0o700);
    let directory = tempfile::Builder::new().prefix("ttmon-socket-").permissions(mode).tempdir_in("/dev/shm").unwrap();
    let at = |name: &str| directory.path().join(name);
    let port = free_port();
    let mut command = Command::new("systemd-socket-activate");
    command.arg("--listen").arg(at("alloc.sock")).arg("--listen").arg(format!("127.0.0.1:{port}"));
    command.arg(TTMON).args(["serve", "--sim", "n150,idle", "--quiet"]);
    command.arg("--api").arg(at("api.sock")).arg("--handover").arg(at("handover.sock")).arg("--state-dir").arg(at("state"));
    let _server = KilledOnDrop::spawn(&mut command);
    until("an answer of the server that its socket started", || {
        let mut ask = Command::new("sh");
        ask.args(["-c", "echo '' | timeout 20 \"$0\" -N -U \"$1\""]).arg(NETCAT.path().join("nc.openbsd")).arg(at("alloc.sock"));
        let output = ask.stderr(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains("Total tracked allocations: 0")
    });
    until("an answer at its port", || is_ok(port, "/healthz"));
}
