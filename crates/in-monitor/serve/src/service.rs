//! The shared state of the service. The sampler writes it, and the endpoints read it.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use ttmon_allocation_server::{COUNTERS, Handle};
use ttmon_collect::ledgers::OpenLedger;
use ttmon_collect::reads::boot_time;
use ttmon_model::snapshot::State;
use ttmon_model::units::UnixTime;
use ttmon_model::{Cluster, Snapshot};
use ttmon_os::lock;
use ttmon_os::time::unix_nanos;

use crate::Options;
use crate::access::{RequestOrigin, Visibility};
use crate::alerting::Alerting;
use crate::chips::Chips;
use crate::connections::Connections;
use crate::deltas::Deltas;
use crate::history::History;
use crate::limits::{
    RECORDER_STREAMS_MAX, RECORDER_STREAMS_PER_USER_MAX, RESPONSES_AT_ONCE, STALE_INTERVALS, STALE_MIN, STATE_BYTES_MIN,
    STORE_RESPONSES_AT_ONCE, STREAMS_MAX, WARNING_SPAN,
};
use crate::metrics::{self, Counters, Detail, Dialect, PageAddress, Scope, ServiceFigures};
use crate::newest::{Form, Published};
use crate::problem::Problem;
use crate::response_queue::ResponseQueue;
use crate::service_events::{EventKind, Journal, ServiceEvent};
use crate::shares::Shares;

/// The shared state. Locks are held briefly, and never two at once.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) options: Options,
    pub(crate) cluster: Option<Cluster>,
    pub(crate) page: Option<PageAddress>,
    pub(crate) counters: Counters,
    pub(crate) deltas: Deltas,
    newest: Mutex<Option<Arc<Published>>>,
    /// Incremented with every snapshot and every event. Streams wait for it.
    pulse: watch::Sender<u64>,
    journal: Mutex<Journal>,
    history: Mutex<History>,
    figures: Mutex<Figures>,
    /// It has the ledgers of ended processes.
    allocation_server: OnceLock<Handle>,
    chips: Mutex<Chips>,
    pub(crate) alerting: Alerting,
    /// Expensive responses.
    pub(crate) responses: ResponseQueue,
    /// Responses with data of the store on another host. A slow store delays only these responses.
    pub(crate) store_responses: ResponseQueue,
    pub(crate) streams: Arc<Connections>,
    pub(crate) recorder_streams: Arc<Shares>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) duration: Duration,
    pub(crate) samples: u64,
    pub(crate) errors: u64,
    pub(crate) missed: u64,
    /// Number of items that scans did not read because of a limit.
    pub(crate) cut: u64,
    /// Processor time of the sampler's thread so far.
    pub(crate) cpu: Duration,
    /// Why there is no newer sample.
    pub(crate) failure: Option<String>,
}

impl Service {
    pub(crate) fn new(options: Options, cluster: Option<Cluster>, page: Option<PageAddress>) -> Self {
        Self {
            cluster,
            page,
            counters: Counters::default(),
            deltas: Deltas::default(),
            newest: Mutex::default(),
            pulse: watch::channel(0).0,
            journal: Mutex::new(Journal::starting(now())),
            history: Mutex::new(History::new(options.interval)),
            figures: Mutex::default(),
            allocation_server: OnceLock::new(),
            chips: Mutex::default(),
            alerting: Alerting::new(&options.alerts),
            responses: ResponseQueue::new(RESPONSES_AT_ONCE),
            store_responses: ResponseQueue::new(STORE_RESPONSES_AT_ONCE),
            streams: Connections::new(STREAMS_MAX),
            recorder_streams: Shares::new(RECORDER_STREAMS_MAX, RECORDER_STREAMS_PER_USER_MAX),
            options,
        }
    }

    /// Connects the service with its allocation server, if it has one.
    pub(crate) fn connect(&self, allocation_server: Option<Handle>) {
        if let Some(handle) = allocation_server {
            // Called once, at the start.
            let _ = self.allocation_server.set(handle);
        }
    }

    /// Prints one line for the administrator.
    pub(crate) fn complain(&self, line: &str) {
        (self.options.complain)(line);
    }

    /// Returns the ledgers of ended processes that are still kept, and when the processes ended.
    pub(crate) fn ended(&self) -> Vec<(Arc<OpenLedger>, UnixTime)> {
        let mut found = Vec::new();
        if let Some(handle) = self.allocation_server.get() {
            // Only collect here: reading a ledger while the list is locked would block the allocation socket.
            handle.post_mortem().each(|kept| found.extend(kept.ended.map(|ended| (Arc::clone(&kept.ledger), ended.time))));
        }
        found
    }

    /// Returns the kept ledgers of ended processes with this pid that this client may see.
    pub(crate) fn ended_with(&self, pid: u32, visibility: Visibility) -> impl Iterator<Item = (Arc<OpenLedger>, UnixTime)> {
        self.ended().into_iter().filter(move |(found, _)| found.owner.pid == pid && visibility.has_user(found.uid))
    }

    /// Replaces the newest snapshot. `planned` is the planned time of its sample.
    pub(crate) fn publish(&self, planned: Duration, published: Arc<Published>) {
        lock(&self.history).add(planned, &published.snapshot);
        lock(&self.chips).record(published.sample.at, &published.snapshot);
        if let Some(handle) = self.allocation_server.get() {
            handle.found(&published.ledgers);
        }
        self.alerting.offer(&published);
        *lock(&self.newest) = Some(published);
        self.pulse.send_modify(|pulse| *pulse += 1);
    }

    pub(crate) fn note(&self, at: Duration, time: UnixTime, what: EventKind) {
        lock(&self.journal).add(at, time, what);
        self.pulse.send_modify(|pulse| *pulse += 1);
    }

    pub(crate) fn newest(&self) -> Option<Arc<Published>> {
        lock(&self.newest).clone()
    }

    /// Returns the newest snapshot, unless it is stale.
    pub(crate) fn fresh(&self) -> Result<Arc<Published>, Problem> {
        let newest = self.newest().ok_or_else(|| self.stale("there is no sample yet".to_owned()))?;
        let age = newest.age();
        if age > self.stale_after() {
            return Err(self.stale(format!("the newest sample is {:.1} s old", age.as_secs_f64())));
        }
        Ok(newest)
    }

    fn stale(&self, what: String) -> Problem {
        Problem::Stale(match &lock(&self.figures).failure {
            Some(failure) => format!("{what}: {failure}"),
            None => what,
        })
    }

    pub(crate) fn stale_after(&self) -> Duration {
        self.options.interval.saturating_mul(STALE_INTERVALS).max(STALE_MIN)
    }

    /// Checks readiness. The service is ready if it has recent data of every listed device. A device in a reset counts as read. Returns
    /// problems that do not affect readiness.
    pub(crate) fn readiness(&self) -> Result<Vec<String>, Problem> {
        let newest = self.fresh()?;
        if lock(&self.figures).failure.is_some() {
            return Err(self.stale("the last read failed".to_owned()));
        }
        let silent = lock(&self.chips).silent(newest.sample.at, &newest.snapshot, self.stale_after());
        if let Some((device, silence)) = silent {
            let silence = silence.as_secs_f64();
            return Err(Problem::Stale(format!("device {device} has not answered for {silence:.1} s; all else is fresh")));
        }
        Ok(self.warnings(&newest))
    }

    fn warnings(&self, newest: &Published) -> Vec<String> {
        let is_unready = |state| matches!(state, State::Starting | State::Resetting | State::Gone | State::Unreadable);
        let away = newest.snapshot.devices.iter().filter(|device| is_unready(device.state));
        let mut warnings: Vec<String> = away.map(|device| format!("device {} is {}", device.id, device.state.name())).collect();
        for event in self.events_since(boot_time().saturating_sub(WARNING_SPAN)) {
            let when = event.time.rfc3339();
            match event.what {
                EventKind::Clock { jump_s } => warnings.push(format!("the clock was set by {jump_s:.1} s at {when}")),
                EventKind::Gap { missed } => warnings.push(format!("{missed} samples were missed before {when}")),
                _ => {}
            }
        }
        let scan_age = newest.scan_age();
        warnings.extend((scan_age > self.stale_after()).then(|| format!("processes are {:.1} s old", scan_age.as_secs_f64())));
        warnings.extend(self.options.state.as_deref().filter(|state| is_full(state)).map(|state| format!("{} is full", state.display())));
        warnings
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.pulse.subscribe()
    }

    pub(crate) fn events_after(&self, id: u64) -> Vec<ServiceEvent> {
        lock(&self.journal).after(id).cloned().collect()
    }

    pub(crate) fn events_since(&self, at: Duration) -> Vec<ServiceEvent> {
        lock(&self.journal).since(at).cloned().collect()
    }

    pub(crate) fn last_event(&self) -> u64 {
        lock(&self.journal).last_id()
    }

    /// Reads the history. The sampler waits meanwhile, so `read` should only copy.
    pub(crate) fn history<T>(&self, read: impl FnOnce(&History) -> T) -> T {
        read(&lock(&self.history))
    }

    pub(crate) fn figures<T>(&self, change: impl FnOnce(&mut Figures) -> T) -> T {
        change(&mut lock(&self.figures))
    }

    /// Formats the metrics for one of the endpoints. The series of the machine are formatted and compressed once per snapshot.
    pub(crate) fn scrape(&self, dialect: Dialect, is_gzip: bool, origin: RequestOrigin) -> Vec<u8> {
        let newest = self.newest();
        // Without a recent sample, only the series of the service are shown; they tell why.
        let fresh = self.fresh().ok();
        let detail = self.options.metrics_detail;
        let is_metrics_endpoint = origin == RequestOrigin::Metrics;
        let scope = Scope { detail, has_processes: self.options.process_metrics && !is_metrics_endpoint };
        let make = |snapshot: &Snapshot| {
            let chips = lock(&self.chips).clone();
            metrics::machine(snapshot, &chips, dialect, scope)
        };
        let machine = fresh.as_ref().map(|fresh| fresh.text(Form::Metrics(dialect, scope), Visibility::Whole, make)).unwrap_or_default();
        let own_detail = if is_metrics_endpoint { Detail::Lean } else { detail };
        let own = self.own(newest.as_deref(), fresh.as_deref()).text(&self.counters, dialect, own_detail) + dialect.end();
        if !is_gzip {
            return [&machine[..], own.as_bytes()].concat();
        }
        let compressed =
            |fresh: &Arc<Published>| fresh.text(Form::Deflated(dialect, scope), Visibility::Whole, |_| metrics::deflated(&machine));
        metrics::gzip_of(&machine, &fresh.as_ref().map(compressed).unwrap_or_default(), &own)
    }

    fn own(&self, newest: Option<&Published>, fresh: Option<&Published>) -> ServiceFigures {
        // A lock inside the expression below would be held to its end.
        let sampler = lock(&self.figures).clone();
        let events = lock(&self.journal).count();
        ServiceFigures {
            version: self.options.version,
            origin: newest.map_or("", |newest| newest.snapshot.origin.name()),
            page: self.page,
            is_fresh: fresh.is_some(),
            age: newest.map(Published::age),
            scan_age: newest.map(Published::scan_age),
            sampler,
            interval: self.options.interval,
            problems: fresh.map(|fresh| fresh.snapshot.problems.len()),
            history_bytes: self.history(History::bytes),
            events,
            alerts: self.alerting.figures(),
            allocation_counters: self.allocation_server.get().map_or_else(Vec::new, allocation_counters),
        }
    }

    /// Converts a time of the history to the current wall clock.
    pub(crate) fn wall_time(&self, at: Duration) -> UnixTime {
        let ago = u64::try_from(boot_time().saturating_sub(at).as_nanos()).unwrap_or(u64::MAX);
        UnixTime(now().0.saturating_sub(ago))
    }
}

/// Returns the counters of the allocation server since its start, by name.
fn allocation_counters(handle: &Handle) -> Vec<(&'static str, u64)> {
    let counters = handle.counters();
    COUNTERS.iter().map(|(name, _, get)| (*name, get(&counters))).collect()
}

/// Whether a file system has no room for the ledger of another process.
fn is_full(directory: &Path) -> bool {
    rustix::fs::statvfs(directory).is_ok_and(|room| room.f_blocks > 0 && room.f_bavail.saturating_mul(room.f_frsize) < STATE_BYTES_MIN)
}

pub(crate) fn now() -> UnixTime {
    UnixTime(unix_nanos())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::thread;

    use ttmon_testing::until;

    use super::*;

    /// A readiness request may wait for the journal or a file system. The sampler does not wait for the request.
    #[test]
    fn a_snapshot_is_published_during_any_request() {
        let service = Arc::new(crate::fixture::service());
        let published = || {
            let sample = ttmon_model::Sample { at: boot_time(), ..crate::fixture::sample() };
            Arc::new(Published::new(1, crate::fixture::machine(), sample, Vec::new(), Vec::new()))
        };
        let first = published();
        service.publish(Duration::ZERO, Arc::clone(&first));
        let journal = lock(&service.journal);
        let other = Arc::clone(&service);
        let reading = thread::spawn(move || other.readiness());
        until("the request has the snapshot", || Arc::strong_count(&first) >= 3);
        (0..1000).for_each(|_| thread::yield_now());
        let (other, next) = (Arc::clone(&service), published());
        let publishing = thread::spawn(move || other.publish(Duration::from_secs(1), next));
        until("the next one is published", || publishing.is_finished());
        drop(journal);
        assert!(reading.join().is_ok() && publishing.join().is_ok());
    }

    /// 10,000 processes run, 50 at a time. The series of devices are the same in every scrape; only the series of jobs change.
    #[test]
    fn churn_of_processes_adds_no_series_of_devices() {
        let origins = [(false, RequestOrigin::Loopback), (true, RequestOrigin::Metrics)];
        for (metrics_detail, (process_metrics, origin)) in
            [Detail::Lean, Detail::Full].into_iter().flat_map(|detail| origins.map(|origin| (detail, origin)))
        {
            let service = Service::new(Options { process_metrics, metrics_detail, ..crate::fixture::options() }, None, None);
            let mut first = None;
            for round in 0..200 {
                let sample = ttmon_model::Sample { at: boot_time(), ..crate::fixture::sample() };
                let published = Published::new(u64::from(round), crate::fixture::churn(round), sample, Vec::new(), Vec::new());
                service.publish(Duration::from_secs(u64::from(round)), Arc::new(published));
                let text = String::from_utf8(service.scrape(Dialect::Text, false, origin)).expect("text");
                let of_devices = text.lines().filter(|line| line.contains("device=\"") && !line.starts_with("ttmon_workload_info{"));
                let series: BTreeSet<String> = of_devices.filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect();
                assert!(series.len() > 100, "{} series of four chips", series.len());
                let first = first.get_or_insert_with(|| series.clone());
                let other: Vec<&String> = first.symmetric_difference(&series).collect();
                assert!(other.is_empty(), "{metrics_detail:?}, {origin:?}, round {round}: {other:?}");
                // All jobs were seen.
                let opened = text.lines().filter(|line| line.starts_with("ttmon_device_acquisitions_total{"));
                assert_eq!(opened.filter(|line| line.ends_with(&format!("}} {}", 50 * round))).count(), 4, "{text}");
            }
        }
    }
}
