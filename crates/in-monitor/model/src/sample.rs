//! Raw values of the machine, with the times at which they were read and the reasons for missing values.

use std::time::Duration;

use crate::attributes::{Attr, Attributes};
use crate::cluster::Cluster;
use crate::deep::DeepSample;
use crate::identity::{Bdf, DeviceId, ProcessKey};
use crate::ledger::LedgerSample;
use crate::limits::CLOCK_JUMP_MIN;
use crate::memory::PerKind;
use crate::missing::{Missing, Reading};
use crate::region::Region;
use crate::units::UnixTime;

crate::named! {
    /// Origin of a sample.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Origin {
        /// This machine.
        Local = "local",
        /// A simulated machine.
        Sim = "sim",
        /// A service that samples the machine.
        Server = "server",
    }
}

/// TT-Metal's number of a chip, proven by a program that used it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proven {
    /// The number in a program that sees all devices.
    pub number: u32,
    /// UMD's id of the chip.
    pub unique_id: u64,
    /// Whether a running program claims a different number. This number is dropped when that program ends.
    pub is_contested: bool,
}

/// One sample of the whole machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Time of the sample, on a monotonic clock.
    pub at: Duration,
    /// Time of the sample, on the wall clock.
    pub time: UnixTime,
    /// Age of processes, regions and ledgers at the time `at`. A scan may be late.
    pub scan_age: Duration,
    /// Name of the machine.
    pub host: String,
    /// Whether the machine is real or simulated.
    pub origin: Origin,
    /// Version of the kernel driver.
    pub driver: Reading<String>,
    /// The cluster descriptor that the user gave or that was found, if any.
    pub cluster: Option<Cluster>,
    /// TT-Metal's chip numbers that were proven by ledgers of earlier samples.
    pub proven: Vec<Proven>,
    /// Chips on PCIe, sorted by id.
    pub devices: Vec<DeviceSample>,
    /// Processes that hold a device or have a slot in TT-Metal's statistics or a ledger, sorted by pid.
    pub processes: Vec<ProcessSample>,
    /// TT-Metal's statistics.
    pub regions: Vec<RegionSample>,
    /// Ledgers of processes that track their memory.
    pub ledgers: Vec<LedgerSample>,
    /// Processes whose ledgers this user may not search for.
    pub denied_processes: u64,
    /// Problems.
    pub problems: Vec<Problem>,
}

impl Sample {
    /// Returns a copy of the devices without the results of a scan.
    pub fn of_devices(&self) -> Self {
        Self {
            at: self.at,
            time: self.time,
            scan_age: Duration::ZERO,
            host: self.host.clone(),
            origin: self.origin,
            driver: self.driver.clone(),
            cluster: self.cluster.clone(),
            proven: self.proven.clone(),
            devices: self.devices.clone(),
            processes: Vec::new(),
            regions: Vec::new(),
            ledgers: Vec::new(),
            denied_processes: 0,
            problems: Vec::new(),
        }
    }

    /// Returns when processes, regions and ledgers were read, on the clock of `at`.
    pub fn scanned_at(&self) -> Duration {
        self.at.saturating_sub(self.scan_age)
    }

    /// Returns the milliseconds by which the wall clock was set since an earlier sample. Returns `None` if the clock was not set, or only
    /// slewed.
    pub fn clock_jump(&self, before: &Self) -> Option<i64> {
        let nanos = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
        let wall = i128::from(self.time.0) - i128::from(before.time.0);
        let difference = wall - (nanos(self.at) - nanos(before.at));
        let is_jump = difference.unsigned_abs() >= CLOCK_JUMP_MIN.as_nanos();
        is_jump.then(|| i64::try_from(difference / 1_000_000).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX }))
    }
}

/// One chip on PCIe.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSample {
    /// N of `/dev/tenstorrent/N`.
    pub id: DeviceId,
    /// The PCI address.
    pub bdf: Reading<Bdf>,
    /// False if the driver has not listed the device yet. It is on the PCI bus, or was listed earlier.
    pub was_listed: bool,
    /// Readings of its files.
    pub attributes: Attributes,
    /// The time between the last two readings of its traffic counters, and the values of the first reading. The values of the second are in
    /// `attributes`. `None` before the second reading, and after a reset.
    pub counted: Option<Counted>,
    /// State of its heartbeat, or `None` before the second sample.
    pub beat: Option<Beat>,
    /// The processes that have the device open.
    pub users: Reading<Users>,
    /// Values read directly from the chip, or `needs_deep` if they were not requested.
    pub deep: Reading<DeepSample>,
}

/// The traffic counters before the last reading.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Time between the previous reading and the last one.
    pub elapsed: Duration,
    /// The counters that could be read.
    pub before: Vec<(Attr, u64)>,
}

/// A heartbeat over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Time since its last change.
    pub unchanged_for: Duration,
    /// Whether it ever changed.
    pub has_changed: bool,
}

/// The processes that have a device open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// Host pids, each once.
    pub pids: Vec<u32>,
    /// Number of open files of processes outside this pid namespace.
    pub hidden: u64,
    /// False if other users' processes could not be examined.
    pub is_complete: bool,
}

/// One process.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessSample {
    /// The pid and start time.
    pub key: ProcessKey,
    /// The pid in the process's own namespace. Outside containers, it is the same as on the host.
    pub namespace_pid: u32,
    /// Facts from `/proc/PID`. `Gone` if the process has exited and only its open file remains.
    pub facts: Reading<ProcessFacts>,
    /// Full command line.
    pub command: Reading<String>,
    /// Container, pod and job.
    pub workload: Workload,
    /// Memory that the kernel driver reports per open file, by device.
    pub fdinfo: Vec<FdMemory>,
}

/// Values of `/proc/PID/stat` and `status`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessFacts {
    /// The `comm` of the process.
    pub name: String,
    /// Owner.
    pub uid: u32,
    /// Owner's name, if the user database has one.
    pub user: Option<String>,
    /// The pid of the parent.
    pub parent: u32,
    /// When it started.
    pub start_time: UnixTime,
    /// CPU time so far.
    pub cpu_time: Duration,
    /// Host memory in bytes.
    pub rss: u64,
}

/// The container, pod or job of a process from its cgroup, and their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// First 12 digits of the container id.
    pub container: Option<String>,
    /// Kubernetes pod uid.
    pub pod: Option<String>,
    /// Slurm job id.
    pub job: Option<String>,
    /// Name of the pod.
    pub pod_name: Option<String>,
    /// Kubernetes namespace.
    pub namespace: Option<String>,
    /// Name of the container.
    pub container_name: Option<String>,
    /// Name of the Slurm job.
    pub job_name: Option<String>,
    /// Step of the Slurm job: a number, `batch` or `extern`.
    pub job_step: Option<String>,
}

/// `drm-memory-*` keys of one open device file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdMemory {
    /// The device of the file.
    pub device: DeviceId,
    /// Bytes, for the kinds that are present.
    pub used: PerKind<Option<u64>>,
}

/// One file of TT-Metal's statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionSample {
    /// The unique id in its name.
    pub unique_id: u64,
    /// The process in whose `/dev/shm` the file was found, or `None` for the host's own.
    pub through: Option<ProcessKey>,
    /// The only user who may write to the file, or `None` if every user may.
    pub writer: Option<u32>,
    /// The contents of the file.
    pub content: Reading<Region>,
}

/// A failure to read something correctly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, or the part of the machine.
    pub part: String,
    /// The reason.
    pub reason: Missing,
    /// The reason in words.
    pub detail: String,
}

impl Problem {
    /// Creates a problem.
    pub fn new(part: impl Into<String>, reason: Missing, detail: impl Into<String>) -> Self {
        Self { part: part.into(), reason, detail: detail.into() }
    }
}
