//! The recorded events of tracked processes (allocations and frees), as a stream or as one document.
//!
//! A stream reads the ledgers itself, a few times per second while it has a reader. A slow reader blocks nothing: unread events stay in the
//! recorders, and lost events are reported as a number.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use hyper::Response;
use hyper::body::Bytes;
use serde_json::json;
use tokio::sync::mpsc;
use ttmon_buffer_history::{News, Recorder, Scene};
use ttmon_collect::Departed;
use ttmon_collect::ledgers::OpenLedger;
use ttmon_json::{Layout, SCHEMA, event_line};

use super::documents::aside;
use super::parameters::RecorderQuery;
use super::{RequestHead, event_stream, typed, wants_json};
use crate::access::Visibility;
use crate::body::Body;
use crate::limits::{
    RECORDER_DOCUMENT_EVENTS_MAX, RECORDER_PIECE_BYTES, RECORDER_STREAM_EVENTS_MAX, RECORDERS_OF_USER_MAX, STREAM_KEEP_ALIVE,
};
use crate::problem::Problem;
use crate::service::Service;

/// Interval at which a stream reads the recorders.
const INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of pieces of a stream that are queued.
const QUEUE_MAX: usize = 4;

/// Returns a stream, or one document if the client asks for JSON.
pub(super) async fn events(
    service: &Arc<Service>,
    visibility: Visibility,
    request: &RequestHead<'_>,
    query: RecorderQuery,
) -> Result<Response<Body>, Problem> {
    service.fresh()?;
    let mut follower = Follower { service: Arc::clone(service), visibility, query, recorder: Recorder::default() };
    if wants_json(request) {
        return Ok(typed("application/json", service.responses.make(visibility, move || follower.document()).await?));
    }
    let share = service.recorder_streams.take(visibility, 1).ok_or(Problem::Streams)?;
    let (sender, receiver) = mpsc::channel(QUEUE_MAX);
    if request.method == hyper::Method::GET {
        tokio::spawn(async move {
            let service = Arc::clone(&follower.service);
            let _open = service.counters.streams.hold();
            follower.send(sender).await;
            drop(share);
        });
    }
    Ok(event_stream(receiver))
}

struct Follower {
    service: Arc<Service>,
    visibility: Visibility,
    query: RecorderQuery,
    recorder: Recorder,
}

impl Follower {
    /// Reads new events of the recorders that this client may see. Returns `None` without a recent sample.
    fn read_new(&mut self, most: usize) -> Option<News> {
        let newest = self.service.fresh().ok()?;
        let is_seen = |found: &Arc<OpenLedger>| {
            let process = newest.snapshot.processes.iter().find(|process| process.key == found.owner);
            process.is_some_and(|process| self.visibility.has(process))
        };
        let mut counts: HashMap<u32, usize> = HashMap::new();
        let mut is_within_share = |found: &Arc<OpenLedger>| {
            let count = counts.entry(found.uid).or_default();
            *count += 1;
            *count <= RECORDERS_OF_USER_MAX
                || Visibility::of_user(found.uid) == Visibility::Whole
                || self.query.pid == Some(found.owner.pid)
        };
        let seen = newest.ledgers.iter().filter(|found| is_seen(found));
        let present: Vec<Arc<OpenLedger>> = seen.filter(|found| is_within_share(found)).cloned().collect();
        // A closed ledger is only included if this reader followed it before, or if the client requested its pid.
        let followed = newest.departed.iter().filter(|departed| self.recorder.has(&departed.found));
        let mut departed: Vec<Arc<Departed>> = followed.cloned().collect();
        for (found, time) in self.query.pid.into_iter().flat_map(|pid| self.service.ended_with(pid, self.visibility)) {
            if !departed.iter().any(|known| known.found.identity() == found.identity()) {
                departed.push(Arc::new(Departed::exited(found, time)));
            }
        }
        let (sample, snapshot) = (&newest.sample, &newest.snapshot);
        Some(self.recorder.read_new(&Scene { sample, snapshot, present: &present, departed: &departed, pid: self.query.pid, most }))
    }

    fn document(&mut self) -> Result<String, Problem> {
        let news = self.read_new(RECORDER_DOCUMENT_EVENTS_MAX).ok_or_else(|| Problem::Stale("there is no fresh sample".to_owned()))?;
        let mut last = VecDeque::new();
        let mut count = 0_u64;
        for event in news.events(&self.query.devices) {
            if last.len() >= self.query.limit {
                last.pop_front();
            }
            last.push_back(event_line(&event));
            count += 1;
        }
        let head = json!({"schema": SCHEMA, "version": self.service.options.version, "recorders": self.recorder.len(), "count": count});
        let head = ttmon_json::to_string(&head, Layout::Line);
        let mut text = String::with_capacity(last.iter().map(|line| line.len() + 1).sum::<usize>() + head.len() + 16);
        text.push_str(head.trim_end_matches('}'));
        text.push_str(",\"events\":[");
        for (index, line) in last.iter().enumerate() {
            text.push_str(if index == 0 { "" } else { "," });
            text.push_str(line);
        }
        text.push_str("]}\n");
        Ok(text)
    }

    /// Sends events until the reader disconnects, or until the last event.
    async fn send(mut self, sender: mpsc::Sender<Bytes>) {
        let mut silent = Duration::ZERO;
        let mut head = Some("retry: 2000\n");
        loop {
            // Reading may take long, so it runs on another thread. Queueing a piece is fast, and a slow reader blocks nothing.
            let Ok((follower, news)) = aside(move || {
                let news = self.read_new(RECORDER_STREAM_EVENTS_MAX);
                (self, news)
            })
            .await
            else {
                return;
            };
            self = follower;
            let mut text = head.take().map_or_else(String::new, |retry| {
                format!("{retry}event: recorders\ndata: {}\n\n", json!({"recorders": self.recorder.len()}))
            });
            let devices = self.query.devices.clone();
            for event in news.iter().flat_map(|news| news.events(&devices)) {
                text.push_str(&format!("event: {}\ndata: {}\n\n", event.op.name(), event_line(&event)));
                if text.len() >= RECORDER_PIECE_BYTES && sender.send(Bytes::from(mem::take(&mut text))).await.is_err() {
                    return;
                }
            }
            if !self.query.follow {
                text.push_str("event: end\ndata: {}\n\n");
            }
            silent = if text.is_empty() { silent + INTERVAL } else { Duration::ZERO };
            if silent >= STREAM_KEEP_ALIVE {
                silent = Duration::ZERO;
                text.push_str(": nothing new\n\n");
            }
            if !text.is_empty() && sender.send(Bytes::from(text)).await.is_err() {
                return;
            }
            if !self.query.follow || tokio::time::timeout(INTERVAL, sender.closed()).await.is_ok() {
                return;
            }
        }
    }
}
