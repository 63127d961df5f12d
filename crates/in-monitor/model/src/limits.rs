//! Limits, each with the reason for its value.

use std::time::Duration;

use crate::missing::Missing;
use crate::sample::Problem;

/// Maximum number of class devices. The driver itself stops at 32 by default.
pub const DEVICES_MAX: usize = 256;
/// Maximum length of an attribute's text. The driver's longest has less than 40 bytes.
pub const ATTRIBUTE_BYTES_MAX: usize = 4096;
/// Maximum length of a `pids` file: 16,384 open files with pids of seven digits.
pub const PIDS_BYTES_MAX: usize = 128 * 1024;
/// Maximum length of `/proc/PID/status` and `cgroup`. Only a user with 64 k groups would exceed it, and no user has that many.
pub const STATUS_BYTES_MAX: usize = 256 * 1024;
/// Maximum length of a stored command line. The kernel has no useful limit, but a screen has.
pub const COMMAND_BYTES_MAX: usize = 4096;
/// Maximum number of chip numbers that are stored after their program ended. No machine has more chips.
pub const PROVEN_MAX: usize = 256;
/// Maximum size of a cluster descriptor. A descriptor of 32 chips has 40 kB.
pub const CLUSTER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum size of a settings file. A file with every setting has 2 kB.
pub const SETTINGS_BYTES_MAX: usize = 256 * 1024;
/// Maximum size of a file of certificates. The list of a distribution has 250 kB.
pub const CERTIFICATES_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum size of a key file. The longest RSA key in use has 13 kB.
pub const KEY_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of circular buffers listed per process, which is the capacity of a ledger.
pub const CIRCULARS_MAX: usize = 65_536;
/// Maximum length of a document of a service or a recording. 256 devices and a thousand processes need a tenth. 300,000 buffers need all.
pub const DOCUMENT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum number of keys in a document. ttmon's documents have 20.
pub const DOCUMENT_KEYS_MAX: usize = 256;
/// Maximum depth of nested objects and lists. ttmon's documents have 8 levels.
pub const DOCUMENT_DEPTH_MAX: usize = 16;
/// Maximum length of a text in a document. A command has up to 4 KiB.
pub const DOCUMENT_TEXT_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of values in one element of a list. A process on 256 chips has 20,000. A device has 200 without its list of processes,
/// which is not read.
pub const ELEMENT_VALUES_MAX: usize = 64 * 1024;
/// Maximum number of devices in a document: local ones, their remote chips, and room for large clusters.
pub const DOCUMENT_DEVICES_MAX: usize = 4096;
/// Maximum number of processes in a document.
pub const DOCUMENT_PROCESSES_MAX: usize = 16_384;
/// Maximum number of devices in a document, summed over all processes: a thousand processes on 128 chips each.
pub const DOCUMENT_USES_MAX: usize = 128 * 1024;
/// Maximum number of allocators in a document.
pub const DOCUMENT_ALLOCATORS_MAX: usize = 16_384;
/// Maximum number of buffers that one scan lists. Also the maximum number of buffers, blocks, circular buffers and events in a document, so
/// that a full list can be read again. A document with this many exceeds [`DOCUMENT_BYTES_MAX`] first.
pub const DOCUMENT_ENTRIES_MAX: usize = 1024 * 1024;
/// Maximum number of lines in all stacks of a document. The texts of a line may have some hundred bytes.
pub const DOCUMENT_FRAMES_MAX: usize = 16_384;
/// Maximum number of problems in a document, and of texts in one list of an element.
pub const DOCUMENT_TEXTS_MAX: usize = 256;
/// Minimum number of readings out of range that make a device's whole sample invalid. A single one may be a quirk of a sensor. Two mean
/// that the addresses are stale (tt-kmd#213 had a plausible temperature among them).
pub const NONSENSE_READINGS_MIN: usize = 2;
/// Shortest window for the heartbeat. The rate of Wormhole is not documented.
pub const HEARTBEAT_WINDOW_MIN: Duration = Duration::from_secs(1);
/// Shortest sample interval. A sample takes a few milliseconds.
pub const REFRESH_MIN: Duration = Duration::from_millis(50);
/// Longest sample interval.
pub const REFRESH_MAX: Duration = Duration::from_secs(86_400);
/// A device is in `warning` from this share of a published limit on.
pub const WARNING_RATIO: f64 = 0.9;
/// A temperature or a power is at its limit from this share of the published limit on. The firmware regulates slightly below the limit.
pub const AT_LIMIT_RATIO: f64 = 0.95;
/// The AI clock of a chip in use is reduced at this share of its limit or below. Near its power limit, Blackhole reduces less.
pub const CLOCK_HELD_RATIO: f64 = 0.95;
/// Maximum time by which a slot may seem older than its process. Start times are in ticks of 10 ms, and clocks are adjusted.
pub const START_TIME_SLACK: Duration = Duration::from_secs(2);

/// The limit of one scan on one resource.
#[derive(Clone, Copy, Debug)]
pub struct ScanLimit {
    /// The name of the resource in messages: "cut at 65,536 descriptors".
    pub noun: &'static str,
    /// The limit for all users together.
    pub total: u64,
    /// The effect of the limit, printed after a count.
    pub effect: &'static str,
    /// The reason for the value.
    pub why: &'static str,
}

const fn limit(noun: &'static str, total: u64) -> ScanLimit {
    ScanLimit { noun, total, effect: "", why: "" }
}

impl ScanLimit {
    const fn effect(self, effect: &'static str) -> Self {
        Self { effect, ..self }
    }

    const fn why(self, why: &'static str) -> Self {
        Self { why, ..self }
    }

    /// Returns the problem for `count` items that were not read. `user` is a uid and its name, or `None` for files that several users can
    /// write. A trusted user is limited only by the total. The share of every other user is divided into `parts` parts.
    pub fn problem(&self, user: Option<(u32, Option<&str>)>, is_trusted: bool, parts: u64, count: u64) -> Problem {
        let part = match user {
            Some((uid, Some(name))) => format!("user {uid} ({name})"),
            Some((uid, None)) => format!("user {uid}"),
            None => "unknown users".to_owned(),
        };
        let most = if is_trusted { self.total } else { self.total / (SCAN_SHARE * parts) };
        let detail = format!("cut at {} {}; {count} {}", grouped(most), self.noun, self.effect);
        Problem { part, reason: Missing::NotTracked, detail }
    }
}

/// Formats a number with separators: `65,536`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Each user may use one part in this many of each total.
pub const SCAN_SHARE: u64 = 4;
/// One part in this many of each total may be used before the user is determined.
pub const SCAN_UNNAMED: u64 = 8;
/// One answer of a service may use one part in this many of the user's share, because several answers exist at once.
pub const ANSWER_PARTS: u64 = 4;

/// The limits, in the order of the resources in `collect/src/budget.rs`.
pub const SCAN_LIMITS: [ScanLimit; 11] = [
    limit("processes", 16_384).effect("processes were not examined").why("each takes about 5 KB and 50 microseconds"),
    limit("descriptors", 262_144).effect("processes were not examined").why("each is a link to read: 3 microseconds"),
    limit("bytes of mappings", 268_435_456).effect("processes were not examined").why("the kernel writes 150 MB a second"),
    limit("files of statistics", 1_024)
        .effect("files were not read")
        .why("each is read with every scan; the largest machines have a hundred"),
    limit("pids in statistics", 32_768).effect("pids were not looked up").why("each is four files that may not exist"),
    limit("ledgers", 4_096).effect("ledgers were not opened").why("each is a descriptor of ours"),
    limit("allocators", 8_192).effect("ledgers were not read").why("each takes about 5 KB, and they are read with every scan"),
    limit("buffers", DOCUMENT_ENTRIES_MAX as u64).effect("ledgers have no list of buffers").why("each takes about 300 bytes"),
    limit("circular buffers", 262_144)
        .effect("ledgers have no list of circular buffers")
        .why("each takes about 300 bytes, and they are read with every scan"),
    limit("bytes of names", 67_108_864)
        .effect("directories of containers were not listed")
        .why("each mount namespace may have a /dev/shm of its own"),
    limit("chips of allocators", 32_768).effect("ledgers were not read").why("each takes about 2 KB, and they are read with every scan"),
];

/// The limit on the cost of deriving one snapshot.
pub const DERIVE_LIMIT: ScanLimit =
    limit("derive steps", 16_777_216).effect("figures were not computed").why("each takes about 2 nanoseconds of the sampler");

/// Maximum number of stored names of pods and containers.
pub const WORKLOAD_NAMES_MAX: usize = 1024;
/// Maximum number of names read from a directory of logs. A node has at most some hundred pods.
pub const LOG_NAMES_MAX: usize = 16_384;
/// Maximum length of a file of Docker or Podman about containers.
pub const WORKLOAD_FILE_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of stored user names from a directory service.
pub const ACCOUNTS_MAX: usize = 4096;
/// Maximum number of concurrent requests to the directory service. Each is a socket or a process.
pub const ACCOUNTS_PENDING_MAX: usize = 4;
/// Maximum length of an answer of the directory service.
pub const ACCOUNT_BYTES_MAX: usize = 64 * 1024;
/// Number of bytes of a process's environment that are searched for the variables of a batch system.
pub const ENVIRONMENT_BYTES_MAX: usize = 64 * 1024;

/// If the wall clock differs from the expected time by more than this, it was set. Slewing differs less.
pub(crate) const CLOCK_JUMP_MIN: Duration = Duration::from_secs(1);
