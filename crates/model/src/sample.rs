//! What the machine said: raw values, when they were read, and why some were not.

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

/// Where a sample comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This machine.
    Local,
    /// A simulated machine.
    Sim,
    /// A service that looks at the machine, and was asked.
    Server,
}

impl Origin {
    /// The contract's word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Sim => "sim",
            Self::Server => "server",
        }
    }
}

/// TT-Metal's number of a chip, as a program that used it proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proven {
    /// The number, as a program has it that sees all devices.
    pub number: u32,
    /// UMD's id of the chip.
    pub unique_id: u64,
    /// A running program claims something else: this is dropped when that one ends.
    pub is_contested: bool,
}

/// One look at the whole machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// When, on a clock that never jumps.
    pub at: Duration,
    /// When, for people.
    pub time: UnixTime,
    /// How long before `at` processes, regions and ledgers were read: a scan may be late.
    pub scan_age: Duration,
    /// Name of the machine.
    pub host: String,
    /// Real or simulated.
    pub origin: Origin,
    /// Version of the kernel driver.
    pub driver: Reading<String>,
    /// The cluster descriptor that the user gave or that was found, if any.
    pub cluster: Option<Cluster>,
    /// TT-Metal's numbers of chips that ledgers of earlier samples proved.
    pub proven: Vec<Proven>,
    /// Chips on PCIe, by id.
    pub devices: Vec<DeviceSample>,
    /// Processes that hold a device, have a slot of TT-Metal's statistics or a ledger, by pid.
    pub processes: Vec<ProcessSample>,
    /// TT-Metal's statistics.
    pub regions: Vec<RegionSample>,
    /// Ledgers of processes that track their memory.
    pub ledgers: Vec<LedgerSample>,
    /// Processes whose ledgers, if they have any, this user may not look for.
    pub denied_processes: u64,
    /// What went wrong.
    pub problems: Vec<Problem>,
}

impl Sample {
    /// The same devices without anything that a scan found.
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

    /// When processes, regions and ledgers were read, on the clock of `at`.
    pub fn scanned_at(&self) -> Duration {
        self.at.saturating_sub(self.scan_age)
    }

    /// By how many milliseconds the wall clock was set since an earlier sample. `None` where it ran on, or was only steered.
    pub fn clock_jump(&self, before: &Self) -> Option<i64> {
        let nanos = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
        let wall = i128::from(self.time.0) - i128::from(before.time.0);
        let difference = wall - (nanos(self.at) - nanos(before.at));
        let is_jump = difference.unsigned_abs() >= CLOCK_JUMP_MIN.as_nanos();
        is_jump.then(|| i64::try_from(difference / 1_000_000).unwrap_or_default())
    }
}

/// One chip on PCIe.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceSample {
    /// N of `/dev/tenstorrent/N`.
    pub id: DeviceId,
    /// Its PCI address.
    pub bdf: Reading<Bdf>,
    /// False for one that the driver has not listed so far: it is on the PCI bus, or was here before.
    pub was_listed: bool,
    /// Its files.
    pub attributes: Attributes,
    /// The time from one reading of its traffic counters to the next, and what they were at the first. The second is in
    /// `attributes`. `None` before the second reading, and after a reset.
    pub counted: Option<Counted>,
    /// How its heartbeat went so far; `None` before the second look.
    pub beat: Option<Beat>,
    /// Who has it open.
    pub users: Reading<Users>,
    /// What only the chip knows; `needs_deep` where nobody asked for it.
    pub deep: Reading<DeepSample>,
}

/// Traffic counters before the last reading.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// How long before it.
    pub elapsed: Duration,
    /// The counters, those that could be read.
    pub before: Vec<(Attr, u64)>,
}

/// A heartbeat over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// How long it has been the same.
    pub unchanged_for: Duration,
    /// Whether it was ever seen to change.
    pub has_changed: bool,
}

/// Who has a device open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Users {
    /// Host pids, each once.
    pub pids: Vec<u32>,
    /// Open files of processes outside this pid namespace.
    pub hidden: u64,
    /// False when other users' processes could not be looked at.
    pub is_complete: bool,
}

/// One process.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessSample {
    /// Who it is.
    pub key: ProcessKey,
    /// Its pid in its own namespace; the same as the host's outside containers.
    pub namespace_pid: u32,
    /// Facts of `/proc/PID`: `Gone` when the opener has exited and only its file lives on.
    pub facts: Reading<ProcessFacts>,
    /// Full command line.
    pub command: Reading<String>,
    /// Container, pod and job.
    pub workload: Workload,
    /// Memory the kernel driver reports per open file, by device.
    pub fdinfo: Vec<FdMemory>,
}

/// What `/proc/PID/stat` and `status` say.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessFacts {
    /// `comm`.
    pub name: String,
    /// Owner.
    pub uid: u32,
    /// Owner's name, where the user database has one.
    pub user: Option<String>,
    /// Who started it, or took it over.
    pub parent: u32,
    /// When it started.
    pub start_time: UnixTime,
    /// CPU time so far.
    pub cpu_time: Duration,
    /// Host memory in bytes.
    pub rss: u64,
}

/// Where a process runs, by its cgroup, and the names of that.
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
    /// The device the file is.
    pub device: DeviceId,
    /// Bytes, for the kinds that were there.
    pub used: PerKind<Option<u64>>,
}

/// One file of TT-Metal's statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionSample {
    /// The id in its name.
    pub unique_id: u64,
    /// The process whose `/dev/shm` it was seen in; `None` for the host's own.
    pub through: Option<ProcessKey>,
    /// The user who alone may write the file; `None` where every user may.
    pub writer: Option<u32>,
    /// What it says.
    pub content: Reading<Region>,
}

/// Something that could not be read as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, or the part of the machine.
    pub part: String,
    /// The reason.
    pub reason: Missing,
    /// The same in words.
    pub detail: String,
}
