//! `cargo xtask driver-vm`: runs the real kernel driver on simulated chips in a virtual machine, monitored by ttmon.
//!
//! ```text
//!  driver-vm/setup   builds kernel, drivers, simulator and QEMU device, once      boots   which board boots with which drivers
//!  driver-vm/run     boots one machine and runs this program in it as `guest`     guest   what is checked inside
//! ```
//! docs/driver-vm.md describes what this proves and what it does not.

mod boots;
mod guest;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::files;
use crate::package;
use crate::project::{self, Project};
use crate::stop::{NotPassed, Stop, untested};
use crate::tools;
use boots::{Boot, Choice};

pub(crate) use boots::all as gate;

pub(crate) const ARGUMENTS: &str = "[--board B] [--driver V] [--program PATH] [SCENARIO]";

/// Number of machines at a time. Most of a scenario is waiting for the next sample.
const MACHINES: usize = 2;
/// Time limit of a machine. The longest takes 150 s on a quiet host.
const BOOT_SECONDS_MAX: u64 = 900;
/// Time limit of all machines of the stage on two quiet cores.
const STAGE_SECONDS_MAX: f64 = 360.0;
/// Version of the library whose values of the chip are compared with ours.
const UMD_VERSION: &str = "0.9.14";
/// Exit code of `driver-vm/setup` if this machine cannot have the virtual machine.
const UNAVAILABLE: i32 = 77;

#[derive(Default)]
pub(crate) struct Score {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

/// Which checks are printed. Their number and the time of each machine are always printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    Everything,
    Failures,
}

pub(crate) struct Rig {
    directory: PathBuf,
    /// The list of its parts, printed by `driver-vm/setup`.
    list: PathBuf,
    ttmon: PathBuf,
    checker: PathBuf,
    umd: Option<PathBuf>,
}

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    if let Some((first, rest)) = arguments.split_first()
        && first == guest::WORD
    {
        return guest::run(rest);
    }
    let choice = Choice::parse(arguments).map_err(Stop::Usage)?;
    let boots = choice.boots().map_err(Stop::Usage)?;
    let rig = prepare(project, choice.program.as_deref())?;
    let score = check(&rig, &boots, Detail::Everything)?;
    println!("driver-vm: {} passed, {} failed", score.passed, score.failed);
    if score.failed == 0 { Ok(()) } else { Err(Stop::Told) }
}

/// Builds the virtual machine, unless it is built, and the programs that run in it. It is not available on every machine.
pub(crate) fn prepare(project: &Project, program: Option<&Path>) -> Result<Rig, NotPassed> {
    let started = Instant::now();
    let directory = project.root.join("driver-vm");
    let mut setup = project.command(directory.join("setup"), &[]);
    let said = setup.stderr(Stdio::piped()).output().map_err(|error| format!("driver-vm/setup: {error}"))?;
    let errors = String::from_utf8_lossy(&said.stderr);
    eprint!("{errors}");
    if said.status.code() == Some(UNAVAILABLE) {
        let reason = errors.lines().find(|line| line.starts_with("setup: ") && !line.ends_with(" s")).unwrap_or("setup gave no reason");
        return Err(untested("NOTHING WAS CHECKED AGAINST THE REAL DRIVER")(reason.to_owned()));
    }
    project::succeeded(&setup, said.status)?;
    let list = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
    println!("driver-vm: rig ready after {:.1} s", started.elapsed().as_secs_f64());
    let ttmon = match program {
        Some(program) => fs::canonicalize(program).map_err(files::at(program))?,
        None => package::program::build(project)?,
    };
    Ok(Rig { directory, ttmon, checker: checker(project)?, umd: umd(project, &list), list })
}

/// Installs Tenstorrent's own library from PyPI in a separate environment. It is not required; without it one check is skipped.
fn umd(project: &Project, list: &Path) -> Option<PathBuf> {
    let folder = list.parent()?.join(format!("tt-umd-{UMD_VERSION}"));
    let installed = tools::python(project, &folder, &[&format!("tt-umd=={UMD_VERSION}")]);
    installed.inspect_err(|why| println!("driver-vm: NOT COMPARED with tt-umd: {why}")).ok()?;
    Some(folder.join("bin/python"))
}

/// Copies this program. A stage may have rebuilt it, and then its original file is deleted.
fn checker(project: &Project) -> Result<PathBuf, String> {
    let folder = project.target()?.join("driver-vm");
    files::fresh(&folder)?;
    // The holder of a device is expected to have this name.
    let copy = folder.join("xtask");
    files::copy(Path::new("/proc/self/exe"), &copy)?;
    Ok(copy)
}

/// Boots all machines, some at the same time. The lines of each boot are printed together at its end.
pub(crate) fn check(rig: &Rig, boots: &[Boot], detail: Detail) -> Result<Score, String> {
    let queue = Mutex::new(boots.iter());
    let score = Mutex::new(Score::default());
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..MACHINES {
            scope.spawn(|| {
                while let Some(boot) = queue.lock().ok().and_then(|mut queue| queue.next()) {
                    let (lines, took) = rig.boot(boot);
                    if let Ok(mut score) = score.lock() {
                        score.take(boot, &lines, took, detail);
                    }
                }
            });
        }
    });
    let took = started.elapsed().as_secs_f64();
    let missed = if took > STAGE_SECONDS_MAX { ": MISSED (a busy host?)" } else { "" };
    println!("driver-vm: {} machines in {took:.1} s, at most {STAGE_SECONDS_MAX} s{missed}", boots.len());
    score.into_inner().map_err(|_| "a boot panicked".to_owned())
}

impl Rig {
    fn boot(&self, boot: &Boot) -> (String, Duration) {
        let started = Instant::now();
        let mut command = Command::new(self.directory.join("run"));
        command.current_dir(self.directory.parent().unwrap_or(&self.directory));
        command.arg("--rig").arg(&self.list).args(["--board", boot.board, "--driver", "none"]);
        command.args(["--timeout", &BOOT_SECONDS_MAX.to_string(), "--"]);
        command.arg(&self.checker).args(["driver-vm", guest::WORD]).arg(&self.ttmon).args(boot.words());
        command.arg(self.umd.as_deref().unwrap_or(Path::new(guest::NOTHING)));
        let output = command.stdin(Stdio::null()).output();
        let lines = output.map_or_else(
            |error| format!("{} {}: the machine did not start: {error}\n", guest::FAILED, boot.board),
            |output| {
                let mut lines = String::from_utf8_lossy(&output.stdout).into_owned();
                lines += &String::from_utf8_lossy(&output.stderr);
                if !output.status.success() && !lines.lines().any(|line| line.starts_with(guest::FAILED)) {
                    lines += &format!("{} {}: the machine ended with {}\n", guest::FAILED, boot.board, output.status);
                }
                lines
            },
        );
        (lines, started.elapsed())
    }
}

impl Score {
    fn take(&mut self, boot: &Boot, lines: &str, took: Duration, detail: Detail) {
        let count = |sign: &str| lines.lines().filter(|line| line.starts_with(sign)).count() as u64;
        let (passed, failed) = (count(guest::PASSED), count(guest::FAILED));
        for line in lines.lines().filter(|line| detail == Detail::Everything || !line.starts_with(guest::PASSED)) {
            println!("{line}");
        }
        println!("driver-vm: {}: {passed} passed, {failed} failed, {:.1} s", boot.board, took.as_secs_f64());
        self.passed += passed;
        self.failed += failed;
    }
}
