//! A process: its members and all values that are shown.

use super::table::{members, table};
use super::{Member, Samples, Value};
use crate::identity::ProcessKey;
use crate::memory::Kind;
use crate::missing::Reading;
use crate::snapshot::{DeviceUse, Status, Unmapped};
use crate::units::UnixTime;

// Names never change. Rows may be added, but not renamed.
macro_rules! rows {
    ($make:ident) => {
        $make! {
            Process PROCESS {
                /// The pid and start time.
                key: ProcessKey = ProcessKey { pid: 0, start_ticks: 0 };
                /// The memory on each chip of the process.
                devices: Vec<DeviceUse> = Vec::new();
                /// Memory that the process reported under ids that match no row, or several rows.
                unmapped: Vec<Unmapped> = Vec::new();
            }
            made "pid" = |p| Ok(Value::Integer(p.key.pid.into())), "PID", Pids, None, "Process id on this host.";
            let name: Reading<String> = or(NoSource), "Name", Pids, None, "The kernel's short name of the process.";
            let user: Reading<String> = or(NoSource), "User", Pids, None, "Owner; the number where the user database has no name.";
            let uid: Reading<u64> = or(NoSource), "Uid", Pids, None, "Owner's number.";
            let command: Reading<String> = or(NoSource), "Command", Pids, None, "Full command line.";
            let parent: Reading<u64> = or(NoSource), "Parent", Pids, None, "Process id of the process that started it, or took it over.";
            let start_time: Reading<UnixTime> = or(NoSource), "Started", Pids, Time, "When it started.";
            let cpu: Reading<f64> = or(NoSource), "CPU", Pids, Ratio, "Host CPU: 1 is one core." .rate(Samples::Two);
            let rss: Reading<u64> = or(NoSource), "Host memory", Pids, Bytes, "Resident host memory.";
            let container: Reading<String> = or(NoSource), "Container", Pids, None, "First 12 digits of its container's id.";
            let pod: Reading<String> = or(NoSource), "Pod", Pids, None, "Uid of its Kubernetes pod.";
            let job: Reading<String> = or(NoSource), "Job", Pids, None, "Its Slurm job.";
            let pod_name: Reading<String> = or(NoSource), "Pod name", Pids, None, "Name of its Kubernetes pod, from the node's log directories.";
            let namespace: Reading<String> = or(NoSource), "Namespace", Pids, None, "Kubernetes namespace of its pod.";
            let container_name: Reading<String> = or(NoSource), "Container name", Pids, None, "Name of its container: in the pod, or Docker's or Podman's.";
            let job_name: Reading<String> = or(NoSource), "Job name", Pids, None, "Name of its Slurm job, from its environment.";
            let job_step: Reading<String> = or(NoSource), "Job step", Pids, None, "Step of its Slurm job: a number, batch or extern.";
            let status: Status = is(Status::Open), "Status", Pids, None, "What is known of its memory: tracked, connected, reported, open, no_permission or dead.";
            made "source" = |p| Member::get(&p.source()), "Source", Pids, None, "Where its figures come from.";
            made "memory" = |p| Member::get(&p.total_of(&Kind::DRAM_BAR)), "DRAM used", Pids, Bytes, "DRAM (dram + trace) it uses on all its chips.";
            let overlap_bytes: Reading<u64> = or(NotTracked), "Overlap", Pids, Bytes, "Bytes on which two of its live buffers lie: corruption.";
            let launches: Reading<u64> = or(NotTracked), "Launches", Pids, Count, "Programs it started on its chips; on a mesh each chip counts.";
            let launches_per_s: Reading<f64> = or(NotTracked), "Launches/s", Pids, None, "Programs it starts a second." .rate(Samples::Two);
            let last_launch: Reading<UnixTime> = or(NotTracked), "Last launch", Pids, Time, "When it last started one: busy or hung.";
        }
    };
}

rows!(members);
rows!(table);
