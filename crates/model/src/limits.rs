//! Bounds, each with its reason.

use std::time::Duration;

/// More class devices than this are not looked at: the driver itself stops at 32 by default.
pub const DEVICES_MAX: usize = 256;
/// Longest text of an attribute we look at; the driver's longest is under 40 bytes.
pub const ATTRIBUTE_BYTES_MAX: usize = 4096;
/// Longest `pids` file we read: 16,384 open files of seven digits.
pub const PIDS_BYTES_MAX: usize = 128 * 1024;
/// Longest `/proc/PID/status` and `cgroup` read: 64 k groups of a user would be more, and none has them.
pub const STATUS_BYTES_MAX: usize = 256 * 1024;
/// Longest command line we keep. The kernel has no useful limit; a screen has.
pub const COMMAND_BYTES_MAX: usize = 4096;
/// Numbers of chips that are kept after the program that proved them: more than any machine has.
pub const PROVEN_MAX: usize = 256;
/// Largest cluster descriptor read: a 32-chip one has 40 kB.
pub const CLUSTER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Largest settings file read: one with every setting has 2 kB.
pub const SETTINGS_BYTES_MAX: usize = 256 * 1024;
/// Largest file of certificates read: the list of a distribution has 250 kB.
pub const CERTIFICATES_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Largest key file read: the longest RSA key in use has 13 kB.
pub const KEY_BYTES_MAX: usize = 64 * 1024;
/// Circular buffers of one process that are listed: as many as a ledger has room for.
pub const CIRCULARS_MAX: usize = 65_536;
/// Longest document of a service taken, and longest of a recording: 256 devices and a thousand processes need a tenth of it,
/// 300,000 buffers all of it.
pub const DOCUMENT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Keys of a document: ours has 20.
pub const DOCUMENT_KEYS_MAX: usize = 256;
/// Objects and lists in each other: ours has 8 levels.
pub const DOCUMENT_DEPTH_MAX: usize = 16;
/// Longest text in a document: a command has 4 KiB.
pub const DOCUMENT_TEXT_BYTES_MAX: usize = 64 * 1024;
/// Values in one element of a list. A process on 256 chips has 20,000; a device has 200, without its list of processes, which is not
/// read.
pub const ELEMENT_VALUES_MAX: usize = 64 * 1024;
/// Devices of a document: local ones, the remote chips behind each, and room for large clusters.
pub const DOCUMENT_DEVICES_MAX: usize = 4096;
/// Processes of a document.
pub const DOCUMENT_PROCESSES_MAX: usize = 16_384;
/// Devices of all processes of a document together: a thousand processes on 128 chips each.
pub const DOCUMENT_USES_MAX: usize = 128 * 1024;
/// Allocators of a document.
pub const DOCUMENT_ALLOCATORS_MAX: usize = 16_384;
/// Buffers that one scan lists, and buffers, blocks, circular buffers and events of a document: what is listed can be read. A document
/// of so many is longer than [`DOCUMENT_BYTES_MAX`], which holds first.
pub const DOCUMENT_ENTRIES_MAX: usize = 1024 * 1024;
/// Problems of a document, and texts in one list of an element.
pub const DOCUMENT_TEXTS_MAX: usize = 256;
/// How many readings of one device must be out of range before the whole sample of it is nonsense. One may be a
/// quirk of a sensor; two mean that the addresses are stale (tt-kmd#213 had a believable temperature among them).
pub const NONSENSE_READINGS_MIN: usize = 2;
/// A heartbeat is judged over at least this long: Wormhole's rate is not documented.
pub const HEARTBEAT_WINDOW_MIN: Duration = Duration::from_secs(1);
/// Nobody looks more often: a look takes a few milliseconds.
pub const REFRESH_MIN: Duration = Duration::from_millis(50);
/// Nor more seldom than once a day.
pub const REFRESH_MAX: Duration = Duration::from_secs(86_400);
/// From this share of a published limit on, a device is in `warning`.
pub const WARNING_RATIO: f64 = 0.9;
/// From this share of its published limit on, a temperature or a power is at the limit: firmware regulates a little below it.
pub const AT_LIMIT_RATIO: f64 = 0.95;
/// At this share of its limit or below, the AI clock of a chip in use is held down. Blackhole gives up less near its power limit.
pub const CLOCK_HELD_RATIO: f64 = 0.95;
/// Start times come in ticks of 10 ms and clocks are adjusted: a slot this much older than its process still fits.
pub const START_TIME_SLACK: Duration = Duration::from_secs(2);

/// What one scan reads of others at most, by resource.
#[derive(Clone, Copy, Debug)]
pub struct ScanLimit {
    /// In messages: "cut at 65,536 descriptors".
    pub noun: &'static str,
    /// For all users together.
    pub total: u64,
    /// What a cut means, after a count.
    pub effect: &'static str,
    /// Why it is this much.
    pub why: &'static str,
}

/// The part of each total that one user may have.
pub const SCAN_SHARE: u64 = 4;
/// The part of each total that is spent before anybody has to know whose it is.
pub const SCAN_UNNAMED: u64 = 8;
/// The part of that share that one answer of a service may list: several are made and held at once.
pub const ANSWER_PARTS: u64 = 4;

/// In the order of the resources of `source/src/budget.rs`.
#[rustfmt::skip] // one row a line
pub const SCAN_LIMITS: [ScanLimit; 10] = [
    ScanLimit { noun: "processes", total: 16_384, effect: "processes were not examined", why: "each takes about 5 KB and 50 microseconds" },
    ScanLimit { noun: "descriptors", total: 262_144, effect: "processes were not examined", why: "each is a link to read: 3 microseconds" },
    ScanLimit { noun: "bytes of mappings", total: 268_435_456, effect: "processes were not examined", why: "the kernel writes 150 MB a second" },
    ScanLimit { noun: "files of statistics", total: 1_024, effect: "files were not read", why: "each is read with every scan; the largest machines have a hundred" },
    ScanLimit { noun: "pids in statistics", total: 32_768, effect: "pids were not looked up", why: "each is four files that may not exist" },
    ScanLimit { noun: "ledgers", total: 4_096, effect: "ledgers were not opened", why: "each is a descriptor of ours" },
    ScanLimit { noun: "allocators", total: 8_192, effect: "ledgers were not read", why: "each takes about 5 KB, and they are read with every scan" },
    ScanLimit { noun: "buffers", total: DOCUMENT_ENTRIES_MAX as u64, effect: "ledgers have no list of buffers", why: "each takes about 300 bytes" },
    ScanLimit { noun: "circular buffers", total: 262_144, effect: "ledgers have no list of circular buffers", why: "each takes about 300 bytes, and they are read with every scan" },
    ScanLimit { noun: "bytes of names", total: 67_108_864, effect: "directories of containers were not listed", why: "each mount namespace may have a /dev/shm of its own" },
];

/// Names of pods and containers that are kept.
pub const WORKLOAD_NAMES_MAX: usize = 1024;
/// Names read of a directory of logs: a node has at most some hundred pods.
pub const LOG_NAMES_MAX: usize = 16_384;
/// Longest file of Docker or Podman about containers.
pub const WORKLOAD_FILE_BYTES_MAX: usize = 1024 * 1024;
/// Names of users of a directory service that are kept.
pub const ACCOUNTS_MAX: usize = 4096;
/// Questions to the directory service under way at a time: each is a socket or a process.
pub const ACCOUNTS_PENDING_MAX: usize = 4;
/// Longest answer of the directory service.
pub const ACCOUNT_BYTES_MAX: usize = 64 * 1024;
/// How much of a process's environment is searched for the variables of a batch system.
pub const ENVIRONMENT_BYTES_MAX: usize = 64 * 1024;

/// A clock that differs by more than this from what it should be has jumped; slewing stays below.
pub(crate) const CLOCK_JUMP_MIN: Duration = Duration::from_secs(1);
