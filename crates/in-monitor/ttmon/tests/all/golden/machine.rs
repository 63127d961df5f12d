//! Machines whose files, processes and ledgers are always the same.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use ttmon_sim::{Machine, Spec};
use ttmon_testing::{FIRST_PID, static_pids, write_static_processes};

use super::ledger;

/// The tick of each machine. Ten seconds after the start, programs have their memory.
const TICK: u64 = 40;
const SEED: u64 = 7;
/// The root directory of the machine, as commands name it.
const ROOT: &str = "machine";
/// When the programs start: 100 years after the boot, so that their age is 0.
const START_TICKS: u64 = 100 * 365 * 24 * 60 * 60 * 100;

/// A machine in files, for `--root`.
pub(crate) struct Fixed {
    directory: TempDir,
    /// The ledger of the first program, a memfd as those of real programs. The machine has only a link to it.
    _ledger: Option<File>,
}

impl Fixed {
    /// A machine with the programs of the spec. They have the statistics of TT-Metal, but no ledgers.
    pub(crate) fn new(spec: &str) -> Self {
        // The machine has up to 20,000 files. On a disk they would take seconds.
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let root = directory.path().join(ROOT);
        fs::create_dir(&root).unwrap();
        let machine = Machine::new(&Spec::parse(spec).unwrap(), SEED).unwrap();
        let pids = static_pids(machine.process_count());
        machine.write(&root, TICK, &pids).unwrap();
        write_static_processes(&root, &machine.commands(), 1);
        for pid in pids.into_iter().flatten() {
            let stat = root.join(format!("proc/{pid}/stat"));
            let text = fs::read_to_string(&stat).unwrap();
            fs::write(&stat, text.replace(" 1000 ", &format!(" {START_TICKS} "))).unwrap();
        }
        Self { directory, _ledger: None }
    }

    /// The same, but the first program has a ledger of the hook, and the second one a ledger that the service wrote for it.
    pub(crate) fn with_ledgers(spec: &str) -> Self {
        let machine = Self::new(spec);
        let root = machine.folder().join(ROOT);
        let hooked = ledger::hooked(FIRST_PID, START_TICKS);
        let process = root.join(format!("proc/{FIRST_PID}"));
        // A link below `fd` cannot have the name of a memfd. So the program is one that closed its files, and has only the mapping.
        let maps = "10000-20000 r--p 00000000 00:00 0\n7f00-7f40 rw-s 00000000 00:01 1 /memfd:ttmon-ledger (deleted)\n";
        fs::write(process.join("maps"), maps).unwrap();
        fs::create_dir(process.join("map_files")).unwrap();
        let file = format!("/proc/{}/fd/{}", std::process::id(), hooked.as_raw_fd());
        symlink(file, process.join("map_files/7f00-7f40")).unwrap();
        let state = root.join("run/ttmon/state");
        fs::create_dir_all(&state).unwrap();
        ledger::served(&state, FIRST_PID + 1, START_TICKS);
        Self { _ledger: Some(hooked), ..machine }
    }

    /// The directory that has the machine, for files beside it.
    pub(crate) fn folder(&self) -> &Path {
        self.directory.path()
    }

    /// Returns a command that reads this machine.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = super::command(line, self.folder());
        // No read waits, but a busy host may be slow.
        command.args(["--root", ROOT, "--read-timeout", "30000"]);
        command
    }

    /// Returns the standard output of a command that succeeds.
    #[track_caller]
    pub(crate) fn output(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns command lines, each with everything that it prints.
    pub(crate) fn transcript(&self, lines: &[&str]) -> String {
        lines.iter().map(|line| super::transcript(line, &self.command(line).output().unwrap())).collect()
    }
}
