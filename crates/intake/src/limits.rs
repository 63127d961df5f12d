//! Bounds of the service, each with its reason.

use std::time::Duration;

/// Connections at a time. A client has one, a monitor one; more is a mistake or worse.
pub const CONNECTIONS_MAX: usize = 4096;
/// Connections of one user: nobody shuts the others out.
pub const CONNECTIONS_OF_USER_MAX: usize = 1024;
/// Connections beyond [`CONNECTIONS_MAX`] that root has left when several users together have taken all.
pub const CONNECTIONS_OF_ROOT: usize = 64;
/// Processes whose entries are kept at a time.
pub const OWNERS_MAX: usize = 1024;
/// Those of one user.
pub const OWNERS_OF_USER_MAX: usize = 768;
/// Entries of one process: as many as a ledger lists.
pub const ENTRIES_MAX: u64 = 1 << 20;
/// Memory for all ledgers together, the index beside them included: 40 million entries, or 1,024 processes with few.
pub const MEMORY_BYTES_MAX: u64 = 4 << 30;
/// The same of one user: a process with all the entries it may have, or 40 with few. The service's own user has all there is.
pub const MEMORY_BYTES_OF_USER_MAX: u64 = 160 << 20;
/// And no more than this part of the file system that the state lies on.
pub const STATE_PART_OF_USER: u64 = 4;
/// A process that was refused memory, or a ledger, is refused it for so long without another try.
pub const FULL_PAUSE: Duration = Duration::from_millis(100);
/// Bytes taken from one connection before others have their turn.
pub const READ_BYTES: usize = 256 * 1024;
/// The same while a peer queries: its next query waits for some hundred messages at most.
pub const READ_BYTES_BESIDE_ASKERS: usize = 16 * 1024;
/// Replies that a peer may leave unread: over 400 of them, and no asker has more than a few under way.
pub const UNREAD_BYTES_MAX: usize = 64 * 1024;
/// The same for an asker of a dump, which is longer.
pub const UNREAD_DUMP_BYTES_MAX: usize = 4 << 20;
/// And for how long: enough for a user with a pager.
pub const UNREAD_WAIT: Duration = Duration::from_secs(60);
/// Dumps that wait to be read by those who asked for them.
pub const DUMPS_MAX: usize = 64;
/// Those of one user, except for the service's own and root.
pub const DUMPS_OF_USER_MAX: usize = 16;
/// What is printed of a dump that an ordinary user asked for: nobody fills the log with it.
pub const PRINTED_DUMP_BYTES_MAX: usize = 8 * 1024;
/// A lone question of a connection whose size is not known is complete after this long.
pub const GRACE: Duration = Duration::from_millis(20);
/// A line feed with nothing after it for this long is a user who wants a dump.
pub const LINE_FEED_QUIET: Duration = Duration::from_millis(200);
/// The rest of a message comes within this, or never.
pub const REST_WAIT: Duration = Duration::from_secs(5);
/// Pids of others that one connection may name; more are labels of no process.
pub const PIDS_PER_CONNECTION_MAX: usize = 64;
/// Descendants of a peer that are looked through for a pid that it named.
pub const DESCENDANTS_MAX: usize = 1024;
/// And no longer than this: each thread of each of them is a file to read.
pub const DESCENDANTS_WAIT: Duration = Duration::from_millis(100);
/// Longest environment of a peer that is looked through.
pub const ENVIRONMENT_BYTES_MAX: usize = 1 << 20;
/// Events wait for what is known of their sender no longer than this.
pub const INSPECTION_WAIT: Duration = Duration::from_millis(500);
/// What other sources say is read again for a question when it is older than this.
pub const SAMPLE_AGE_MAX: Duration = Duration::from_millis(250);
/// And earlier when it is older than this, so that a peer that queries continuously does not wait for it.
pub const SAMPLE_AGE_RENEWED: Duration = Duration::from_millis(150);
/// A question waits no longer than this for it.
pub const SAMPLE_WAIT: Duration = Duration::from_millis(500);
/// Complaints about one connection that are printed.
pub const COMPLAINTS_PER_CONNECTION_MAX: u32 = 10;
/// Complaints about one user that are printed in a minute; the rest is counted.
pub const COMPLAINTS_PER_MINUTE_MAX: u32 = 20;
/// Users that are complained about within a minute.
pub const COMPLAINT_USERS_MAX: usize = 1024;
/// Text lines that wait to be written: a stopped terminal must not stop anything else.
pub const LOG_BYTES_MAX: usize = 32 << 20;
/// A socket whose path another process has is tried again after this time.
pub const LISTEN_PAUSE: Duration = Duration::from_secs(5);
/// After accepting failed for want of something, it is tried again this much later.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Ledgers handed over by processes that are kept at a time, live and past death.
pub const HANDED_MAX: usize = 256;
/// Memory of dead processes' ledgers that is kept for those who ask what happened.
pub const HANDED_DEAD_BYTES_MAX: u64 = 512 << 20;
/// The same of one user.
pub const HANDED_DEAD_BYTES_OF_USER_MAX: u64 = 128 << 20;
/// Memory of one user's ledgers, those of live processes too: a process may have let go of what it handed over.
pub const HANDED_BYTES_OF_USER_MAX: u64 = 1 << 30;
/// How often they are measured: a ledger that was handed over may still be written to.
pub const HANDED_MEASURE_INTERVAL: Duration = Duration::from_secs(10);
/// And for how long.
pub const HANDED_DEAD_TIME: Duration = Duration::from_secs(600);
/// While received descriptors cannot be closed, the hand-over is checked this often.
pub const HANDOVER_PAUSE: Duration = Duration::from_secs(1);
/// Events of recorders that are read in one turn: those of 16 full ones. The rest is read in the next.
pub const FOLLOWED_EVENTS_MAX: usize = 1 << 20;
/// Lines about events of ledgers in one turn; more are counted in one line.
pub const FOLLOWED_LINES_MAX: usize = 10_000;
/// Those of one process.
pub const FOLLOWED_LINES_OF_PROCESS_MAX: usize = 2_000;
/// Kernels of a process whose types are kept, and entries of a ledger that are read for them.
pub const KERNEL_TYPES_MAX: usize = 100_000;
/// Entries of all ledgers that one dump reads; the largest ledgers beyond it are in the sums alone.
pub const DUMP_ENTRIES_MAX: u64 = 4 << 20;
/// Buffers of one device and kind that a dump names.
pub const DUMP_BUFFERS_MAX: usize = 10;
