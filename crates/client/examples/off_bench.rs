//! Measures the cost of a report while tracking is off, against an empty loop: `cargo run --release -p ttmon-client --example off_bench`.

use std::hint::black_box;
use std::time::Duration;

const CALLS: u32 = 10_000_000;
const ROUNDS: usize = 50;

fn main() {
    if ttmon_client::report_device_close(0) != ttmon_client::Outcome::Off {
        println!("tracking is on here: unset TT_ALLOC_TRACKING_ENABLED and TTMON_TRACKING");
        return;
    }
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
    println!("empty loop                       {empty:5.2} ns");
    println!("disabled report_allocation       {rust:5.2} ns, {:5.2} more", rust - empty);
    println!("disabled ttmon_report_allocation {c:5.2} ns, {:5.2} more (called through a pointer, as across libraries)", c - empty);
}

type Report = extern "C" fn(i32, u64, u8, u64) -> i32;

fn c_function() -> Report {
    black_box(ttmon_client::ttmon_report_allocation)
}

fn time(call: impl Fn(u64)) -> Duration {
    let start = cpu();
    for i in 0..CALLS {
        call(u64::from(i));
    }
    cpu() - start
}

/// CPU time of this thread, which is less sensitive to a busy machine than wall time.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to a local struct.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
}
