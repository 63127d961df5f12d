//! Measures the cost of preloading for a program that never uses TT-Metal, and of `ttmon run` around a program:
//! `cargo xtask bench run [--runs N | --quick]`.
//!
//! The folder of the released libraries, with the program, comes in `TTMON_BENCH_LIBRARIES`.
#![allow(clippy::unwrap_used, reason = "a bench")]

mod measure;

use std::path::{Path, PathBuf};

use measure::{Cost, cost, milliseconds};
use ttmon_testing::measure::{load, number, quantile};

const STUB_US_MAX: f64 = 100.0;
/// Enough for a stable median and 90th percentile.
const RUNS: usize = 200;
const QUICK_RUNS: usize = 10;
const WARM_UP_RUNS: usize = 5;

/// A way to start a program.
struct Start {
    name: &'static str,
    program: PathBuf,
    arguments: Vec<String>,
    limit_us: Option<f64>,
    costs: Vec<Cost>,
}

fn main() {
    if measure::was_launcher() {
        return;
    }
    let Some(libraries) = std::env::var_os("TTMON_BENCH_LIBRARIES").map(PathBuf::from) else {
        println!("not measured: cargo xtask bench run builds the libraries");
        return;
    };
    let runs = number("--runs", RUNS, QUICK_RUNS);
    let mut starts = starts(&libraries);
    println!("load before: {}", load());
    for _ in 0..WARM_UP_RUNS + runs {
        for start in &mut starts {
            let arguments: Vec<&str> = start.arguments.iter().map(String::as_str).collect();
            start.costs.push(cost(&start.program, &arguments));
        }
    }
    println!("load after:  {}\n", load());
    println!("{:<20} {:>9} {:>9} {:>9} {:>11} {:>9}  verdict", "start of", "wall us", "p90", "CPU us", "more than 1", "limit");
    let mut plain = None;
    for start in &starts {
        let (walls, cpus): (Vec<_>, Vec<_>) = start.costs.iter().skip(WARM_UP_RUNS).map(|cost| (cost.wall, cost.cpu)).unzip();
        let us = |times: &[_], percent| quantile(&milliseconds(times), percent) * 1000.0;
        let wall = us(&walls, 50);
        let more = wall - *plain.get_or_insert(wall);
        let verdict = start.limit_us.map_or("", |limit| if more <= limit { "holds" } else { "MISSED" });
        let limit = start.limit_us.map_or("-".to_owned(), |limit| limit.to_string());
        let (p90, cpu) = (us(&walls, 90), us(&cpus, 50));
        println!("{:<20} {wall:>9.0} {p90:>9.0} {cpu:>9.0} {more:>11.0} {limit:>9}  {verdict}", start.name);
    }
    println!("\nMedians of {runs} runs a row, taken in turns, from exec to exit by a small launcher; `env` starts all but the last.");
}

/// `env` starts all except the last, so that they differ only in the preloaded library.
fn starts(libraries: &Path) -> [Start; 4] {
    let preload = |name: &str| format!("LD_PRELOAD={}", libraries.join(name).display());
    let start = |name, variable: String, limit_us| Start {
        name,
        program: "/usr/bin/env".into(),
        arguments: vec![variable, "true".to_owned()],
        limit_us,
        costs: Vec::new(),
    };
    let run = ["run", "--quiet", "--", "true"].map(str::to_owned).to_vec();
    [
        start("true", "NOTHING=preloaded".to_owned(), None),
        start("true with the stub", preload("libttmon_stub.so"), Some(STUB_US_MAX)),
        start("true with the hook", preload("libttmon_hook.so"), None),
        Start { program: libraries.join("ttmon"), arguments: run, ..start("ttmon run -- true", String::new(), None) },
    ]
}
