//! Checks the units of packaging/systemd with systemd itself. Starts the server by its socket, and queries it with common tools.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Gate, Outcome};
use crate::files;
use crate::project;
use crate::service::{self, Ended, TOKEN, free_port, is_ok, until};
use crate::stop::untested;
use crate::tools;

const UNITS: [&str; 5] = ["ttmon.service", "ttmon.socket", "ttmon-tmp.socket", "ttmon-http.socket", "run-ttmon-state.mount"];
/// Highest accepted score of `systemd-analyze security`, times ten. docs/security.md has the reasons for what remains.
const EXPOSURE_MAX: &str = "20";
/// Path of the program in the units, and a program that exists on every machine.
const PROGRAM: (&str, &str) = ("/usr/bin/ttmon", "/bin/true");

pub(super) fn run(gate: &mut Gate) -> Outcome {
    project::probe(&mut gate.project.command("systemd-analyze", &["--version"])).map_err(untested("the units were not verified"))?;
    verify(gate)?;
    under_the_filter(gate)?;
    // The variant of `nc` that supports Unix sockets.
    let folder = tools::debian(gate.project, "netcat-openbsd");
    let folder = folder.map_err(untested("the units are right; the server was not started by its socket: no netcat-openbsd here"))?;
    Ok(activate(gate, &folder.join("bin/nc.openbsd"))?)
}

/// `systemd-socket-activate` needs no running systemd. It listens, and starts the server at the first connection.
fn activate(gate: &Gate, nc: &Path) -> Result<(), String> {
    let ttmon = gate.ttmon(&[])?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    let directory = tempfile::Builder::new().prefix("ttmon-socket-").permissions(mode).tempdir_in("/dev/shm");
    let directory = directory.map_err(|error| error.to_string())?;
    let at = |name: &str| directory.path().join(name);
    let mut command = Command::new("systemd-socket-activate");
    let port = free_port()?;
    command.arg("--listen").arg(at("alloc.sock")).arg("--listen").arg(format!("127.0.0.1:{port}"));
    command.arg(ttmon).args(["serve", "--sim", "n150,idle", "--quiet"]);
    command.arg("--api").arg(at("api.sock")).arg("--handover").arg(at("handover.sock")).arg("--state-dir").arg(at("state"));
    let _server = Ended::spawn(&mut command)?;
    let mut said = String::new();
    let answered = until("answered by the server that its socket started", || {
        let mut ask = Command::new("sh");
        ask.arg("-c").arg("echo '' | timeout 20 \"$0\" -N -U \"$1\"").arg(nc).arg(at("alloc.sock")).stderr(Stdio::null());
        said = ask.output().map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        said.contains("Total tracked allocations: 0")
    });
    answered.map_err(|error| format!("{error}; nc said: {said:?}"))?;
    until("answered at its port", || is_ok(port, "/healthz", ""))
}

fn verify(gate: &Gate) -> Result<(), String> {
    let folder = gate.project.target()?.join("units");
    files::fresh(&folder)?;
    for unit in UNITS {
        let text = files::read(&gate.project.root.join("packaging/systemd").join(unit))?;
        files::write(&folder.join(unit), text.replace(PROGRAM.0, PROGRAM.1))?;
    }
    let mut command = gate.project.command("systemd-analyze", &["verify", "--man=no"]);
    project::run(command.args(UNITS.map(|unit| folder.join(unit))))?;
    verify_receivers(gate, &folder)?;
    verify_metrics(gate, &folder)?;
    let mut command = gate.project.command("systemd-analyze", &["security", "--offline=true", "--no-pager"]);
    command.arg(format!("--threshold={EXPOSURE_MAX}")).arg(folder.join(UNITS[0]));
    project::run(command.stdout(Stdio::null()))
}

/// Checks the drop-in of docs/alerts.md, which lets the service reach receivers of alerts.
fn verify_receivers(gate: &Gate, folder: &Path) -> Result<(), String> {
    let text = files::read(&gate.project.root.join("docs/alerts.md"))?;
    let drop_in = text.split_once("```ini\n").and_then(|(_, rest)| rest.split_once("```")).map(|(block, _)| block);
    verify_drop_in(gate, folder, "docs/alerts.md", drop_in.ok_or("docs/alerts.md has no drop-in")?)
}

/// Checks the port for scrapers in deploy/systemd: a socket, and a drop-in of the service.
fn verify_metrics(gate: &Gate, folder: &Path) -> Result<(), String> {
    let deployed = gate.project.root.join("deploy/systemd");
    let socket = folder.join("ttmon-metrics.socket");
    files::copy(&deployed.join("ttmon-metrics.socket"), &socket)?;
    let drop_in = files::read(&deployed.join("metrics.conf"))?.replace(PROGRAM.0, PROGRAM.1);
    let verified = verify_drop_in(gate, folder, "deploy/systemd/metrics.conf", &drop_in);
    fs::remove_file(&socket).map_err(files::at(&socket))?;
    verified
}

/// Checks that systemd accepts every line of a drop-in, together with all units of the folder.
fn verify_drop_in(gate: &Gate, folder: &Path, origin: &str, drop_in: &str) -> Result<(), String> {
    let place = folder.join("ttmon.service.d");
    files::fresh(&place)?;
    files::write(&place.join("added.conf"), drop_in)?;
    let units = fs::read_dir(folder).map_err(files::at(folder))?;
    let units = units.flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    let mut command = gate.project.command("systemd-analyze", &["verify", "--man=no"]);
    let output = command.args(units).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    fs::remove_dir_all(&place).map_err(files::at(&place))?;
    // systemd reports an unknown line only as a warning.
    let is_accepted = output.status.success() && !said.contains("added.conf") && !said.contains("ttmon-metrics.socket");
    if is_accepted { Ok(()) } else { Err(format!("{origin}: {said}")) }
}

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

/// Returns the system calls that a unit allows, by its SystemCallFilter lines.
fn allowed_calls(unit: &str) -> Result<BTreeSet<String>, String> {
    let mut allowed = BTreeSet::new();
    for list in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (is_denied, list) = list.strip_prefix('~').map_or((false, list), |list| (true, list));
        for word in list.split_whitespace() {
            let set = if word.starts_with('@') { calls(word)? } else { BTreeSet::from([word.to_owned()]) };
            allowed = if is_denied { &allowed - &set } else { &allowed | &set };
        }
    }
    // The service manager also allows the calls that it needs to start the program.
    allowed.extend(["execve", "exit", "exit_group", "rt_sigreturn"].map(str::to_owned));
    Ok(allowed)
}

/// Names of the reading processes and of the scanning thread.
const RESTRICTED: [&str; 2] = ["ttmon-reader", "scan"];

/// Returns the reading processes of a service and its scanning thread, and whether each has its own filter and only capabilities for
/// reading.
fn restricted(service: u32) -> Option<Vec<(String, bool)>> {
    /// CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE.
    const KEPT: u64 = 1 << 2 | 1 << 19 | 1 << 40;
    let children = fs::read_to_string(format!("/proc/{service}/task/{service}/children")).ok()?;
    let children = children.split_whitespace().map(|pid| format!("/proc/{pid}/status"));
    let threads = fs::read_dir(format!("/proc/{service}/task")).ok()?.flatten().map(|entry| format!("{}/status", entry.path().display()));
    let filters = |text: &str| -> Option<u32> { text.lines().find_map(|line| line.strip_prefix("Seccomp_filters:\t"))?.parse().ok() };
    let own = filters(&fs::read_to_string(format!("/proc/{service}/status")).ok()?)?;
    let mut found = Vec::new();
    for text in children.chain(threads).filter_map(|path| fs::read_to_string(path).ok()) {
        let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(":\t"));
        let name = value("Name")?;
        if RESTRICTED.contains(&name) {
            let has_filters = filters(&text) == Some(own + 1);
            let capabilities = u64::from_str_radix(value("CapEff")?, 16).ok()?;
            found.push((name.to_owned(), has_filters && capabilities & !KEPT == 0));
        }
    }
    Some(found)
}

/// The paths that are requested from the service under its filter, each as a document.
const PATHS: &[&str] = &[
    "/healthz",
    "/readyz",
    "/metrics",
    "/api/v1/snapshot",
    "/api/v1/devices",
    "/api/v1/processes",
    "/api/v1/buffers",
    "/api/v1/memory?buffers=true&banks=true&blocks=true",
    "/api/v1/memory/events",
    "/api/v1/history",
    "/api/v1/events",
    "/api/v1/openapi.json",
];

/// Runs the service and its reading processes under the filter of its unit, and requests everything from it. libseccomp loads the
/// filter, as the service manager does.
fn under_the_filter(gate: &Gate) -> Result<(), String> {
    let seccomp = ["-c", "import ctypes; ctypes.CDLL('libseccomp.so.2')"];
    if project::probe(&mut gate.project.command("python3", &seccomp)).is_err() {
        println!("NOT TRIED: the service under its SystemCallFilter: there is no python3 or libseccomp here");
        return Ok(());
    }
    let unit = files::read(&gate.project.root.join("packaging/systemd").join(UNITS[0]))?;
    let allowed: Vec<String> = allowed_calls(&unit)?.into_iter().collect();
    let ttmon = gate.ttmon(&[])?;
    let directory = tempfile::Builder::new().prefix("ttmon-filter-").tempdir_in("/dev/shm").map_err(|error| error.to_string())?;
    let at = |name: &str| directory.path().join(name);
    files::write(&at("filter.py"), include_str!("filter.py"))?;
    let mut command = Command::new("python3");
    command.arg(at("filter.py")).arg(rustix::io::Errno::PERM.raw_os_error().to_string()).arg(allowed.join(","));
    command.arg(ttmon).args(["serve", "--sim", "n300", "--listen", "127.0.0.1:0", "--api"]).arg(at("api.sock"));
    command.arg("--handover").arg(at("handover.sock")).arg("--socket").arg(at("alloc.sock")).arg("--state-dir").arg(at("state"));
    let (service, port) = service::serve(command.env("TTMON_TOKEN", TOKEN), "http://")?;
    let status = files::read(Path::new(&format!("/proc/{}/status", service.0.id())))?;
    if !status.contains("Seccomp:\t2") {
        return Err("the service is not under a filter".to_owned());
    }
    let headers = format!("Authorization: Bearer {TOKEN}\r\nAccept: application/json\r\n");
    until("ready under its SystemCallFilter", || is_ok(port, "/readyz", &headers))?;
    until("sampling under its SystemCallFilter", || {
        service::get(port, "/api/v1/processes", &headers).is_ok_and(|answer| answer.body.contains("\"status\":\"tracked\""))
    })?;
    let has_all = |all: &[(String, bool)]| RESTRICTED.iter().all(|name| all.iter().any(|(found, _)| found == name));
    let is_restricted = || restricted(service.0.id()).is_some_and(|all| has_all(&all) && all.iter().all(|(_, is_so)| *is_so));
    until("a service whose readers restrict themselves under its SystemCallFilter", is_restricted)
        .map_err(|error| format!("{error}: {:?}", restricted(service.0.id())))?;
    for path in PATHS {
        let answer = service::get(port, path, &headers)?;
        if answer.status != 200 {
            return Err(format!("{path} under the SystemCallFilter: {}: {}", answer.status, answer.body));
        }
    }
    let mut dump = String::new();
    let mut stream = UnixStream::connect(at("alloc.sock")).map_err(|error| error.to_string())?;
    let exchanged = stream.write_all(b"\n").and_then(|()| stream.read_to_string(&mut dump));
    exchanged.map_err(|error| format!("the allocation socket under the SystemCallFilter: {error}"))?;
    if !dump.contains("REMAINING ALLOCATED BUFFERS") {
        return Err(format!("no dump under the SystemCallFilter: {dump:?}"));
    }
    println!("systemd: {} paths and the allocation socket answer under a filter of {} system calls", PATHS.len(), allowed.len());
    Ok(())
}
