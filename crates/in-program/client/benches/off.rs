//! Measures the cost of a report while tracking is off, against an empty loop: `cargo xtask bench off`.

use std::hint::black_box;
use std::time::Duration;

use ttmon_testing::measure::{Limit, Verdicts, load, thread_time};

const MAX: Limit = Limit::AtMost(2.0, "ns");

const CALLS: u32 = 10_000_000;
const ROUNDS: usize = 50;

fn main() {
    if ttmon_client::report_device_close(0) != ttmon_client::Outcome::Off {
        println!("tracking is on here: unset TT_ALLOC_TRACKING_ENABLED and TTMON_TRACKING");
        return;
    }
    println!("# A report while tracking is off\n\nload before: {}\n", load());
    // The measurements are interleaved, and the best of each counts: a disturbance affects both.
    let mut best = [Duration::MAX; 3];
    for _ in 0..ROUNDS {
        let taken = [
            time(|i| {
                black_box(i);
            }),
            time(|i| {
                black_box(ttmon_client::report_allocation(black_box(0), i, 0, i));
            }),
            time(|i| {
                black_box(c_function()(black_box(0), i, 0, i));
            }),
        ];
        for (best, taken) in best.iter_mut().zip(taken) {
            *best = taken.min(*best);
        }
    }
    let [empty, rust, c] = best.map(|taken| taken.as_secs_f64() * 1e9 / f64::from(CALLS));
    let mut verdicts = Verdicts::default();
    println!("empty loop                       {empty:5.2} ns");
    verdicts.print(&format!("disabled report_allocation       {rust:5.2} ns, {:5.2} more", rust - empty), &[(rust, MAX)]);
    let line =
        format!("disabled ttmon_report_allocation {c:5.2} ns, {:5.2} more (called through a pointer, as across libraries)", c - empty);
    verdicts.print(&line, &[(c, MAX)]);
    println!("\nload after:  {}\n\n{verdicts}", load());
}

type Report = extern "C" fn(i32, u64, u8, u64) -> i32;

fn c_function() -> Report {
    black_box(ttmon_client::ttmon_report_allocation)
}

fn time(call: impl Fn(u64)) -> Duration {
    let start = thread_time();
    for i in 0..CALLS {
        call(u64::from(i));
    }
    thread_time() - start
}
