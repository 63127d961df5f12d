//! Namespaces of a case: private mounts, network, and pids; fresh /tmp, /run and /dev/shm.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Whether a case sees the pids of this machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pids {
    /// The case has its own pids. All processes end with the case.
    Private,
    /// The case uses the pids of the machine, because the service identifies senders of ledgers only in the first pid namespace.
    Machine,
}

/// Directory with the programs of a case and a library to preload, readable by every user.
pub(crate) const PROGRAMS: &str = "/run/programs";

/// This program, at a path where every user can start it.
pub(crate) const PROGRAM: &str = "/run/programs/adversary";
/// The program under test, at a path where every user can start it.
pub(crate) const TTMON: &str = "/run/programs/ttmon";

/// Runs a case of this program inside its namespaces.
pub(crate) fn isolated(name: &str, pids: Pids) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--ipc", "--propagation", "private"]);
    if pids == Pids::Private {
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
    }
    command.arg(std::env::current_exe().unwrap()).args(["inside", name]);
    command
}

/// Prepares the namespaces. `TTMON_ADVERSARY_PROGRAM` names another program under test. The programs are opened before other file systems
/// are mounted over them.
pub(crate) fn enter() {
    let own = File::open(std::env::current_exe().unwrap()).unwrap();
    let ttmon = File::open(std::env::var("TTMON_ADVERSARY_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_ttmon").to_owned())).unwrap();
    run("mount", &["-t", "sysfs", "none", "/sys"]);
    fs::write("/sys/class/net/lo/flags", "0x9").expect("the loopback device up");
    mount("/tmp", "size=256m,mode=1777");
    mount("/run", "size=1g,mode=755");
    mount("/dev/shm", "size=8g,mode=1777");
    fs::create_dir(PROGRAMS).unwrap();
    for (mut from, to) in [(own, PROGRAM), (ttmon, TTMON)] {
        io::copy(&mut from, &mut File::create(to).unwrap()).unwrap();
        fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
    }
    // The new file systems hide the hook of a checkout below /tmp.
    ttmon_testing::add_hook(Path::new(PROGRAMS));
}

fn mount(at: &str, options: &str) {
    fs::create_dir_all(Path::new(at)).unwrap();
    run("mount", &["-t", "tmpfs", "-o", options, "none", at]);
}

fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}: {status}");
}

/// Returns a command that runs this program in one of its roles, as a user.
pub(crate) fn role(uid: u32, name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("role").arg(name).args(arguments).uid(uid).gid(uid).current_dir("/").env_remove("TTMON_TRACKING");
    command
}
