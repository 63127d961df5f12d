//! Measures `ttmon mem` with a process that has a million live buffers: `cargo xtask bench mem`.
//!
//! The process is this bench again, with the argument `--hold`. It ends with its standard input.
#![allow(clippy::unwrap_used, reason = "a bench")]

mod measure;

use std::env;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use measure::cost;
use ttmon_client::{Options, Outcome, TTMON_DRAM, TTMON_L1};
use ttmon_testing::measure::load;

const BUFFERS: u64 = 1_000_000;
const RUNS: usize = 5;
const HOLD: &str = "--hold";

/// Arguments, the most seconds of processor time, and the most megabytes.
const ROWS: [(&[&str], f64, f64); 2] =
    [(&["mem", "--no-server", "--json", "--buffers"], 1.5, 160.0), (&["mem", "--no-server", "--buffers", "--top", "10"], 0.2, 100.0)];

fn main() {
    if measure::was_launcher() {
        return;
    }
    if env::args().nth(1).is_some_and(|argument| argument == HOLD) {
        return hold();
    }
    let program = measure::released();
    let mut holder = Command::new(env::current_exe().unwrap()).arg(HOLD).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = holder.id().to_string();
    println!("load before: {}", load());
    println!("\n{:<44} {:>7} {:>7} {:>8} {:>7}  verdict", format!("with {BUFFERS} buffers"), "CPU s", "limit", "peak MB", "limit");
    for (arguments, cpu_s_max, peak_mb_max) in ROWS {
        let costs: Vec<_> = (0..RUNS).map(|_| cost(&program, &[arguments, &["--pid", &pid]].concat())).collect();
        let cpu_s = costs.iter().map(|cost| cost.cpu.as_secs_f64()).fold(f64::INFINITY, f64::min);
        let peak_mb = costs.iter().map(|cost| cost.peak_kib as f64 * 1024.0 / 1e6).fold(f64::INFINITY, f64::min);
        let verdict = if cpu_s <= cpu_s_max && peak_mb <= peak_mb_max { "holds" } else { "MISSED" };
        let name = format!("ttmon {}", arguments.join(" "));
        println!("{name:<44} {cpu_s:>7.2} {cpu_s_max:>7.1} {peak_mb:>8.0} {peak_mb_max:>7.0}  {verdict}");
    }
    println!("\nThe least of {RUNS} runs. The output is discarded.");
    drop(holder.stdin.take());
    holder.wait().unwrap();
}

/// Reports the buffers, says so, and waits.
fn hold() {
    ttmon_client::start(Options { machine: 0 });
    for first in (0..BUFFERS).step_by(1000) {
        let _layer = ttmon_client::tag(&format!("layers.{}.attention", first / 1000 % 64));
        for number in first..first + 1000 {
            let buffer_type = if number % 2 == 0 { TTMON_DRAM } else { TTMON_L1 };
            let outcome = ttmon_client::report_allocation(0, 1024 * (1 + number * 7919 % 4096), buffer_type, 0x1000 + number * 0x1000);
            assert_eq!(outcome, Outcome::Recorded);
        }
    }
    println!("ready");
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
}
