//! Test machines: a tree of the simulator, with real processes on it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Once;

use tempfile::TempDir;
use ttmon_client::{TTMON_DRAM, TTMON_L1, TTMON_L1_SMALL, TTMON_TRACE};
use ttmon_collect::{Isolation, LedgerScope, Ledgers, Options, Root};
use ttmon_model::Snapshot;
use ttmon_sim::{Machine, Spec};
use ttmon_testing::KilledOnDrop;

/// A tree and the processes on it: this process, which tracks its memory, and others that do not.
pub(crate) struct Made {
    tree: TempDir,
    others: Vec<KilledOnDrop>,
}

impl Made {
    /// Creates a machine. The planned processes are this process and as many others as needed.
    pub(crate) fn new(spec: &str) -> Self {
        let tree = ttmon_testing::directory();
        let machine = Machine::new(&Spec::parse(spec).unwrap(), 1).unwrap();
        let sleep = |_| KilledOnDrop::spawn(Command::new("sleep").arg("1000"));
        let others: Vec<KilledOnDrop> = (1..machine.process_count()).map(sleep).collect();
        let made = Self { tree, others };
        let pids = made.pids();
        let planned: Vec<Option<u32>> = pids.iter().copied().take(machine.process_count()).map(Some).collect();
        machine.write(made.path(), 0, &planned).unwrap();
        pids.iter().for_each(|pid| show_process(made.path(), *pid));
        made
    }

    pub(crate) fn path(&self) -> &Path {
        self.tree.path()
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        std::iter::once(std::process::id()).chain(self.others.iter().map(KilledOnDrop::id)).collect()
    }
}

/// Shows a process of this machine in the machine below a directory.
pub(crate) fn show_process(tree: &Path, pid: u32) {
    fs::create_dir_all(tree.join("proc")).unwrap();
    symlink(format!("/proc/{pid}"), tree.join(format!("proc/{pid}"))).unwrap();
}

/// Makes this process track its memory. The effect is permanent, and the same in each test.
pub(crate) fn track() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        assert!(ttmon_client::start(ttmon_client::Options { machine: 0 }));
        for (size, buffer_type, address) in [(4096, TTMON_DRAM, 1), (1000, TTMON_L1, 2), (50, TTMON_L1_SMALL, 3), (7, TTMON_TRACE, 4)] {
            ttmon_client::report_allocation(0, size, buffer_type, address);
        }
        ttmon_client::report_allocation(0, 1 << 20, TTMON_DRAM, 5);
        ttmon_client::report_deallocation(0, 5);
        ttmon_client::report_cb_allocation(0, 300, 1);
        ttmon_client::report_kernel_load(0, 11, 0, 1);
        ttmon_client::report_allocation(1, 12_345, TTMON_DRAM, 1);
    });
}

/// Returns the snapshot of the machine below a directory, read in the same way as by `ttmon`.
pub(crate) fn snapshot(tree: &Path, scope: LedgerScope) -> Snapshot {
    let ledgers = Ledgers { scope, ..Options::default().ledgers };
    let options = Options { isolation: Isolation::Threads, ledgers, ..Options::default() };
    let sample = ttmon_collect::Machine::new(Root::at(tree), options).unwrap().sample().unwrap();
    Snapshot::derive(&sample, None)
}
