//! Processes that exist only as files, for machines that are not run, for example the hosts of a simulated fleet.

use std::fs;
use std::io;
use std::path::Path;

use crate::machine::Machine;

/// Above every pid that Linux assigns.
const FIRST_PID: u32 = 5_000_000;
/// Uids of the processes' users, and their names.
const USERS: [(u32, &str); 3] = [(2001, "ana"), (2002, "ben"), (2003, "eve")];

impl Machine {
    /// Returns pids for the planned processes. They belong to no real process.
    pub fn static_pids(&self) -> Vec<Option<u32>> {
        (FIRST_PID..).take(self.process_count()).map(Some).collect()
    }

    /// Writes the planned processes as files, half in pods and half in Slurm jobs. `host` makes their names unique in a fleet.
    pub fn write_static_processes(&self, dir: &Path, host: u64) -> io::Result<()> {
        let users: String = USERS.iter().map(|(uid, name)| format!("{name}:x:{uid}:{uid}::/:/bin/sh\n")).collect();
        fs::create_dir_all(dir.join("etc"))?;
        fs::write(dir.join("etc/passwd"), users)?;
        for (process, pid) in self.processes.iter().zip(FIRST_PID..) {
            let (uid, program) = (USERS[usize::try_from(process.index).unwrap_or(0) % USERS.len()].0, process.job.program);
            let place = dir.join(format!("proc/{pid}"));
            fs::create_dir_all(place.join("fd"))?;
            fs::create_dir_all(place.join("fdinfo"))?;
            let stat = format!("{pid} ({program}) S 1 {pid} {pid} 0 -1 0 0 0 0 0 500 100 0 0 20 0 1 0 1000 1000000 25000 0 1 1 1 0 0");
            let status = format!("Name:\t{program}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t{pid}\n");
            let command = [program].iter().chain(process.job.arguments).flat_map(|word| [word, "\0"]).collect();
            let number = host * 100 + process.index;
            let (cgroup, environment) = if process.index.is_multiple_of(2) {
                let (uid, container) = (format!("00000000-0000-4000-8000-{number:012}"), format!("{number:064x}"));
                let group = format!("0::/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{container}.scope\n", uid.replace('-', "_"));
                fs::create_dir_all(dir.join(format!("var/log/pods/serving_llm-{number}_{uid}/engine")))?;
                (group, String::new())
            } else {
                let group = format!("0::/system.slice/slurmstepd.scope/job_{number}/step_0\n");
                (group, format!("SLURM_JOB_ID={number}\0SLURM_JOB_NAME=train\0"))
            };
            let maps = String::new();
            for (file, text) in
                [("stat", stat), ("status", status), ("cmdline", command), ("maps", maps), ("cgroup", cgroup), ("environ", environment)]
            {
                fs::write(place.join(file), text)?;
            }
        }
        Ok(())
    }
}
