//! The queue of one receiver, and the thread that delivers its messages.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ttmon_alerts::{Alert, Delivery, Listing, MESSAGE_GAP, Phase, Receiver, Sender, Silence, alertmanager_body, message_body};
use ttmon_model::Snapshot;

use super::deliver::{DeliveryError, deliver};
use crate::limits::{DELIVERY_TRIES, MAILBOX_EVENTS_MAX, RETRY_WAIT};
use crate::metrics::{Count, MessageFigures};
use crate::service::now;

#[derive(Debug)]
pub(super) struct Mailbox {
    receiver: Receiver,
    content: Mutex<Content>,
    wake: Condvar,
    sent: Count,
    failed: Count,
    /// Events that were dropped because too many waited, or because their message could not be delivered.
    dropped: Count,
}

#[derive(Debug, Default)]
struct Content {
    /// For a webhook or a command: the queued events.
    events: VecDeque<Alert>,
    /// For an Alertmanager: the firing alerts, and those that ended recently.
    alerts: Vec<Alert>,
    has_changed: bool,
    host: String,
    origin: &'static str,
    is_closed: bool,
    last_error: Option<String>,
}

struct Message {
    body: String,
    events: u64,
}

impl Mailbox {
    pub(super) fn new(receiver: Receiver) -> Self {
        Self {
            receiver,
            content: Mutex::default(),
            wake: Condvar::new(),
            sent: Count::default(),
            failed: Count::default(),
            dropped: Count::default(),
        }
    }

    /// Adds events. Never waits for a delivery.
    pub(super) fn put(&self, snapshot: &Snapshot, changed: &[Alert], listing: &Listing, silences: &[Silence]) {
        let is_wanted = |alert: &Alert| alert.rule.severity >= self.receiver.severity;
        let is_audible = |alert: &&Alert| !silences.iter().any(|silence| silence.covers(alert, snapshot.time));
        let mut content = self.lock();
        snapshot.host.clone_into(&mut content.host);
        content.origin = snapshot.origin.name();
        let wanted: Vec<&Alert> = changed.iter().filter(|alert| is_wanted(alert)).collect();
        if let Delivery::Alertmanager { .. } = self.receiver.how {
            let posted = listing.alerts.iter().filter(|alert| alert.phase != Phase::Pending && is_wanted(alert)).filter(is_audible);
            content.alerts = posted.cloned().collect();
            content.has_changed |= !wanted.is_empty();
        } else {
            for &alert in &wanted {
                if content.events.len() == MAILBOX_EVENTS_MAX {
                    content.events.pop_front();
                    self.dropped.add_one();
                }
                content.events.push_back(alert.clone());
            }
        }
        if !wanted.is_empty() {
            self.wake.notify_one();
        }
    }

    /// Ends the thread after the current delivery.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.wake.notify_one();
    }

    /// Delivers messages until the mailbox is closed, at most one message per [`MESSAGE_GAP`]. `report` is called with the reason when
    /// deliveries begin to fail, and when they succeed again.
    pub(super) fn work(&self, version: &'static str, report: impl Fn(&str, Option<String>)) {
        let mut last: Option<Instant> = None;
        let mut has_failed = false;
        while self.wait_until_due(last, has_failed) {
            last = Some(Instant::now());
            let Some(message) = self.take(version) else { continue };
            let error = self.send(&message).err();
            if error.is_some() != has_failed {
                has_failed = error.is_some();
                report(&self.receiver.name, error.map(|why| why.to_string()));
            }
        }
    }

    /// Waits until a message is due. Returns false if the mailbox is closed.
    fn wait_until_due(&self, last: Option<Instant>, has_failed: bool) -> bool {
        let mut content = self.lock();
        loop {
            if content.is_closed {
                return false;
            }
            let since = last.map_or(Duration::MAX, |last| last.elapsed());
            let gap = MESSAGE_GAP.saturating_sub(since);
            let wait = match self.receiver.how {
                // While an alert fires or has ended recently, it is sent repeatedly. It is sent at once after a change or a failed
                // delivery.
                Delivery::Alertmanager { resend, .. } if !content.alerts.is_empty() => {
                    if content.has_changed || has_failed {
                        gap
                    } else {
                        resend.saturating_sub(since)
                    }
                }
                _ if !content.events.is_empty() => gap,
                _ => Duration::MAX,
            };
            if wait.is_zero() {
                return true;
            }
            // Alerts may be added without a wake-up, when a silence ends or after a restart.
            let wait = wait.min(MESSAGE_GAP);
            content = self.wait(content, wait);
        }
    }

    fn take(&self, version: &'static str) -> Option<Message> {
        let mut content = self.lock();
        let (host, time) = (content.host.clone(), now());
        let sender = Sender { version, host: &host, origin: content.origin, is_test: false };
        content.has_changed = false;
        if let Delivery::Alertmanager { resend, .. } = self.receiver.how {
            let body = alertmanager_body(sender, time, content.alerts.iter(), resend);
            return (!content.alerts.is_empty()).then_some(Message { body, events: 0 });
        }
        let events: Vec<Alert> = content.events.drain(..).collect();
        let body = message_body(sender, time, &events);
        (!events.is_empty()).then_some(Message { body, events: events.len() as u64 })
    }

    /// Sends a message. Only a webhook is retried: Alertmanager gets the next message anyway, and a command may have acted before it
    /// failed.
    fn send(&self, message: &Message) -> Result<(), DeliveryError> {
        let tries = if let Delivery::Webhook(_) = self.receiver.how { DELIVERY_TRIES } else { 1 };
        let mut number = 1;
        loop {
            match deliver(&self.receiver.how, &message.body) {
                Ok(()) => {
                    self.sent.add_one();
                    self.lock().last_error = None;
                    return Ok(());
                }
                Err(why) => {
                    self.failed.add_one();
                    self.lock().last_error = Some(why.to_string());
                    if number == tries || !self.pause(RETRY_WAIT) {
                        (0..message.events).for_each(|_| self.dropped.add_one());
                        return Err(why);
                    }
                }
            }
            number += 1;
        }
    }

    /// Waits. Returns false if the mailbox is closed meanwhile.
    fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut content = self.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if content.is_closed || left.is_zero() {
                return !content.is_closed;
            }
            content = self.wait(content, left);
        }
    }

    pub(super) fn figures(&self) -> MessageFigures {
        MessageFigures {
            receiver: self.receiver.name.clone(),
            sent: self.sent.get(),
            failed: self.failed.get(),
            dropped: self.dropped.get(),
        }
    }

    pub(super) fn document(&self) -> Value {
        let (last_error, waiting) = {
            let content = self.lock();
            (content.last_error.clone(), content.events.len())
        };
        json!({
            "name": self.receiver.name,
            "sort": self.receiver.how.sort(),
            "severity": self.receiver.severity.name(),
            "sent": self.sent.get(),
            "failed": self.failed.get(),
            "dropped": self.dropped.get(),
            "waiting": waiting,
            "last_error": last_error,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        ttmon_os::lock(&self.content)
    }

    /// Waits for a wake-up, or until the timeout.
    fn wait<'a>(&self, content: MutexGuard<'a, Content>, timeout: Duration) -> MutexGuard<'a, Content> {
        self.wake.wait_timeout(content, timeout).unwrap_or_else(PoisonError::into_inner).0
    }
}
