//! Trees made by the tests, with the layout of the kernel's files.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ttmon_collect::{Isolation, Machine, Options, Root};
use ttmon_model::region::{self, Region, Slot};
use ttmon_model::snapshot::Device;
use ttmon_model::units::UnixTime;
use ttmon_model::{DeviceId, Kind, PerKind, Snapshot};

pub(crate) struct Tree(tempfile::TempDir);

impl Tree {
    pub(crate) fn new(driver: &str) -> Self {
        let tree = Self(ttmon_testing::directory());
        tree.put("sys/module/tenstorrent/version", driver);
        for directory in ["sys/class/tenstorrent", "sys/bus/pci/devices", "proc/driver/tenstorrent", "dev/shm"] {
            fs::create_dir_all(tree.path(directory)).unwrap();
        }
        tree
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Writes a file with a newline after its text, as the kernel does.
    pub(crate) fn put(&self, path: &str, text: &str) {
        self.put_bytes(path, format!("{text}\n").as_bytes());
    }

    pub(crate) fn put_bytes(&self, path: &str, bytes: &[u8]) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.path(path)).unwrap();
    }

    /// Sets the errors to inject, as lines `path<TAB>error`.
    pub(crate) fn faults(&self, lines: &str) {
        fs::write(self.path(".ttmon-faults"), lines).unwrap();
    }

    /// Creates the directories and links of a device, without files.
    pub(crate) fn device(&self, id: u32, bdf: &str) {
        let pci = format!("sys/devices/pci0000:00/0000:00:01.0/{bdf}");
        let class = format!("{pci}/tenstorrent/tenstorrent!{id}");
        fs::create_dir_all(self.path(&class)).unwrap();
        symlink("../..", self.path(&format!("{class}/device"))).unwrap();
        symlink(Path::new("../..").join("..").join(&class), self.path(&format!("sys/class/tenstorrent/tenstorrent!{id}"))).unwrap();
        symlink(Path::new("../../../..").join(&pci), self.path(&format!("sys/bus/pci/devices/{bdf}"))).unwrap();
    }

    /// Writes files of a device below its class directory, from lines `file<TAB>text`.
    pub(crate) fn files(&self, id: u32, lines: &str) {
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (file, text) = line.split_once('\t').unwrap_or((line, ""));
            self.put(&format!("sys/class/tenstorrent/tenstorrent!{id}/{file}"), text);
        }
    }

    pub(crate) fn pids(&self, id: u32, text: &str) {
        self.put_bytes(&format!("proc/driver/tenstorrent/{id}/pids"), text.as_bytes());
    }

    /// Creates a process of uid 1000 that started this long ago.
    pub(crate) fn process(&self, pid: u32, name: &str, age: Duration) {
        let uptime = uptime();
        let start_ticks = uptime.saturating_sub(age).as_millis() / 10;
        let rest = format!("S 1 {pid} {pid} 0 -1 0 0 0 0 0 120 30 0 0 20 0 1 0 {start_ticks} 1000 256 0");
        self.put(&format!("proc/{pid}/stat"), &format!("{pid} ({name}) {rest}"));
        self.put(&format!("proc/{pid}/status"), &format!("Name:\t{name}\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t{pid}"));
        self.put(&format!("proc/{pid}/cgroup"), "0::/user.slice");
        self.put_bytes(&format!("proc/{pid}/cmdline"), format!("{name}\0serve.py\0").as_bytes());
    }

    /// Writes TT-Metal's statistics under an id, with the DRAM and L1 bytes of processes. Every user may write to the file, because the
    /// tests run as another user than the processes.
    pub(crate) fn region(&self, directory: &str, unique_id: u64, slots: &[(u32, &str, u64, u64)]) {
        let slots = slots.iter().map(|(pid, name, dram, l1)| {
            let mut used = PerKind::default();
            used[Kind::Dram] = *dram;
            used[Kind::L1] = *l1;
            Slot { pid: *pid, used, updated: now(), name: (*name).to_owned() }
        });
        let region = Region { version: 3, device_id: 0, totals: PerKind::default(), slots: slots.collect() };
        let file = format!("{directory}/{}", region::file_name(unique_id));
        self.put_bytes(&file, &region.encode(unique_id));
        fs::set_permissions(self.path(&file), fs::Permissions::from_mode(0o666)).unwrap();
    }

    pub(crate) fn machine(&self) -> Machine {
        self.machine_with(Options::default())
    }

    pub(crate) fn machine_with(&self, options: Options) -> Machine {
        // The long timeout avoids failures on a busy machine. The short one is used if a file hangs.
        let hangs = fs::read_to_string(self.path(".ttmon-faults")).is_ok_and(|faults| faults.contains("hang") || faults.contains("slow"));
        let read_timeout = if hangs { Duration::from_secs(1) } else { Duration::from_secs(60) };
        let options = Options { isolation: Isolation::Threads, read_timeout, ..options };
        Machine::new(Root::at(self.0.path()), options).unwrap()
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::derive(&self.machine().sample().unwrap(), None)
    }
}

pub(crate) fn device(snapshot: &Snapshot, id: u32) -> &Device {
    snapshot.device(DeviceId(id)).unwrap_or_else(|| panic!("no device {id}"))
}

fn now() -> UnixTime {
    UnixTime(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap())
}

/// Reads `/proc/uptime`, which has hundredths of a second.
fn uptime() -> Duration {
    let text = fs::read_to_string("/proc/uptime").unwrap();
    Duration::from_secs_f64(text.split(' ').next().unwrap().parse().unwrap())
}

/// The files of an n300 with driver 2.9, with the numbers of a real board in the driver's formats.
pub(crate) const N300: &str = "
    dev	240:0
    tt_aiclk	500
    tt_axiclk	900
    tt_arcclk	540
    tt_serial	010001451172208F
    tt_card_type	n300
    tt_fw_bundle_ver	18.4.0.0
    tt_m3app_fw_ver	5.12.0.0
    tt_m3bl_fw_ver	129.2.0.0
    tt_arc_fw_ver	2.32.0.0
    tt_eth_fw_ver	6.14.0
    tt_ttflash_ver	0.3.2.0
    tt_heartbeat	17120
    device/vendor	0x1e52
    device/device	0x401e
    device/class	0x120000
    device/numa_node	1
    device/current_link_speed	16.0 GT/s PCIe
    device/max_link_speed	16.0 GT/s PCIe
    device/current_link_width	16
    device/max_link_width	16
    device/hwmon/hwmon7/name	wormhole
    device/hwmon/hwmon7/temp1_input	54312
    device/hwmon/hwmon7/temp1_max	75000
    device/hwmon/hwmon7/temp1_label	asic1_temp
    device/hwmon/hwmon7/in0_input	795
    device/hwmon/hwmon7/in0_max	1000
    device/hwmon/hwmon7/in0_label	vcore1
    device/hwmon/hwmon7/curr1_input	16000
    device/hwmon/hwmon7/curr1_max	240000
    device/hwmon/hwmon7/curr1_label	current1
    device/hwmon/hwmon7/power1_input	12000000
    device/hwmon/hwmon7/power1_max	100000000
    device/hwmon/hwmon7/power1_label	power1
    pcie_perf_counters/mst_posted_wr_data_word_sent0	4294960000
    pcie_perf_counters/mst_posted_wr_data_word_sent1	120
    pcie_perf_counters/slv_posted_wr_data_word_received0	7340032
    pcie_perf_counters/slv_posted_wr_data_word_received1	0
";

/// The files of a Blackhole Galaxy chip with driver 2.10.
pub(crate) const GALAXY_CHIP: &str = "
    dev	240:5
    tt_aiclk	800
    tt_axiclk	960
    tt_arcclk	800
    tt_serial	0000047131831011
    tt_card_type	galaxy-blackhole
    tt_fw_bundle_ver	19.5.0.0
    tt_m3app_fw_ver	0.0.0.0
    tt_asic_id	3B0DF29034ED9B6C
    tt_heartbeat	404985
    tt_therm_trip_count	0
    device/vendor	0x1e52
    device/device	0xb140
    device/subsystem_device	0x0047
    device/numa_node	-1
    device/current_link_speed	16.0 GT/s PCIe
    device/max_link_speed	32.0 GT/s PCIe
    device/current_link_width	8
    device/max_link_width	8
    device/hwmon/hwmon11/name	blackhole
    device/hwmon/hwmon11/temp1_input	42138
    device/hwmon/hwmon11/temp1_max	90000
    device/hwmon/hwmon11/in0_input	744
    device/hwmon/hwmon11/in0_max	900
    device/hwmon/hwmon11/curr1_input	51000
    device/hwmon/hwmon11/curr1_max	500000
    device/hwmon/hwmon11/power1_input	37000000
    device/hwmon/hwmon11/power1_max	130000000
    device/hwmon/hwmon11/fan1_input	0
    device/hwmon/hwmon11/fan1_label	fan_rpm
";

/// One n300 as device 0 without users.
pub(crate) fn n300() -> Tree {
    let tree = Tree::new("2.9.0");
    tree.device(0, "0000:c1:00.0");
    tree.files(0, N300);
    tree.pids(0, "");
    tree
}

/// One Galaxy chip as device 5.
pub(crate) fn galaxy_chip() -> Tree {
    let tree = Tree::new("2.10.0");
    tree.device(5, "0000:06:00.0");
    tree.files(5, GALAXY_CHIP);
    tree.pids(5, "");
    tree
}
