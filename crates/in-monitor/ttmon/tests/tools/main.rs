//! `ttmon` beside programs of other projects: Prometheus, VictoriaMetrics, Alertmanager, systemd, openssl and curl, shells, schemathesis.
//!
//! Each module needs programs that not every machine has, so its tests are ignored. `cargo xtask ci --only STAGE` finds or installs the
//! programs, says in variables where they are, and runs the tests.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod alertmanager;
mod api;
mod engines;
mod fleet;
mod prometheus;
mod shells;
mod systemd;
mod tls;
mod webhook;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;
use ttmon_sim::{Machine, Spec};
use ttmon_testing::{Response, Service, TOKEN, repository};

const TTMON: &str = env!("CARGO_BIN_EXE_ttmon");

/// A program of another project, or the folder of several. A variable has its path.
struct Tool {
    variable: &'static str,
    /// The stage of `cargo xtask ci` that sets the variable.
    stage: &'static str,
}

impl Tool {
    #[track_caller]
    fn path(&self) -> PathBuf {
        let Self { variable, stage } = self;
        let path = std::env::var_os(variable).map(PathBuf::from);
        path.unwrap_or_else(|| panic!("{variable} is not set: cargo xtask ci --only {stage} installs the program and sets it"))
    }

    /// Returns a command that executes a program of the folder.
    #[track_caller]
    fn program(&self, name: &str) -> Command {
        Command::new(self.path().join(name))
    }
}

fn ttmon(arguments: &[&str]) -> Command {
    ttmon_testing::command(Path::new(TTMON), arguments)
}

fn start_service(arguments: &[&str]) -> Service {
    Service::start(Path::new(TTMON), arguments)
}

/// Runs a program to its end.
#[track_caller]
fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a program that must succeed, and returns its standard output.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = output(command);
    let [text, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{command:?}: {}\n{text}\n{errors}", output.status);
    text
}

/// Requests a path from a port of this host. HTTP 1.0 has no chunks.
fn get(port: u16, path: &str) -> std::io::Result<Response> {
    Response::to(port, &format!("GET {path} HTTP/1.0\r\nHost: localhost:{port}\r\n\r\n"))
}

fn is_ok(port: u16, path: &str) -> bool {
    get(port, path).is_ok_and(|response| response.status == 200)
}

/// The header with which a service answers everything.
fn authorization() -> String {
    format!("Authorization: Bearer {TOKEN}")
}

/// Writes a file that only this user can read.
fn private(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// Writes the files of a simulated machine that stands still. Its processes are those of no real pid.
fn machine(spec: &str) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let machine = Spec::parse(spec).and_then(|spec| Machine::new(&spec, 1)).unwrap();
    machine.write(root.path(), 240, &vec![None; machine.process_count()]).unwrap();
    root
}
