//! The processes of a simulation: they run, and nothing is left behind, however a process ends.
//!
//! This test has its own `main`, because its simulations start this program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process};
use ttmon_model::region::Region;
use ttmon_sim::{Simulation, Spec, StartError};
use ttmon_testing::until;

/// Makes this program an owner that waits for a signal.
const OWNER: &str = "TTMON_SIM_TEST_OWNER";

fn main() -> ExitCode {
    if let Some(code) = ttmon_sim::run_as_part() {
        return code;
    }
    if let Ok(end) = env::var(OWNER) {
        return be_owner(&end);
    }
    let tests: &[(&str, fn())] = &[
        ("a_machine_runs_and_goes", a_machine_runs_and_goes),
        ("a_killed_worker_leaves_its_slot", a_killed_worker_leaves_its_slot),
        ("a_killed_owner_leaves_nothing", || owner_leaves_nothing("wait", Some(Signal::KILL))),
        ("an_interrupted_owner_leaves_nothing", || owner_leaves_nothing("wait", Some(Signal::INT))),
        ("an_exiting_owner_leaves_nothing", || owner_leaves_nothing("exit", None)),
        ("a_panicking_owner_leaves_nothing", || owner_leaves_nothing("panic", None)),
        ("a_forgetful_owner_leaves_nothing", || owner_leaves_nothing("forget", None)),
        ("a_killed_engine_takes_its_workers", a_killed_engine_takes_its_workers),
        ("leftovers_of_two_kills_are_swept", leftovers_of_two_kills_are_swept),
        ("a_galaxy_starts", a_galaxy_starts),
        ("workers_sleep", workers_sleep),
        ("bad_machines_do_not_start", bad_machines_do_not_start),
    ];
    // The tests run in one thread, because they count processes.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let trial = |(name, test): &(&str, fn())| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    };
    libtest_mimic::run(&arguments, tests.iter().map(trial).collect()).exit_code()
}

fn start(spec: &str) -> Simulation {
    Simulation::start(&Spec::parse(spec).unwrap(), 1).unwrap()
}

/// Returns the pids in all `pids` files, each once.
fn pids(root: &Path) -> Vec<u32> {
    let mut pids = Vec::new();
    for entry in fs::read_dir(root.join("proc/driver/tenstorrent")).into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path().join("pids")).unwrap_or_default();
        pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
    }
    pids.sort_unstable();
    pids.dedup();
    pids
}

fn slot_pids(root: &Path) -> Vec<u32> {
    let mut pids = Vec::new();
    for entry in fs::read_dir(root.join("dev/shm")).unwrap().flatten() {
        let region = Region::parse(&fs::read(entry.path()).unwrap()).unwrap();
        pids.extend(region.slots.iter().map(|slot| slot.pid));
    }
    pids.sort_unstable();
    pids.dedup();
    pids
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

fn is_alive(number: u32) -> bool {
    let is_zombie = fs::read_to_string(format!("/proc/{number}/stat")).is_ok_and(|stat| stat.contains(") Z "));
    !is_zombie && test_kill_process(pid(number)).is_ok()
}

fn parent_of(number: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    line.trim().parse().unwrap()
}

fn a_machine_runs_and_goes() {
    let simulation = start("t3k");
    let root = simulation.root().to_owned();
    let pids = pids(&root);
    assert_eq!(pids.len(), 3);
    let commands: Vec<String> = pids.iter().map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap()).collect();
    assert_eq!(commands[0], "python3\0serve.py\0--model\0llama-3-8b\0--port\08000\0");
    for pid in &pids {
        assert_eq!(fs::read_to_string(format!("/proc/{pid}/comm")).unwrap(), "python3\n");
        assert!(is_alive(*pid));
    }
    // Two processes report changing memory. One process holds a device and reports nothing.
    assert_eq!(slot_pids(&root), pids[..2]);
    let engine = parent_of(pids[0]);
    let heartbeat = root.join("sys/class/tenstorrent/tenstorrent!0/tt_heartbeat");
    let before = fs::read_to_string(&heartbeat).unwrap();
    until("the heart beats", || fs::read_to_string(&heartbeat).unwrap() != before);
    drop(simulation);
    assert!(!root.exists(), "{}", root.display());
    assert!(!pids.iter().chain([&engine]).any(|pid| is_alive(*pid)), "{pids:?}");
}

fn a_killed_worker_leaves_its_slot() {
    let simulation = start("n150x2,procs=2");
    let before = pids(simulation.root());
    kill_process(pid(before[0]), Signal::KILL).unwrap();
    until("the pid goes", || pids(simulation.root()) == before[1..]);
    assert_eq!(slot_pids(simulation.root()), before);
    assert!(is_alive(before[1]));
}

/// Runs as another process of this program that owns a simulation.
fn be_owner(end: &str) -> ExitCode {
    let simulation = start("n300x2,procs=3");
    println!("{}", simulation.root().display());
    match end {
        "wait" => thread::sleep(Duration::from_secs(60)),
        "exit" => std::process::exit(3),
        "panic" => panic!("as asked"),
        "forget" => std::mem::forget(simulation),
        other => panic!("unknown end {other}"),
    }
    ExitCode::SUCCESS
}

/// Sends a signal to the owner's whole process group, like a terminal does, and checks that nothing is left.
fn owner_leaves_nothing(end: &str, signal: Option<Signal>) {
    let (mut owner, root, pids) = start_owner(end);
    if let Some(signal) = signal {
        assert_eq!(pids.len(), 3);
        kill_process_group(pid(owner.id()), signal).unwrap();
    }
    owner.wait().unwrap();
    until("the tree goes", || !root.exists());
    until("the workers go", || !pids.iter().any(|pid| is_alive(*pid)));
}

fn start_owner(end: &str) -> (std::process::Child, PathBuf, Vec<u32>) {
    let mut command = Command::new(env::current_exe().unwrap());
    command.env(OWNER, end).process_group(0).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut owner = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(owner.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let root = PathBuf::from(line.trim_end());
    let pids = pids(&root);
    (owner, root, pids)
}

fn a_killed_engine_takes_its_workers() {
    let simulation = start("n150,procs=4");
    let (root, pids) = (simulation.root().to_owned(), pids(simulation.root()));
    kill_process(pid(parent_of(pids[0])), Signal::KILL).unwrap();
    until("the workers go", || !pids.iter().any(|pid| is_alive(*pid)));
    drop(simulation);
    assert!(!root.exists());
}

fn leftovers_of_two_kills_are_swept() {
    let (mut owner, root, pids) = start_owner("wait");
    // A stopped engine cannot clean up when its owner ends.
    let engine = pid(parent_of(pids[0]));
    kill_process(engine, Signal::STOP).unwrap();
    owner.kill().unwrap();
    owner.wait().unwrap();
    kill_process(engine, Signal::KILL).unwrap();
    until("the workers go", || !pids.iter().any(|pid| is_alive(*pid)));
    assert!(root.exists());
    until("the engine goes", || test_kill_process(engine).is_err() || !is_alive(engine.as_raw_nonzero().get().unsigned_abs()));
    drop(start("n150,idle"));
    assert!(!root.exists());
}

fn a_galaxy_starts() {
    let simulation = start("galaxy,procs=8");
    assert_eq!(pids(simulation.root()).len(), 8);
}

fn workers_sleep() {
    let simulation = start("galaxy,procs=1");
    let worker = pids(simulation.root())[0];
    let sleeps = || {
        let status = fs::read_to_string(format!("/proc/{worker}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    // The count would not increase if the worker never slept.
    let before = sleeps();
    until("ten sleeps", || sleeps() >= before + 10);
}

fn bad_machines_do_not_start() {
    let error = Simulation::start(&Spec::parse("n150,fault=hot:1").unwrap(), 1).unwrap_err();
    assert!(matches!(error, StartError::Spec(_)), "{error}");
    assert_eq!(error.to_string(), "no device 1 to have a fault; this machine has 0 to 0");
    // The environment names a directory of another program. Nothing is started, and nothing is removed.
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.env("TTMON_SIM_PART", "engine").env("TTMON_SIM_PART_SPEC", "n150").env("TTMON_SIM_PART_SEED", "1");
    command.env("TTMON_SIM_PART_DIR", directory.path()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut stray = command.spawn().unwrap();
    let mut words = String::new();
    stray.stdout.take().unwrap().read_to_string(&mut words).unwrap();
    assert!(words.ends_with("is no directory of a simulation"), "{words}");
    assert!(!stray.wait().unwrap().success() && directory.path().exists());
}
