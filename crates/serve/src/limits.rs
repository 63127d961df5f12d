//! Bounds of the service, each with its reason.

use std::time::Duration;

/// Connections over TCP at once. For one more, the address with the most loses its oldest: see crowd.rs. A slow one is cut off after
/// [`HEADER_TIMEOUT`] or [`WRITE_TIMEOUT`].
pub(crate) const TCP_CONNECTIONS_MAX: usize = 2048;
/// Connections over the Unix socket at once; its peers are programs of this host. Likewise by user.
pub(crate) const UNIX_CONNECTIONS_MAX: usize = 512;
/// Connections to a service of texts: a storage keeps one for each of the hosts that are simulated at one port.
pub(crate) const TEXT_CONNECTIONS_MAX: usize = 4096;
/// Event streams at once, of both together: each costs a copy of what happens. For one more, the user or address with the most loses its
/// oldest, whose reader comes back with the number of the last event it saw.
pub(crate) const STREAMS_MAX: usize = 256;
/// From the first byte of a request, or the end of the last one, to the end of the next one's header.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a peer may let an answer lie.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// What a peer takes at least while we wait for it: the slowest line that a page of this service is read over.
pub(crate) const WRITE_BYTES_PER_S_MIN: f64 = 256.0 * 1024.0;
/// Answers that cost much, made at once: a user has one of them, so that there is one for the others.
pub(crate) const TURNS_AT_ONCE: usize = 2;
/// Answers that a store of many hosts is asked for at a time.
pub(crate) const STORE_TURNS_AT_ONCE: usize = 1;
/// Such answers of one user that are made or wait for it: a page and several programs ask at once, not dozens.
pub(crate) const TURNS_PER_USER_MAX: usize = 32;
/// What such answers take until they are sent, in all. One that is larger is sent while there is no other of its user.
pub(crate) const ANSWERS_KIB_MAX: usize = 64 * 1024;
/// Of one user.
pub(crate) const ANSWERS_KIB_PER_USER_MAX: usize = 32 * 1024;
/// How long a peer of TLS may take to say hello.
#[cfg(feature = "tls")]
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest header of a request: a browser's cookies for `localhost` fit, and a question with a long list.
pub(crate) const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Fields of a request's header.
pub(crate) const HEADERS_MAX: usize = 64;
/// Parts that a stream may be behind before it is cut off: what happened is one. A snapshot, which is three, is sent to one that has taken
/// everything.
pub(crate) const STREAM_QUEUE_MAX: usize = 64;
/// An idle stream sends a comment, so that a proxy does not close it.
pub(crate) const STREAM_KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Streams of recorders at once: each reads the ledgers by itself. One user has at most a quarter of them.
pub(crate) const RECORDER_STREAMS_MAX: usize = 16;
/// Events that a stream of recorders takes at once, of all ledgers together: some 5 MB.
pub(crate) const RECORDER_STREAM_EVENTS_MAX: usize = 65_536;
/// Events that a document of recorders is made from: some 20 MB.
pub(crate) const RECORDER_DOCUMENT_EVENTS_MAX: usize = 262_144;
/// Ledgers of one user in either, except for root and the service's own: each has texts of up to 200 KB.
pub(crate) const RECORDERS_OF_USER_MAX: usize = 64;
/// What a stream of recorders writes at once.
pub(crate) const RECORDER_PIECE_BYTES: usize = 64 * 1024;
/// Events of recorders in one document, unless more are asked for, and at most.
pub(crate) const RECORDED_DEFAULT: usize = 10_000;
/// The most: some 30 MB of text.
pub(crate) const RECORDED_MAX: usize = 100_000;
/// How long a ledger that was left is shown to those who follow it, several snapshots at any usual interval.
pub(crate) const DEPARTED_SPAN: Duration = Duration::from_secs(10);
/// How many of them: each is held open meanwhile.
pub(crate) const DEPARTED_MAX: usize = 256;
/// Ledgers of ended processes that one scan reads for their refusals; the rest is for the next one.
pub(crate) const ENDED_PER_SCAN_MAX: usize = 64;
/// The sampler waits for a scan of processes for this part of its interval, and then publishes without it.
pub(crate) const SCAN_WAIT_PART: u32 = 4;
/// It waits no longer than this.
pub(crate) const SCAN_WAIT_MAX: Duration = Duration::from_secs(1);
/// The first sample waits longer: the first scan lists every process, and there is no older sample to show.
pub(crate) const FIRST_SCAN_WAIT: Duration = Duration::from_secs(3);
/// A scan that is late by this many intervals is a problem that is shown.
pub(crate) const SCAN_LATE_INTERVALS: u32 = 2;
/// Things that happened which are remembered: a day of a restless machine.
pub(crate) const EVENTS_MAX: usize = 4096;
/// Documents kept for one snapshot: one per form and user.
pub(crate) const READY_MAX: usize = 64;
/// Buffers in one answer, unless more are asked for.
pub(crate) const BUFFERS_DEFAULT: usize = 10_000;
/// Buffers in one answer at most: as many as a ledger lists.
pub(crate) const BUFFERS_MAX: usize = 1 << 20;
/// Live buffers in a document of memory, which is not shortened: some 60 MB of text.
pub(crate) const MEMORY_BUFFERS_MAX: usize = 300_000;
/// Points of one column in one answer; Prometheus has the same bound.
pub(crate) const POINTS_MAX: u64 = 11_000;
/// Cells (points by devices by fields) of one answer: some 20 MB of text.
pub(crate) const CELLS_MAX: u64 = 2_000_000;
/// Workloads (containers, pods, jobs on a device) among the metrics.
pub(crate) const WORKLOADS_MAX: usize = 1024;
/// Processes among the metrics, where they were asked for.
pub(crate) const PROCESS_SERIES_MAX: usize = 1024;
/// A sample older than this many intervals, and than [`STALE_MIN`], is not shown as now.
pub(crate) const STALE_INTERVALS: u32 = 3;
/// The least age at which a sample is stale.
pub(crate) const STALE_MIN: Duration = Duration::from_secs(5);
/// How long /readyz reports past problems.
pub(crate) const CARE_SPAN: Duration = Duration::from_secs(60);
/// Less room than this is none: another process that reports takes as much.
pub(crate) const STATE_BYTES_MIN: u64 = 4 * 1024 * 1024;
/// Shortest token: 16 characters of a random one are 80 bits and more.
pub(crate) const TOKEN_BYTES_MIN: usize = 16;
/// Longest token that is read.
pub(crate) const TOKEN_BYTES_MAX: usize = 4096;
/// Samples that wait for the thread that judges alerts: it takes a millisecond for one.
pub(crate) const ALERT_SAMPLES_MAX: usize = 8;
/// Changes of alerts that wait for one receiver: 32 chips by 16 rules, both ways. For one more the oldest is dropped.
pub(crate) const MAILBOX_EVENTS_MAX: usize = 1024;
/// How long a webhook or an Alertmanager may take, from connecting to its answer.
pub(crate) const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a message to a webhook is tried.
pub(crate) const DELIVERY_TRIES: u32 = 3;
/// How long to wait before another try.
pub(crate) const RETRY_WAIT: Duration = Duration::from_secs(5);
/// How often silences are read.
pub(crate) const SILENCES_EVERY: Duration = Duration::from_secs(2);
/// Silences that are read.
pub(crate) const SILENCES_MAX: usize = 256;
/// Longest file of a silence.
pub(crate) const SILENCE_BYTES_MAX: usize = 4096;
/// Longest list of alerts that a restart takes over: 256 devices by 128 rules are more, and none has them.
pub(crate) const SAVED_BYTES_MAX: usize = 1024 * 1024;
/// Longest address or token of a receiver.
pub(crate) const ALERT_SECRET_BYTES_MAX: usize = 4096;
