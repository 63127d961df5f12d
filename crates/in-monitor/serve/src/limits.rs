//! Limits of the service, each with its reason.

use std::time::Duration;

/// Maximum number of TCP connections at once. For a further one, the address with the most connections loses its oldest: see
/// connections.rs. A slow connection is closed after [`HEADER_TIMEOUT`] or [`WRITE_TIMEOUT`].
pub(crate) const TCP_CONNECTIONS_MAX: usize = 2048;
/// Maximum number of connections on the Unix socket at once; its clients are programs of this host. A further one replaces the oldest of
/// the user with the most connections.
pub(crate) const UNIX_CONNECTIONS_MAX: usize = 512;
/// Maximum number of connections to a text service. A store keeps one for each simulated host on a port.
pub(crate) const TEXT_CONNECTIONS_MAX: usize = 4096;
/// Maximum number of event streams at once on all sockets, because each needs a copy of every event. For a further one, the user or address
/// with the most streams loses its oldest. Its reader reconnects with the number of the last event that it received.
pub(crate) const STREAMS_MAX: usize = 256;
/// Time from the first byte of a request, or from the end of the previous request, to the end of the header.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest time that a client may take no data of a response.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Minimum rate at which a client must read: the slowest link over which the page is used.
pub(crate) const WRITE_BYTES_PER_S_MIN: f64 = 256.0 * 1024.0;
/// Maximum number of expensive responses computed at once. A user gets only one of them, so that another user gets the other.
pub(crate) const RESPONSES_AT_ONCE: usize = 2;
/// Maximum number of requests to a store of many hosts at once.
pub(crate) const STORE_RESPONSES_AT_ONCE: usize = 1;
/// Maximum number of expensive responses of one user that are computed or wait. A page and several programs may send requests at once, but
/// not dozens.
pub(crate) const REQUESTS_PER_USER_MAX: usize = 32;
/// Maximum memory of expensive responses until they are sent, in total. A larger response is sent only if it is the only one.
pub(crate) const RESPONSE_BYTES_MAX: usize = 64 << 20;
/// Maximum memory of expensive responses of one user.
pub(crate) const RESPONSE_BYTES_PER_USER_MAX: usize = 32 << 20;
/// Timeout of the TLS handshake.
#[cfg(feature = "tls")]
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest header of a request. It is enough for a browser's cookies for `localhost`, and for a query with a long list.
pub(crate) const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of header fields of a request.
pub(crate) const HEADERS_MAX: usize = 64;
/// Maximum number of parts that a stream may be behind before it is closed. An event is one part. A snapshot is three parts, and is only
/// sent to a stream that has read everything.
pub(crate) const STREAM_QUEUE_MAX: usize = 64;
/// An idle stream sends a comment, so that a proxy does not close it.
pub(crate) const STREAM_KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Maximum number of recorder streams at once, because each reads the ledgers separately.
pub(crate) const RECORDER_STREAMS_MAX: usize = 16;
/// Maximum number of recorder streams of one user.
pub(crate) const RECORDER_STREAMS_PER_USER_MAX: usize = RECORDER_STREAMS_MAX / 4;
/// Maximum number of events that a recorder stream reads at once, of all ledgers together: about 5 MB.
pub(crate) const RECORDER_STREAM_EVENTS_MAX: usize = 65_536;
/// Maximum number of events for a document of recorders: about 20 MB.
pub(crate) const RECORDER_DOCUMENT_EVENTS_MAX: usize = 262_144;
/// Maximum number of ledgers of one user in a recorder stream or document, except for root and the service's own user. Each has texts of up
/// to 200 KB.
pub(crate) const RECORDERS_OF_USER_MAX: usize = 64;
/// Bytes that a recorder stream writes at once.
pub(crate) const RECORDER_PIECE_BYTES: usize = 64 * 1024;
/// Default number of recorder events in one document.
pub(crate) const RECORDED_DEFAULT: usize = 10_000;
/// Maximum number of recorder events in one document: about 30 MB of text.
pub(crate) const RECORDED_MAX: usize = 100_000;
/// How long a closed ledger is shown to its followers. This covers several snapshots at any usual interval.
pub(crate) const DEPARTED_SPAN: Duration = Duration::from_secs(10);
/// Maximum number of closed ledgers that are kept open for followers.
pub(crate) const DEPARTED_MAX: usize = 256;
/// Maximum number of ledgers of ended processes that one scan reads for their refusals. The next scan reads the rest.
pub(crate) const ENDED_PER_SCAN_MAX: usize = 64;
/// The sampler waits at most this fraction of its interval for a scan of processes, then publishes without it.
pub(crate) const SCAN_WAIT_PART: u32 = 4;
/// Longest wait of the sampler for a scan.
pub(crate) const SCAN_WAIT_MAX: Duration = Duration::from_secs(1);
/// The first sample waits longer, because the first scan lists every process and there is no older sample to show.
pub(crate) const FIRST_SCAN_WAIT: Duration = Duration::from_secs(3);
/// A scan that is late by this many intervals is listed in `problems`.
pub(crate) const SCAN_LATE_INTERVALS: u32 = 2;
/// Maximum number of events that are kept: about a day of a busy machine.
pub(crate) const EVENTS_MAX: usize = 4096;
/// Documents kept for one snapshot: one per form and user.
pub(crate) const READY_MAX: usize = 64;
/// Default number of buffers in one response.
pub(crate) const BUFFERS_DEFAULT: usize = 10_000;
/// Maximum number of buffers in one response, as many as a ledger lists.
pub(crate) const BUFFERS_MAX: usize = 1 << 20;
/// Maximum number of live buffers in a memory document, which is not shortened: about 60 MB of text.
pub(crate) const MEMORY_BUFFERS_MAX: usize = 300_000;
/// Maximum number of points of one column in one response, as in Prometheus.
pub(crate) const POINTS_MAX: u64 = 11_000;
/// Maximum number of cells (points x devices x fields) in one response: about 20 MB of text.
pub(crate) const CELLS_MAX: u64 = 2_000_000;
/// Maximum number of workloads (containers, pods, jobs on a device) in the metrics.
pub(crate) const WORKLOADS_MAX: usize = 1024;
/// Maximum number of processes in the metrics, if they are enabled.
pub(crate) const PROCESS_SERIES_MAX: usize = 1024;
/// A sample is stale if it is older than this many intervals and older than [`STALE_MIN`].
pub(crate) const STALE_INTERVALS: u32 = 3;
/// Minimum age of a stale sample.
pub(crate) const STALE_MIN: Duration = Duration::from_secs(5);
/// How long /readyz reports past problems.
pub(crate) const WARNING_SPAN: Duration = Duration::from_secs(60);
/// The state directory is full if it has less room than this, which is the size that one more reporting process needs.
pub(crate) const STATE_BYTES_MIN: u64 = 4 * 1024 * 1024;
/// Shortest token. 16 random characters have at least 80 bits.
pub(crate) const TOKEN_BYTES_MIN: usize = 16;
/// Longest token that is read.
pub(crate) const TOKEN_BYTES_MAX: usize = 4096;
/// Maximum number of samples that wait for the evaluation of alerts, which takes a millisecond per sample.
pub(crate) const ALERT_SAMPLES_MAX: usize = 8;
/// Maximum number of queued events of one receiver: 32 chips x 16 rules, firing and ended. For a further one the oldest is dropped.
pub(crate) const MAILBOX_EVENTS_MAX: usize = 1024;
/// Timeout of a webhook or an Alertmanager, from connecting to its answer.
pub(crate) const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of attempts to send a message to a webhook.
pub(crate) const DELIVERY_TRIES: u32 = 3;
/// Wait between two attempts.
pub(crate) const RETRY_WAIT: Duration = Duration::from_secs(5);
/// Interval at which silences are read.
pub(crate) const SILENCES_EVERY: Duration = Duration::from_secs(2);
/// Maximum number of silences that are read.
pub(crate) const SILENCES_MAX: usize = 256;
/// Longest file of a silence.
pub(crate) const SILENCE_BYTES_MAX: usize = 4096;
/// Largest file of saved alerts. 256 devices x 128 rules would be more, but no host has them.
pub(crate) const SAVED_BYTES_MAX: usize = 1024 * 1024;
/// Longest address or token of a receiver.
pub(crate) const ALERT_SECRET_BYTES_MAX: usize = 4096;
