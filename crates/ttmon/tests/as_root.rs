//! What only root can show: how things look to another user. Run by `cargo xtask ci` as its stage `root`; plain
//! `cargo test` passes over it, saying so.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use ttmon_sim::{Machine, Spec};

const NOBODY: u32 = 65_534;

/// True when the stage asked for it.
fn is_asked_for() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let is_asked = std::env::var_os("TTMON_TEST_ROOT").is_some();
    if !(is_root && is_asked) {
        eprintln!("not run: needs root and TTMON_TEST_ROOT=1 (cargo xtask ci sets it)");
    }
    is_root && is_asked
}

struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An n300 with one live holder of uid 0 whose statistics only root may read.
fn machine(directory: &Path) -> Holder {
    let child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap();
    let machine = Machine::new(&Spec::parse("n300,procs=1").unwrap(), 1).unwrap();
    machine.write(directory, 0, &[Some(child.id())]).unwrap();
    fs::create_dir_all(directory.join("proc")).unwrap();
    symlink(format!("/proc/{}", child.id()), directory.join(format!("proc/{}", child.id()))).unwrap();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    Holder(child)
}

fn look(directory: &Path, uid: u32) -> Value {
    // The build directory may be closed to others: run a copy they can reach.
    let program = directory.join("ttmon");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_ttmon"), &program).unwrap();
    }
    let mut command = Command::new(program);
    command.args(["--json", "--root"]).arg(directory).uid(uid).gid(uid);
    let output = when_not_busy(&mut command);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A process that another test forks while the copy is being written holds it open for a moment.
fn when_not_busy(command: &mut Command) -> Output {
    for _ in 0..100 {
        match command.output() {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::sleep(Duration::from_millis(10)),
            output => return output.unwrap(),
        }
    }
    panic!("the copy of the program stays busy");
}

#[test]
fn another_users_memory_is_no_permission_and_roots_is_known() {
    if !is_asked_for() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let _holder = machine(directory.path());
    let nobody = look(directory.path(), NOBODY);
    assert_eq!(nobody["devices"][0]["missing"]["memory.used"], "no_permission");
    assert_eq!(nobody["processes"][0]["status"], "no_permission");
    assert!(nobody["devices"][0]["temperature"].is_number(), "telemetry is everybody's");
    let root = look(directory.path(), 0);
    assert_eq!(root["processes"][0]["status"], "reported");
    assert!(root["devices"][0]["memory"]["used"].as_u64() > Some(0));
}

/// A process of another user may have a ledger that cannot be looked for: that is not nothing.
#[test]
fn another_users_ledger_is_no_permission() {
    if !is_asked_for() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let _holder = machine(directory.path());
    fs::remove_dir_all(directory.path().join("dev/shm")).unwrap();
    let status = |uid| look(directory.path(), uid)["processes"][0]["status"].clone();
    assert_eq!((status(NOBODY), status(0)), ("no_permission".into(), "open".into()));
}

/// Without a list of users by the driver, a plain user cannot know that nobody is there.
#[test]
fn an_old_driver_and_a_plain_user() {
    if !is_asked_for() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let _holder = machine(directory.path());
    fs::remove_dir_all(directory.path().join("proc/driver")).unwrap();
    fs::remove_dir_all(directory.path().join("dev/shm")).unwrap();
    let nobody = look(directory.path(), NOBODY);
    assert_eq!(nobody["devices"][0]["missing"]["memory.used"], "no_permission");
    let output = Command::new(directory.path().join("ttmon"))
        .args(["wait", "--idle", "--root"])
        .arg(directory.path())
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let root = look(directory.path(), 0);
    assert_eq!(root["devices"][0]["memory"]["used"], 0);
}
