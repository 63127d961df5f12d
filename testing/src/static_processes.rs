//! Processes that exist only as files, for machines that are not run, for example the hosts of a simulated fleet.

use std::fs;
use std::path::Path;

/// The pid of the first process, above every pid that Linux assigns.
pub const FIRST_PID: u32 = 5_000_000;
/// Uids of the processes' users, and their names.
const USERS: [(u32, &str); 3] = [(2001, "ana"), (2002, "ben"), (2003, "eve")];

/// Returns pids for `count` processes. They belong to no real process.
#[must_use]
pub fn static_pids(count: usize) -> Vec<Option<u32>> {
    (FIRST_PID..).take(count).map(Some).collect()
}

/// Writes a process for each command, half in pods and half in Slurm jobs. `host` makes their names unique in a fleet.
pub fn write_static_processes(dir: &Path, commands: &[Vec<&str>], host: u64) {
    let users: String = USERS.iter().map(|(uid, name)| format!("{name}:x:{uid}:{uid}::/:/bin/sh\n")).collect();
    fs::create_dir_all(dir.join("etc")).unwrap();
    fs::write(dir.join("etc/passwd"), users).unwrap();
    for (index, (command, pid)) in commands.iter().zip(FIRST_PID..).enumerate() {
        let ((uid, _), program) = (USERS[index % USERS.len()], command[0]);
        let place = dir.join(format!("proc/{pid}"));
        fs::create_dir_all(place.join("fd")).unwrap();
        fs::create_dir_all(place.join("fdinfo")).unwrap();
        let number = host * 100 + index as u64;
        let (cgroup, environment) = if index.is_multiple_of(2) {
            let (uid, container) = (format!("00000000-0000-4000-8000-{number:012}"), format!("{number:064x}"));
            fs::create_dir_all(dir.join(format!("var/log/pods/serving_llm-{number}_{uid}/engine"))).unwrap();
            let group = format!("0::/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{container}.scope\n", uid.replace('-', "_"));
            (group, String::new())
        } else {
            let group = format!("0::/system.slice/slurmstepd.scope/job_{number}/step_0\n");
            (group, format!("SLURM_JOB_ID={number}\0SLURM_JOB_NAME=train\0"))
        };
        let files = [
            ("stat", format!("{pid} ({program}) S 1 {pid} {pid} 0 -1 0 0 0 0 0 500 100 0 0 20 0 1 0 1000 1000000 25000 0 1 1 1 0 0")),
            ("status", format!("Name:\t{program}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t{pid}\n")),
            ("cmdline", command.iter().flat_map(|word| [word, "\0"]).collect()),
            ("maps", String::new()),
            ("cgroup", cgroup),
            ("environ", environment),
        ];
        for (file, text) in files {
            fs::write(place.join(file), text).unwrap();
        }
    }
}
