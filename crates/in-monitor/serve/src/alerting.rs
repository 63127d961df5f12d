//! Evaluates the alert rules on each snapshot in a separate thread, and passes changes to the receivers.
//!
//! ```text
//!  sampler ──► queue (8) ──► alerts ──► mailbox of each receiver ──► its thread ──► command, webhook, Alertmanager
//! ```
//!
//! Nothing waits here: a full queue drops the new sample, a full mailbox drops its oldest entries, and both are counted.

mod deliver;
mod mailbox;
mod state;

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver as Samples, SyncSender, TrySendError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use ttmon_alerts::{Alert, Config, Engine, Listing, Outbox, Rule, START_GRACE, Sender, Silence, listing_document};
use ttmon_collect::reads::boot_time;
use ttmon_os::lock;

use crate::limits::{ALERT_SAMPLES_MAX, SILENCES_EVERY};
use crate::metrics::{AlertFigures, Count};
use crate::newest::Published;
use crate::service::{Service, now};
use crate::service_events::EventKind;

pub use deliver::deliver;
use mailbox::Mailbox;
pub use state::SILENCES;
use state::read_silences;

/// The state of alerts, for the API and the metrics.
#[derive(Debug)]
pub(crate) struct Alerting {
    rules: Vec<Arc<Rule>>,
    mailboxes: Vec<Arc<Mailbox>>,
    queue: Mutex<Option<SyncSender<Arc<Published>>>>,
    dropped: Count,
    shown: Mutex<PublishedAlerts>,
}

#[derive(Clone, Debug, Default)]
struct PublishedAlerts {
    listing: Arc<Listing>,
    silences: Arc<[Silence]>,
}

impl Alerting {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            rules: config.rules.iter().cloned().map(Arc::new).collect(),
            mailboxes: config.receivers.iter().cloned().map(|receiver| Arc::new(Mailbox::new(receiver))).collect(),
            queue: Mutex::default(),
            dropped: Count::default(),
            shown: Mutex::default(),
        }
    }

    /// Queues a snapshot. Never waits: if the queue is full, the snapshot is dropped.
    pub(crate) fn offer(&self, published: &Arc<Published>) {
        let mut queue = lock(&self.queue);
        match queue.as_ref().map(|queue| queue.try_send(Arc::clone(published))) {
            Some(Err(TrySendError::Full(_))) => self.dropped.add_one(),
            Some(Err(TrySendError::Disconnected(_))) => *queue = None,
            Some(Ok(())) | None => {}
        }
    }

    /// Ends the threads after their current work.
    pub(crate) fn stop(&self) {
        *lock(&self.queue) = None;
        self.mailboxes.iter().for_each(|mailbox| mailbox.close());
    }

    pub(crate) fn figures(&self) -> AlertFigures {
        let listing = Arc::clone(&lock(&self.shown).listing);
        let firing = |rule: &Arc<Rule>| listing.firing().filter(|alert| alert.rule.name == rule.name).count();
        AlertFigures {
            firing: self.rules.iter().map(|rule| (rule.name.clone(), rule.severity.name(), firing(rule))).collect(),
            messages: self.mailboxes.iter().map(|mailbox| mailbox.figures()).collect(),
            dropped: self.dropped.get(),
        }
    }

    /// Returns the document of `/api/v1/alerts`.
    pub(crate) fn document(&self, sender: Sender<'_>) -> Value {
        let PublishedAlerts { listing, silences } = lock(&self.shown).clone();
        let mut document = listing_document(sender, now(), self.rules.iter().map(AsRef::as_ref), &listing, &silences);
        document["receivers"] = json!(self.mailboxes.iter().map(|mailbox| mailbox.document()).collect::<Vec<_>>());
        document["samples_dropped"] = json!(self.dropped.get());
        document
    }
}

type Threads = Vec<JoinHandle<io::Result<()>>>;

/// Creates the queue and starts the thread of each receiver. The thread that evaluates the rules is [`run`].
pub(crate) fn start(service: &Arc<Service>) -> io::Result<(Samples<Arc<Published>>, Threads)> {
    let (queue, samples) = std::sync::mpsc::sync_channel(ALERT_SAMPLES_MAX);
    *lock(&service.alerting.queue) = Some(queue);
    let spawn = |(number, mailbox): (usize, &Arc<Mailbox>)| {
        let (mailbox, service) = (Arc::clone(mailbox), Arc::clone(service));
        crate::spawn(&format!("receiver-{number}"), (), move || {
            mailbox.work(service.options.version, |receiver, error| report(&service, receiver, error));
            Ok(())
        })
    };
    let threads: io::Result<Threads> = (1..).zip(&service.alerting.mailboxes).map(spawn).collect();
    Ok((samples, threads?))
}

/// Records and prints that a receiver began to fail, or works again.
fn report(service: &Service, receiver: &str, error: Option<String>) {
    match &error {
        Some(why) => service.complain(&format!("alert receiver {receiver}: {why}; alerts are not delivered, see ttmon alerts list")),
        None => service.complain(&format!("alert receiver {receiver}: delivers again")),
    }
    let state = if error.is_some() { "failing" } else { "ok" };
    service.note(boot_time(), now(), EventKind::Receiver { receiver: receiver.to_owned(), state, reason: error });
}

/// Evaluates snapshots until the queue is closed.
pub(crate) fn run(service: &Service, samples: &Samples<Arc<Published>>) -> io::Result<()> {
    let mut evaluator = AlertEvaluator::new(service);
    while let Ok(published) = samples.recv() {
        evaluator.evaluate(service, &published);
    }
    Ok(())
}

struct AlertEvaluator {
    engine: Engine,
    outbox: Outbox,
    state: Option<PathBuf>,
    silences: Arc<[Silence]>,
    /// When silences were last read.
    silences_at: Option<Duration>,
    /// Why silences are not used, as printed.
    silence_problems: Vec<String>,
    saved: Vec<ttmon_alerts::Saved>,
    has_failed_saving: bool,
}

impl AlertEvaluator {
    fn new(service: &Service) -> Self {
        let rules = service.alerting.rules.iter().map(|rule| rule.as_ref().clone()).collect();
        let state = service.options.state.clone();
        let complain = |what: &str| service.complain(&format!("{}: {what}; alerts that fire are sent again", state::SAVED));
        let (saved, invalid) = state.as_deref().map_or(Ok((Vec::new(), 0)), state::read_saved).unwrap_or_else(|error| {
            complain(&error.to_string());
            (Vec::new(), 0)
        });
        if invalid > 0 {
            complain(&format!("invalid entries: {invalid}"));
        }
        let outbox = Outbox::restored(saved.iter().map(|saved| (saved.rule.clone(), saved.device)));
        let mut engine = Engine::new(rules, START_GRACE);
        engine.restore(saved.clone());
        let (silences, silence_problems) = (Arc::default(), Vec::new());
        Self { engine, outbox, state, silences, silences_at: None, silence_problems, saved, has_failed_saving: false }
    }

    fn evaluate(&mut self, service: &Service, published: &Published) {
        let (at, time) = (published.sample.at, published.sample.time);
        let changed = self.engine.observe(at, &published.snapshot);
        if self.silences_at.is_none_or(|last| at.saturating_sub(last) >= SILENCES_EVERY) {
            self.read_silences(service);
            self.silences_at = Some(at);
        }
        let listing = Arc::new(self.engine.listing());
        let messages = self.outbox.take(&changed, &listing, &self.silences, time);
        for mailbox in &service.alerting.mailboxes {
            mailbox.put(&published.snapshot, &messages, &listing, &self.silences);
        }
        for alert in &changed {
            service.note(at, time, alert_event(alert));
        }
        self.save(service, &listing);
        *lock(&service.alerting.shown) = PublishedAlerts { listing, silences: Arc::clone(&self.silences) };
    }

    /// Reads the silences, and prints new problems.
    fn read_silences(&mut self, service: &Service) {
        let (silences, problems) = self.state.as_deref().map(read_silences).unwrap_or_default();
        problems.iter().filter(|problem| !self.silence_problems.contains(problem)).for_each(|problem| service.complain(problem));
        (self.silences, self.silence_problems) = (silences.into(), problems);
    }

    /// Saves the firing alerts for a restart. If this fails, alerts are sent again after a restart.
    fn save(&mut self, service: &Service, listing: &Listing) {
        let saved = listing.saved();
        if saved == self.saved {
            return;
        }
        let result = self.state.as_deref().map_or(Ok(()), |state| state::write_saved(state, &saved));
        let had_failed = std::mem::replace(&mut self.has_failed_saving, result.is_err());
        if let (Err(error), false) = (result, had_failed) {
            service.complain(&format!("{}: {error}; alerts are sent again after a restart", state::SAVED));
        }
        self.saved = saved;
    }
}

fn alert_event(alert: &Alert) -> EventKind {
    EventKind::Alert {
        device: alert.device.0,
        rule: alert.rule.name.clone(),
        severity: alert.rule.severity.name(),
        state: alert.phase.name(),
        summary: alert.summary.clone(),
    }
}

#[cfg(test)]
mod tests;
