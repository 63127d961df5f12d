//! Reads of other users' data: each item is read once, and within the limits.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::Duration;

use ttmon_collect::ledgers::LedgerDetail;
use ttmon_collect::{LedgerScope, Ledgers, Options};
use ttmon_model::{Sample, region};

use crate::tree::{N300, Tree, n300};

const MINUTE: Duration = Duration::from_secs(60);

fn sample(tree: &Tree, scope: LedgerScope) -> Sample {
    let ledgers = Ledgers { detail: LedgerDetail::Totals, scope, machine: 0 };
    tree.machine_with(Options { ledgers, ..Options::default() }).sample().unwrap()
}

fn of_users(sample: &Sample) -> Vec<String> {
    let of_users = sample.problems.iter().filter(|problem| problem.part.starts_with("user "));
    of_users.map(|problem| format!("{}: {}", problem.part, problem.detail)).collect()
}

/// Each list of mappings may be long, but is short.
#[test]
fn short_mappings_are_charged_by_their_length() {
    let tree = n300();
    let pids = 10_000..10_200;
    for pid in pids.clone() {
        tree.process(pid, "python3", MINUTE);
        tree.put(&format!("proc/{pid}/maps"), "7f-80 rw-p 0 00:00 0");
        fs::create_dir(tree.path(&format!("proc/{pid}/fd"))).unwrap();
    }
    tree.pids(0, &pids.clone().map(|pid| format!("{pid}\n")).collect::<String>());
    let sample = sample(&tree, LedgerScope::Everybody);
    assert_eq!(of_users(&sample), [""; 0]);
    assert_eq!(sample.processes.len(), pids.len());
}

/// Drivers 2.5 and 2.6 print pids that may belong to other processes here, so the open files of each are checked.
#[test]
fn open_files_of_a_process_on_many_devices_are_listed_once() {
    let tree = Tree::new("2.5.0");
    for id in 0..32 {
        tree.device(id, &format!("0000:{id:02x}:00.0"));
        tree.files(id, N300);
        tree.pids(id, "4242\n");
    }
    tree.process(4242, "python3", MINUTE);
    fs::create_dir(tree.path("proc/4242/fd")).unwrap();
    for fd in 0..4000 {
        let target = if fd < 32 { format!("/dev/tenstorrent/{fd}") } else { "/dev/null".to_owned() };
        symlink(target, tree.path(&format!("proc/4242/fd/{fd}"))).unwrap();
    }
    let sample = sample(&tree, LedgerScope::Holders);
    assert_eq!(of_users(&sample), [""; 0]);
    for device in &sample.devices {
        let users = device.users.as_ref().unwrap();
        assert_eq!((users.pids.as_slice(), users.hidden), (&[4242][..], 0), "device {}", device.id);
    }
}

/// The processes of a container share its mount namespace.
#[test]
fn shared_memory_of_a_container_is_listed_once() {
    let tree = n300();
    let pids = 100..103;
    tree.pids(0, &pids.clone().map(|pid| format!("{pid}\n")).collect::<String>());
    fs::create_dir_all(tree.path("proc/self/ns")).unwrap();
    symlink("mnt:[1]", tree.path("proc/self/ns/mnt")).unwrap();
    for pid in pids {
        tree.process(pid, "python3", MINUTE);
        fs::create_dir_all(tree.path(&format!("proc/{pid}/ns"))).unwrap();
        symlink("mnt:[2]", tree.path(&format!("proc/{pid}/ns/mnt"))).unwrap();
        // Each process has a directory of its own, which shows through which process it was listed.
        tree.region(&format!("proc/{pid}/root/dev/shm"), u64::from(pid), &[(1, "python3", 1, 0)]);
    }
    let sample = sample(&tree, LedgerScope::Holders);
    let found: Vec<_> = sample.regions.iter().map(|region| (region.unique_id, region.through.map(|key| key.pid))).collect();
    assert_eq!(found, [(100, Some(100))]);
}

/// Statistics may name any number of pids without a process.
#[test]
fn pids_without_a_process_are_no_processes_of_a_user() {
    let tree = n300();
    for id in 0..190_u32 {
        let slots: Vec<_> = (0..64).map(|slot| (100_000 + id * 64 + slot, "x", 1, 0)).collect();
        tree.region("dev/shm", id.into(), &slots);
    }
    assert_eq!(of_users(&sample(&tree, LedgerScope::Holders)), [""; 0]);
}

/// Any user can create any number of files that are not statistics.
#[test]
fn files_that_are_no_statistics_are_counted() {
    let tree = n300();
    for id in 0..300 {
        tree.put_bytes(&format!("dev/shm/{}", region::file_name(id)), b"");
    }
    let owner = fs::metadata(tree.path("dev/shm")).unwrap().uid();
    let problems = sample(&tree, LedgerScope::Holders).problems;
    assert_eq!(problems.len(), 5, "{problems:?}");
    assert_eq!(problems[4].part, format!("user {owner}"));
    assert!(problems[4].detail.starts_with("296 more: "), "{}", problems[4].detail);
}
