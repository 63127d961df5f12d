//! Measures the CPU time to read a list of live buffers and the figures, against a plain read of the same bytes.
//!
//! `cargo xtask bench list`

#![allow(clippy::unwrap_used, reason = "a bench")]

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use ttmon_ledger_reader::{LedgerDetail, Lines, Region};
use ttmon_model::ledger::Exactness;
use ttmon_testing::encoder;
use ttmon_testing::measure::{Limit, Verdicts, load, quantile, thread_time};

const LIVE: u32 = 1 << 20;
const ROUNDS: usize = 15;
const LIST_MAX: Limit = Limit::AtMost(50.0, "ms");
const TOTALS_MAX: Limit = Limit::AtMost(20.0, "µs");

fn main() {
    println!("# Reader: all live buffers, and the totals of the header\n\nload before: {}\n", load());
    let region = encoder::filled(encoder::Shape::full(1 << 20), LIVE, 4096);
    let (offset, bytes) = (region.entries.offset, u64::from(LIVE) * 64);
    let mut file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.write_all(&region.bytes).unwrap();
    drop(region);
    let reader = Region::open(file.try_clone().unwrap()).unwrap();

    let (mut read, mut list, mut totals, mut events) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        read.push(timed(|| plain(&file, offset, bytes)));
        list.push(timed(|| {
            let listed = reader.ledger(|_| LedgerDetail::Buffers, Lines::default, &mut |_, _| true);
            let ledger = black_box(listed.unwrap().unwrap());
            assert_eq!((ledger.exactness, ledger.buffers.len()), (Exactness::Exact, LIVE as usize));
        }));
        let hundred = timed(|| {
            for _ in 0..100 {
                black_box(reader.figures().unwrap());
            }
        });
        totals.push(hundred / 100);
        events.push(timed(|| drop(black_box(reader.events(0).unwrap()))));
    }
    let mut verdicts = Verdicts::default();
    for (what, times, limit) in [
        ("plain pread of the entries", read, None),
        ("list", list, Some((1e3, LIST_MAX))),
        ("totals", totals, Some((1e6, TOTALS_MAX))),
        ("events", events, None),
    ] {
        let [best, median] = [0, 50].map(|percent| quantile(&times, percent));
        let figures = limit.map(|(scale, limit)| (median.as_secs_f64() * scale, limit));
        verdicts.print(&format!("{what:<28} best {best:>10.1?}  median {median:>10.1?}"), figures.as_slice());
    }
    println!("\nload after:  {}\n\n{verdicts}", load());
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = thread_time();
    work();
    thread_time() - start
}

fn plain(file: &File, offset: u64, bytes: u64) {
    let mut chunk = vec![0; 256 * 1024];
    let mut done = 0;
    while done < bytes {
        let wanted = usize::try_from(bytes - done).unwrap().min(chunk.len());
        file.read_exact_at(&mut chunk[..wanted], offset + done).unwrap();
        black_box(&chunk);
        done += wanted as u64;
    }
}
