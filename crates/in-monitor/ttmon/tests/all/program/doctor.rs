//! `ttmon doctor` on broken machines: it reports each problem, with the command that fixes it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::program::run::{CommandResult, command, ran, root, ttmon, ttmon_at};

/// Checks that a topic has this line with this severity, and this remedy.
fn finds(ran: &CommandResult, code: i32, line: &str, remedy: &str) {
    assert_eq!(ran.code, code, "{}{}", ran.stdout, ran.stderr);
    let mut lines = ran.stdout.lines();
    let found = lines.find(|found| found.contains(line)).unwrap_or_else(|| panic!("no {line:?} in\n{}", ran.stdout));
    let next = lines.next().unwrap_or_default();
    assert!(remedy.is_empty() || next.contains(remedy), "{found}\n{next}");
}

fn put(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}

/// Returns the directory of the only Tenstorrent PCI device.
fn pci(root: &Path) -> std::path::PathBuf {
    fs::canonicalize(root.join("sys/class/tenstorrent/tenstorrent!0/device")).unwrap()
}

#[test]
fn a_fit_machine() {
    let n150 = root("n150");
    put(n150.path(), "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "4");
    put(n150.path(), "proc/sys/kernel/osrelease", "6.8.0-31-generic");
    let ran = ttmon_at(n150.path(), "doctor");
    finds(&ran, 0, "ok       hugepages: 4 pages of 1 GB for 1 device", "");
    finds(&ran, 0, "ok       kernel: Linux 6.8", "");
    finds(&ran, 0, "0 problems, 0 warnings", "");
}

#[test]
fn no_device_and_no_driver() {
    let empty = tempfile::tempdir().unwrap();
    finds(&ttmon_at(empty.path(), "doctor"), 1, "problem  driver: no Tenstorrent device is on the PCI bus", "lspci -d 1e52:");
    let unloaded = ttmon("doctor --sim n150x2,fault=unload:0");
    finds(&unloaded, 1, "problem  driver: 2 devices on the PCI bus, and the driver is not loaded", "sudo modprobe tenstorrent");
}

#[test]
fn a_driver_that_publishes_less() {
    finds(
        &ttmon("doctor --sim n150,idle,driver=2.5"),
        2,
        "warning  driver: version 2.5.0 does not publish tt_heartbeat; 2.7 does",
        "tenstorrent-dkms",
    );
}

#[test]
fn a_class_directory_that_cannot_be_read() {
    let n150 = root("n150");
    put(n150.path(), ".ttmon-faults", "sys/class/tenstorrent\tEACCES");
    finds(&ttmon_at(n150.path(), "doctor"), 1, "problem  driver: ", "dmesg");
}

#[test]
fn unhealthy_devices() {
    finds(&ttmon("doctor --sim t3k,idle,fault=gone:2"), 1, "problem  devices: device 2: ", "drivers/tenstorrent/bind");
    finds(&ttmon("doctor --sim n150x2,idle,fault=eio:1"), 1, "problem  devices: device 1: ", "tt-smi -r 1");
    finds(
        &ttmon("doctor --sim n150,idle,fault=starting:0"),
        2,
        "warning  devices: device 0: the firmware does not answer yet",
        "modprobe -r",
    );
    finds(&ttmon("doctor --sim n150,fault=hot:0"), 1, "problem  devices: device 0: temperature", "ttmon who 0");
}

#[test]
fn another_driver_has_the_device() {
    let n150 = root("n150");
    let driver = pci(n150.path()).join("driver");
    fs::remove_file(&driver).unwrap();
    symlink("../../../bus/pci/drivers/vfio-pci", &driver).unwrap();
    finds(&ttmon_at(n150.path(), "doctor"), 2, "warning  driver: device 0000:01:00.0 belongs to the driver vfio-pci", "vfio-pci/unbind");
}

#[test]
fn huge_pages_or_an_iommu_that_translates() {
    let n150 = root("n150");
    put(n150.path(), "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0");
    finds(
        &ttmon_at(n150.path(), "doctor"),
        1,
        "problem  hugepages: 0 pages of 1 GB for 1 device without IOMMU",
        "tenstorrent-hugepages.service",
    );
    let group = pci(n150.path()).join("iommu_group");
    fs::create_dir(&group).unwrap();
    fs::write(group.join("type"), "identity\n").unwrap();
    finds(&ttmon_at(n150.path(), "doctor"), 1, "problem  hugepages", "");
    fs::write(group.join("type"), "DMA-FQ\n").unwrap();
    finds(&ttmon_at(n150.path(), "doctor"), 0, "ok       iommu: the IOMMU translates for every device", "");
}

#[test]
fn boards_with_different_firmware() {
    let boards = root("n150x2");
    let file = boards.path().join("sys/class/tenstorrent/tenstorrent!1/tt_fw_bundle_ver");
    fs::remove_file(&file).unwrap();
    fs::write(&file, "18.4.0.0\n").unwrap();
    finds(
        &ttmon_at(boards.path(), "doctor"),
        2,
        "warning  firmware: boards have different firmware: 18.4.0.0 on 1; 19.13.0.0 on 0",
        "tt-flash",
    );
}

#[test]
fn an_old_or_closed_kernel() {
    let n150 = root("n150");
    put(n150.path(), "proc/sys/kernel/osrelease", "4.19.0-27-amd64");
    finds(&ttmon_at(n150.path(), "doctor"), 1, "problem  kernel: Linux 4.19 has no pidfd", "Linux 5.3");
    put(n150.path(), "proc/sys/kernel/osrelease", "6.1.0");
    put(n150.path(), "proc/sys/kernel/yama/ptrace_scope", "3");
    finds(&ttmon_at(n150.path(), "doctor"), 2, "warning  kernel: yama.ptrace_scope is 3", "sysctl kernel.yama.ptrace_scope=1");
}

#[test]
fn memory_of_processes_that_ended() {
    finds(&ttmon("doctor --sim n150,idle,fault=stale:0"), 2, "warning  stale memory: processes that ended left", "rm /dev/shm/tt_device_");
}

#[test]
fn untracked_processes() {
    finds(&ttmon("doctor --sim t3k"), 2, "is not tracked: its memory is unknown", "ttmon run -- COMMAND");
}

#[test]
fn json_has_the_same_findings_and_usage_errors_exit_64() {
    let ran = ttmon("doctor --json --sim t3k,idle,fault=gone:2");
    let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &document["verdict"]), (1, &"problem".into()));
    let problem = document["findings"].as_array().unwrap().iter().find(|finding| finding["verdict"] == "problem").unwrap();
    assert_eq!(problem["topic"], "devices");
    for wrong in ["doctor --nonsense", "doctor --full", "doctor --sim nothing", "doctor extra"] {
        assert_eq!(ttmon(wrong).code, 64, "{wrong}");
    }
}

#[test]
fn a_bundle_replays_and_has_nothing_private() {
    let t3k = root("t3k");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bundle.tar.zst");
    let pack = |flags: &str| {
        let ran = ttmon_at(t3k.path(), &format!("doctor {flags}--bundle {}", file.display()));
        assert!(ran.stderr.contains("snapshot.json") && ran.stderr.contains("files of the driver"), "{}", ran.stderr);
        let packed = zstd::stream::decode_all(fs::File::open(&file).unwrap()).unwrap();
        tar::Archive::new(packed.as_slice()).unpack(directory.path()).unwrap();
    };
    pack("");
    let bundle = directory.path().join("ttmon-bundle");
    let fields = |root: &Path| ttmon_at(root, "--fields id,board,bdf,temperature,power,aiclk_mhz,firmware --format csv").stdout;
    assert!(fields(t3k.path()).contains("n300"));
    assert_eq!(fields(&bundle.join("root")), fields(t3k.path()));
    let serial = fs::read_to_string(t3k.path().join("sys/class/tenstorrent/tenstorrent!0/tt_serial")).unwrap();
    let grep = |text: &str| Command::new("grep").args(["-rqi", text]).arg(&bundle).status().unwrap().success();
    assert!(!grep(serial.trim()), "the serial number {serial} is in the bundle");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let snapshot = fs::read_to_string(bundle.join("snapshot.json")).unwrap();
    assert!(!snapshot.contains(&format!("\"{}\"", host.trim())), "{snapshot}");
    pack("--full ");
    assert!(grep(serial.trim()));
}

/// Python imports modules from the current directory, and root may work in a directory of another user.
#[test]
fn nothing_of_the_current_directory_is_run() {
    let directory = tempfile::tempdir().unwrap();
    let started = directory.path().join("started");
    for module in ["platform", "csv", "email", "json", "zipfile", "ttnn"] {
        fs::write(directory.path().join(format!("{module}.py")), format!("open({:?}, 'w')", started.to_str().unwrap())).unwrap();
    }
    let attack = Command::new("python3").args(["-c", "import platform"]).current_dir(&directory).output();
    if !attack.is_ok_and(|_| fs::remove_file(&started).is_ok()) {
        eprintln!("SKIPPED: no python3 on this machine that imports modules of the current directory");
        return;
    }
    let ran = ran(command("doctor").current_dir(&directory).output().unwrap());
    assert!(ran.stdout.contains("Python") && !started.exists(), "{}{}", ran.stdout, ran.stderr);
}

/// Reports whether `--deep` would work, and what is missing for it.
#[test]
fn deep_would_work_or_lacks_something() {
    let root = root("n150");
    let prints = |text: &str| {
        let printed = ttmon_at(root.path(), "doctor").stdout;
        assert!(printed.contains(text), "expected {text:?} in {printed}");
    };
    let nodes = root.path().join("dev/tenstorrent");
    fs::create_dir_all(&nodes).unwrap();
    fs::write(nodes.join("0"), "").unwrap();
    prints("ttmon --deep can read every chip on PCIe, and the utilization of TT-Metal 0.75 and later");
    let put = |file: &str, text: &str| {
        let path = root.path().join(file);
        fs::remove_file(&path).unwrap();
        fs::write(path, text).unwrap();
    };
    put("sys/class/tenstorrent/tenstorrent!0/tt_fw_bundle_ver", "18.12.0.0\n");
    prints("ttmon --deep: device 0 needs firmware bundle 19.13 for utilization, the rest works");
    put("sys/module/tenstorrent/version", "1.31.0\n");
    prints("ttmon --deep needs driver 1.32");
}
