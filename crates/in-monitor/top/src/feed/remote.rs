//! A service of another host, or of this one, polled repeatedly. If it does not answer, it is polled less and less often until it
//! returns.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use ttmon_hosts::{RequestError, Service};
use ttmon_model::Snapshot;
use ttmon_model::select::Selection;
use ttmon_model::units::UnixTime;

use super::past::past;
use super::{FeedError, FeedMessage, Request, no_variables, unix_time};

/// Timeout of a request. The network to another host may be slow.
const TIMEOUT: Duration = Duration::from_secs(3);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// The parts of a snapshot that the memory view needs.
const MEMORY: &str = "/api/v1/memory?buffers=true&banks=true&blocks=true";

/// A service and its selected devices.
#[derive(Debug)]
pub struct Remote {
    /// The service.
    pub service: Service,
    /// The selected devices.
    pub selection: Selection,
}

impl Remote {
    pub(super) fn run(self, mut interval: Duration, requests: &Receiver<Request>, send: impl Fn(FeedMessage) -> bool) {
        let mut since: Option<UnixTime> = None;
        let mut failures = 0;
        let mut is_known = false;
        let mut last = None;
        let mut with_memory = false;
        loop {
            let begun = Instant::now();
            let pause = match self.snapshot(with_memory) {
                Ok(mut snapshot) => {
                    (since, failures) = (None, 0);
                    self.selection.apply(&mut snapshot);
                    let devices: Vec<u32> = snapshot.devices.iter().map(|device| device.id.0).collect();
                    // The service has its own interval, so it may return the same sample again.
                    let is_sent = last.replace(snapshot.time) == Some(snapshot.time) || send(FeedMessage::Snapshot(Box::new(snapshot)));
                    // A service without a history is not an error.
                    let past = if is_known { None } else { past(&self.service, &devices, TIMEOUT) };
                    if !is_sent || past.is_some_and(|grid| !send(FeedMessage::Past(grid))) {
                        return;
                    }
                    is_known = true;
                    interval.saturating_sub(begun.elapsed())
                }
                Err(trouble) => {
                    let since = *since.get_or_insert_with(unix_time);
                    failures += 1;
                    // Events of the meantime are shown when the service is back.
                    (is_known, last) = (false, None);
                    if !send(FeedMessage::Error(FeedError { message: trouble.to_string(), is_no_device: false, since })) {
                        return;
                    }
                    pause(failures).max(interval)
                }
            };
            let mut next = Instant::now() + pause;
            loop {
                match requests.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) | Ok(Request::Now) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Ok(Request::Interval(other)) => {
                        interval = other;
                        // While the service is missing, a shorter interval does not cause more attempts.
                        if failures == 0 {
                            next = next.min(begun + interval);
                        }
                    }
                    Ok(Request::Environment(process)) => {
                        send(no_variables(process, "a service does not send the variables of processes"));
                    }
                    Ok(Request::Buffers(wanted)) => {
                        (with_memory, last) = (wanted, None);
                        if wanted {
                            break;
                        }
                    }
                    Ok(Request::Deep(_) | Request::Pause | Request::Step(_) | Request::Jump(_) | Request::Speed(_)) => {}
                }
            }
        }
    }

    /// Buffers need permission: without a token they are left out.
    fn snapshot(&self, with_memory: bool) -> Result<Snapshot, RequestError> {
        if !with_memory {
            return self.service.snapshot(TIMEOUT);
        }
        match self.service.document(MEMORY, TIMEOUT) {
            Err(RequestError::Refused | RequestError::Status(_)) => self.service.snapshot(TIMEOUT),
            other => other,
        }
    }
}

/// Returns the pause before the next attempt: 1, 2, 4 ... seconds, up to the maximum.
pub(super) fn pause(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.saturating_sub(1).min(5)).min(PAUSE_MAX)
}
