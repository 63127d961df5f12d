//! Limits, each with its reason.

use std::time::Duration;

use crate::missing::Missing;
use crate::sample::Problem;

/// Maximum number of class devices: the driver itself stops at 32 by default.
pub const DEVICES_MAX: usize = 256;
/// Longest text of an attribute; the driver's longest is under 40 bytes.
pub const ATTRIBUTE_BYTES_MAX: usize = 4096;
/// Longest `pids` file that is read: 16,384 open files of seven digits.
pub const PIDS_BYTES_MAX: usize = 128 * 1024;
/// Longest `/proc/PID/status` and `cgroup` that is read: 64 k groups of a user would exceed it, which no user has.
pub const STATUS_BYTES_MAX: usize = 256 * 1024;
/// Longest command line that is kept. The kernel has no useful limit; a screen has.
pub const COMMAND_BYTES_MAX: usize = 4096;
/// Numbers of chips that are kept after their program ended: more than any machine has.
pub const PROVEN_MAX: usize = 256;
/// Largest cluster descriptor: one with 32 chips has 40 kB.
pub const CLUSTER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Largest settings file: one with every setting has 2 kB.
pub const SETTINGS_BYTES_MAX: usize = 256 * 1024;
/// Largest file of certificates: the list of a distribution has 250 kB.
pub const CERTIFICATES_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Largest key file: the longest RSA key in use has 13 kB.
pub const KEY_BYTES_MAX: usize = 64 * 1024;
/// Circular buffers that are listed per process: the capacity of a ledger.
pub const CIRCULARS_MAX: usize = 65_536;
/// Longest document of a service or a recording. 256 devices and a thousand processes need a tenth; 300,000 buffers need all.
pub const DOCUMENT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Keys of a document: ttmon's has 20.
pub const DOCUMENT_KEYS_MAX: usize = 256;
/// Nested objects and lists: ttmon's documents have 8 levels.
pub const DOCUMENT_DEPTH_MAX: usize = 16;
/// Longest text in a document: a command has 4 KiB.
pub const DOCUMENT_TEXT_BYTES_MAX: usize = 64 * 1024;
/// Values in one element of a list. A process on 256 chips has 20,000. A device has 200 without its list of processes, which is
/// not read.
pub const ELEMENT_VALUES_MAX: usize = 64 * 1024;
/// Devices of a document: local ones, their remote chips, and room for large clusters.
pub const DOCUMENT_DEVICES_MAX: usize = 4096;
/// Processes of a document.
pub const DOCUMENT_PROCESSES_MAX: usize = 16_384;
/// Sum over all processes of a document of their devices: a thousand processes on 128 chips each.
pub const DOCUMENT_USES_MAX: usize = 128 * 1024;
/// Allocators of a document.
pub const DOCUMENT_ALLOCATORS_MAX: usize = 16_384;
/// Buffers that one scan lists, and buffers, blocks, circular buffers and events of a document, so that a full list can be read
/// again. A document with this many exceeds [`DOCUMENT_BYTES_MAX`] first.
pub const DOCUMENT_ENTRIES_MAX: usize = 1024 * 1024;
/// Lines of all stacks of a document. Texts of a line may have some hundred bytes.
pub const DOCUMENT_FRAMES_MAX: usize = 16_384;
/// Problems of a document, and texts in one list of an element.
pub const DOCUMENT_TEXTS_MAX: usize = 256;
/// Readings of one device that must be out of range before its whole sample is invalid. One may be a quirk of a sensor; two mean
/// that the addresses are stale (tt-kmd#213 had a plausible temperature among them).
pub const NONSENSE_READINGS_MIN: usize = 2;
/// Shortest window for a heartbeat: Wormhole's rate is not documented.
pub const HEARTBEAT_WINDOW_MIN: Duration = Duration::from_secs(1);
/// Shortest sample interval: a sample takes a few milliseconds.
pub const REFRESH_MIN: Duration = Duration::from_millis(50);
/// Longest sample interval.
pub const REFRESH_MAX: Duration = Duration::from_secs(86_400);
/// From this share of a published limit, a device is in `warning`.
pub const WARNING_RATIO: f64 = 0.9;
/// From this share of its published limit, a temperature or a power is at the limit: firmware regulates slightly below it.
pub const AT_LIMIT_RATIO: f64 = 0.95;
/// At this share of its limit or below, the AI clock of a chip in use is reduced. Near its power limit, Blackhole reduces less.
pub const CLOCK_HELD_RATIO: f64 = 0.95;
/// Start times are in ticks of 10 ms and clocks are adjusted: a slot may be this much older than its process.
pub const START_TIME_SLACK: Duration = Duration::from_secs(2);

/// Maximum that one scan reads, by resource.
#[derive(Clone, Copy, Debug)]
pub struct ScanLimit {
    /// In messages: "cut at 65,536 descriptors".
    pub noun: &'static str,
    /// For all users together.
    pub total: u64,
    /// Effect of a cut, after a count.
    pub effect: &'static str,
    /// Reason for the value.
    pub why: &'static str,
}

impl ScanLimit {
    /// Reports what a user was cut of. `user` is a uid and its name; without one, files that several users can write. A trusted user is
    /// limited by the total alone.
    pub fn problem(&self, user: Option<(u32, Option<&str>)>, is_trusted: bool, count: u64) -> Problem {
        self.problem_of_part(user, is_trusted, 1, count)
    }

    /// The same where each user has this part of the share.
    pub fn problem_of_part(&self, user: Option<(u32, Option<&str>)>, is_trusted: bool, parts: u64, count: u64) -> Problem {
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

/// `65,536`.
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

/// One user may have one part in this many of each total.
pub const SCAN_SHARE: u64 = 4;
/// One part in this many of each total may be spent before the user is known.
pub const SCAN_UNNAMED: u64 = 8;
/// One answer of a service may list one part in this many of that share: several answers exist at once.
pub const ANSWER_PARTS: u64 = 4;

/// In the order of the resources of `source/src/budget.rs`.
#[rustfmt::skip] // one row per line
pub const SCAN_LIMITS: [ScanLimit; 11] = [
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
    ScanLimit { noun: "chips of allocators", total: 32_768, effect: "ledgers were not read", why: "each takes about 2 KB, and they are read with every scan" },
];

/// What the derivation of one sample may cost.
#[rustfmt::skip] // like the rows above
pub const DERIVE_LIMIT: ScanLimit =
    ScanLimit { noun: "derive steps", total: 16_777_216, effect: "figures were not computed", why: "each takes about 2 nanoseconds of the sampler" };

/// Names of pods and containers that are kept.
pub const WORKLOAD_NAMES_MAX: usize = 1024;
/// Names that are read from a directory of logs: a node has at most some hundred pods.
pub const LOG_NAMES_MAX: usize = 16_384;
/// Longest file of Docker or Podman about containers.
pub const WORKLOAD_FILE_BYTES_MAX: usize = 1024 * 1024;
/// Names of users of a directory service that are kept.
pub const ACCOUNTS_MAX: usize = 4096;
/// Concurrent requests to the directory service: each is a socket or a process.
pub const ACCOUNTS_PENDING_MAX: usize = 4;
/// Longest answer of the directory service.
pub const ACCOUNT_BYTES_MAX: usize = 64 * 1024;
/// Bytes of a process's environment that are searched for the variables of a batch system.
pub const ENVIRONMENT_BYTES_MAX: usize = 64 * 1024;

/// A clock that differs by more than this from the expected time was set; slewing differs less.
pub(crate) const CLOCK_JUMP_MIN: Duration = Duration::from_secs(1);
