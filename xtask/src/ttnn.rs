//! `cargo xtask ttnn`: runs the real ttnn on mock chips, and compares ttmon with TT-Metal's allocators.
//!
//! ```text
//!  environment  a venv with a pinned ttnn and a stand-in for its `compiler`     chips    the mock machines, cluster descriptors
//!  fresh        one with our wheel, which is lent that ttnn                     tree     rows of a machine for chips to be on
//!  case         which script runs where and how; xtask/ttnn/scripts do one thing after another and report the allocators' view
//!  drive        starts one, and at every step asks `outside` (ttmon mem --json --banks --blocks) and `region` (TT-Metal's /dev/shm)
//!  compare, circular, lines, report    what differs, in words                            versions the table of docs/ttnn-versions.md
//! ```

mod case;
mod chips;
mod circular;
mod compare;
mod compiler;
mod drive;
mod environment;
mod fresh;
mod lines;
mod outside;
mod region;
mod report;
mod timeout;
mod tree;
mod versions;

use std::time::{Duration, Instant};

use crate::package;
use crate::project::Project;
use crate::stop::Stop;

use case::{CASES, Case, Started};
use drive::Driver;
use outside::Tracking;

pub(crate) use environment::Environment;

/// The versions that the stage runs: the newest, and the last version whose buffers had no getters.
pub(crate) const PINNED: &[&str] = &["0.81.1", "0.77.0"];

/// Time limit for all cases of a version. They take a minute; without a limit, a hang in each would take an hour.
const LIMIT: Duration = Duration::from_secs(240);

#[derive(Default)]
pub(crate) struct Score {
    pub(crate) passed: u64,
    pub(crate) failed: Vec<&'static str>,
}

pub(crate) fn run(project: &Project, arguments: &[String]) -> Result<(), Stop> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.split_first() {
        Some((&"setup", rest)) => setup(project, rest),
        Some((&"compare", rest)) => compare_some(project, rest),
        Some((&"versions", rest)) => Ok(versions::print(project, rest)?),
        Some((&"cases", [])) => {
            print!("{}", case::list());
            Ok(())
        }
        _ => Err(Stop::Usage(
            "ttnn wants one of: setup [VERSION]..., compare [--version V]... [CASE]..., versions [VERSION]..., cases".into(),
        )),
    }
}

fn setup(project: &Project, versions: &[&str]) -> Result<(), Stop> {
    for version in if versions.is_empty() { PINNED } else { versions } {
        let environment = Environment::have(project, version)?;
        println!("ttnn {version}: {}", environment.python.display());
    }
    Ok(())
}

fn compare_some(project: &Project, words: &[&str]) -> Result<(), Stop> {
    let mut versions = Vec::new();
    let mut cases = Vec::new();
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        match word {
            "--version" => versions.push(*words.next().ok_or_else(|| Stop::Usage("--version wants a version of ttnn".into()))?),
            name if CASES.iter().any(|case| case.name == name) => cases.push(name),
            name => return Err(Stop::Usage(format!("there is no case {name}\n{}", case::list()))),
        }
    }
    let versions = if versions.is_empty() { PINNED.to_vec() } else { versions };
    let mut failed = 0;
    for version in versions {
        let environment = Environment::have(project, version)?;
        failed += compare(project, &environment, &cases)?.failed.len();
    }
    if failed == 0 { Ok(()) } else { Err(Stop::Failed(format!("{failed} of the cases differ"))) }
}

/// Runs the cases with these names, or all, with one version. Each prints a line.
pub(crate) fn compare(project: &Project, environment: &Environment, names: &[&str]) -> Result<Score, String> {
    let tracking = Tracking::build(project)?;
    let chosen: Vec<&Case> = CASES.iter().filter(|case| names.is_empty() || names.contains(&case.name)).collect();
    let wants_wheel = chosen.iter().any(|case| case.started == Started::ByWheel);
    let fresh = if wants_wheel { Some(fresh::make(project, environment, &package::wheel::build(project)?)?) } else { None };
    let driver = Driver { project, environment, tracking: &tracking, fresh };
    let mut score = Score::default();
    let deadline = Instant::now() + LIMIT;
    for case in chosen.into_iter().filter(|case| case.since <= environment.minor()) {
        let result = if Instant::now() < deadline { driver.run(case) } else { Err("not run: the others took too long".to_owned()) };
        match result {
            Ok(seen) => {
                score.passed += 1;
                println!("ttnn {} {:<22} ok: {seen}", environment.version, case.name);
            }
            Err(why) => {
                score.failed.push(case.name);
                println!("ttnn {} {:<22} FAILED: {why}", environment.version, case.name);
            }
        }
    }
    Ok(score)
}

/// Returns the environments of the stage, or why none is available.
pub(crate) fn environments(project: &Project) -> Result<Vec<Environment>, String> {
    PINNED.iter().map(|version| Environment::have(project, version)).collect()
}
