//! Samples the machine at a fixed interval, and publishes the result.
//!
//! It uses the clock that does not jump and continues during suspend. A late sample leaves a gap in the history; no value is carried over
//! into the gap.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use ttmon_collect::ledgers::OpenLedger;
use ttmon_collect::reads::boot_time;
use ttmon_collect::{Departed, DeviceReader, Error, Scanned, Scanner};
use ttmon_model::ledger::LedgerSample;
use ttmon_model::sample::Problem;
use ttmon_model::snapshot::Allocator;
use ttmon_model::{Missing, Peaks, Refusals, Sample, Snapshot};

use crate::limits::{DEPARTED_MAX, DEPARTED_SPAN, FIRST_SCAN_WAIT, SCAN_LATE_INTERVALS, SCAN_WAIT_MAX, SCAN_WAIT_PART};
use crate::newest::Published;
use crate::scans::{Scan, Scans};
use crate::service::{Service, now};
use crate::service_events::{EventKind, differences};

pub(crate) fn run(mut devices: DeviceReader, scanner: Scanner, service: &Arc<Service>, stop: &Receiver<()>) -> io::Result<()> {
    let mut schedule = SampleSchedule::new(boot_time(), service.options.interval);
    let mut past = SamplerState { scanned_at: boot_time(), ..SamplerState::default() };
    let mut scans = Scans::spawn(scanner, Arc::clone(service))?;
    service.note(boot_time(), now(), EventKind::Started);
    loop {
        let planned = schedule.planned;
        let started = Instant::now();
        let sampled = devices.list().and_then(|scope| {
            scans.start(scope);
            devices.sample()
        });
        match sampled {
            Ok(mut sample) => {
                let is_first = past.before.is_none();
                let scan =
                    scans.wait(if is_first { FIRST_SCAN_WAIT } else { SCAN_WAIT_MAX.min(service.options.interval / SCAN_WAIT_PART) });
                let ledgers = past.complete(&mut sample, scan, service.options.interval);
                devices.number_chips(&mut sample);
                record(service, planned, sample, ledgers, &mut past);
            }
            Err(error) => record_failure(service, &error),
        }
        service.figures(|figures| {
            figures.duration = started.elapsed();
            figures.cpu = thread_time() + past.scan_cpu;
            figures.cut = past.cut;
        });
        let missed = schedule.next(boot_time());
        if missed > 0 {
            service.figures(|figures| figures.missed += missed);
            service.note(boot_time(), now(), EventKind::Gap { missed });
        }
        match stop.recv_timeout(schedule.planned.saturating_sub(boot_time())) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

#[derive(Debug, Default)]
struct SamplerState {
    before: Option<Arc<Published>>,
    /// The newest sample with the previous scan. Rates of processes are computed from it.
    before_scan: Option<Arc<Published>>,
    /// Time of the newest scan. Before the first scan: the start time of the service.
    scanned_at: Duration,
    scan_problems: Vec<Problem>,
    scan_failure: Option<String>,
    scan_cpu: Duration,
    /// Whether there was a scan.
    has_scan: bool,
    /// Number of items that scans did not read, or that were not computed, because of a limit.
    cut: u64,
    peaks: Peaks,
    refusals: Refusals,
    /// Ledgers of ended processes with refusals that must be counted.
    ended: Vec<LedgerSample>,
    leaving: RecentlyDeparted,
}

impl SamplerState {
    /// Completes a sample of the devices with the newest scan. Returns the ledgers of the scan.
    fn complete(&mut self, sample: &mut Sample, scan: Option<Result<Scan, Error>>, interval: Duration) -> Ledgers {
        let ledgers = match scan {
            Some(Ok(Scan { scanned, ledgers, departed, ended, cpu })) => {
                self.ended.extend(ended);
                self.before_scan = self.before.clone().filter(|_| self.has_scan);
                self.has_scan = true;
                self.cut += scanned.cuts();
                self.scan_cpu = cpu;
                self.scan_failure = None;
                self.scan_problems = scanned.problems().to_vec();
                scanned.complete(sample);
                self.scanned_at = sample.scanned_at();
                (ledgers, self.leaving.record(sample.at, &departed))
            }
            other => {
                self.scan_failure = other.and_then(Result::err).map(|error| error.to_string()).or(self.scan_failure.take());
                let before = self.before.as_deref();
                if let Some(before) = before.filter(|_| self.has_scan) {
                    Scanned::again(&before.sample, self.scan_problems.clone()).complete(sample);
                }
                (before.map_or_else(Vec::new, |before| before.ledgers.clone()), self.leaving.record(sample.at, &[]))
            }
        };
        sample.scan_age = sample.at.saturating_sub(self.scanned_at);
        if sample.scan_age >= interval * SCAN_LATE_INTERVALS {
            let why = self.scan_failure.as_deref().unwrap_or("the scan of processes takes long");
            let detail = format!("processes and their memory are {:.1} s old: {why}", sample.scan_age.as_secs_f64());
            sample.problems.push(Problem { part: "processes".to_owned(), reason: Missing::Timeout, detail });
        }
        ledgers
    }
}

/// Ledgers of a sample, and closed ledgers.
type Ledgers = (Vec<Arc<OpenLedger>>, Vec<Arc<Departed>>);

/// Derives the snapshot, compares it with the previous one, and publishes it.
fn record(service: &Service, planned: Duration, sample: Sample, (ledgers, departed): Ledgers, past: &mut SamplerState) {
    let before = past.before.as_deref();
    let (mut snapshot, cut) = Snapshot::derive_counted(&sample, past.before_scan.as_deref().map(|before| &before.sample));
    past.cut += cut;
    past.peaks.apply(&mut snapshot);
    let ended = allocators_of(&sample, std::mem::take(&mut past.ended));
    past.refusals.apply(&mut snapshot, departed.iter().map(|departed| &departed.last), &ended);
    let (at, time) = (sample.at, sample.time);
    if let Some(before) = before {
        if let Some(millis) = sample.clock_jump(&before.sample) {
            service.note(at, time, EventKind::Clock { jump_s: millis as f64 / 1e3 });
        }
        for what in differences(&before.snapshot, &snapshot) {
            service.note(at, time, what);
        }
    }
    let (number, failure) = service.figures(|figures| {
        figures.samples += 1;
        (figures.samples, figures.failure.take())
    });
    if failure.is_some() {
        service.note(at, time, EventKind::Readable);
    }
    let published = Arc::new(Published::new(number, snapshot, sample, ledgers, departed));
    service.publish(planned, Arc::clone(&published));
    past.before = Some(published);
}

/// Returns the allocators of ended processes, on the devices of this sample.
fn allocators_of(sample: &Sample, ledgers: Vec<LedgerSample>) -> Vec<Allocator> {
    if ledgers.is_empty() {
        return Vec::new();
    }
    let sample = Sample { ledgers, processes: Vec::new(), regions: Vec::new(), ..sample.clone() };
    Snapshot::derive(&sample, None).allocators
}

/// Recently closed ledgers. They are kept for a while, because not every follower reads every snapshot.
#[derive(Debug, Default)]
struct RecentlyDeparted(Vec<(Duration, Arc<Departed>)>);

impl RecentlyDeparted {
    fn record(&mut self, at: Duration, departed: &[Arc<Departed>]) -> Vec<Arc<Departed>> {
        self.0.retain(|(since, _)| at.saturating_sub(*since) < DEPARTED_SPAN);
        self.0.extend(departed.iter().map(|departed| (at, Arc::clone(departed))));
        let beyond = self.0.len().saturating_sub(DEPARTED_MAX);
        self.0.drain(..beyond);
        self.0.iter().map(|(_, departed)| Arc::clone(departed)).collect()
    }
}

/// Records that the machine could not be read. A failure is reported once, not every second.
fn record_failure(service: &Service, error: &Error) {
    let why = error.to_string();
    let is_new = service.figures(|figures| {
        figures.errors += 1;
        figures.failure.replace(why.clone()).is_none()
    });
    if is_new {
        service.note(boot_time(), now(), EventKind::Unreadable { reason: why });
    }
}

#[derive(Debug)]
struct SampleSchedule {
    planned: Duration,
    interval: Duration,
}

impl SampleSchedule {
    /// The first sample is due now.
    fn new(now: Duration, interval: Duration) -> Self {
        Self { planned: now, interval }
    }

    /// Plans the next sample. Returns how many samples are left out because they are too late.
    fn next(&mut self, now: Duration) -> u64 {
        self.planned += self.interval;
        let late = now.saturating_sub(self.planned);
        let missed = u64::try_from(late.as_nanos() / self.interval.as_nanos().max(1)).unwrap_or(u64::MAX);
        self.planned += self.interval.saturating_mul(u32::try_from(missed).unwrap_or(u32::MAX));
        missed
    }
}

pub(crate) fn thread_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().expect("a thread's time is positive")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::access::Visibility;
    use crate::chips::Chips;
    use crate::fixture::machine;
    use crate::metrics::{self, Detail, Dialect, Scope};
    use crate::newest::Form;
    use ttmon_model::units::UnixTime;
    use ttmon_model::{DeviceId, Kind};

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Returns the scan of a sample.
    fn scan_of(sample: &Sample) -> Scan {
        let scanned = Scanned::again(sample, Vec::new());
        Scan { scanned, ledgers: Vec::new(), departed: Vec::new(), ended: Vec::new(), cpu: Duration::ZERO }
    }

    /// Returns the refusals of device 0 after each scan. Each scan found these ledgers of ended processes.
    pub(crate) fn refusals_after(service: &Service, machine: &mut ttmon_collect::Machine, scans: Vec<Vec<LedgerSample>>) -> Vec<u64> {
        let mut past = SamplerState { scanned_at: seconds(1000.0), ..SamplerState::default() };
        let mut counted = Vec::new();
        for (second, ended) in (1000..).map(f64::from).zip(scans) {
            let mut sample = Sample { at: seconds(second), ..machine.sample().expect("a sample") };
            let scan = Scan { ended, ..scan_of(&sample) };
            let ledgers = past.complete(&mut sample, Some(Ok(scan)), service.options.interval);
            record(service, seconds(second), sample, ledgers, &mut past);
            let newest = service.newest().expect("a snapshot");
            counted.push(newest.snapshot.devices[0].memory.refusals.expect("a count"));
        }
        counted
    }

    /// While a scan is late, device samples continue. Processes keep their last rates, and their age is shown.
    #[test]
    fn a_late_scan_delays_no_device() {
        let service = crate::fixture::service();
        let mut past = SamplerState { scanned_at: seconds(1000.0), ..SamplerState::default() };
        let mut take = |second: f64, cpu: Option<f64>| {
            let mut sample = Sample { at: seconds(second), ..crate::fixture::held(seconds(cpu.unwrap_or_default())) };
            let scan = cpu.map(|_| Ok(scan_of(&sample)));
            sample.processes.clear();
            let ledgers = past.complete(&mut sample, scan, service.options.interval);
            record(&service, seconds(second), sample, ledgers, &mut past);
            let newest = service.newest().expect("a snapshot");
            let problems: Vec<_> = newest.snapshot.problems.iter().filter(|problem| problem.part == "processes").collect();
            assert_eq!(newest.sample.at, seconds(second));
            let [process] = newest.snapshot.processes.as_slice() else { panic!("{second}: one process") };
            (newest.snapshot.scan_age, process.cpu.ok(), problems.len())
        };
        assert_eq!(take(1000.0, Some(5.0)), (Duration::ZERO, None, 0));
        assert_eq!(take(1001.0, Some(5.5)), (Duration::ZERO, Some(0.5), 0));
        assert_eq!(take(1002.0, None), (seconds(1.0), Some(0.5), 0));
        assert_eq!(take(1003.0, None), (seconds(2.0), Some(0.5), 1));
        assert_eq!(take(1004.0, Some(8.5)), (Duration::ZERO, Some(1.0), 0));
        assert_eq!(take(1005.0, Some(8.75)), (Duration::ZERO, Some(0.25), 0));
    }

    #[test]
    fn a_scan_that_arrives_late_is_a_problem() {
        let mut past = SamplerState { scanned_at: seconds(1000.0), ..SamplerState::default() };
        let mut sample = Sample { at: seconds(1005.0), ..crate::fixture::held(seconds(1.0)) };
        let scan = scan_of(&Sample { scan_age: seconds(5.0), ..sample.clone() });
        past.complete(&mut sample, Some(Ok(scan)), seconds(1.0));
        let problems: Vec<_> =
            sample.problems.iter().filter(|problem| problem.part == "processes").map(|problem| &problem.detail).collect();
        assert_eq!(problems, ["processes and their memory are 5.0 s old: the scan of processes takes long"]);
    }

    #[test]
    fn a_late_sample_counts_the_missed_ones() {
        let mut schedule = SampleSchedule::new(seconds(100.0), seconds(1.0));
        assert_eq!((schedule.next(seconds(100.3)), schedule.planned), (0, seconds(101.0)));
        // A slightly late sample keeps its slot.
        assert_eq!((schedule.next(seconds(102.9)), schedule.planned), (0, seconds(102.0)));
        assert_eq!((schedule.next(seconds(103.1)), schedule.planned), (0, seconds(103.0)));
        // The machine was suspended for a minute.
        assert_eq!((schedule.next(seconds(164.2)), schedule.planned), (60, seconds(164.0)));
    }

    #[test]
    fn a_clock_that_was_set_is_recognized() {
        let sample = crate::fixture::sample();
        let later = |at: f64, wall_millis: i64| Sample {
            at: sample.at + seconds(at),
            time: UnixTime(sample.time.0.saturating_add_signed(wall_millis * 1_000_000)),
            ..sample.clone()
        };
        assert_eq!(later(1.0, 1000).clock_jump(&sample), None);
        assert_eq!(later(1.0, 1400).clock_jump(&sample), None);
        assert_eq!(later(60.0, 60_000).clock_jump(&sample), None);
        assert_eq!(later(1.0, 3_601_000).clock_jump(&sample), Some(3_600_000));
        assert_eq!(later(1.0, -119_000).clock_jump(&sample), Some(-120_000));
    }

    /// The wall clock is set forward and back while the service samples. The history continues every second, and each jump is marked.
    #[test]
    fn a_clock_that_jumps_leaves_marks_and_no_wrong_value() {
        let service = crate::fixture::service();
        let mut past = SamplerState { scanned_at: seconds(1000.0), ..SamplerState::default() };
        let (_directory, mut machine) = crate::fixture::in_files("n150,idle");
        let first = machine.sample().expect("a sample");
        for (second, wall) in [0, 1, 3602, 3603, -3596, -3595].into_iter().enumerate() {
            let at = seconds(1000.0 + second as f64);
            let time = UnixTime(first.time.0.saturating_add_signed(wall * 1_000_000_000));
            let mut sample = Sample { at, time, ..first.clone() };
            let scan = scan_of(&sample);
            let ledgers = past.complete(&mut sample, Some(Ok(scan)), service.options.interval);
            record(&service, at, sample, ledgers, &mut past);
        }
        let jumps = service.events_after(0).into_iter().filter_map(|event| match event.what {
            EventKind::Clock { jump_s } => Some((event.at, jump_s)),
            _ => None,
        });
        assert_eq!(jumps.collect::<Vec<_>>(), [(seconds(1002.0), 3600.0), (seconds(1004.0), -7200.0)]);
        let fields = vec![ttmon_model::fields::DeviceField::find("temperature").expect("a field")];
        let query = crate::history::Query { since: Duration::ZERO, step: None, fields, devices: vec![DeviceId(0)] };
        let response = service.history(|history| history.read(&query));
        let degrees = past.before.and_then(|last| last.snapshot.devices[0].temperature.ok()).map(|celsius| celsius.0);
        assert!(degrees.is_some());
        assert_eq!((response.start, response.points), (seconds(1000.0), 6));
        assert_eq!(response.series[0].columns[0], vec![degrees; 6]);
        // Times are shown by the current wall clock, in order, independent of the wall clock at the time of the sample.
        let times: Vec<u64> = (0..6).map(|point| service.wall_time(seconds(1000.0 + f64::from(point))).0 / 1_000_000_000).collect();
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= 2 && pair[1] >= pair[0]), "{times:?}");
    }

    /// Simulates a day with one sample per second, as fast as possible. At its end, the memory of samples and requests must not be larger
    /// than after the first hours. `TTMON_SAMPLES=90000` runs the whole day; otherwise the test simulates a few minutes.
    #[test]
    fn memory_does_not_grow_over_a_day() {
        let service = crate::fixture::service();
        let (_directory, mut machine) = crate::fixture::in_files("galaxy,procs=4");
        let scope = Scope { detail: Detail::Full, has_processes: true };
        let mut past = SamplerState { scanned_at: Duration::ZERO, ..SamplerState::default() };
        let mut resident = Vec::new();
        let samples: u32 = std::env::var("TTMON_SAMPLES").ok().and_then(|samples| samples.parse().ok()).unwrap_or(200);
        // With 90,000 samples: an hour, half a day, a day, and an hour more.
        let printed = [0, samples / 25, samples / 2, samples / 25 * 24, samples];
        for second in 0..=samples {
            let planned = seconds(f64::from(second));
            let mut sample = machine.sample().expect("a sample");
            // Both clocks advance by one second per sample, and the wall clock is set every ten minutes.
            (sample.at, sample.time) = (planned, UnixTime(u64::from(second + second / 600 * 5) * 1_000_000_000));
            let scan = Scan { ledgers: machine.ledgers().to_vec(), departed: machine.departed().to_vec(), ..scan_of(&sample) };
            let ledgers = past.complete(&mut sample, Some(Ok(scan)), service.options.interval);
            record(&service, planned, sample, ledgers, &mut past);
            let last = past.before.as_ref().expect("a snapshot");
            // One client scrapes metrics, one reads the document.
            let text = last.text(Form::Metrics(Dialect::Text, scope), Visibility::Whole, |snapshot| {
                metrics::machine(snapshot, &Chips::default(), Dialect::Text, scope)
            });
            assert!(!text.is_empty());
            if printed.contains(&second) {
                let status = std::fs::read_to_string("/proc/self/status").expect("a status");
                let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line").trim().to_owned();
                let kib: u64 = line.trim_end_matches(" kB").trim().parse().expect("a number");
                let events = service.events_after(0).len();
                println!(
                    "after {second:>6} samples: {:>7.1} MB resident, history {:>5.1} MB, {events} events kept",
                    kib as f64 / 1024.0,
                    service.history(crate::history::History::bytes) as f64 / 1e6
                );
                resident.push((second, kib));
            }
        }
        // All memory that is reserved for a day has been used then.
        let [.., (_, day), (_, later)] = resident.as_slice() else { panic!("{resident:?}") };
        assert!(*later <= day + 1024, "{resident:?}");
    }

    #[test]
    fn peaks_stay_until_another_chip_takes_the_place() {
        let mut peaks = Peaks::default();
        let mut sample = |used: u64, asic: &str| {
            let mut snapshot = machine();
            snapshot.devices[0].memory.kinds[Kind::Dram].figure.used = Ok(used);
            snapshot.devices[0].asic_id = Ok(asic.to_owned());
            for kind in [Kind::Cb, Kind::Kernel] {
                snapshot.devices[0].memory.kinds[kind].figure.used = Ok(used);
            }
            peaks.apply(&mut snapshot);
            for kind in [Kind::Cb, Kind::Kernel] {
                assert!(snapshot.devices[0].memory.kinds[kind].figure.peak.is_err(), "{}", kind.name());
            }
            snapshot.devices[0].memory.kinds[Kind::Dram].figure.peak
        };
        assert_eq!(sample(10, "A"), Ok(10));
        assert_eq!(sample(50, "A"), Ok(50));
        assert_eq!(sample(20, "A"), Ok(50));
        assert_eq!(sample(5, "B"), Ok(5));
    }
}
