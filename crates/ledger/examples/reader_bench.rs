//! Measures the CPU time to read a list of live buffers and the figures, against a plain read of the same bytes.
//!
//! `cargo run --release -p ttmon-ledger --example reader_bench -- [live buffers] [rounds]`

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use ttmon_ledger::reader::{Exactness, Region};

#[path = "../tests/all/reader/encoder.rs"]
mod encoder;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let live: u32 = arguments.next().map_or(Ok(1 << 20), |text| text.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(15), |text| text.parse())?;
    let region = encoder::filled(encoder::Shape::full(1 << 20), live, 4096);
    let (offset, bytes) = (region.entries.offset, u64::from(live) * 64);
    let mut file = tempfile::tempfile_in("/dev/shm")?;
    file.write_all(&region.bytes)?;
    drop(region);
    let reader = Region::open(file.try_clone()?)?;

    let mut read = Vec::new();
    let mut list = Vec::new();
    let mut totals = Vec::new();
    let mut events = Vec::new();
    for _ in 0..rounds {
        read.push(timed(|| plain(&file, offset, bytes))?);
        list.push(timed(|| {
            let listing = black_box(reader.list()?);
            assert_eq!((listing.totals.exactness, listing.entries.len()), (Exactness::Exact, live as usize));
            Ok(())
        })?);
        let hundred = timed(|| {
            for _ in 0..100 {
                black_box(reader.totals()?);
            }
            Ok(())
        })?;
        totals.push(hundred / 100);
        events.push(timed(|| {
            black_box(reader.events(0)?);
            Ok(())
        })?);
    }
    for (what, mut times) in [("plain pread of the entries", read), ("list", list), ("totals", totals), ("events", events)] {
        times.sort_unstable();
        println!("{what:<28} best {:>10.1?}  median {:>10.1?}", times[0], times[times.len() / 2]);
    }
    Ok(())
}

fn timed(work: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let start = cpu();
    work()?;
    Ok(cpu() - start)
}

/// CPU time of this thread, which is less sensitive to a busy machine than wall time.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to a local struct.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
}

fn plain(file: &File, offset: u64, bytes: u64) -> Result<(), Box<dyn Error>> {
    let mut chunk = vec![0; 256 * 1024];
    let mut done = 0;
    while done < bytes {
        let wanted = usize::try_from(bytes - done)?.min(chunk.len());
        file.read_exact_at(&mut chunk[..wanted], offset + done)?;
        black_box(&chunk);
        done += wanted as u64;
    }
    Ok(())
}
