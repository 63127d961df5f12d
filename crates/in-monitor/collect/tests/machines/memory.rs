//! Which processes use a device, and how much memory: TT-Metal's statistics with every correction.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::Duration;

use ttmon_model::identity::UniqueId;
use ttmon_model::snapshot::Status;
use ttmon_model::{DeviceId, Kind, Missing, Reading, Snapshot, Source};

use ttmon_collect::Options;
use ttmon_collect::reads::Sampling;

use crate::tree::{Tree, device};

/// The unique ids of the test's n300, by UMD's formula: serial 010001451172208F.
const LEFT: u64 = (2 << 32) | 0x5172_208F;
const RIGHT: u64 = (3 << 32) | 0x5172_208F;
const GB: u64 = 1 << 30;
const MINUTE: Duration = Duration::from_secs(60);

fn used(tree: &Tree) -> Figures {
    let snapshot = tree.snapshot();
    let of = |id| {
        (device(&snapshot, id).memory.dram.used, device(&snapshot, id).memory.untracked_processes, device(&snapshot, id).memory.stale_bytes)
    };
    Figures { left: of(0), right: of(1), statuses: snapshot.processes.iter().map(|process| process.status).collect() }
}

/// DRAM in use, untracked processes and stale bytes of a chip.
type OfChip = (Reading<u64>, u64, u64);

#[derive(Debug, PartialEq)]
struct Figures {
    left: OfChip,
    right: OfChip,
    statuses: Vec<Status>,
}

fn tree_with_holder(pid: u32) -> Tree {
    let tree = board();
    tree.pids(0, &format!("{pid}\n"));
    tree.process(pid, "python3", MINUTE);
    tree
}

fn board() -> Tree {
    crate::tree::n300()
}

#[test]
fn a_board_without_holders_uses_no_memory() {
    assert_eq!(used(&board()), Figures { left: (Ok(0), 0, 0), right: (Ok(0), 0, 0), statuses: vec![] });
}

#[test]
fn a_holder_without_statistics_is_not_zero() {
    let untracked = (Err(Missing::NotTracked), 1, 0);
    assert_eq!(used(&tree_with_holder(4242)), Figures { left: untracked, right: untracked, statuses: vec![Status::Open] });
}

#[test]
fn statistics_of_both_chips() {
    let tree = tree_with_holder(4242);
    tree.region("dev/shm", LEFT, &[(4242, "python3", 2 * GB, 1 << 20)]);
    tree.region("dev/shm", RIGHT, &[(4242, "python3", GB, 0)]);
    assert_eq!(used(&tree), Figures { left: (Ok(2 * GB), 0, 0), right: (Ok(GB), 0, 0), statuses: vec![Status::Reported] });
    let snapshot = tree.snapshot();
    assert_eq!(device(&snapshot, 0).unique_id, Ok(UniqueId(LEFT)));
    let process = &snapshot.processes[0];
    assert_eq!((process.total(Kind::Dram), process.source()), (Ok(3 * GB), Ok(Source::Shm)));
    assert_eq!(process.user.as_deref(), Ok("1000"));
    assert_eq!(process.command.as_deref(), Ok("python3 serve.py"));
    assert_eq!(device(&snapshot, 0).memory.l1.used, Ok(1 << 20));
    assert_eq!(process.on(DeviceId(0)).unwrap().kinds[Kind::Kernel].used, Err(Missing::NotTracked));
}

/// A process that reports on one chip only has nothing on the other. A second holder that does not report makes the figure a lower bound.
#[test]
fn a_lower_bound() {
    let tree = tree_with_holder(4242);
    tree.pids(0, "4242\n977\n0\n");
    tree.process(977, "test_app", MINUTE);
    tree.region("dev/shm", LEFT, &[(4242, "python3", GB, 0)]);
    let figures = used(&tree);
    assert_eq!((figures.left, figures.statuses), ((Ok(GB), 2, 0), vec![Status::Open, Status::Reported]));
    assert_eq!(device(&tree.snapshot(), 0).memory.hidden_processes, 1);
}

/// A killed process leaves its slot. A new process may get its pid, but it started after the slot was written.
#[test]
fn dead_slots_are_stale() {
    let tree = board();
    tree.region("dev/shm", LEFT, &[(4242, "python3", GB, 5)]);
    assert_eq!(used(&tree).left, (Ok(0), 0, GB + 5));

    let tree = board();
    tree.region("dev/shm", LEFT, &[(4242, "python3", GB, 5)]);
    let written_long_ago = fs::read(tree.path(&format!("dev/shm/tt_device_{LEFT}_memory"))).map(|mut bytes| {
        bytes[856 + 48..856 + 56].copy_from_slice(&1u64.to_le_bytes());
        bytes
    });
    tree.put_bytes(&format!("dev/shm/tt_device_{LEFT}_memory"), &written_long_ago.unwrap());
    tree.pids(0, "4242\n");
    tree.process(4242, "python3", MINUTE);
    assert_eq!(
        used(&tree),
        Figures { left: (Err(Missing::NotTracked), 1, GB + 5), right: (Err(Missing::NotTracked), 1, 0), statuses: vec![Status::Open] }
    );
}

/// The process holds no device of this machine, but has the pid and the name of a slot.
#[test]
fn a_slot_without_an_open_device_needs_the_same_name() {
    let tree = board();
    tree.region("dev/shm", LEFT, &[(4242, "python3", GB, 0)]);
    tree.process(4242, "python3", MINUTE);
    assert_eq!(used(&tree).left, (Ok(GB), 0, 0));
    tree.process(4242, "systemd", MINUTE);
    assert_eq!(used(&tree).left, (Ok(0), 0, GB));
}

/// The process is a zombie: its memory is gone, and its files are closed.
#[test]
fn a_zombies_slot_is_stale_at_once() {
    let tree = board();
    tree.region("dev/shm", LEFT, &[(4242, "python3", GB, 0)]);
    tree.process(4242, "python3", MINUTE);
    let mut machine = tree.machine_with(Options { sampling: Sampling::Repeated, ..Options::default() });
    let mut left = || device(&Snapshot::derive(&machine.sample().unwrap(), None), 0).memory.clone();
    assert_eq!((left().dram.used, left().stale_bytes), (Ok(GB), 0));
    let stat = fs::read_to_string(tree.path("proc/4242/stat")).unwrap();
    tree.put_bytes("proc/4242/stat", stat.replace(") S ", ") Z ").as_bytes());
    assert_eq!((left().dram.used, left().stale_bytes), (Ok(0), GB));
    assert_eq!(used(&tree), Figures { left: (Ok(0), 0, GB), right: (Ok(0), 0, 0), statuses: vec![] });
}

/// The first thread has ended and others still run. The kernel shows the process as a zombie, but it still has all its memory and files.
#[test]
fn a_process_without_its_first_thread_lives() {
    let tree = tree_with_holder(4242);
    tree.region("dev/shm", LEFT, &[(4242, "python3", GB, 0)]);
    let stat = fs::read_to_string(tree.path("proc/4242/stat")).unwrap();
    tree.put_bytes("proc/4242/stat", stat.replace(") S ", ") Z ").replace(" 20 0 1 0 ", " 20 0 3 0 ").as_bytes());
    let figures = used(&tree);
    assert_eq!((figures.left, figures.statuses), ((Ok(GB), 0, 0), vec![Status::Reported]));
}

/// A file that only one user may write proves nothing about another user's process that does not hold the chip.
#[test]
fn a_slot_in_another_users_file_is_stale() {
    let tree = board();
    tree.region("dev/shm", LEFT, &[(4242, "python3", 11 * GB, 0)]);
    tree.region("dev/shm", 0x5AA5_0000_0000_0001, &[(4242, "python3", GB, 0)]);
    tree.process(4242, "python3", MINUTE);
    let file = |id: u64| tree.path(&format!("dev/shm/tt_device_{id}_memory"));
    let set_mode = |mode| {
        for id in [LEFT, 0x5AA5_0000_0000_0001] {
            fs::set_permissions(file(id), fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    let owner = fs::metadata(file(LEFT)).unwrap().uid();
    let of_user = |uid: u32| tree.put("proc/4242/status", &format!("Name:\tpython3\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t4242"));
    set_mode(0o644);
    of_user(owner + 1);
    assert_eq!(used(&tree), Figures { left: (Ok(0), 0, 11 * GB), right: (Ok(0), 0, 0), statuses: vec![] });
    of_user(owner);
    assert_eq!(used(&tree).left, (Ok(11 * GB), 0, 0), "its own file");
    of_user(owner + 1);
    set_mode(0o666);
    assert_eq!(used(&tree).left, (Ok(11 * GB), 0, 0), "everybody may write it");
    set_mode(0o644);
    tree.pids(0, "4242\n");
    let snapshot = tree.snapshot();
    assert_eq!(device(&snapshot, 0).memory.dram.used, Ok(11 * GB), "it holds the chip");
    assert_eq!(snapshot.processes[0].unmapped, [], "and not this one");
}

/// A container's statistics also belong to a process without a device only if the name is the same.
#[test]
fn a_slot_of_a_container_needs_a_holder_or_the_same_name() {
    let tree = board();
    tree.process(4242, "python3", MINUTE);
    tree.process(977, "other", MINUTE);
    tree.pids(0, "977\n");
    for (name, mounts) in [("self", "mnt:[1]"), ("4242", "mnt:[2]"), ("977", "mnt:[2]")] {
        fs::create_dir_all(tree.path(&format!("proc/{name}/ns"))).unwrap();
        symlink(mounts, tree.path(&format!("proc/{name}/ns/mnt"))).unwrap();
    }
    tree.put("proc/4242/status", "Name:\tpython3\nUid:\t0\t0\t0\t0\nNSpid:\t4242\t5");
    tree.put("proc/977/status", "Name:\tother\nUid:\t0\t0\t0\t0\nNSpid:\t977\t6");
    // The region is found through the holder, but the slot is that of the other process in the container.
    for (name, used) in [("python3", (Ok(GB), 0)), ("renamed", (Err(Missing::NotTracked), GB))] {
        tree.region("dev/shm", LEFT, &[(4242, "python3", 0, 0)]);
        tree.region("proc/977/root/dev/shm", LEFT, &[(5, name, GB, 0)]);
        let memory = device(&tree.snapshot(), 0).memory.clone();
        assert_eq!((memory.dram.used, memory.stale_bytes), used, "{name}");
    }
}

#[test]
fn another_users_statistics() {
    let tree = tree_with_holder(4242);
    tree.region("dev/shm", LEFT, &[(4242, "python3", GB, 0)]);
    tree.faults(&format!("dev/shm/tt_device_{LEFT}_memory\tEACCES\n"));
    let figures = used(&tree);
    assert_eq!((figures.left, figures.statuses), ((Err(Missing::NoPermission), 1, 0), vec![Status::NoPermission]));
}

#[test]
fn an_id_that_fits_no_row_is_unmapped() {
    let tree = tree_with_holder(4242);
    tree.region("dev/shm", 0x5AA5_0000_0000_0001, &[(4242, "python3", GB, 7)]);
    let snapshot = tree.snapshot();
    let process = &snapshot.processes[0];
    assert_eq!(process.status, Status::Reported);
    assert_eq!((process.unmapped[0].id, process.unmapped[0].kinds[Kind::Dram].used), (0x5AA5_0000_0000_0001, Ok(GB)));
    let memory = &device(&snapshot, 0).memory;
    assert_eq!((memory.dram.used, memory.untracked_processes), (Err(Missing::NotTracked), 1), "it may be here");
}

/// The value is larger than the chip's memory.
#[test]
fn nonsense_in_a_slot() {
    let tree = tree_with_holder(4242);
    tree.region("dev/shm", LEFT, &[(4242, "python3", u64::MAX, 0)]);
    let snapshot = tree.snapshot();
    assert_eq!(device(&snapshot, 0).memory.dram.used, Err(Missing::OutOfRange));
    assert_eq!(snapshot.problems.len(), 1);
}

/// A member of a thousand groups has a long status file.
#[test]
fn a_user_with_many_groups() {
    let tree = tree_with_holder(4242);
    let groups = "12345 ".repeat(2000);
    tree.put("proc/4242/status", &format!("Name:\tpython3\nUid:\t1000\t1000\t1000\t1000\nGroups:\t{groups}\nNSpid:\t4242"));
    tree.region("dev/shm", LEFT, &[(4242, "python3", GB, 0)]);
    assert_eq!(used(&tree).left, (Ok(GB), 0, 0));
}

/// An endless command line is truncated and has no other effect.
#[test]
fn a_long_command_line() {
    let tree = tree_with_holder(4242);
    tree.put_bytes("proc/4242/cmdline", &[b"python3\0".to_vec(), vec![b'x'; 1 << 20]].concat());
    let snapshot = tree.snapshot();
    assert_eq!(snapshot.processes[0].command.as_ref().map(String::len), Ok(4096));
}

/// Drivers 2.5 and 2.6 print pids of the opener's namespace. A pid that does not hold the device here is not shown.
#[test]
fn pids_of_another_namespace() {
    let tree = tree_with_holder(4242);
    tree.put("sys/module/tenstorrent/version", "2.6.0");
    tree.pids(0, "1\n4242\n");
    tree.process(1, "systemd", MINUTE);
    for pid in [1, 4242] {
        fs::create_dir_all(tree.path(&format!("proc/{pid}/fd"))).unwrap();
    }
    symlink("/dev/tenstorrent/0", tree.path("proc/4242/fd/5")).unwrap();
    let snapshot = tree.snapshot();
    assert_eq!(snapshot.processes.iter().map(|process| process.key.pid).collect::<Vec<_>>(), [4242]);
    assert_eq!(device(&snapshot, 0).memory.hidden_processes, 1);
}

/// A symbolic link in a directory that every user may write is not followed.
#[test]
fn a_link_instead_of_statistics() {
    let tree = tree_with_holder(4242);
    tree.region("elsewhere", LEFT, &[(4242, "python3", GB, 0)]);
    symlink(tree.path(&format!("elsewhere/tt_device_{LEFT}_memory")), tree.path(&format!("dev/shm/tt_device_{LEFT}_memory"))).unwrap();
    let snapshot = tree.snapshot();
    assert_eq!((device(&snapshot, 0).memory.dram.used, snapshot.problems.len()), (Err(Missing::NotTracked), 1));
}

/// Chips with the same serial and no asic id cannot be distinguished.
#[test]
fn an_id_that_fits_two_rows_is_unmapped() {
    let tree = board();
    tree.device(1, "0000:c2:00.0");
    tree.files(1, crate::tree::N300);
    tree.pids(0, "4242\n");
    tree.pids(1, "4242\n");
    tree.process(4242, "python3", MINUTE);
    tree.region("dev/shm", LEFT, &[(4242, "python3", GB, 0)]);
    assert_eq!(tree.snapshot().processes[0].unmapped[0].id, LEFT);
}

#[test]
fn rubbish_instead_of_statistics() {
    let name = format!("dev/shm/tt_device_{LEFT}_memory");
    for bytes in [vec![], vec![3; 100], vec![0xFF; 8576], vec![0; 8576], vec![9; 1 << 20]] {
        let tree = tree_with_holder(4242);
        tree.put_bytes(&name, &bytes);
        let snapshot = tree.snapshot();
        assert_eq!(device(&snapshot, 0).memory.dram.used, Err(Missing::NotTracked), "{} bytes", bytes.len());
        assert_eq!(snapshot.problems.len(), 1);
    }
}

/// A container with its own pids and its own /dev/shm, found through the root directory of the process that holds the device.
#[test]
fn statistics_inside_a_container() {
    let tree = tree_with_holder(4242);
    tree.put("proc/4242/status", "Name:\tpython3\nUid:\t0\t0\t0\t0\nNSpid:\t4242\t1");
    tree.put("proc/4242/cgroup", &format!("0::/system.slice/docker-{}.scope", "ab".repeat(32)));
    for (name, mounts) in [("self", "mnt:[1]"), ("4242", "mnt:[2]")] {
        fs::create_dir_all(tree.path(&format!("proc/{name}/ns"))).unwrap();
        symlink(mounts, tree.path(&format!("proc/{name}/ns/mnt"))).unwrap();
    }
    tree.region("proc/4242/root/dev/shm", LEFT, &[(1, "python3", GB, 0)]);
    assert_eq!(used(&tree).left, (Ok(GB), 0, 0));
    assert_eq!(tree.snapshot().processes[0].container.as_deref(), Ok("abababababab"));
}

/// Two containers on one chip have programs with the same pid inside. Each region belongs to the process through which it was found.
#[test]
fn statistics_inside_two_containers() {
    let tree = tree_with_holder(4242);
    tree.process(977, "python3", MINUTE);
    tree.pids(0, "4242\n977\n");
    for (name, mounts) in [("self", "mnt:[1]"), ("4242", "mnt:[2]"), ("977", "mnt:[3]")] {
        fs::create_dir_all(tree.path(&format!("proc/{name}/ns"))).unwrap();
        symlink(mounts, tree.path(&format!("proc/{name}/ns/mnt"))).unwrap();
    }
    for (pid, bytes) in [(4242, GB), (977, 2 * GB)] {
        tree.put(&format!("proc/{pid}/status"), &format!("Name:\tpython3\nUid:\t0\t0\t0\t0\nNSpid:\t{pid}\t1"));
        tree.region(&format!("proc/{pid}/root/dev/shm"), LEFT, &[(1, "python3", bytes, 0)]);
    }
    assert_eq!(used(&tree).left, (Ok(3 * GB), 0, 0));
    let totals: Vec<_> = tree.snapshot().processes.iter().map(|process| (process.key.pid, process.total(Kind::Dram))).collect();
    assert_eq!(totals, [(977, Ok(2 * GB)), (4242, Ok(GB))]);
}

/// The host's shared /dev/shm has a pid of the container's namespace. It belongs to the holder of the device.
#[test]
fn shared_memory_with_the_host_but_other_pids() {
    let tree = tree_with_holder(4242);
    tree.put("proc/4242/status", "Name:\tpython3\nUid:\t0\t0\t0\t0\nNSpid:\t4242\t1");
    tree.process(1, "systemd", MINUTE);
    tree.region("dev/shm", LEFT, &[(1, "python3", GB, 0)]);
    let snapshot = tree.snapshot();
    assert_eq!((snapshot.processes.len(), snapshot.processes[0].key.pid), (1, 4242));
    assert_eq!(device(&snapshot, 0).memory.dram.used, Ok(GB));
}

#[test]
fn the_opener_has_exited() {
    let tree = board();
    tree.pids(0, "4242\n");
    let snapshot = tree.snapshot();
    assert_eq!((snapshot.processes[0].status, snapshot.processes[0].name.clone()), (Status::Dead, Err(Missing::Gone)));
    assert_eq!(device(&snapshot, 0).memory.untracked_processes, 1);
}

/// Drivers before 2.5 do not list users. The open files of processes show them, each with its device.
#[test]
fn an_old_driver_names_no_users() {
    let tree = Tree::new("2.4.0");
    for (n, bdf) in [(0, "0000:c1:00.0"), (1, "0000:c2:00.0")] {
        tree.device(n, bdf);
        tree.files(n, crate::tree::N300);
    }
    tree.process(4242, "python3", MINUTE);
    tree.process(977, "other", MINUTE);
    fs::create_dir_all(tree.path("proc/977/fd")).unwrap();
    fs::create_dir_all(tree.path("proc/4242/fd")).unwrap();
    symlink("/dev/null", tree.path("proc/4242/fd/0")).unwrap();
    symlink("/dev/tenstorrent/1", tree.path("proc/4242/fd/7")).unwrap();
    symlink("/dev/tenstorrent/1", tree.path("proc/4242/fd/8")).unwrap();
    let snapshot = tree.snapshot();
    assert_eq!(snapshot.processes.iter().map(|process| process.key.pid).collect::<Vec<_>>(), [4242]);
    assert_eq!(snapshot.processes[0].devices.iter().map(|use_of| use_of.device.0).collect::<Vec<_>>(), [1]);
    assert_eq!((device(&snapshot, 0).memory.dram.used, device(&snapshot, 1).memory.dram.used), (Ok(0), Err(Missing::NotTracked)));
}

/// No driver prints these keys yet.
#[test]
fn a_future_driver_with_fdinfo() {
    let tree = tree_with_holder(4242);
    tree.put("sys/module/tenstorrent/version", "2.11.0");
    // The process has nothing on the second device.
    tree.device(1, "0000:c2:00.0");
    tree.files(1, crate::tree::N300);
    tree.files(1, "tt_serial\t0100014511722053");
    tree.pids(1, "4242\n");
    fs::create_dir_all(tree.path("proc/4242/fd")).unwrap();
    symlink("/dev/tenstorrent/0", tree.path("proc/4242/fd/9")).unwrap();
    symlink("/dev/tenstorrent/1", tree.path("proc/4242/fd/10")).unwrap();
    tree.put("proc/4242/fdinfo/9", "pos:\t0\ndrm-driver:\ttenstorrent\ndrm-memory-dram:\t1024 KiB\ndrm-memory-l1:\t64 KiB");
    let snapshot = tree.snapshot();
    let kinds = &snapshot.processes[0].on(DeviceId(0)).unwrap().kinds;
    assert_eq!(
        (kinds[Kind::Dram].used, kinds[Kind::Dram].source, kinds[Kind::Cb].used),
        (Ok(1 << 20), Ok(Source::Fdinfo), Err(Missing::NotTracked))
    );
    assert_eq!((snapshot.processes[0].status, snapshot.processes[0].status_title()), (Status::Reported, "Reported by driver"));
    tree.region("dev/shm", LEFT, &[(4242, "python3", GB, 0)]);
    assert_eq!(tree.snapshot().processes[0].on(DeviceId(0)).unwrap().kinds[Kind::Dram].source, Ok(Source::Shm), "the better source wins");
}

#[test]
fn host_cpu_needs_two_samples() {
    let tree = tree_with_holder(4242);
    let mut machine = tree.machine();
    let before = machine.sample().unwrap();
    assert_eq!(Snapshot::derive(&before, None).processes[0].cpu, Err(Missing::FirstSample));
    let stat = fs::read_to_string(tree.path("proc/4242/stat")).unwrap().replace(" 120 30 ", " 170 80 ");
    tree.put_bytes("proc/4242/stat", stat.as_bytes());
    let mut now = machine.sample().unwrap();
    now.at = before.at + Duration::from_secs(2);
    assert_eq!(Snapshot::derive(&now, Some(&before)).processes[0].cpu, Ok(0.5));
}

/// Directories that cannot be listed may hide statistics and processes.
#[test]
fn directories_that_cannot_be_listed_are_problems() {
    for directory in ["dev/shm", "proc"] {
        let tree = board();
        let driver = tree.path("proc/driver");
        fs::rename(&driver, tree.path("driver")).unwrap();
        let path = tree.path(directory);
        fs::remove_dir(&path).unwrap();
        // The kernel refuses a link that leads to itself.
        symlink(&path, &path).unwrap();
        let mut options = Options::default();
        options.ledgers.scope = ttmon_collect::LedgerScope::Everybody;
        let sample = tree.machine_with(options).sample().unwrap();
        let found = sample.problems.iter().any(|problem| problem.part == path.display().to_string() && problem.reason == Missing::IoError);
        assert!(found, "{:?}", sample.problems);
    }
}
