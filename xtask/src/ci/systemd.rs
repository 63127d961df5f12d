//! The units of packaging/systemd, read by systemd itself; and the server started by its socket, asked by a person's means.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Gate, Outcome};
use crate::project;
use crate::service::{Ended, until};
use crate::tools;

const UNITS: [&str; 2] = ["ttmon.service", "ttmon.socket"];
/// Where the units say the program is, and something that is there on every machine.
const PROGRAM: (&str, &str) = ("/usr/bin/ttmon", "/bin/true");

pub(super) fn run(gate: &mut Gate) -> Outcome {
    let mut probe = gate.project.command("systemd-analyze", &["--version"]);
    if project::run(probe.stdout(Stdio::null()).stderr(Stdio::null())).is_err() {
        return Outcome::Skipped("the units were not verified: there is no systemd-analyze here".to_owned());
    }
    if let Err(error) = verify(gate) {
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
    command.arg("--listen").arg(at("alloc.sock")).arg(ttmon).args(["serve", "--sim", "n150,idle", "--listen", "off", "--quiet"]);
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
    answered.map_err(|error| format!("{error}; nc said: {said:?}"))
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
    project::run(command.args(UNITS.map(|unit| folder.join(unit))))
}
