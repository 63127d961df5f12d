//! The units of packaging/systemd, read by systemd itself; and the server started by its socket, asked by a person's means.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Gate, Outcome};
use crate::project;
use crate::service::{Ended, until};
use crate::tools;

const UNITS: [&str; 5] = ["ttmon.service", "ttmon.socket", "ttmon-tmp.socket", "ttmon-http.socket", "run-ttmon-state.mount"];
/// What `systemd-analyze security` may say of the service at most, times ten; docs/security.md has the reasons for what remains.
const EXPOSURE_MAX: &str = "20";
/// Where the units say the program is, and something that is there on every machine.
const PROGRAM: (&str, &str) = ("/usr/bin/ttmon", "/bin/true");

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let mut probe = gate.project.command("systemd-analyze", &["--version"]);
    if project::run(probe.stdout(Stdio::null()).stderr(Stdio::null())).is_err() {
        return Outcome::Skipped("the units were not verified: there is no systemd-analyze here".to_owned());
    }
    if let Err(error) = verify(gate).and_then(|()| without_denied_calls(gate)) {
        return Outcome::Failed(error);
    }
    // The `nc` that knows Unix sockets.
    match tools::debian(gate.project, "netcat-openbsd") {
        Ok(folder) => activate(gate, &folder.join("bin/nc.openbsd")).into(),
        Err(why) => {
            Outcome::Skipped(format!("the units are right; the server was not started by its socket: no netcat-openbsd here: {why}"))
        }
    }
}

/// `systemd-socket-activate` needs no running systemd: it listens, and starts the server at the first connection.
fn activate(gate: &Gate, nc: &Path) -> Result<(), String> {
    project::run(&mut gate.project.cargo(&["build", "--package", "ttmon", "--bin", "ttmon"]))?;
    let ttmon = gate.project.metadata()?.target.join("debug/ttmon");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    let directory = tempfile::Builder::new().prefix("ttmon-socket-").permissions(mode).tempdir_in("/dev/shm");
    let directory = directory.map_err(|error| error.to_string())?;
    let at = |name: &str| directory.path().join(name);
    let mut command = Command::new("systemd-socket-activate");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map_err(|error| error.to_string())?;
    command.arg("--listen").arg(at("alloc.sock")).arg("--listen").arg(free.to_string());
    command.arg(ttmon).args(["serve", "--sim", "n150,idle", "--quiet"]);
    command.arg("--api").arg(at("api.sock")).arg("--handover").arg(at("handover.sock")).arg("--state-dir").arg(at("state"));
    let server = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _server = Ended(server.map_err(|error| format!("systemd-socket-activate: {error}"))?);
    let mut said = String::new();
    let answered = until("answered by the server that its socket started", || {
        let mut ask = Command::new("sh");
        ask.arg("-c").arg("echo '' | timeout 20 \"$0\" -N -U \"$1\"").arg(nc).arg(at("alloc.sock")).stderr(Stdio::null());
        said = ask.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        said.contains("Total tracked allocations: 0")
    });
    answered.map_err(|error| format!("{error}; nc said: {said:?}"))?;
    until("answered at its port", || crate::service::get(free.port(), "/healthz", "").is_ok_and(|answer| answer.status == 200))
}

fn verify(gate: &Gate) -> Result<(), String> {
    let folder = gate.project.metadata()?.target.join("units");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for unit in UNITS {
        let from = gate.project.root.join("packaging/systemd").join(unit);
        let text = fs::read_to_string(&from).map_err(|error| format!("{}: {error}", from.display()))?;
        let to = folder.join(unit);
        fs::write(&to, text.replace(PROGRAM.0, PROGRAM.1)).map_err(|error| format!("{}: {error}", to.display()))?;
    }
    let mut command = gate.project.command("systemd-analyze", &["verify", "--man=no"]);
    project::run(command.args(UNITS.map(|unit| folder.join(unit))))?;
    let mut command = gate.project.command("systemd-analyze", &["security", "--offline=true", "--no-pager"]);
    command.arg(format!("--threshold={EXPOSURE_MAX}")).arg(folder.join(UNITS[0]));
    project::run(command.stdout(Stdio::null()))
}

/// The names of a set of system calls, with those of the sets in it.
fn calls(set: &str) -> Result<BTreeSet<String>, String> {
    let output = Command::new("systemd-analyze").args(["syscall-filter", set]).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut names = BTreeSet::new();
    for name in text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if name.starts_with('@') {
            names.append(&mut calls(name)?);
        } else {
            names.insert(name.to_owned());
        }
    }
    Ok(names)
}

/// Runs the service while every system call that its unit denies fails as it would there. A filter needs a service manager;
/// strace makes the same calls fail with the same error.
fn without_denied_calls(gate: &Gate) -> Result<(), String> {
    let mut probe = gate.project.command("strace", &["-V"]);
    if project::run(probe.stdout(Stdio::null()).stderr(Stdio::null())).is_err() {
        println!("NOT TRIED: the service under its SystemCallFilter: there is no strace here");
        return Ok(());
    }
    let denied = ["@privileged", "@resources"].map(calls);
    let mut allowed = calls("@system-service")?;
    for set in denied {
        allowed = allowed.difference(&set?).cloned().collect();
    }
    let others: Vec<String> = calls("@known")?.difference(&allowed).map(|name| format!("?{name}")).collect();
    let list = others.join(",");
    project::run(&mut gate.project.cargo(&["build", "--package", "ttmon", "--bin", "ttmon"]))?;
    let ttmon = gate.project.metadata()?.target.join("debug/ttmon");
    let directory = tempfile::Builder::new().prefix("ttmon-filter-").tempdir_in("/dev/shm").map_err(|error| error.to_string())?;
    let at = |name: &str| directory.path().join(name);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(at("denied")).args(["-e", &format!("trace={list}"), "-e", &format!("inject={list}:error=EPERM")]);
    command.arg(ttmon).args(["serve", "--sim", "n300", "--quiet", "--listen", "127.0.0.1:0", "--api"]).arg(at("api.sock"));
    command.arg("--handover").arg(at("handover.sock")).arg("--socket").arg(at("alloc.sock")).arg("--state-dir").arg(at("state"));
    let (_service, port) = crate::service::serve(&mut command, "http://")?;
    let is_ready = || crate::service::get(port, "/readyz", "").is_ok_and(|answer| answer.status == 200);
    until("ready under its SystemCallFilter", is_ready)?;
    let tracked = || {
        let answer = crate::service::get(port, "/api/v1/processes", "").unwrap_or_default();
        answer.body.contains("\"status\":\"tracked\"")
    };
    until("sampling under its SystemCallFilter", tracked)?;
    let denied = fs::read_to_string(at("denied")).unwrap_or_default();
    let mut names: Vec<&str> = denied.lines().filter_map(|line| line.split(' ').nth(1)?.split('(').next()).collect();
    names.sort_unstable();
    names.dedup();
    println!("systemd: the service does without what its filter denies; it tried {names:?}");
    Ok(())
}
