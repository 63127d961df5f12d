//! A simulated machine from the view of readers: the files, their formats, their bounds, and how they change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use ttmon_model::attributes::{ATTRIBUTES, Attribute, AttributeFolder, Format};
use ttmon_model::identity::unique_id_candidates;
use ttmon_model::product::Product;
use ttmon_model::region::{Region, unique_id_of};
use ttmon_model::units::Version;
use ttmon_model::{Arch, Attr, Bdf, Kind, Missing, Raw};
use ttmon_sim::{Machine, Spec};
use ttmon_testing::directory;

const BOARDS: [&str; 8] = ["n150", "n300", "t3k", "galaxy", "galaxy-bh", "p100a", "p150", "p300"];
/// Number of PCIe devices of each board.
const LOCALS: [u32; 8] = [1, 1, 4, 32, 32, 1, 1, 2];

/// A machine, and the directory that it is written to.
struct Tree {
    machine: Machine,
    directory: TempDir,
}

impl Tree {
    fn new(spec: &str) -> Self {
        let spec = Spec::parse(spec).expect(spec);
        Self { machine: Machine::new(&spec, 42).unwrap(), directory: directory() }
    }

    fn at(spec: &str, tick: u64) -> Self {
        let tree = Self::new(spec);
        tree.machine.write(tree.root(), tick, &tree.pids()).unwrap();
        tree
    }

    fn root(&self) -> &Path {
        self.directory.path()
    }

    fn pids(&self) -> Vec<Option<u32>> {
        (0..u32::try_from(self.machine.process_count()).unwrap()).map(|index| Some(1000 + index)).collect()
    }

    fn update(&self, tick: u64) {
        self.machine.write(self.root(), tick, &self.pids()).unwrap();
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn regions(&self) -> BTreeMap<u64, Region> {
        let mut regions = BTreeMap::new();
        for entry in fs::read_dir(self.root().join("dev/shm")).unwrap() {
            let entry = entry.unwrap();
            let id = unique_id_of(entry.file_name().to_str().unwrap()).unwrap();
            regions.insert(id, Region::parse(&fs::read(entry.path()).unwrap()).unwrap());
        }
        regions
    }

    /// Returns the path of a device's file through the class directory.
    fn path(&self, device: u32, row: &Attribute) -> PathBuf {
        let class = self.root().join(format!("sys/class/tenstorrent/tenstorrent!{device}"));
        let hwmon = class.join("device/hwmon");
        match row.folder {
            AttributeFolder::Class => class.join(row.file),
            AttributeFolder::Hwmon => fs::read_dir(hwmon).unwrap().next().unwrap().unwrap().path().join(row.file),
            AttributeFolder::Pci => class.join("device").join(row.file),
            AttributeFolder::Bridge => fs::canonicalize(class.join("device")).unwrap().parent().unwrap().join(row.file),
            AttributeFolder::Counters => class.join("pcie_perf_counters").join(row.file),
        }
    }

    fn read(&self, device: u32, attr: Attr) -> String {
        fs::read_to_string(self.path(device, attr.attribute())).unwrap()
    }

    fn number(&self, device: u32, attr: Attr) -> u64 {
        self.read(device, attr).trim_end().parse().unwrap()
    }
}

/// Returns every file below a directory with its contents, and links with their targets.
fn everything(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let below = path.strip_prefix(root).unwrap().to_owned();
            if path.is_symlink() {
                found.insert(below, fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes());
            } else if path.is_dir() {
                directories.push(path);
            } else {
                found.insert(below, fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Removes the wall clock from regions: the update time of the head and of each slot.
fn without_times(mut files: BTreeMap<PathBuf, Vec<u8>>) -> BTreeMap<PathBuf, Vec<u8>> {
    for (path, bytes) in &mut files {
        if path.starts_with("dev/shm") {
            bytes[8..16].fill(0);
            (0..63).for_each(|slot| bytes[856 + slot * 120 + 48..][..8].fill(0));
        }
    }
    files
}

#[test]
fn the_same_spec_seed_and_tick_make_the_same_bytes() {
    for spec in ["t3k,p300,buffers=7,fault=hot:1,fault=eio:0,fault=stale:2", "galaxy-bh"] {
        for tick in [0, 1, 12_345] {
            let (one, two) = (Tree::at(spec, tick), Tree::at(spec, tick));
            assert_eq!(without_times(everything(one.root())), without_times(everything(two.root())), "{spec} at {tick}");
        }
    }
}

#[test]
fn an_updated_tree_equals_a_fresh_one() {
    let spec = "n300x2,p150,fault=garbage:0@1-3,fault=gone:1@2-9,fault=stale:4@1,fault=reset:2@1";
    let moved = Tree::at(spec, 0);
    for tick in [1, 2, 3, 4, 8, 12, 13, 77, 5000] {
        moved.update(tick);
        assert_eq!(without_times(everything(moved.root())), without_times(everything(Tree::at(spec, tick).root())), "{tick}");
    }
}

#[test]
fn another_seed_is_another_machine() {
    let spec = Spec::parse("t3k").unwrap();
    let trees = [1, 2].map(|seed| {
        let directory = directory();
        Machine::new(&spec, seed).unwrap().write(directory.path(), 0, &[]).unwrap();
        everything(directory.path())
    });
    assert_ne!(trees[0], trees[1]);
}

/// The files are exactly those of this architecture and driver, and their values are within the model's bounds.
#[test]
fn files_are_those_of_the_driver_and_within_bounds() {
    for (board, locals) in BOARDS.into_iter().zip(LOCALS) {
        for spec in [board.to_owned(), format!("{board},idle"), format!("{board},procs=5,fault=hot:0,fault=throttle:{}", locals - 1)] {
            let tree = Tree::at(&spec, 0);
            let driver = Version::parse(tree.text("sys/module/tenstorrent/version").trim_end()).unwrap();
            for tick in [0, 1, 2, 3, 50, 400, 1777, 40_000, 123_456_789] {
                tree.update(tick);
                for device in 0..locals {
                    check_bounds(&tree, device, driver, &format!("{spec} at {tick}"));
                }
            }
        }
    }
}

fn check_bounds(tree: &Tree, device: u32, driver: Version, what: &str) {
    let pci_device = Attr::PciDevice.attribute().parse(&tree.read(device, Attr::PciDevice)).unwrap();
    let arch = Arch::from_pci_device(pci_device.number().unwrap()).unwrap();
    for row in ATTRIBUTES {
        let path = tree.path(device, row);
        let is_published = row.since_on(arch).is_some_and(|since| since <= driver);
        assert_eq!(path.exists(), is_published, "{what}: {}", path.display());
        if !is_published {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.ends_with('\n') && text.lines().count() == 1, "{what}: {} {text:?}", row.file);
        match row.parse(&text) {
            Ok(raw) => assert_eq!(row.check_bounds(&raw), Ok(()), "{what}: {} {text:?}", row.file),
            // A machine may have no NUMA node.
            Err(Missing::NoSource) if row.format == Format::DecimalOrNone => {}
            Err(reason) => panic!("{what}: {} {text:?}: {reason:?}", row.file),
        }
    }
    let fan = ATTRIBUTES.iter().find(|row| row.attr == Attr::Fan).unwrap();
    if arch == Arch::Blackhole {
        let has_fan = matches!(tree.read(device, Attr::CardType).trim_end(), "p100a" | "p150a" | "p300a");
        assert_eq!(fs::read_to_string(tree.path(device, fan)).unwrap() != "0\n", has_fan, "{what}");
    }
}

#[test]
fn an_n300_field_by_field() {
    let tree = Tree::at("n300", 0);
    assert_eq!(tree.text("sys/module/tenstorrent/version"), "2.9.0\n");
    let class = "sys/class/tenstorrent/tenstorrent!0";
    for (file, text) in [
        ("dev", "245:0\n"),
        ("uevent", "MAJOR=245\nMINOR=0\nDEVNAME=tenstorrent/0\n"),
        ("tt_card_type", "n300\n"),
        ("tt_fw_bundle_ver", "19.13.0.0\n"),
        ("tt_eth_fw_ver", "6.14.0\n"),
        ("device/vendor", "0x1e52\n"),
        ("device/device", "0x401e\n"),
        ("device/subsystem_vendor", "0x1e52\n"),
        ("device/subsystem_device", "0x0014\n"),
        ("device/class", "0x120000\n"),
        ("device/numa_node", "-1\n"),
        ("device/current_link_speed", "16.0 GT/s PCIe\n"),
        ("device/max_link_width", "16\n"),
        ("device/hwmon/hwmon0/name", "wormhole\n"),
        ("device/hwmon/hwmon0/temp1_label", "asic1_temp\n"),
        ("device/hwmon/hwmon0/in0_label", "vcore1\n"),
        ("device/hwmon/hwmon0/temp1_max", "75000\n"),
        ("device/hwmon/hwmon0/power1_max", "85000000\n"),
        ("device/../max_link_speed", "16.0 GT/s PCIe\n"),
    ] {
        assert_eq!(tree.text(&format!("{class}/{file}")), text, "{file}");
    }
    for absent in ["tt_therm_trip_count", "device/hwmon/hwmon0/fan1_input", "device/hwmon/hwmon0/fan1_label"] {
        assert!(!tree.root().join(class).join(absent).exists(), "{absent}");
    }
    assert!(!tree.root().join("dev/tenstorrent").exists());
    assert!(!tree.root().join(".ttmon-faults").exists());
    assert!(tree.text("proc/driver/tenstorrent/0/pids").lines().all(|line| line == "1000"));
}

#[test]
fn links_lead_to_the_device_from_both_sides() {
    for (board, locals) in BOARDS.into_iter().zip(LOCALS) {
        let tree = Tree::at(board, 0);
        let root = fs::canonicalize(tree.root()).unwrap();
        assert_eq!(fs::read_dir(root.join("sys/class/tenstorrent")).unwrap().count(), locals as usize);
        for device in 0..locals {
            let class = root.join(format!("sys/class/tenstorrent/tenstorrent!{device}"));
            for link in [&class, &class.join("device")] {
                assert!(fs::read_link(link).unwrap().is_relative(), "{}", link.display());
            }
            let device = fs::canonicalize(class.join("device")).unwrap();
            assert_eq!(fs::canonicalize(&class).unwrap().parent().unwrap().parent(), Some(device.as_path()));
            let bdf = device.file_name().unwrap().to_str().unwrap();
            assert!(bdf.parse::<Bdf>().is_ok(), "{bdf}");
            assert_eq!(fs::canonicalize(root.join("sys/bus/pci/devices").join(bdf)).unwrap(), device);
            assert!(device.parent().unwrap().join("max_link_width").exists());
        }
    }
}

#[test]
fn boards_have_their_own_look() {
    let p150 = Tree::at("p150", 0);
    assert_eq!(p150.text("sys/module/tenstorrent/version"), "2.10.0\n");
    assert_eq!((p150.read(0, Attr::CardType).as_str(), p150.read(0, Attr::LinkSpeed).as_str()), ("p150a\n", "32.0 GT/s PCIe\n"));
    assert_eq!((p150.number(0, Attr::PowerMax), p150.number(0, Attr::CurrentMax)), (150_000_000, 200_000));
    assert_eq!(p150.text("sys/class/tenstorrent/tenstorrent!0/device/hwmon/hwmon0/fan1_label"), "fan_rpm\n");

    let p300 = Tree::at("p300", 0);
    assert_eq!(p300.read(0, Attr::Serial), p300.read(1, Attr::Serial));
    assert_ne!(p300.read(0, Attr::AsicId), p300.read(1, Attr::AsicId));
    assert_eq!(p300.read(1, Attr::CardType), "p300c\n");

    let galaxy = Tree::at("galaxy-bh", 0);
    assert_eq!((galaxy.read(5, Attr::CardType).as_str(), galaxy.read(5, Attr::LinkWidth).as_str()), ("galaxy-blackhole\n", "8\n"));
    assert_eq!((galaxy.read(4, Attr::LinkWidth).as_str(), galaxy.read(4, Attr::NumaNode).as_str()), ("1\n", "-1\n"));
    let device = fs::canonicalize(galaxy.root().join("sys/class/tenstorrent/tenstorrent!5/device")).unwrap();
    assert_eq!(device.file_name().unwrap(), "0000:06:00.0");
    let serials: Vec<String> = (0..32).map(|device| galaxy.read(device, Attr::Serial)).collect();
    assert!(serials.iter().all(|serial| *serial == serials[0] && serial.starts_with("000004")), "{serials:?}");
}

#[test]
fn the_first_tick_is_alive() {
    let tree = Tree::at("t3k", 0);
    let idle = Tree::at("t3k,idle", 0);
    assert!(tree.number(0, Attr::Temperature) > idle.number(0, Attr::Temperature) + 5000);
    assert!(tree.number(0, Attr::Power) > idle.number(0, Attr::Power));
    assert_eq!((idle.number(0, Attr::Aiclk), idle.regions().len()), (500, 0));
    let used: u64 = tree.regions().values().map(|region| region.totals[Kind::Dram]).sum();
    assert!(used > 4 << 30, "{used}");
    // The third process holds a device and reports nothing.
    assert!(tree.text("proc/driver/tenstorrent/2/pids").starts_with("1002\n"));
    assert!(tree.regions().values().all(|region| region.slots.iter().all(|slot| slot.pid != 1002)));
}

/// Every region belongs to exactly one chip by the model's rules, and its totals are the sum of its slots.
#[test]
fn regions_are_those_of_the_chips() {
    for (board, locals) in BOARDS.into_iter().zip(LOCALS) {
        let tree = Tree::at(&format!("{board},procs=2"), 9);
        let hex = |text: String| u64::from_str_radix(text.trim_end(), 16).unwrap();
        let mut candidates = Vec::new();
        for device in 0..locals {
            let product = Product::by_card_type(tree.read(device, Attr::CardType).trim_end()).unwrap();
            let (asic_id, serial) = (hex(tree.read(device, Attr::AsicId)), hex(tree.read(device, Attr::Serial)));
            candidates.push((product, unique_id_candidates(Some(asic_id), Some(serial), product.local_chip, product.shares_serial)));
            for position in product.remote_chips {
                candidates.push((product, unique_id_candidates(None, Some(serial), Some(*position), product.shares_serial)));
            }
        }
        let regions = tree.regions();
        assert!(!regions.is_empty(), "{board}");
        for (id, region) in regions {
            let owners: Vec<_> = candidates.iter().filter(|(_, ids)| ids.contains(&id)).collect();
            let [(product, _)] = owners.as_slice() else { panic!("{board}: {id} belongs to {} chips", owners.len()) };
            assert_eq!(region.version, 3);
            for kind in Kind::ALL {
                let sum: u64 = region.slots.iter().map(|slot| slot.used[kind]).sum();
                assert_eq!(region.totals[kind], sum, "{board} {id} {kind:?}");
            }
            assert!(region.totals[Kind::Dram] + region.totals[Kind::Trace] < product.dram_bytes());
        }
    }
}

#[test]
fn remote_chips_have_memory_too() {
    let tree = Tree::at("n300x4,procs=4", 0);
    assert!(tree.regions().len() > 4, "{}", tree.regions().len());
}

#[test]
fn pids_go_and_slots_stay() {
    let tree = Tree::at("n150,procs=2", 0);
    let holders = tree.text("proc/driver/tenstorrent/0/pids");
    assert!(holders.starts_with("1001\n") && holders.contains("1000\n"), "{holders}");
    tree.machine.write(tree.root(), 1, &[None, Some(1001)]).unwrap();
    assert!(!tree.text("proc/driver/tenstorrent/0/pids").contains("1000"));
    let regions = tree.regions();
    let pids: Vec<u32> = regions.values().next().unwrap().slots.iter().map(|slot| slot.pid).collect();
    assert_eq!(pids, [1000, 1001]);
}

#[test]
fn counters_move_and_wrap() {
    let tree = Tree::at("n150", 0);
    let mut before = tree.number(0, Attr::HostPosted0);
    let (mut wraps, mut moved) = (0, 0);
    for tick in (20..8000).step_by(20) {
        tree.update(tick);
        let now = tree.number(0, Attr::HostPosted0);
        wraps += u32::from(now < before);
        moved += now.wrapping_sub(before) & 0xFFFF_FFFF;
        before = now;
    }
    assert!(wraps > 0, "no wrap in {moved} words");
    // The traffic of 2,000 s at a plausible rate.
    assert!((1_000_000_000..80_000_000_000).contains(&moved), "{moved}");
}

#[test]
fn hearts_beat_and_memory_moves() {
    for board in BOARDS {
        let tree = Tree::at(board, 0);
        let (heartbeat, regions) = (tree.number(0, Attr::Heartbeat), tree.regions());
        tree.update(4);
        assert_eq!(tree.number(0, Attr::Heartbeat), heartbeat + 10, "{board}");
        let moves = (5..200).any(|tick| {
            tree.update(tick);
            tree.regions().values().zip(regions.values()).any(|(now, then)| now.totals != then.totals)
        });
        assert!(moves, "{board}");
    }
}

#[test]
fn faults_in_values() {
    let tree = Tree::at("p150x3,fault=hot:0,fault=throttle:1@10", 0);
    assert!(tree.number(0, Attr::Temperature) >= 90_000);
    assert!(tree.number(1, Attr::Temperature) < 81_000);
    tree.update(40);
    assert!((87_000..87_600).contains(&tree.number(1, Attr::Temperature)));
    assert!(tree.number(1, Attr::Aiclk) < 1350);
    assert!(tree.number(2, Attr::Temperature) < 81_000);
}

#[test]
fn faults_in_files() {
    let tree = Tree::at("n150x2,fault=garbage:1@1", 0);
    assert_eq!(tree.read(1, Attr::CardType), "n150\n");
    tree.update(4);
    for (attr, text) in [
        (Attr::Temperature, "65535999\n"),
        (Attr::TemperatureMax, "4294966296\n"),
        (Attr::Power, "4293967296\n"),
        (Attr::Voltage, "4294967295\n"),
        (Attr::VoltageMax, "65535\n"),
        (Attr::Current, "4294966296\n"),
        (Attr::Aiclk, "4294967295\n"),
        (Attr::Heartbeat, "4294967295\n"),
        (Attr::Serial, "FFFFFFFFFFFFFFFF\n"),
        (Attr::CardType, "unknown\n"),
        (Attr::FirmwareEth, "255.15.4095\n"),
        (Attr::HostPosted0, "4294967295\n"),
        (Attr::PciDevice, "0x401e\n"),
    ] {
        assert_eq!(tree.read(1, attr), text, "{attr:?}");
    }
    assert_eq!(tree.read(0, Attr::CardType), "n150\n");
}

#[test]
fn faults_in_the_list_begin_in_time() {
    let tree = Tree::at("n150x3,fault=hang:1,fault=reset:2@5-6", 0);
    assert!(tree.text(".ttmon-faults").lines().all(|line| line.contains("tenstorrent!1/") && line.ends_with("\thang")));
    tree.update(20);
    let lines = tree.text(".ttmon-faults");
    assert!(lines.contains("sys/class/tenstorrent/tenstorrent!2/tt_heartbeat\tENODATA\n"), "{lines}");
    assert!(!lines.contains("label") && !lines.contains("hwmon2/name"), "{lines}");
    for line in lines.lines() {
        let path = line.split('\t').next().unwrap();
        assert!(tree.root().join(path).exists(), "{path}");
    }
    // The driver has no check for counters, so they read all ones during a reset.
    let counter = || Attr::HostPosted0.attribute().parse(&tree.read(2, Attr::HostPosted0)).unwrap();
    assert_eq!(counter(), Raw::Number(0xFFFF_FFFF));
    tree.update(24);
    assert!(!tree.text(".ttmon-faults").contains("ENODATA"));
    assert_ne!(counter(), Raw::Number(0xFFFF_FFFF));
}

/// Up to driver 2.8, reads do not fail during a reset, but return all ones.
#[test]
fn a_reset_on_an_old_driver_is_all_ones() {
    let tree = Tree::at("n150,driver=2.7,fault=reset:0", 0);
    assert_eq!(tree.text("sys/module/tenstorrent/version"), "2.7.0\n");
    for (attr, text) in [(Attr::Temperature, "4095937\n"), (Attr::PowerMax, "1110490560\n"), (Attr::Aiclk, "4294967295\n")] {
        assert_eq!(tree.read(0, attr), text, "{attr:?}");
    }
    assert_eq!(tree.text(".ttmon-faults"), "");
}

/// Some entries vanish while a device is gone, and return later.
#[test]
fn names_vanish_and_come_back() {
    for (kind, keeps_pci, keeps_module) in [("gone", true, true), ("unplug", false, true), ("unload", true, false)] {
        let tree = Tree::at(&format!("n150x2,fault={kind}:1@1-2"), 0);
        let whole = everything(tree.root());
        let pci = fs::canonicalize(tree.root().join("sys/class/tenstorrent/tenstorrent!1/device")).unwrap();
        tree.update(4);
        for name in
            ["sys/class/tenstorrent/tenstorrent!1", "proc/driver/tenstorrent/1", "sys/class/hwmon/hwmon0", "sys/kernel/debug/tenstorrent/1"]
        {
            assert!(fs::symlink_metadata(tree.root().join(name)).is_err(), "{kind}: {name}");
        }
        assert_eq!((pci.exists(), pci.join("driver").exists()), (keeps_pci, false), "{kind}");
        assert_eq!(tree.root().join("sys/module/tenstorrent").exists(), keeps_module, "{kind}");
        assert_eq!(tree.root().join("sys/class/tenstorrent/tenstorrent!0/tt_aiclk").exists(), keeps_module, "{kind}");
        tree.update(8);
        assert_eq!(everything(tree.root()).keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>(), "{kind}");
    }
    // Without its link, ttmon could not detect a device that is gone from the start.
    let tree = Tree::at("n150x2,fault=gone:1", 0);
    let class = tree.root().join("sys/class/tenstorrent/tenstorrent!1");
    assert!(fs::read_link(&class).is_ok() && !class.exists());
}

#[test]
fn firmware_that_is_not_ready_publishes_nothing() {
    let tree = Tree::at("n150,fault=starting:0@0-1", 0);
    let class = tree.root().join("sys/class/tenstorrent/tenstorrent!0");
    for (file, is_there) in [("dev", true), ("pcie_perf_counters/slv_rd_data_word_sent0", true), ("device/current_link_speed", true)] {
        assert_eq!(class.join(file).exists(), is_there, "{file}");
    }
    let names = |directory: &Path| fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    let has_telemetry = || names(&class).iter().any(|name| name.to_string_lossy().starts_with("tt_"));
    assert!(!has_telemetry() && !class.join("device/hwmon").exists());
    tree.update(4);
    assert!(has_telemetry() && class.join("device/hwmon/hwmon0/temp1_input").exists());
}

/// As on a real t3k, the second device got its sensors first.
#[test]
fn sensors_are_numbered_out_of_order() {
    let tree = Tree::at("t3k", 0);
    for (device, number) in [(0, 1), (1, 0), (2, 2), (3, 3)] {
        let path = format!("sys/class/tenstorrent/tenstorrent!{device}/device/hwmon/hwmon{number}/name");
        assert_eq!(tree.text(&path), "wormhole\n", "{device}");
        let listed = fs::canonicalize(tree.root().join(format!("sys/class/hwmon/hwmon{number}"))).unwrap();
        assert_eq!(listed, fs::canonicalize(tree.root().join(path)).unwrap().parent().unwrap());
    }
}

#[test]
fn a_link_whose_speed_the_kernel_does_not_know() {
    let tree = Tree::at("n150,fault=link:0", 0);
    assert_eq!((tree.read(0, Attr::LinkSpeedMax).as_str(), tree.read(0, Attr::LinkSpeed).as_str()), ("Unknown\n", "16.0 GT/s PCIe\n"));
}

#[test]
fn stale_slots_are_of_nobody_alive_and_in_idle_machines_too() {
    let tree = Tree::at("n300,idle,fault=stale:0,fault=stale:1@1", 0);
    assert_eq!(tree.regions().len(), 1);
    tree.update(4);
    let regions = tree.regions();
    assert_eq!(regions.len(), 2);
    for region in regions.values() {
        let [slot] = region.slots.as_slice() else { panic!("{region:?}") };
        assert!(slot.pid >= 1 << 22 && slot.used[Kind::Dram] > 0, "{slot:?}");
    }
}

#[test]
fn two_hundred_processes_share_one_chip() {
    let tree = Tree::at("n150,procs=200", 0);
    let regions = tree.regions();
    let region = regions.values().next().unwrap();
    assert_eq!((regions.len(), region.slots.len()), (1, 63));
    assert!(region.totals[Kind::Dram] < 12 << 30 && region.totals[Kind::L1] < 107_937_792);
    assert!(tree.text("proc/driver/tenstorrent/0/pids").lines().count() >= 200);
}
