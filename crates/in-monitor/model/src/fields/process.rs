//! A process: its members, and the row of each value that is shown. A new member is added as in `device.rs`,
//! but set in `derive/process.rs`.

use super::{Field, Member, SamplesNeeded, Section, Value, field};
use crate::identity::ProcessKey;
use crate::memory::Kind;
use crate::missing::{Missing, Reading};
use crate::snapshot::{DeviceUse, Status, Unmapped};
use crate::units::{Unit, UnixTime};

/// One process: a member for each row of [`PROCESS`], its key, and its memory.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the help in the row of a member says what it is")]
pub struct Process {
    /// The pid and start time.
    pub key: ProcessKey,
    pub name: Reading<String>,
    pub user: Reading<String>,
    pub uid: Reading<u64>,
    pub command: Reading<String>,
    pub parent: Reading<u64>,
    pub start_time: Reading<UnixTime>,
    pub cpu: Reading<f64>,
    pub rss: Reading<u64>,
    pub container: Reading<String>,
    pub pod: Reading<String>,
    pub job: Reading<String>,
    pub pod_name: Reading<String>,
    pub namespace: Reading<String>,
    pub container_name: Reading<String>,
    pub job_name: Reading<String>,
    pub job_step: Reading<String>,
    pub status: Status,
    pub overlap_bytes: Reading<u64>,
    pub launches: Reading<u64>,
    pub launches_per_s: Reading<f64>,
    pub last_launch: Reading<UnixTime>,
    /// The memory on each chip of the process.
    pub devices: Vec<DeviceUse>,
    /// Memory that the process reported under ids that match no row, or several rows.
    pub unmapped: Vec<Unmapped>,
}

impl Process {
    /// Returns a process without any reading.
    pub fn absent() -> Self {
        Self {
            key: ProcessKey { pid: 0, start_ticks: 0 },
            status: Status::Open,
            devices: Vec::new(),
            unmapped: Vec::new(),
            name: Err(Missing::NoSource),
            user: Err(Missing::NoSource),
            uid: Err(Missing::NoSource),
            command: Err(Missing::NoSource),
            parent: Err(Missing::NoSource),
            start_time: Err(Missing::NoSource),
            cpu: Err(Missing::NoSource),
            rss: Err(Missing::NoSource),
            container: Err(Missing::NoSource),
            pod: Err(Missing::NoSource),
            job: Err(Missing::NoSource),
            pod_name: Err(Missing::NoSource),
            namespace: Err(Missing::NoSource),
            container_name: Err(Missing::NoSource),
            job_name: Err(Missing::NoSource),
            job_step: Err(Missing::NoSource),
            overlap_bytes: Err(Missing::NotTracked),
            launches: Err(Missing::NotTracked),
            launches_per_s: Err(Missing::NotTracked),
            last_launch: Err(Missing::NotTracked),
        }
    }
}

/// The rows of [`Process`], in the order of every output. Names never change.
pub const PROCESS: &[Field<Process>] = &[
    Field::computed("pid", "PID", Section::Pids, Unit::None, |p: &Process| Ok(Value::Integer(p.key.pid.into())))
        .help("Process id on this host."),
    field!(Process.name, "Name", Section::Pids, Unit::None).help("The kernel's short name of the process."),
    field!(Process.user, "User", Section::Pids, Unit::None).help("Owner; the number where the user database has no name."),
    field!(Process.uid, "Uid", Section::Pids, Unit::None).help("Owner's number."),
    field!(Process.command, "Command", Section::Pids, Unit::None).help("Full command line."),
    field!(Process.parent, "Parent", Section::Pids, Unit::None).help("Process id of the process that started it, or took it over."),
    field!(Process.start_time, "Started", Section::Pids, Unit::Time).help("When it started."),
    field!(Process.cpu, "CPU", Section::Pids, Unit::Ratio).help("Host CPU: 1 is one core.").rate(SamplesNeeded::Two),
    field!(Process.rss, "Host memory", Section::Pids, Unit::Bytes).help("Resident host memory."),
    field!(Process.container, "Container", Section::Pids, Unit::None).help("First 12 digits of its container's id."),
    field!(Process.pod, "Pod", Section::Pids, Unit::None).help("Uid of its Kubernetes pod."),
    field!(Process.job, "Job", Section::Pids, Unit::None).help("Its Slurm job."),
    field!(Process.pod_name, "Pod name", Section::Pids, Unit::None).help("Name of its Kubernetes pod, from the node's log directories."),
    field!(Process.namespace, "Namespace", Section::Pids, Unit::None).help("Kubernetes namespace of its pod."),
    field!(Process.container_name, "Container name", Section::Pids, Unit::None)
        .help("Name of its container: in the pod, or Docker's or Podman's."),
    field!(Process.job_name, "Job name", Section::Pids, Unit::None).help("Name of its Slurm job, from its environment."),
    field!(Process.job_step, "Job step", Section::Pids, Unit::None).help("Step of its Slurm job: a number, batch or extern."),
    field!(Process.status, "Status", Section::Pids, Unit::None)
        .help("What is known of its memory: tracked, connected, reported, open, no_permission or dead."),
    Field::computed("source", "Source", Section::Pids, Unit::None, |p: &Process| Member::get(&p.source()))
        .help("Where its figures come from."),
    Field::computed("memory", "DRAM used", Section::Pids, Unit::Bytes, |p: &Process| Member::get(&p.total_of(&Kind::DRAM_BAR)))
        .help("DRAM (dram + trace) it uses on all its chips."),
    field!(Process.overlap_bytes, "Overlap", Section::Pids, Unit::Bytes).help("Bytes on which two of its live buffers lie: corruption."),
    field!(Process.launches, "Launches", Section::Pids, Unit::Count).help("Programs it started on its chips; on a mesh each chip counts."),
    field!(Process.launches_per_s, "Launches/s", Section::Pids, Unit::None).help("Programs it starts a second.").rate(SamplesNeeded::Two),
    field!(Process.last_launch, "Last launch", Section::Pids, Unit::Time).help("When it last started one: busy or hung."),
];
