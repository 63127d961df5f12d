//! Unusual situations of tracked processes: forks, orphans, reused pids, stopped readers, different clocks, forged files.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::Value;
use ttmon_testing::{KilledOnDrop, until};

use super::{CHILD, Follower, Tracked, command, ttmon};

/// Offset of the process's start time in a ledger.
const START_TICKS: u64 = 0x88;

/// Runs a program that does more than report on request.
pub(super) fn child(role: &str) {
    match role {
        "orphan" => orphan(),
        "copy" => copy(),
        "holder" => wait_for_the_end(),
        other => panic!("{other}"),
    }
}

fn wait_for_the_end() {
    println!("ready");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Leaves a forked child behind, which reports after its parent has ended.
fn orphan() {
    ttmon_client::report_allocation(0, 11, 0, 1);
    let parent = rustix::process::getpid();
    if let Ok(fork::Fork::Parent(_)) = fork::fork() {
        std::process::exit(0);
    }
    while rustix::process::getppid() == Some(parent) {
        std::thread::yield_now();
    }
    ttmon_client::report_allocation(0, 33_333, 0, 1);
    println!("pid {}", std::process::id());
    wait_for_the_end();
}

/// Copies its ledger with a start time that is later by `COPY_LATER`, and executes a program that only holds the copy. Pid and start time
/// of the process stay the same. So the copy seems to be the ledger of a later process with the same pid.
fn copy() {
    ttmon_client::report_allocation(0, 44_444, 0, 1);
    let own = fs::read_dir("/proc/self/fd").unwrap().map(|entry| entry.unwrap().path());
    let own = own.into_iter().find(|path| fs::read_link(path).is_ok_and(|link| link.to_string_lossy().contains("ttmon-ledger"))).unwrap();
    let original = fs::File::open(own).unwrap();
    // Without CLOEXEC, so that the file outlives the exec.
    let copy = rustix::fs::memfd_create("ttmon-ledger", rustix::fs::MemfdFlags::empty()).unwrap();
    let copy = fs::File::from(copy);
    std::io::copy(&mut &original, &mut &copy).unwrap();
    let mut ticks = [0; 8];
    copy.read_exact_at(&mut ticks, START_TICKS).unwrap();
    let later: u64 = std::env::var("COPY_LATER").unwrap().parse().unwrap();
    copy.write_all_at(&(u64::from_le_bytes(ticks) + later).to_le_bytes(), START_TICKS).unwrap();
    let _kept = OwnedFd::from(copy);
    panic!("{}", Command::new(std::env::current_exe().unwrap()).env(CHILD, "holder").exec());
}

fn in_role(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(CHILD, role).env("TTMON_TRACKING", "1").env_remove("TTMON_HANDOVER");
    command
}

/// A process and its output.
struct Process {
    process: KilledOnDrop,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Process {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { process: KilledOnDrop(child), lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("it ended").unwrap()
    }
}

fn sizes(pid: &str) -> (Vec<u64>, i32) {
    let (text, _, code) = ttmon(&format!("mem --json --buffers --pid {pid}"));
    let json: Value = serde_json::from_str(&text).unwrap_or_default();
    let buffers = json["buffers"].as_array().cloned().unwrap_or_default();
    (buffers.iter().map(|buffer| buffer["size"].as_u64().unwrap()).collect(), code)
}

pub(super) fn a_child_outlives_its_parent() {
    let mut parent = Process::start(&mut in_role("orphan"));
    let line = parent.line();
    let pid = line.strip_prefix("pid ").unwrap();
    assert_ne!(pid, parent.process.id().to_string());
    assert_eq!(parent.line(), "ready");
    let stdin = parent.process.0.stdin.take();
    assert!(parent.process.0.wait().unwrap().success(), "the parent is gone");
    assert_eq!(sizes(pid), (vec![33_333], 0), "its own, and not its parent's");
    assert_ne!(sizes(&parent.process.id().to_string()).1, 0, "of the parent nothing is left");
    // The process ends when its input is closed.
    drop(stdin);
    until("it ends", || !Path::new(&format!("/proc/{pid}")).exists());
}

/// A ledger belongs to a process only if the start time is the same too.
pub(super) fn a_pid_that_came_again() {
    for (later, expected) in [("0", vec![44_444]), ("1", Vec::new())] {
        let mut program = Process::start(in_role("copy").env("COPY_LATER", later));
        assert_eq!(program.line(), "ready");
        let (seen, code) = sizes(&program.process.id().to_string());
        assert_eq!(seen, expected, "{later} ticks later");
        assert_eq!(code == 0, !expected.is_empty());
    }
}

/// A stopped follower reports what it missed, and continues with new events.
pub(super) fn a_follower_stopped_and_resumed() {
    let mut program = Tracked::start();
    program.does(&["a 0 11 1"]);
    let mut follower = Follower::start(&program, "events --follow");
    follower.line_with(" 11B  DRAM");
    let signal = |signal| rustix::process::kill_process(Pid::from_child(&follower.process.0), signal).unwrap();
    signal(Signal::STOP);
    program.does(&["many 40000", "a 0 12 2"]);
    // A query in between is answered normally.
    assert_eq!(sizes(&program.process.id().to_string()), (vec![12, 11], 0));
    signal(Signal::CONT);
    assert!(follower.line_with("  overrun ").contains("earlier events are no longer in the recorder"));
    follower.line_with(" 12B  DRAM");
    program.does(&["a 0 13 3"]);
    follower.line_with(" 13B  DRAM");
}

/// The program is stopped at a random point, most likely inside an event. Samples still succeed and agree.
pub(super) fn a_program_stopped_while_it_reports() {
    let mut program = Tracked::start();
    program.does(&["a 0 4096 7777777"]);
    let pid = Pid::from_child(&program.process.0);
    writeln!(program.process.0.stdin.as_mut().unwrap(), "many 3000000").unwrap();
    for round in 0..10 {
        let resumed = Instant::now();
        until("another point", || resumed.elapsed() >= Duration::from_millis(3 * round));
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
        let (first, second) = (program.mem("--buffers"), program.mem("--buffers"));
        let used = |json: &Value| json["allocators"][0]["kinds"]["l1"]["used"].as_u64().unwrap_or(0);
        let listed = |json: &Value| -> u64 {
            let l1 = json["buffers"].as_array().unwrap().iter().filter(|buffer| buffer["kind"] == "l1");
            l1.map(|buffer| buffer["size"].as_u64().unwrap()).sum()
        };
        assert_eq!((used(&first), listed(&first)), (listed(&first), listed(&second)), "round {round}");
        assert!(first["buffers"].as_array().unwrap().iter().any(|buffer| buffer["size"] == 4096));
        rustix::process::kill_process(pid, Signal::CONT).unwrap();
    }
}

/// A control group like that of a container. It is removed when its process has ended.
pub(super) struct ControlGroup {
    directory: PathBuf,
    /// The name of the container in `ttmon`.
    pub(super) container: &'static str,
}

impl ControlGroup {
    /// Moves the process into a new control group. Returns `None` if that is not permitted.
    pub(super) fn of_a_container(pid: u64) -> Option<Self> {
        const NAME: &str = "docker-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope";
        ["/sys/fs/cgroup", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/freezer"].into_iter().find_map(|root| {
            let directory = Path::new(root).join(NAME);
            fs::create_dir(&directory).ok()?;
            let group = Self { directory, container: "0123456789ab" };
            fs::OpenOptions::new()
                .write(true)
                .open(group.directory.join("cgroup.procs"))
                .ok()?
                .write_all(pid.to_string().as_bytes())
                .ok()?;
            Some(group)
        })
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        until("the group is empty", || fs::remove_dir(&self.directory).is_ok());
    }
}

/// In a time namespace the monotonic clock differs. Buffers and ages are still correct.
pub(super) fn a_process_with_a_clock_of_its_own() {
    for offset in ["1000000", "-100"] {
        let mut command = Command::new("unshare");
        command.args(["--time", "--fork", "--kill-child", "--monotonic", offset]).arg(std::env::current_exe().unwrap());
        let mut program = Tracked::start_as(command);
        program.does(&["a 0 55555 1"]);
        let (text, _, _) = ttmon("mem --json --buffers");
        let json: Value = serde_json::from_str(&text).unwrap();
        let buffer = json["buffers"].as_array().unwrap().iter().find(|buffer| buffer["size"] == 55_555).expect("it is not seen");
        let age = buffer["age_s"].as_f64().expect("its age is known");
        assert!((0.0..60.0).contains(&age), "{offset}: {buffer}");
    }
}

/// Files that are named like ledgers and are not ledgers. They must not block `ttmon`.
pub(super) fn files_that_look_like_ledgers() {
    let directory = tempfile::tempdir().unwrap();
    let mount = directory.path().to_str().unwrap();
    // An open file of an unmounted file system has a path without the mount point.
    let pipe = format!(
        "mount -t tmpfs none {mount} && mkfifo '{mount}/memfd:ttmon-ledger' && exec 9<>'{mount}/memfd:ttmon-ledger' && \
         rm '{mount}/memfd:ttmon-ledger' && umount -l {mount} && echo ready $$ && read x"
    );
    let mut holder = Process::start(Command::new("unshare").args(["-m", "bash", "-c", &pipe]));
    not_kept_waiting(&holder.line());
    if let Err(error) = fs::File::open("/dev/fuse") {
        println!("NOT RUN: files_that_look_like_ledgers: no file system that falls silent was tried: /dev/fuse: {error}");
        return;
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tracked/silent.py");
    let mut command = Command::new("unshare");
    let mut silent = match Command::new("python3").arg("--version").output() {
        Ok(_) => Process::start(command.args(["-m", "python3", script, mount])),
        Err(error) => {
            println!("NOT RUN: files_that_look_like_ledgers: no file system that falls silent was tried: python3: {error}");
            return;
        }
    };
    not_kept_waiting(&silent.line());
}

/// Checks that the process of `ready PID`, which holds a file that is named like a ledger, does not block `ttmon`.
fn not_kept_waiting(line: &str) {
    let pid = line.strip_prefix("ready ").unwrap_or_else(|| panic!("{line}"));
    let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().map(|entry| entry.unwrap().path());
    let is_named_so = |path: PathBuf| fs::read_link(path).is_ok_and(|link| link.as_os_str() == "/memfd:ttmon-ledger (deleted)");
    assert!(files.into_iter().any(is_named_so), "it holds no such file");
    for arguments in [format!("mem --json --pid {pid}"), "mem --json".to_owned(), format!("events --pid {pid}")] {
        let ttmon = command(&arguments);
        let output = Command::new("timeout").args(["-s", "KILL", "20"]).arg(ttmon.get_program()).args(ttmon.get_args()).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{arguments}: {output:?}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains(&format!("\"pid\": {pid},")), "{output:?}");
    }
}
