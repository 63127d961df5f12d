//! Runs the real ttnn on mock chips, and compares ttmon with TT-Metal's allocators.
//!
//! `cargo xtask ttnn` installs versions of ttnn, builds the libraries beside the program, and starts these tests with the Pythons in
//! `TTMON_TTNN_PYTHON` and, for cases of the wheel, `TTMON_TTNN_WHEEL_PYTHON`. Without them only the comparisons themselves are tested.
//!
//! ```text
//!  case      which script runs where and how; scripts/ do one thing after another and report the allocators' view at each step
//!  mock      the mock chips, and the simulated machine on whose rows they may be
//!  drive     starts a script, and at every step asks `outside` (ttmon mem --json --banks --blocks) and `region` (TT-Metal's /dev/shm)
//!  compare, circular, report                     what differs, in words
//!  checks    tests of the comparisons
//! ```
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod case;
mod checks;
mod circular;
mod compare;
mod drive;
mod mock;
mod outside;
mod region;
mod report;

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};
use std::time::Instant;

use libtest_mimic::{Arguments, Trial};
use ttmon_testing::ttnn::{self, Version};

use case::{CASES, Case, Started, Tier};

static VERSIONS: LazyLock<Vec<Version>> = LazyLock::new(ttnn::versions);

fn main() {
    let arguments = Arguments::from_args();
    let versions = &*VERSIONS;
    if versions.is_empty() {
        println!("NOTHING IS COMPARED WITH THE REAL TTNN: {} is not set; cargo xtask ttnn sets it", ttnn::PYTHON);
    }
    let cases = versions.iter().flat_map(|version| {
        let has_wheel = version.wheel_python.is_some();
        let can_run = move |case: &&Case| case.since <= version.minor() && (has_wheel || case.started != Started::ByWheel);
        CASES.iter().filter(can_run).map(|case| compared(version, case))
    });
    let checks = checks::CHECKS.iter().map(|&(name, check)| {
        Trial::test(name, move || {
            check();
            Ok(())
        })
    });
    let conclusion = libtest_mimic::run(&arguments, checks.chain(cases).collect());
    for (version, [started, equal]) in COUNTS.lock().unwrap().iter() {
        println!("ttnn {version}: {equal} of {started} cases equal");
    }
    conclusion.exit();
}

/// By version: how many cases were started, and how many of them were equal.
static COUNTS: Mutex<BTreeMap<&str, [u64; 2]>> = Mutex::new(BTreeMap::new());

fn count(version: &'static Version, index: usize) {
    COUNTS.lock().unwrap().entry(&version.name).or_default()[index] += 1;
}

fn compared(version: &'static Version, case: &'static Case) -> Trial {
    let name = format!("{}::{}", version.name, case.name);
    let run = {
        let name = name.clone();
        move || {
            count(version, 0);
            let start = Instant::now();
            let seen = drive::run(version, case)?;
            println!("{name}: {:.1} s, {seen}", start.elapsed().as_secs_f64());
            count(version, 1);
            Ok(())
        }
    };
    Trial::test(name, run).with_ignored_flag(case.tier == Tier::Nightly)
}
