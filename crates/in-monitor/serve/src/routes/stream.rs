//! Server-sent events. A stream waits for changes of the service and sends new events. A stream that is too slow is closed, and its reader
//! reconnects with the number of the last event that it received.

use std::sync::Arc;
use std::time::Duration;

use hyper::Response;
use hyper::body::Bytes;
use hyper::header::HeaderName;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};
use ttmon_json::{Layout, SCHEMA};

use super::parameters::Parameters;
use super::{RequestHead, documents, event_stream, line, typed, wants_json};
use crate::access::Visibility;
use crate::body::Body;
use crate::limits::{STREAM_KEEP_ALIVE, STREAM_QUEUE_MAX};
use crate::newest::{Form, Published};
use crate::problem::Problem;
use crate::service::Service;
use crate::service_events::ServiceEvent;

/// Returns a stream, or one document if the client asks for JSON.
pub(super) async fn events(
    service: &Arc<Service>,
    visibility: Visibility,
    request: &RequestHead<'_>,
    parameters: &Parameters,
) -> Result<Response<Body>, Problem> {
    // Without a valid number, the stream begins with the next event.
    let last = request.headers.get(HeaderName::from_static("last-event-id")).and_then(|id| id.to_str().ok()?.trim().parse().ok());
    let (snapshots, deltas) = (parameters.truth("snapshots", false)?, parameters.truth("deltas", false)?);
    let after = parameters.number("after", 0, u64::MAX)?.or(last);
    if wants_json(request) {
        let events: Vec<Value> = service.events_after(after.unwrap_or(0)).iter().map(ServiceEvent::json).collect();
        let document = json!({"schema": SCHEMA, "version": service.options.version, "last_id": service.last_event(), "events": events});
        return Ok(typed("application/json", line(&document)));
    }
    let (sender, receiver) = mpsc::channel(STREAM_QUEUE_MAX);
    let after = after.unwrap_or_else(|| service.last_event());
    if request.method == hyper::Method::GET {
        let (slot, has_evicted) = service.streams.admit(request.holder).await;
        if has_evicted {
            service.counters.evictions.add_one();
        }
        let events = Events { after, snapshots: snapshots || deltas, deltas, number: 0 };
        let sending = send(Arc::clone(service), visibility, events, sender);
        // If its slot is needed, the stream ends and its reader reconnects.
        tokio::spawn(async move { slot.run_until_evicted(sending).await });
    }
    Ok(event_stream(receiver))
}

struct Events {
    /// Number of the last event that was sent.
    after: u64,
    snapshots: bool,
    /// Whether to send deltas instead of whole snapshots, if possible.
    deltas: bool,
    /// Number of the last snapshot that was sent.
    number: u64,
}

async fn send(service: Arc<Service>, visibility: Visibility, mut events: Events, sender: mpsc::Sender<Bytes>) {
    let _open = service.counters.streams.hold();
    let mut pulse = service.subscribe();
    // With this part, a reader gets the header at once, and reconnects soon after an interruption.
    let mut parts = vec![Bytes::from_static(b"retry: 2000\n\n")];
    let mut keep_alive = Instant::now() + STREAM_KEEP_ALIVE;
    loop {
        let is_behind = sender.capacity() < sender.max_capacity();
        parts.extend(events.news(&service, visibility, is_behind).await);
        if parts.is_empty() && Instant::now() >= keep_alive {
            parts.push(Bytes::from_static(b": nothing new\n\n"));
        }
        if !parts.is_empty() {
            keep_alive = Instant::now() + STREAM_KEEP_ALIVE;
        }
        for part in parts.drain(..) {
            match sender.try_send(part) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(_)) => {
                    service.counters.behind.add_one();
                    return;
                }
                Err(mpsc::error::TrySendError::Closed(_)) => return,
            }
        }
        wait(&mut pulse, &sender, keep_alive).await;
        if sender.is_closed() {
            return;
        }
    }
}

/// Waits until there may be new events, the reader has disconnected, or a keep-alive is due. Each snapshot wakes a stream, even without
/// news.
async fn wait(pulse: &mut watch::Receiver<u64>, sender: &mpsc::Sender<Bytes>, keep_alive: Instant) {
    // Wait in short intervals, to detect a reader that disconnected while there are no events.
    const TURN: Duration = Duration::from_secs(1);
    while Instant::now() < keep_alive && !sender.is_closed() {
        if timeout_at(keep_alive.min(Instant::now() + TURN), pulse.changed()).await.is_ok() {
            return;
        }
    }
}

impl Events {
    /// Returns new events. A stream that is behind gets no snapshot now, and the newest one later.
    async fn news(&mut self, service: &Arc<Service>, visibility: Visibility, is_behind: bool) -> Vec<Bytes> {
        let mut parts = Vec::new();
        // Send all events as one part, so that a reader that returns after a long time is not counted as behind.
        let mut lines = String::new();
        for event in service.events_after(self.after) {
            self.after = event.id;
            let document = event.json();
            let name = document["event"].as_str().expect("every event names its kind");
            let data = ttmon_json::to_string(&document, Layout::Line);
            lines.push_str(&format!("id: {}\nevent: {name}\ndata: {data}\n\n", event.id));
        }
        if !lines.is_empty() {
            parts.push(Bytes::from(lines));
        }
        // An old snapshot is not sent.
        let newest = service.fresh().ok().filter(|newest| self.snapshots && !is_behind && newest.number != self.number);
        if let Some(newest) = newest {
            let before = std::mem::replace(&mut self.number, newest.number);
            parts.extend(frame(service, visibility, newest, self.deltas.then_some(before)).await);
        }
        parts
    }
}

/// Returns the newest snapshot: as a delta since snapshot `before` if requested and possible, otherwise the whole document.
async fn frame(service: &Arc<Service>, visibility: Visibility, newest: Arc<Published>, before: Option<u64>) -> Vec<Bytes> {
    let _turn = service.deltas.turn.lock().await;
    if let Some(delta) = before.and_then(|before| service.deltas.ready(visibility, before, newest.number)) {
        return vec![delta];
    }
    let making = Arc::clone(service);
    let made = tokio::task::spawn_blocking(move || {
        let text = || documents::text(&newest, Form::Snapshot, visibility, making.options.version);
        match before.and_then(|before| making.deltas.between(visibility, before, newest.number, text)) {
            Some(delta) => vec![delta],
            None => vec![Bytes::from_static(b"event: snapshot\ndata: "), text(), Bytes::from_static(b"\n")],
        }
    });
    made.await.unwrap_or_else(|error| match error.try_into_panic() {
        // The stream ends, because its next delta would be relative to a snapshot that its reader does not have.
        Ok(panic) => std::panic::resume_unwind(panic),
        // The service stops.
        Err(_) => Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::RequestOrigin;
    use crate::body::Content;
    use crate::connections::Holder;
    use crate::limits::STREAMS_MAX;

    /// Every new stream is accepted. The holder with the most streams loses the oldest.
    #[test]
    fn streams_of_one_holder_do_not_exclude_others() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let service = Arc::new(crate::fixture::service());
            let (headers, method) = (hyper::HeaderMap::new(), hyper::Method::GET);
            let (service, headers, method) = (&service, &headers, &method);
            let ask = |holder: Holder| async move {
                let origin = RequestOrigin::Loopback;
                let request = RequestHead { origin, holder, authority: None, method, path: "", query: "", headers, has_body: false };
                let parameters = Parameters::parse("", &[]).expect("no parameters");
                events(service, Visibility::Public, &request, &parameters).await.expect("a stream")
            };
            let mut first = ask(Holder::User(0)).await;
            let mut open = Vec::new();
            for _ in 0..2 * STREAMS_MAX {
                open.push(ask(Holder::Loopback).await);
            }
            while service.counters.streams.get() != STREAMS_MAX as u64 {
                tokio::task::yield_now().await;
            }
            assert_eq!(service.counters.evictions.get(), STREAMS_MAX as u64 + 1);
            let Content::Stream(parts) = &mut first.body_mut().content else { panic!("not a stream") };
            assert!(parts.recv().await.is_some() && !parts.is_closed(), "root keeps its own");
            drop((first, open));
            while service.counters.streams.get() != 0 {
                tokio::task::yield_now().await;
            }
        });
    }

    /// A snapshot wakes all streams at once, but only one of them computes the delta.
    #[test]
    fn a_delta_is_made_once_for_all_streams() {
        const STREAMS: usize = 50;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let service = Arc::new(crate::fixture::service());
            let publish = |number: u64| {
                let sample = ttmon_model::Sample { at: ttmon_collect::reads::boot_time(), ..crate::fixture::sample() };
                let published = Published::new(number, crate::fixture::machine(), sample, Vec::new(), Vec::new());
                service.publish(Duration::ZERO, Arc::new(published));
            };
            publish(1);
            let mut readers = Vec::new();
            for _ in 0..STREAMS {
                let (sender, receiver) = mpsc::channel(STREAM_QUEUE_MAX);
                let state = Events { after: service.last_event(), snapshots: true, deltas: true, number: 0 };
                tokio::spawn(send(Arc::clone(&service), Visibility::Public, state, sender));
                readers.push(receiver);
            }
            for reader in &mut readers {
                // The snapshot is followed by its text and a newline. A stream with unread parts is behind, and gets no news.
                while reader.recv().await.expect("a part") != "event: snapshot\ndata: " {}
                reader.recv().await.expect("the text");
                reader.recv().await.expect("the newline");
            }
            for number in [2, 3] {
                publish(number);
                let mut deltas = Vec::new();
                for reader in &mut readers {
                    deltas.push(reader.recv().await.expect("a part"));
                }
                assert!(deltas[0].starts_with(b"event: delta\ndata: "));
                assert!(deltas.iter().all(|delta| delta.as_ptr() == deltas[0].as_ptr()), "all streams share the bytes");
            }
        });
    }

    /// Snapshots are no news for a stream without snapshots, so it needs keep-alives: proxies close idle connections.
    #[test]
    fn keep_alives_are_sent_although_every_snapshot_wakes_the_stream() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let service = Arc::new(crate::fixture::service());
            let (sender, mut receiver) = mpsc::channel(STREAM_QUEUE_MAX);
            let state = Events { after: service.last_event(), snapshots: false, deltas: false, number: 0 };
            tokio::spawn(send(Arc::clone(&service), Visibility::Public, state, sender));
            let sampled = Arc::clone(&service);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    let sample = crate::fixture::sample();
                    let published = Published::new(1, crate::fixture::machine(), sample, Vec::new(), Vec::new());
                    sampled.publish(Duration::ZERO, Arc::new(published));
                }
            });
            assert_eq!(receiver.recv().await.as_deref(), Some(&b"retry: 2000\n\n"[..]));
            for _ in 0..2 {
                let begun = Instant::now();
                assert_eq!(receiver.recv().await.as_deref(), Some(&b": nothing new\n\n"[..]));
                assert!(begun.elapsed() <= STREAM_KEEP_ALIVE + Duration::from_secs(1), "{:?}", begun.elapsed());
            }
        });
    }
}
