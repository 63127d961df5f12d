//! Measures the cost of an event against simple baselines, interleaved in one run.
//!
//! `cargo xtask bench event [--quick]`
//!
//! An event is one allocation or one free; each takes and releases the lock. The loop frees a random live buffer and allocates a new one.
//! One thread is measured in CPU time, which is less sensitive to a busy machine. Several threads are measured in wall time, over all their
//! events.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use std::{fs, thread};

use ttmon_ledger::layout::{ENTRIES_MAX, WriterKind};
use ttmon_ledger::writer::{AllocatorId, AllocatorSpec, Buffer, ClockChoice, Config, Key, KindGeometry, Writer};
use ttmon_testing::measure::Limit::{self, AtLeast, AtMost, Below};
use ttmon_testing::measure::{Verdicts, is_quick, kib, load, quantile, thread_time as cpu};

const IDLE_MAX: Limit = Below(64.0, "kB");
const BUFFER_MAX: Limit = AtMost(96.0, "B");
/// Limits of an event of one thread, with up to so many live buffers.
const EVENT_LIVE_MAX: u64 = 100_000;
const EVENT_MAX: Limit = AtMost(100.0, "ns");
const SEND_MIN: Limit = AtLeast(10.0, "x under the send");
const CLOCK_AND_MUTEX_MAX: Limit = AtMost(4.0, "x (clock + mutex)");

/// Rows without a limit.
const SHOWN_ONLY: &str = "\
Shown as they are: 300,000 and 1,000,000 live, beside one random read in as much memory; 4 threads, as a ratio to clock +
mutex in as many threads; p99.99 beside that of the empty loop; growth, which may not stall by our own making.";

fn main() {
    let (rounds, events, latencies, live): (usize, u64, u64, &[u64]) = if is_quick() {
        (3, 200_000, 1_000_000, &[1_000, 10_000, 100_000])
    } else {
        (7, 1_000_000, 10_000_000, &[1_000, 10_000, 100_000, 300_000, 1_000_000])
    };
    println!(
        "# Writer: memory, nanoseconds per event, tails, growth{}\n",
        if is_quick() { " (quick: fewer rounds and sizes)" } else { "" }
    );
    println!("load before: {}\n", load());
    let mut verdicts = Verdicts::default();
    memory(&mut verdicts);
    let mut rows = baselines();
    for &live in live {
        rows.push(Measured::new(format!("one random read in memory for {live}"), random_read(live)));
        for clock in [ClockChoice::Auto, ClockChoice::Monotonic] {
            let row = Measured::new(format!("ledger, {}, {live} live", name(clock)), one_thread(live, clock));
            rows.push(Measured { has_limits: live <= EVENT_LIVE_MAX, ..row });
        }
    }
    let row = Measured::new("ledger, Auto, 1000 live, read at 10 Hz".into(), read_beside(1_000));
    rows.push(Measured { has_limits: true, ..row });
    rows.push(Measured::new("4 threads: clock_gettime + mutex".into(), clock_and_mutex_of_four()));
    for (live, clock) in [(1_000, ClockChoice::Auto), (1_000, ClockChoice::Monotonic), (100_000, ClockChoice::Auto)] {
        rows.push(Measured::new(format!("4 threads: ledger, {}, {live} live", name(clock)), four_threads(live, clock)));
    }
    for _ in 0..rounds {
        for row in &mut rows {
            let nanoseconds = (row.run)(events);
            row.results.push(nanoseconds);
        }
    }
    print(&rows, &mut verdicts);
    latency(latencies);
    growth();
    println!("\nload after:  {}\n\n{SHOWN_ONLY}\n\n{verdicts}", load());
}

fn name(clock: ClockChoice) -> &'static str {
    match clock {
        ClockChoice::Auto => "Auto",
        ClockChoice::Monotonic => "clock_gettime",
    }
}

/// Runs this many events and returns nanoseconds per event.
type Run = Box<dyn FnMut(u64) -> f64>;

struct Measured {
    title: String,
    run: Run,
    results: Vec<f64>,
    has_limits: bool,
}

impl Measured {
    fn new(title: String, run: Run) -> Self {
        Self { title, run, results: Vec::new(), has_limits: false }
    }

    fn median(&self) -> f64 {
        quantile(&self.results, 50)
    }
}

const SEND: usize = 0;
const CLOCK_AND_MUTEX: usize = 1;

fn print(rows: &[Measured], verdicts: &mut Verdicts) {
    let of = |part: &str| rows.iter().find(|row| row.title.starts_with(part)).map_or(f64::NAN, Measured::median);
    let (send, base, base_of_four) = (rows[SEND].median(), rows[CLOCK_AND_MUTEX].median(), of("4 threads: clock"));
    println!("\n| what | ns an event | send / it | it / (clock + mutex) |\n| --- | --- | --- | --- |");
    for row in rows {
        let median = row.median();
        let base = if row.title.starts_with("4 threads") { base_of_four } else { base };
        let limits = [(median, EVENT_MAX), (send / median, SEND_MIN), (median / base, CLOCK_AND_MUTEX_MAX)];
        let line = format!("| {} | {median:.1} | {:.1} | {:.2} |", row.title, send / median, median / base);
        verdicts.print(&line, if row.has_limits { &limits } else { &[] });
    }
}

fn config(clock: ClockChoice) -> Config {
    Config { kind: WriterKind::Client, version: "bench", clock, machine: 1, on_created: None }
}

fn spec(given_id: u32) -> AllocatorSpec<'static> {
    let geometry = KindGeometry { banks: 12, alignment: 64, bank_bytes: 1 << 30, base: 0 };
    AllocatorSpec { given_id, origin: 1, mesh: (0, 0), kinds: [geometry; 6], chips: &[] }
}

/// Live buffers, and the loop that frees and allocates.
struct Load {
    id: AllocatorId,
    addresses: Vec<u64>,
    next: u64,
    random: u64,
    /// Index and address of the next buffer to free. It is read one step ahead: a program knows what it frees, and reading this list is no
    /// cost of the ledger.
    victim: (usize, u64),
}

impl Load {
    fn new(writer: &Writer, number: u32, live: u64) -> Self {
        let id = writer.session().expect("session").open_allocator(&spec(number)).expect("allocator");
        let mut load = Self { id, addresses: Vec::new(), next: 0, random: 1 + u64::from(number), victim: (0, 0) };
        for _ in 0..live {
            let address = load.allocate(writer);
            load.addresses.push(address);
        }
        load
    }

    fn key(&self, address: u64) -> Key {
        Key { allocator: self.id, kind: 0, address }
    }

    #[inline]
    fn allocate(&mut self, writer: &Writer) -> u64 {
        let address = self.next;
        self.next += 4096;
        let buffer = Buffer { size: 4096 + (address >> 12 & 7) * 64, per_bank: 4096, page: 2048, tag: 1, ..Buffer::default() };
        let key = self.key(address);
        if let Ok(mut session) = writer.session_to_add(key) {
            let _ = session.insert(key, &buffer);
        }
        address
    }

    #[inline]
    fn free(&mut self, writer: &Writer) -> usize {
        let (at, address) = self.victim;
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = usize::try_from((self.random >> 33) % (self.addresses.len() as u64 - 1)).expect("in the list");
        // Never the buffer that is about to get another address.
        let other = if other < at { other } else { other + 1 };
        self.victim = (other, self.addresses[other]);
        let key = self.key(address);
        if let Ok(mut session) = writer.session_at(key) {
            black_box(session.remove(key));
        }
        at
    }

    fn run(&mut self, writer: &Writer, events: u64) {
        for _ in 0..events / 2 {
            let at = self.free(writer);
            self.addresses[at] = self.allocate(writer);
        }
    }
}

/// The clock that a writer without one of its own would read.
fn monotonic() -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to a local struct.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time
}

fn each(time: Duration, events: u64) -> f64 {
    time.as_secs_f64() * 1e9 / events as f64
}

fn one_thread(live: u64, clock: ClockChoice) -> Run {
    let writer = Writer::beside_others(config(clock), ENTRIES_MAX);
    let mut load = Load::new(&writer, 0, live);
    Box::new(move |events| {
        let start = cpu();
        load.run(&writer, events);
        each(cpu() - start, events)
    })
}

/// The cost of a dependent access in as much memory as `live` buffers use. An event has one or two such accesses that no writer with a
/// record per buffer can avoid. This is the lower bound, and separates a slow ledger from a busy machine.
fn random_read(live: u64) -> Run {
    const LINE: usize = 8;
    let lines = usize::try_from(live * 85 / 64).expect("fits");
    let mut next: Vec<u64> = vec![0; lines * LINE];
    let mut order: Vec<usize> = (0..lines).collect();
    let mut random = 1_u64;
    for at in (1..lines).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(at, usize::try_from((random >> 33) % at as u64).expect("in the list"));
    }
    for (at, line) in order.iter().enumerate() {
        next[line * LINE] = (order[(at + 1) % lines] * LINE) as u64;
    }
    let mut at = 0_u64;
    Box::new(move |events| {
        let start = cpu();
        for _ in 0..events {
            at = next[usize::try_from(at).expect("in the list")];
        }
        black_box(at);
        each(cpu() - start, events)
    })
}

fn read_beside(live: u64) -> Run {
    let writer = Writer::beside_others(config(ClockChoice::Auto), ENTRIES_MAX);
    let mut load = Load::new(&writer, 0, live);
    Box::new(move |events| {
        let file = fs::File::open(format!("/proc/self/fd/{}", writer.descriptor().expect("descriptor"))).expect("open");
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut bytes = vec![0; 1 << 20];
                while !is_over.load(SeqCst) {
                    // Header, allocators and rows, then the first entries.
                    let _ = file.read_at(&mut bytes[..0x52000], 0);
                    let _ = file.read_at(&mut bytes[..64 * 1024], 0xFE_9000);
                    thread::sleep(Duration::from_millis(100));
                }
            });
            let start = cpu();
            load.run(&writer, events);
            let time = cpu() - start;
            is_over.store(true, SeqCst);
            each(time, events)
        })
    })
}

/// Runs `work` in four threads at once and returns nanoseconds of wall time per event, over all their events.
fn four(events: u64, work: impl Fn(usize, u64) + Sync) -> f64 {
    let barrier = Barrier::new(5);
    let start = thread::scope(|scope| {
        for number in 0..4 {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                work(number, events / 4);
            });
        }
        barrier.wait();
        Instant::now()
    });
    each(start.elapsed(), events)
}

fn four_threads(live: u64, clock: ClockChoice) -> Run {
    let writer = Writer::beside_others(config(clock), ENTRIES_MAX);
    let loads: Vec<_> = (0..4).map(|number| std::sync::Mutex::new(Load::new(&writer, number, live / 4))).collect();
    Box::new(move |events| four(events, |number, events| loads[number].lock().expect("its own").run(&writer, events)))
}

/// A plain mutex of the C library, which does not move.
struct Mutex(std::cell::UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a pthread mutex may be shared between threads.
unsafe impl Sync for Mutex {}

impl Mutex {
    fn new() -> Box<Self> {
        Box::new(Self(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)))
    }

    fn clock_and_lock(&self, times: u64) {
        for _ in 0..times {
            black_box(monotonic());
            // SAFETY: boxed and initialised; locked and unlocked by this thread.
            unsafe {
                libc::pthread_mutex_lock(self.0.get());
                libc::pthread_mutex_unlock(self.0.get());
            }
        }
    }
}

fn clock_and_mutex_of_four() -> Run {
    let mutex = Mutex::new();
    Box::new(move |events| four(events, |_, events| mutex.clock_and_lock(events)))
}

fn baselines() -> Vec<Measured> {
    let mutex = Mutex::new();
    let clock_and_mutex: Run = Box::new(move |events| {
        let start = cpu();
        mutex.clock_and_lock(events);
        each(cpu() - start, events)
    });
    let empty: Run = Box::new(|events| {
        let start = cpu();
        (0..events).for_each(|number| {
            black_box(number);
        });
        each(cpu() - start, events)
    });
    vec![
        Measured::new("send() of 144 bytes, drained".into(), sender()),
        Measured::new("clock_gettime + uncontended mutex".into(), clock_and_mutex),
        Measured::new("empty loop".into(), empty),
    ]
}

/// A Unix stream that a child process drains.
fn sender() -> Run {
    let mut pair = [0; 2];
    // SAFETY: the kernel writes two local ints; the child only reads until the end of the stream and exits.
    unsafe {
        assert_eq!(libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()), 0);
        if libc::fork() == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::close(pair[0]);
            let mut buffer = [0_u8; 65536];
            while libc::read(pair[1], buffer.as_mut_ptr().cast(), buffer.len()) > 0 {}
            libc::_exit(0);
        }
        libc::close(pair[1]);
    }
    Box::new(move |events| {
        let message = [7_u8; 144];
        let times = (events / 10).max(1000);
        let start = cpu();
        for _ in 0..times {
            // SAFETY: a local buffer.
            unsafe { libc::send(pair[0], message.as_ptr().cast(), message.len(), 0) };
        }
        each(cpu() - start, times)
    })
}

/// Counts times in steps of ten nanoseconds.
struct Histogram {
    counts: Vec<u64>,
    worst: u64,
    total: u64,
}

impl Histogram {
    fn new() -> Self {
        Self { counts: vec![0; 1 << 20], worst: 0, total: 0 }
    }

    fn add(&mut self, nanoseconds: u64) {
        let at = usize::try_from(nanoseconds / 10).unwrap_or(usize::MAX).min(self.counts.len() - 1);
        self.counts[at] += 1;
        self.worst = self.worst.max(nanoseconds);
        self.total += 1;
    }

    fn quantile(&self, part: f64) -> u64 {
        let mut left = (self.total as f64 * (1.0 - part)).max(1.0);
        for (at, count) in self.counts.iter().enumerate().rev() {
            left -= *count as f64;
            if left <= 0.0 {
                return at as u64 * 10;
            }
        }
        0
    }

    fn print(&self, title: &str) {
        let [p50, p99, p999, p9999] = [0.5, 0.99, 0.999, 0.9999].map(|part| self.quantile(part));
        println!("| {title} | {p50} | {p99} | {p999} | {p9999} | {:.2} ms |", self.worst as f64 / 1e6);
    }
}

fn latency(events: u64) {
    println!("\n| single events, ns | p50 | p99 | p99.9 | p99.99 | worst |\n| --- | --- | --- | --- | --- | --- |");
    let timed = |title: &str, work: &mut dyn FnMut()| {
        let mut histogram = Histogram::new();
        for _ in 0..events {
            let start = Instant::now();
            work();
            histogram.add(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        histogram.print(title);
    };
    timed("empty loop (the timer)", &mut || ());
    for live in [1_000, 100_000] {
        let writer = Writer::beside_others(config(ClockChoice::Auto), ENTRIES_MAX);
        let mut load = Load::new(&writer, 0, live);
        let mut hole = None;
        timed(&format!("ledger, {live} live"), &mut || match hole.take() {
            None => hole = Some(load.free(&writer)),
            Some(at) => load.addresses[at] = load.allocate(&writer),
        });
    }
    timed("empty loop, again", &mut || ());
}

fn growth() {
    const TO: u64 = 1_000_000;
    println!("\n| growth to 1,000,000 live, ns | p50 | p99 | p99.9 | p99.99 | worst |\n| --- | --- | --- | --- | --- | --- |");
    let writer = Writer::beside_others(config(ClockChoice::Auto), ENTRIES_MAX);
    let mut load = Load::new(&writer, 0, 0);
    let mut histogram = Histogram::new();
    let started = cpu();
    let mut slow = Vec::new();
    for number in 0..TO {
        let start = Instant::now();
        load.allocate(&writer);
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        histogram.add(nanoseconds);
        if nanoseconds > 500_000 {
            slow.push((number, nanoseconds / 1000));
        }
    }
    let mean = each(cpu() - started, TO);
    histogram.print(&format!("ledger, mean {mean:.0}"));
    println!("above 0.5 ms (event, us): {slow:?}");
}

/// Resident anonymous and shared KiB. The caller excludes the ring.
fn resident_kib() -> u64 {
    ["RssAnon:", "RssShmem:"].iter().map(|word| kib("/proc/self/status", word).expect("a line of status")).sum()
}

/// Runs `work` in a child process, so that nothing else is counted.
fn in_child(work: impl FnOnce() -> f64) -> f64 {
    let (mut reader, mut writer) = io::pipe().expect("a pipe");
    // SAFETY: this process has one thread so far.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let figure = work();
            writer.write_all(&figure.to_le_bytes()).expect("a parent");
            libc::_exit(0);
        }
        // Otherwise the end of the child would not be the end of the pipe.
        drop(writer);
        let mut figure = [0; 8];
        reader.read_exact(&mut figure).expect("a figure");
        libc::waitpid(child, std::ptr::null_mut(), 0);
        f64::from_le_bytes(figure)
    }
}

fn memory(verdicts: &mut Verdicts) {
    let idle = in_child(|| {
        let _ = resident_kib();
        let before = resident_kib();
        let writer = Writer::beside_others(config(ClockChoice::Auto), ENTRIES_MAX);
        writer.session().expect("session").open_allocator(&spec(0)).expect("allocator");
        (resident_kib() - before) as f64
    });
    verdicts.print(&format!("idle: {idle} kB more"), &[(idle, IDLE_MAX)]);
    for live in [100_000, 1_000_000] {
        let each = in_child(|| {
            let writer = Writer::beside_others(config(ClockChoice::Auto), ENTRIES_MAX);
            let mut load = Load::new(&writer, 0, 0);
            // The whole ring is touched first, and the list of addresses does not grow.
            (0..70_000).for_each(|_| writer.session().expect("session").mark());
            let before = resident_kib();
            (0..live).for_each(|_| {
                load.allocate(&writer);
            });
            (resident_kib() - before) as f64 * 1024.0 / f64::from(live)
        });
        verdicts.print(&format!("{live} live: {each:.1} bytes each"), &[(each, BUFFER_MAX)]);
    }
}
