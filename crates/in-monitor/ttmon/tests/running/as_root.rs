//! Commands as other users and in separate namespaces, which only root can start. They run in the stage `root`.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::Case;
use crate::program::SCRIPT;
use crate::tools::{Running, ran, run};

pub(crate) const CASES: &[Case] = &[
    ("another_users_program", another_users_program),
    ("a_program_in_a_container", a_program_in_a_container),
    ("a_full_disk", a_full_disk),
];

const NOBODY: &str = "65534";

/// This program, copied to a path where all users may execute it.
struct Program {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn program() -> Program {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = folder.path().join("guinea-pig");
    fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
    Program { _folder: folder, path }
}

/// Returns all processes as root sees them.
fn processes() -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ttmon"));
    let ran = ran(command.args(["mem", "--json", "--buffers"]).env_remove("TTMON_SIM").stdin(Stdio::null()));
    let json: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr));
    json["processes"].as_array().unwrap().clone()
}

/// Runs `ttmon run -- AROUND... this program`. Checks its process from the host while it runs, and the report at the end.
fn check(around: &[&str], expected_user: &str) -> Value {
    let program = program();
    let report = tempfile::tempdir().unwrap();
    let path = report.path().join("report.json");
    let words = [&["--report", path.to_str().unwrap(), "--"], around, &[program.path.to_str().unwrap()]].concat();
    let mut running = Running::start(run(&words).env(SCRIPT, "t weights; a 0 123456 16; say ready; flush; wait; exit 6"));
    assert_eq!(running.line(), "ready");
    let is_ours = |process: &&Value| process["unmapped"][0]["kinds"]["dram"]["used"] == 123_456;
    let seen = processes();
    let ours = seen.iter().find(is_ours).unwrap_or_else(|| panic!("{around:?} is not seen: {seen:?}"));
    assert_eq!((&ours["status"], &ours["uid"].to_string()), (&json!("tracked"), &expected_user.to_owned()), "{ours}");
    let ran = running.end();
    assert_eq!(ran.code(), Some(6), "{}", ran.stderr);
    let mut reported: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    reported["seen"] = ours.clone();
    reported
}

fn another_users_program() {
    let reported = check(&["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"], NOBODY);
    assert_eq!((&reported["leaks"][0]["size"], &reported["leaks"][0]["tag"]), (&json!(123_456), &json!("weights")), "{reported}");
    assert_eq!(reported["processes"][0]["pid"], reported["seen"]["pid"]);
}

fn a_program_in_a_container() {
    let reported = check(&["unshare", "--mount", "--pid", "--fork", "--mount-proc"], "0");
    // Inside the namespace the pid is 1. The report has the pid on the host.
    assert_eq!(reported["processes"][0]["pid"], reported["seen"]["pid"], "{reported}");
    assert!(reported["seen"]["pid"].as_u64().unwrap() > 1);
    assert_eq!(reported["leaks"][0]["size"], 123_456);
    // With its own /tmp the program cannot reach the socket: the report does not have it, but it is visible while it runs.
    let hidden = "mount -t tmpfs none \"$0\" && shift 0 && exec \"$@\"";
    let folder = tempfile::tempdir().unwrap();
    let (place, program) = (folder.path().to_str().unwrap(), program());
    let words = ["--", "unshare", "--mount", "--pid", "--fork", "sh", "-c", hidden, place, program.path.to_str().unwrap()];
    let mut command = run(&words);
    let mut running = Running::start(command.env(SCRIPT, "a 0 654321 16; say ready; flush; wait; exit 6").env("TMPDIR", place));
    assert_eq!(running.line(), "ready");
    assert!(processes().iter().any(|process| process["unmapped"][0]["kinds"]["dram"]["used"] == 654_321));
    let ran = running.end();
    assert_eq!(ran.code(), Some(6), "{}", ran.stderr);
    assert!(ran.stderr.contains("nothing was tracked"), "{}", ran.stderr);
}

/// The report is either complete or missing.
fn a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap().to_owned();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8k", "none", &place]).status().unwrap();
    assert!(mounted.success());
    fs::write(folder.path().join("report.json"), "old").unwrap();
    let fill = format!("cat /dev/zero > '{place}/full' 2>/dev/null; echo done");
    let path = format!("{place}/report.json");
    let ran = ran(&mut run(&["--quiet", "--report", &path, "--", "sh", "-c", &fill]));
    let left = fs::read_dir(folder.path()).unwrap().count();
    let kept = fs::read_to_string(&path).unwrap();
    assert!(Command::new("umount").arg(&place).status().unwrap().success());
    assert_eq!((ran.code(), ran.stdout.as_str(), left, kept.as_str()), (Some(0), "done\n", 2, "old"), "{}", ran.stderr);
    assert!(ran.stderr.contains("No space left") && ran.stderr.lines().count() == 1, "{}", ran.stderr);
    let elsewhere = ran.stderr.trim_end().rsplit_once("the report is in ").unwrap().1;
    assert!(fs::read_to_string(elsewhere).unwrap().starts_with('{'));
    fs::remove_file(elsewhere).unwrap();
}
