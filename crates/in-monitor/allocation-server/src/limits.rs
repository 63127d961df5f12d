//! Limits of the service, each with its reason.

use std::time::Duration;

/// Maximum number of connections. A client or a monitor needs only one each; more are an error or an attack.
pub const CONNECTIONS_MAX: usize = 4096;
/// Maximum number of connections of one user, so that no user can lock out the others.
pub const CONNECTIONS_OF_USER_MAX: usize = 1024;
/// Connections beyond [`CONNECTIONS_MAX`] that are reserved for root when other users have used up the limit.
pub const CONNECTIONS_OF_ROOT: usize = 64;
/// Maximum number of processes with entries.
pub const OWNERS_MAX: usize = 1024;
/// Maximum number of processes with entries of one user.
pub const OWNERS_OF_USER_MAX: usize = 768;
/// Maximum number of entries of one process; a ledger cannot list more.
pub const ENTRIES_MAX: u64 = 1 << 20;
/// Memory of all ledgers together, including their index: 40 million entries, or 1,024 processes with few entries.
pub const MEMORY_BYTES_MAX: u64 = 4 << 30;
/// Memory of the ledgers of one user: one process with the maximum number of entries, or 40 with few. It does not limit the service's own
/// user.
pub const MEMORY_BYTES_OF_USER_MAX: u64 = 160 << 20;
/// One user may use at most 1/4 of the file system of the state directory.
pub const STATE_PART_OF_USER: u64 = 4;
/// After a process was refused memory or a ledger, it is refused again for this long without another attempt.
pub const FULL_PAUSE: Duration = Duration::from_millis(100);
/// Bytes read from one connection before the other connections are served.
pub const READ_BYTES: usize = 256 * 1024;
/// Replaces [`READ_BYTES`] while a peer sends queries, so that its next query waits for a few hundred messages at most.
pub const READ_BYTES_BESIDE_QUERIERS: usize = 16 * 1024;
/// Replies that a peer may leave unread: over 400. No monitor has more than a few queries outstanding.
pub const UNREAD_BYTES_MAX: usize = 64 * 1024;
/// Bytes that a peer may leave unread after it requested a dump.
pub const UNREAD_DUMP_BYTES_MAX: usize = 4 << 20;
/// How long replies may stay unread; enough for a user with a pager.
pub const UNREAD_WAIT: Duration = Duration::from_secs(60);
/// Maximum number of dumps that wait to be read by the peers that requested them.
pub const DUMPS_MAX: usize = 64;
/// Maximum number of waiting dumps of one user, except for root and the service's own user.
pub const DUMPS_OF_USER_MAX: usize = 16;
/// Bytes printed of a dump that an ordinary user requested, so that no user can fill the log.
pub const PRINTED_DUMP_BYTES_MAX: usize = 8 * 1024;
/// A single query on a connection with an unknown message size is complete after this time.
pub const GRACE: Duration = Duration::from_millis(20);
/// A line feed with nothing after it for this long is a user's request for a dump.
pub const LINE_FEED_QUIET: Duration = Duration::from_millis(200);
/// An incomplete message must be completed within this time.
pub const REST_WAIT: Duration = Duration::from_secs(5);
/// Pids of other processes that one connection may name. Further pids are treated as labels without a process.
pub const PIDS_PER_CONNECTION_MAX: usize = 64;
/// Descendants of a peer that are searched for a pid that the peer named.
pub const DESCENDANTS_MAX: usize = 1024;
/// Maximum duration of the search; it reads a file for each thread of each descendant.
pub const DESCENDANTS_WAIT: Duration = Duration::from_millis(100);
/// Longest environment of a peer that is read.
pub const ENVIRONMENT_BYTES_MAX: usize = 1 << 20;
/// Events wait at most this long for the inspection of their sender.
pub const INSPECTION_WAIT: Duration = Duration::from_millis(500);
/// A query needs a new sample of the other sources if the last one is older than this.
pub const SAMPLE_AGE_MAX: Duration = Duration::from_millis(250);
/// A query starts a new sample in advance if the last one is older than this, so that continuous queries do not wait.
pub const SAMPLE_AGE_RENEWED: Duration = Duration::from_millis(150);
/// A query waits at most this long for a sample.
pub const SAMPLE_WAIT: Duration = Duration::from_millis(500);
/// Warnings printed about one connection.
pub const WARNINGS_PER_CONNECTION_MAX: u32 = 10;
/// Warnings printed about one user per minute. Further warnings are only counted.
pub const WARNINGS_PER_MINUTE_MAX: u32 = 20;
/// Users with counted warnings per minute.
pub const WARNED_USERS_MAX: usize = 1024;
/// Log lines that wait to be written. A stopped terminal must not block the service.
pub const LOG_BYTES_MAX: usize = 32 << 20;
/// Delay before the server tries again to bind a socket path that another process uses.
pub const LISTEN_PAUSE: Duration = Duration::from_secs(5);
/// Delay before `accept` is called again after it failed for lack of a resource.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Maximum number of handed-over ledgers, of live and dead processes.
pub const HANDED_MAX: usize = 256;
/// Memory of handed-over ledgers of dead processes, which are kept for later queries.
pub const HANDED_DEAD_BYTES_MAX: u64 = 512 << 20;
/// Memory of handed-over ledgers of one user's dead processes.
pub const HANDED_DEAD_BYTES_OF_USER_MAX: u64 = 128 << 20;
/// Memory of all handed-over ledgers of one user. Live processes count too: a process may have closed the ledger that it handed over.
pub const HANDED_BYTES_OF_USER_MAX: u64 = 1 << 30;
/// How often the memory is measured. A handed-over ledger may still be written to.
pub const HANDED_MEASURE_INTERVAL: Duration = Duration::from_secs(10);
/// How long ledgers of dead processes are kept.
pub const HANDED_DEAD_TIME: Duration = Duration::from_secs(600);
/// While received descriptors cannot be closed, the hand-over socket is checked this often.
pub const HANDOVER_PAUSE: Duration = Duration::from_secs(1);
/// Events of recorders that are read per turn: those of 16 full recorders. The rest is read in the next turn.
pub const FOLLOWED_EVENTS_MAX: usize = 1 << 20;
/// Lines per turn about events in ledgers. Further events are counted in one line.
pub const FOLLOWED_LINES_MAX: usize = 10_000;
/// Lines per turn about the events of one process.
pub const FOLLOWED_LINES_OF_PROCESS_MAX: usize = 2_000;
/// Kernels of a process whose types are stored, and entries of a ledger that are read for them.
pub const KERNEL_TYPES_MAX: usize = 100_000;
/// Entries of all ledgers that one dump lists. The largest ledgers beyond this limit only count in the sums.
pub const DUMP_ENTRIES_MAX: u64 = 4 << 20;
/// Buffers of one device and kind that a dump lists.
pub const DUMP_BUFFERS_MAX: usize = 10;
