//! Tests that need root, because they compare the views of several users. `cargo xtask ci` runs them in its stage `root`; plain `cargo
//! test` skips them with a message.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use ttmon_sim::{Machine, Spec};
use ttmon_testing::{KilledOnDrop, command, copied};

use crate::TTMON;

const NOBODY: u32 = 65_534;

/// Writes an n300 with one live holder of uid 0. Only root may read the statistics of the holder.
fn machine(directory: &Path) -> KilledOnDrop {
    let child = KilledOnDrop::spawn(Command::new("sleep").arg("1000"));
    let machine = Machine::new(&Spec::parse("n300,procs=1").unwrap(), 1).unwrap();
    machine.write(directory, 0, &[Some(child.id())]).unwrap();
    fs::create_dir_all(directory.join("proc")).unwrap();
    symlink(format!("/proc/{}", child.id()), directory.join(format!("proc/{}", child.id()))).unwrap();
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    child
}

/// Returns a command of a copy of `ttmon`, run by this user.
fn command_of(directory: &Path, uid: u32, arguments: &[&str]) -> Command {
    let mut command = command(&copied(Path::new(TTMON), directory), arguments);
    command.uid(uid).gid(uid);
    command
}

fn show(directory: &Path, uid: u32) -> Value {
    let output = command_of(directory, uid, &["--json", "--root"]).arg(directory).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
#[ignore = "needs root"]
fn another_users_memory_is_no_permission_and_roots_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let _holder = machine(directory.path());
    let nobody = show(directory.path(), NOBODY);
    assert_eq!(nobody["devices"][0]["missing"]["memory.used"], "no_permission");
    assert_eq!(nobody["processes"][0]["status"], "no_permission");
    assert!(nobody["devices"][0]["temperature"].is_number(), "telemetry is everybody's");
    let root = show(directory.path(), 0);
    assert_eq!(root["processes"][0]["status"], "reported");
    assert!(root["devices"][0]["memory"]["used"].as_u64() > Some(0));
}

/// A process of another user may have a ledger that this user cannot find. That is not the same as no ledger.
#[test]
#[ignore = "needs root"]
fn another_users_ledger_is_no_permission() {
    let directory = tempfile::tempdir().unwrap();
    let _holder = machine(directory.path());
    fs::remove_dir_all(directory.path().join("dev/shm")).unwrap();
    let status = |uid| show(directory.path(), uid)["processes"][0]["status"].clone();
    assert_eq!((status(NOBODY), status(0)), ("no_permission".into(), "open".into()));
}

/// Without the driver's list of users, an ordinary user cannot know that a device has no holder.
#[test]
#[ignore = "needs root"]
fn an_old_driver_and_a_plain_user() {
    let directory = tempfile::tempdir().unwrap();
    let _holder = machine(directory.path());
    fs::remove_dir_all(directory.path().join("proc/driver")).unwrap();
    fs::remove_dir_all(directory.path().join("dev/shm")).unwrap();
    let nobody = show(directory.path(), NOBODY);
    assert_eq!(nobody["devices"][0]["missing"]["memory.used"], "no_permission");
    let output = command_of(directory.path(), NOBODY, &["wait", "--idle", "--root"]).arg(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let root = show(directory.path(), 0);
    assert_eq!(root["devices"][0]["memory"]["used"], 0);
}

/// Variable that turns this program into one that tracks its memory.
const CHILD: &str = "AS_ROOT_CHILD";

/// Not a test. Reports a buffer, makes itself not dumpable on request, and waits for the end of its input.
#[test]
fn tracked_program() {
    let Ok(role) = std::env::var(CHILD) else { return };
    if role == "hidden" {
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).unwrap();
    }
    ttmon_client::report_allocation(0, 66_666, 0, 1);
    println!("\nready");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Starts a tracked program as a user. Returns it with its pid.
fn tracked(directory: &Path, role: &str, uid: u32) -> KilledOnDrop {
    let mut command = Command::new(copied(&std::env::current_exe().unwrap(), directory));
    command.args(["as_root::tracked_program", "--exact", "--nocapture"]).env(CHILD, role).env("TTMON_TRACKING", "1").uid(uid).gid(uid);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == "ready"));
    KilledOnDrop(child)
}

/// Reads the ledger of a process as a user. Returns its bytes, or an exit code and a message.
fn ledger_of(directory: &Path, holder: &KilledOnDrop, uid: u32) -> Result<u64, (Option<i32>, String)> {
    let output = command_of(directory, uid, &["mem", "--json", "--buffers", "--pid", &holder.id().to_string()]).output().unwrap();
    if !output.status.success() {
        return Err((output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    Ok(json["buffers"].as_array().unwrap().iter().map(|buffer| buffer["size"].as_u64().unwrap()).sum())
}

/// The owner and root can read a ledger. Another user cannot, and if the process is not dumpable, only root can. The message gives the
/// reason.
#[test]
#[ignore = "needs root"]
fn ledgers_of_other_users_and_of_programs_that_hide() {
    const OTHER_USER: u32 = 4711;
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let plain = tracked(directory.path(), "plain", NOBODY);
    let hidden = tracked(directory.path(), "hidden", NOBODY);
    let see = |holder, uid| ledger_of(directory.path(), holder, uid);
    assert_eq!((see(&plain, 0), see(&plain, NOBODY)), (Ok(66_666), Ok(66_666)));
    assert_eq!(see(&hidden, 0), Ok(66_666), "root sees all");
    for (holder, uid) in [(&plain, OTHER_USER), (&hidden, NOBODY), (&hidden, OTHER_USER)] {
        let (code, message) = see(holder, uid).expect_err("not allowed to show");
        assert_eq!(code, Some(1), "{message}");
        assert!(message.contains("no_permission"), "{message}");
    }
}

/// Buffers that another user may not read are not reported as gone.
#[test]
#[ignore = "needs root"]
fn a_comparison_of_what_may_not_be_looked_at() {
    const OTHER_USER: u32 = 4711;
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let holder = tracked(directory.path(), "plain", NOBODY);
    let show = |uid: u32, arguments: &[&str]| {
        String::from_utf8(command_of(directory.path(), uid, &["mem"]).args(arguments).output().unwrap().stdout).unwrap()
    };
    let earlier = directory.path().join("earlier.json");
    fs::write(&earlier, show(0, &["--json", "--buffers", "--pid", &holder.id().to_string()])).unwrap();
    // A tracked process of this user, so that there is a ledger to read.
    let _own = tracked(directory.path(), "plain", OTHER_USER);
    let compare = |uid| show(uid, &["--diff", earlier.to_str().unwrap()]);
    let output = compare(OTHER_USER);
    assert!(output.contains("- 0 gone") && output.contains("? 1 not known, 65.1KB"), "{output}");
    assert!(compare(NOBODY).contains("+ 0 new") && !compare(NOBODY).contains("not known"), "{}", compare(NOBODY));
    drop(holder);
    let output = compare(OTHER_USER);
    assert!(output.contains("- 1 gone") && !output.contains("not known"), "{output}");
}
