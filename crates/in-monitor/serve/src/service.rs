//! The shared state of the service. The sampler writes it, and the endpoints read it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use ttmon_collect::ledgers::OpenLedger;
use ttmon_collect::reads::boot_time;
use ttmon_model::snapshot::State;
use ttmon_model::units::UnixTime;
use ttmon_model::{Cluster, Snapshot};

use crate::access::{RequestOrigin, Token, Visibility};
use crate::alerting::Alerting;
use crate::answer_queue::AnswerQueue;
use crate::chips::Chips;
use crate::connections::Connections;
use crate::deltas::Deltas;
use crate::ended_processes::IntakeCallbacks;
use crate::history::History;
use crate::limits::{
    RECORDER_STREAMS_MAX, STALE_INTERVALS, STALE_MIN, STATE_BYTES_MIN, STORE_TURNS_AT_ONCE, STREAMS_MAX, TURNS_AT_ONCE, WARNING_SPAN,
};
use crate::lock;
use crate::metrics::{self, Counters, Detail, Dialect, PageAddress, Processes, Scope, ServiceFigures};
use crate::newest::{Form, Published};
use crate::problem::Problem;
use crate::recorder_slots::RecorderSlots;
use crate::service_events::{EventKind, Journal, ServiceEvent};

/// The shared state. Locks are held briefly, and never two at once.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) version: &'static str,
    pub(crate) interval: Duration,
    pub(crate) processes: Processes,
    pub(crate) detail: Detail,
    pub(crate) page: Option<PageAddress>,
    /// The store with data of other hosts.
    pub(crate) fleet: Option<ttmon_hosts::fleet::Store>,
    pub(crate) token: Option<Token>,
    /// State directory of the allocation socket.
    pub(crate) state: Option<PathBuf>,
    pub(crate) cluster: Option<Cluster>,
    pub(crate) counters: Counters,
    pub(crate) deltas: Deltas,
    newest: Mutex<Option<Arc<Published>>>,
    /// Incremented with every snapshot and every event. Streams wait for it.
    pulse: watch::Sender<u64>,
    journal: Mutex<Journal>,
    history: Mutex<History>,
    figures: Mutex<Figures>,
    keeper: OnceLock<IntakeCallbacks>,
    chips: Mutex<Chips>,
    pub(crate) alerting: Alerting,
    /// Prints one line for the administrator.
    pub(crate) complain: fn(&str),
    /// Queue of expensive answers.
    pub(crate) turns: AnswerQueue,
    /// Queue of answers of the store on another host. A slow store delays only these answers.
    pub(crate) store_turns: AnswerQueue,
    pub(crate) streams: Arc<Connections>,
    pub(crate) recorder_places: Arc<RecorderSlots>,
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
    pub(crate) fn new(version: &'static str, interval: Duration, processes: Processes, token: Option<Token>) -> Self {
        Self {
            version,
            interval,
            processes,
            detail: Detail::Full,
            page: None,
            fleet: None,
            token,
            state: None,
            cluster: None,
            counters: Counters::default(),
            deltas: Deltas::default(),
            newest: Mutex::default(),
            pulse: watch::channel(0).0,
            journal: Mutex::new(Journal::starting(now())),
            history: Mutex::new(History::new(interval)),
            figures: Mutex::default(),
            keeper: OnceLock::new(),
            chips: Mutex::default(),
            alerting: Alerting::new(ttmon_alerts::Config::default()),
            complain: |_| {},
            turns: AnswerQueue::new(TURNS_AT_ONCE),
            store_turns: AnswerQueue::new(STORE_TURNS_AT_ONCE),
            streams: Connections::new(STREAMS_MAX),
            recorder_places: RecorderSlots::new(RECORDER_STREAMS_MAX),
        }
    }

    /// Sets the functions of the allocation server, which has the ledgers of ended processes.
    pub(crate) fn keep(&self, keeper: Option<IntakeCallbacks>) {
        if let Some(keeper) = keeper {
            // Called once, at the start.
            let _ = self.keeper.set(keeper);
        }
    }

    /// Returns the ledgers of ended processes that are still kept, and when the processes ended.
    pub(crate) fn ended(&self) -> Vec<(Arc<OpenLedger>, UnixTime)> {
        self.keeper.get().map_or_else(Vec::new, |keeper| (keeper.ended)())
    }

    /// Returns the kept ledgers of ended processes with this pid that this client may see.
    pub(crate) fn ended_with(&self, pid: u32, visibility: Visibility) -> impl Iterator<Item = (Arc<OpenLedger>, UnixTime)> {
        self.ended().into_iter().filter(move |(found, _)| found.owner.pid == pid && visibility.has_user(found.uid))
    }

    /// Replaces the newest snapshot. `planned` is the planned time of its sample.
    pub(crate) fn publish(&self, planned: Duration, published: Arc<Published>) {
        lock(&self.history).add(planned, &published.snapshot);
        lock(&self.chips).record(published.sample.at, &published.snapshot);
        if let Some(keeper) = self.keeper.get() {
            (keeper.found)(&published.ledgers);
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
        self.interval.saturating_mul(STALE_INTERVALS).max(STALE_MIN)
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
                EventKind::Clock { millis } => warnings.push(format!("the clock was set by {:.1} s at {when}", millis as f64 / 1e3)),
                EventKind::Gap { missed } => warnings.push(format!("{missed} samples were missed before {when}")),
                _ => {}
            }
        }
        let scan_age = newest.scan_age();
        warnings.extend((scan_age > self.stale_after()).then(|| format!("processes are {:.1} s old", scan_age.as_secs_f64())));
        warnings.extend(self.state.as_deref().filter(|state| is_full(state)).map(|state| format!("{} is full", state.display())));
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
        let scope = match origin {
            RequestOrigin::Metrics => Scope { detail: self.detail, processes: Processes::Left },
            RequestOrigin::Unix(_) | RequestOrigin::Loopback | RequestOrigin::Remote => {
                Scope { detail: self.detail, processes: self.processes }
            }
        };
        let make = |snapshot: &Snapshot| {
            let chips = lock(&self.chips).clone();
            metrics::machine(snapshot, &chips, dialect, scope)
        };
        let machine = fresh.as_ref().map(|fresh| fresh.text(Form::Metrics(dialect, scope), Visibility::Whole, make)).unwrap_or_default();
        let own_detail = if origin == RequestOrigin::Metrics { Detail::Lean } else { self.detail };
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
            version: self.version,
            origin: newest.map_or("", |newest| newest.snapshot.origin.name()),
            page: self.page,
            is_fresh: fresh.is_some(),
            age: newest.map(Published::age),
            scan_age: newest.map(Published::scan_age),
            sampler,
            interval: self.interval,
            problems: fresh.map(|fresh| fresh.snapshot.problems.len()),
            history_bytes: self.history(History::bytes),
            events,
            alerts: self.alerting.figures(),
            allocation_counters: self.keeper.get().map_or_else(Vec::new, |keeper| (keeper.counters)()),
        }
    }

    /// Converts a time of the history to the current wall clock.
    pub(crate) fn wall_time(&self, at: Duration) -> UnixTime {
        let ago = u64::try_from(boot_time().saturating_sub(at).as_nanos()).unwrap_or(u64::MAX);
        UnixTime(now().0.saturating_sub(ago))
    }
}

/// Whether a file system has no room for the ledger of another process.
fn is_full(directory: &Path) -> bool {
    rustix::fs::statvfs(directory).is_ok_and(|room| room.f_blocks > 0 && room.f_bavail.saturating_mul(room.f_frsize) < STATE_BYTES_MIN)
}

pub(crate) fn now() -> UnixTime {
    // A clock before 1970 shows 1970.
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    UnixTime(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
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
        let service = Arc::new(Service::new("0", Duration::from_secs(1), Processes::Left, None));
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
        let origins = [(Processes::Left, RequestOrigin::Loopback), (Processes::Shown, RequestOrigin::Metrics)];
        for (detail, (processes, origin)) in
            [Detail::Lean, Detail::Full].into_iter().flat_map(|detail| origins.map(|origin| (detail, origin)))
        {
            let mut service = Service::new("0", Duration::from_secs(1), processes, None);
            service.detail = detail;
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
                assert!(other.is_empty(), "{detail:?}, {origin:?}, round {round}: {other:?}");
                // All jobs were seen.
                let opened = text.lines().filter(|line| line.starts_with("ttmon_device_acquisitions_total{"));
                assert_eq!(opened.filter(|line| line.ends_with(&format!("}} {}", 50 * round))).count(), 4, "{text}");
            }
        }
    }
}
