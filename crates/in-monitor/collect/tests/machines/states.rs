//! Faults of a device and the resulting readings, each case separately.

use std::fs;

use ttmon_collect::reads::Sampling;
use ttmon_collect::{Error, Options};
use ttmon_model::attributes::{ATTRIBUTES, AttributeFolder, Format};
use ttmon_model::snapshot::State;
use ttmon_model::{Missing, Snapshot};

use crate::tree::{N300, Tree, device, n300};

const CLASS: &str = "sys/class/tenstorrent/tenstorrent!0";

/// The files of an n300 when the bus answers all ones.
const ALL_ONES: &str = "
    tt_aiclk	4294967295
    tt_axiclk	4294967295
    tt_arcclk	4294967295
    tt_heartbeat	4294967295
    tt_serial	FFFFFFFFFFFFFFFF
    tt_card_type	unknown
    tt_fw_bundle_ver	255.255.255.255
    device/hwmon/hwmon7/temp1_input	65535999
    device/hwmon/hwmon7/in0_input	4294967295
    device/hwmon/hwmon7/curr1_input	4294966296
    device/hwmon/hwmon7/power1_input	4293967296";

/// A second n300, which the faults of the first must not affect.
fn two() -> Tree {
    let tree = n300();
    tree.device(1, "0000:c2:00.0");
    tree.files(1, N300);
    tree.files(1, "tt_serial	0100014511722053");
    tree.pids(1, "");
    tree
}

fn check(fault: &str, state: State, reason: Missing) {
    let tree = two();
    tree.faults(&format!("{CLASS}\t{fault}\n"));
    let snapshot = tree.snapshot();
    let ill = device(&snapshot, 0);
    assert_eq!((ill.state, ill.temperature, ill.aiclk_mhz), (state, Err(reason), Err(reason)), "{fault}");
    let well = device(&snapshot, 1);
    assert_eq!((well.state, well.temperature.map(|value| value.0)), (State::Ok, Ok(54.312)), "{fault}");
}

#[test]
fn errors_of_the_whole_device() {
    check("ENODATA", State::Resetting, Missing::Resetting);
    check("ENODEV", State::Gone, Missing::Gone);
    check("EACCES", State::Unreadable, Missing::NoPermission);
    check("EIO", State::Unreadable, Missing::IoError);
    check("hang", State::Unreadable, Missing::Timeout);
}

#[test]
fn a_remote_chip_shares_the_fate_of_its_gateway() {
    let tree = n300();
    let files = ["tt_aiclk", "tt_axiclk", "tt_arcclk", "tt_heartbeat", "device/hwmon"];
    tree.faults(&files.map(|file| format!("{CLASS}/{file}\tENODATA\n")).concat());
    let snapshot = tree.snapshot();
    assert_eq!((device(&snapshot, 0).state, device(&snapshot, 1).state), (State::Resetting, State::Resetting));
}

#[test]
fn a_device_that_left_between_listing_and_reading() {
    let tree = two();
    fs::remove_dir_all(tree.path("sys/devices/pci0000:00/0000:00:01.0/0000:c1:00.0")).unwrap();
    let snapshot = tree.snapshot();
    assert_eq!((device(&snapshot, 0).state, device(&snapshot, 0).power), (State::Gone, Err(Missing::Gone)));
    assert_eq!(device(&snapshot, 0).bdf.map(|bdf| bdf.to_string()), Ok("0000:c1:00.0".to_owned()), "the class link has it");
    assert_eq!(device(&snapshot, 1).state, State::Ok);
}

/// A single file that hangs, is absent or has no data makes only one field missing.
#[test]
fn one_file_is_one_field() {
    let check = |fault: &str, reason: Missing| {
        let tree = n300();
        tree.faults(&format!("{CLASS}/tt_aiclk\t{fault}\n"));
        let snapshot = tree.snapshot();
        let device = device(&snapshot, 0);
        assert_eq!((device.state, device.aiclk_mhz), (State::Ok, Err(reason)), "{fault}");
        assert_eq!((device.temperature.map(|value| value.0), device.heartbeat), (Ok(54.312), Ok(17120)), "{fault}");
    };
    check("hang", Missing::Timeout);
    check("slow:60000", Missing::Timeout);
    check("ENOENT", Missing::NotExposed);
    check("ENODATA", Missing::NoSource);
    check("EIO", Missing::IoError);
    check("EACCES", Missing::NoPermission);
}

/// A dead bus answers all ones.
#[test]
fn a_dead_bus() {
    let tree = two();
    tree.files(0, ALL_ONES);
    let snapshot = tree.snapshot();
    let device = device(&snapshot, 0);
    assert_eq!(device.state, State::Unreadable);
    assert_eq!((device.temperature, device.heartbeat), (Err(Missing::OutOfRange), Err(Missing::OutOfRange)));
    assert_eq!(device.firmware, Err(Missing::NoSource));
    assert!(snapshot.problems.iter().any(|problem| problem.reason == Missing::OutOfRange));
}

/// The values that drivers up to 2.8 print for all ones on a Wormhole chip.
#[test]
fn a_dead_bus_with_an_old_driver_has_no_limits() {
    let tree = n300();
    tree.put("sys/module/tenstorrent/version", "2.6.0");
    tree.files(0, ALL_ONES);
    for (file, text) in [("temp1_input", "4095937"), ("temp1_max", "65535000"), ("curr1_input", "65535000"), ("curr1_max", "65535000")] {
        tree.files(0, &format!("device/hwmon/hwmon7/{file}\t{text}"));
    }
    tree.files(0, "device/hwmon/hwmon7/power1_input\t1110490560\ndevice/hwmon/hwmon7/power1_max\t1110490560");
    tree.files(0, "device/hwmon/hwmon7/in0_max\t65535");
    let snapshot = tree.snapshot();
    let device = device(&snapshot, 0);
    assert_eq!((device.state, device.power, device.power_limit), (State::Unreadable, Err(Missing::OutOfRange), Err(Missing::OutOfRange)));
    let limits = [device.temperature_limit.map(drop), device.current_limit.map(drop), device.voltage_limit.map(drop)];
    assert_eq!(limits, [Err(Missing::OutOfRange); 3]);
}

/// Each file fails with ENODEV, while the directories can still be listed.
#[test]
fn enodev_of_each_file_is_gone() {
    let tree = n300();
    let lines = N300.lines().map(str::trim).filter_map(|line| line.split('\t').next()).filter(|file| !file.is_empty());
    let faults: String = lines.map(|file| format!("{CLASS}/{file}\tENODEV\n")).collect();
    for when in ["from the start", "later"] {
        tree.faults(if when == "later" { "nothing\tEIO\n" } else { &faults });
        let mut machine = tree.machine();
        machine.sample().unwrap();
        tree.faults(&faults);
        let snapshot = Snapshot::derive(&machine.sample().unwrap(), None);
        let device = device(&snapshot, 0);
        assert_eq!((device.state, device.temperature, device.power), (State::Gone, Err(Missing::Gone), Err(Missing::Gone)), "{when}");
    }
}

/// A sensor of another driver below the device does not belong to the chip.
#[test]
fn sensors_of_another_driver_are_passed_over() {
    let tree = n300();
    tree.files(0, "device/hwmon/hwmon9/name\tnvme\ndevice/hwmon/hwmon9/temp1_input\t99000\ndevice/hwmon/hwmon9/temp1_max\t100000");
    let temperature = |snapshot: &Snapshot| device(snapshot, 0).temperature.map(|value| value.0);
    assert_eq!(temperature(&tree.snapshot()), Ok(54.312));
    fs::remove_dir_all(tree.path(&format!("{CLASS}/device/hwmon/hwmon7"))).unwrap();
    let snapshot = tree.snapshot();
    let device = device(&snapshot, 0);
    assert_eq!(
        (device.state, device.temperature, device.temperature_limit.map(drop)),
        (State::Ok, Err(Missing::NotExposed), Err(Missing::NotExposed))
    );
}

/// tt-kmd#213: a plausible temperature among impossible numbers. None of them is shown.
#[test]
fn a_sample_that_is_nonsense_as_a_whole() {
    let tree = n300();
    tree.files(
        0,
        "device/hwmon/hwmon7/temp1_input	54000
         device/hwmon/hwmon7/in0_input	3211313
         device/hwmon/hwmon7/curr1_input	3342387000
         device/hwmon/hwmon7/power1_input	4080218930",
    );
    let snapshot = tree.snapshot();
    let device = device(&snapshot, 0);
    assert_eq!(
        (device.state, device.temperature, device.aiclk_mhz),
        (State::Unreadable, Err(Missing::OutOfRange), Err(Missing::OutOfRange))
    );
    assert_eq!((device.board.as_deref(), device.pcie_width), (Ok("n300"), Ok(16)), "what does not come from telemetry stays");
}

#[test]
fn one_odd_sensor_is_only_that() {
    let tree = n300();
    tree.files(0, "device/hwmon/hwmon7/power1_input	4293967296");
    let snapshot = tree.snapshot();
    let device = device(&snapshot, 0);
    assert_eq!((device.state, device.power, device.temperature.map(|value| value.0)), (State::Ok, Err(Missing::OutOfRange), Ok(54.312)));
}

/// A class directory without telemetry, as on an early Galaxy. The device is present, but has no readings.
#[test]
fn no_telemetry_at_all() {
    let tree = Tree::new("2.4.0");
    tree.device(0, "0000:04:00.0");
    tree.files(0, "dev	240:0\nuevent	MAJOR=240\ndevice/device	0x401e");
    tree.pids(0, "");
    let snapshot = tree.snapshot();
    let device = device(&snapshot, 0);
    assert_eq!(
        (device.state, device.temperature, device.arch),
        (State::Unknown, Err(Missing::NotExposed), Ok(ttmon_model::Arch::Wormhole))
    );
}

/// The driver lists the chip and its counters. The firmware publishes neither `tt_*` files nor sensors yet.
#[test]
fn firmware_that_is_not_ready_is_starting() {
    let tree = Tree::new("2.9.0");
    tree.device(0, "0000:c1:00.0");
    let is_of_firmware = |line: &&str| line.trim().starts_with("tt_") || line.contains("hwmon");
    let (firmware, kernel): (Vec<&str>, Vec<&str>) = N300.lines().partition(is_of_firmware);
    tree.files(0, &kernel.join("\n"));
    tree.files(0, "device/subsystem_device\t0x0014");
    tree.pids(0, "");
    let mut machine = tree.machine();
    for _ in 0..2 {
        let snapshot = Snapshot::derive(&machine.sample().unwrap(), None);
        let device = device(&snapshot, 0);
        assert_eq!((device.state, device.temperature, device.aiclk_mhz), (State::Starting, Err(Missing::NoSource), Err(Missing::NoSource)));
        assert_eq!((device.pcie_width, device.serial.clone()), (Ok(16), Err(Missing::NoSource)));
        assert_eq!(device.therm_trip_count, Err(Missing::NotOnThisArch));
        assert_eq!(device.board.as_deref(), Ok("n300"));
        assert_eq!(device.health_reasons, ["the firmware does not answer yet; the driver waits up to 120 s for it"]);
    }
    tree.files(0, &firmware.join("\n"));
    let snapshot = Snapshot::derive(&machine.sample().unwrap(), None);
    assert_eq!((device(&snapshot, 0).state, device(&snapshot, 0).temperature.map(|value| value.0)), (State::Ok, Ok(54.312)));
}

/// The driver is loaded again before the firmware is ready.
#[test]
fn device_that_comes_back_starting_is_seen_at_once() {
    let tree = n300();
    let mut machine = tree.machine_with(Options { sampling: Sampling::Repeated, ..Options::default() });
    let mut state = || device(&Snapshot::derive(&machine.sample().unwrap(), None), 0).state;
    assert_eq!([state(), state(), state()], [State::Ok; 3]);
    let (entry, elsewhere) = (tree.path(CLASS), tree.path("sys/elsewhere"));
    fs::rename(&entry, &elsewhere).unwrap();
    assert_eq!(state(), State::Gone);
    fs::rename(&elsewhere, &entry).unwrap();
    for line in N300.lines().map(str::trim).filter(|line| line.starts_with("tt_")) {
        tree.remove(&format!("{CLASS}/{}", line.split('\t').next().unwrap()));
    }
    fs::remove_dir_all(tree.path(&format!("{CLASS}/device/hwmon"))).unwrap();
    assert_eq!(state(), State::Starting);
}

/// The driver checks for the firmware of a Blackhole only when it is loaded or after a reset.
#[test]
fn starting_blackhole_needs_the_driver_again() {
    let tree = Tree::new("2.9.0");
    tree.device(0, "0000:c1:00.0");
    let kernel: Vec<&str> = N300.lines().filter(|line| !line.trim().starts_with("tt_") && !line.contains("hwmon")).collect();
    tree.files(0, &kernel.join("\n"));
    tree.files(0, "device/device\t0xb140\ndevice/subsystem_device\t0x0040");
    tree.pids(0, "");
    let snapshot = tree.snapshot();
    let reason = "the firmware does not answer yet; a Blackhole needs the driver loaded again once it does";
    assert_eq!((device(&snapshot, 0).state, device(&snapshot, 0).health_reasons.join("")), (State::Starting, reason.to_owned()));
}

/// Each state in which a device cannot be read has a reason.
#[test]
fn devices_that_cannot_be_read_have_a_reason() {
    for (fault, reason) in [
        ("ENODATA", "the chip is being reset"),
        ("ENODEV", "unplugged, unbound, or the driver was unloaded"),
        ("EACCES", "cannot be read: this user may not read it"),
        ("EIO", "cannot be read: the kernel answered with an error"),
    ] {
        let tree = n300();
        tree.faults("nothing\tEIO\n");
        let mut machine = tree.machine();
        machine.sample().unwrap();
        tree.faults(&format!("{CLASS}\t{fault}\n"));
        let snapshot = Snapshot::derive(&machine.sample().unwrap(), None);
        assert_eq!(device(&snapshot, 0).health_reasons, [reason], "{fault}");
        let expected: &[&str] = match fault {
            "ENODATA" => &["reached through device 0, which is resetting"],
            "ENODEV" => &["reached through device 0, which is gone"],
            _ => &[],
        };
        assert_eq!(device(&snapshot, 1).health_reasons, expected, "{fault}");
    }
}

/// A known chip keeps its identity while its bus answers all ones and while its firmware starts.
#[test]
fn identity_outlasts_all_ones_and_a_start() {
    let tree = n300();
    let mut machine = tree.machine();
    let before = Snapshot::derive(&machine.sample().unwrap(), None);
    let check = |snapshot: &Snapshot, state: State| {
        let (was, is) = (device(&before, 0), device(snapshot, 0));
        assert_eq!((is.state, snapshot.devices.len()), (state, before.devices.len()));
        assert_eq!((&is.board, &is.serial, &is.firmware), (&was.board, &was.serial, &was.firmware), "{state:?}");
    };
    tree.files(0, ALL_ONES);
    check(&Snapshot::derive(&machine.sample().unwrap(), None), State::Unreadable);
    // After a reload, the driver removes its files until the firmware is ready.
    for line in N300.lines().map(str::trim).filter(|line| line.starts_with("tt_")) {
        tree.remove(&format!("{CLASS}/{}", line.split('\t').next().unwrap()));
    }
    fs::remove_dir_all(tree.path(&format!("{CLASS}/device/hwmon"))).unwrap();
    check(&Snapshot::derive(&machine.sample().unwrap(), None), State::Starting);
    tree.files(0, N300);
    check(&Snapshot::derive(&machine.sample().unwrap(), None), State::Ok);
}

/// Replaces each file by an empty one, a truncated one, binary data, and a megabyte. That field is missing and a problem is reported.
/// Everything else is unchanged.
#[test]
fn any_file_may_be_rubbish() {
    let rubbish: [(&str, Vec<u8>); 4] =
        [("empty", vec![]), ("cut", b"0x".to_vec()), ("binary", vec![0xFF, 0x00, 0x1B, 0x80]), ("long", vec![b'7'; 1 << 20])];
    let tree = n300();
    let machine = || tree.machine_with(Options { sampling: Sampling::Repeated, ..Options::default() });
    let whole = machine().sample().unwrap();
    for attribute in ATTRIBUTES.iter().filter(|attribute| attribute.folder != AttributeFolder::Bridge) {
        let directory = match attribute.folder {
            AttributeFolder::Class => CLASS.to_owned(),
            AttributeFolder::Hwmon => format!("{CLASS}/device/hwmon/hwmon7"),
            AttributeFolder::Pci => format!("{CLASS}/device"),
            AttributeFolder::Counters => format!("{CLASS}/pcie_perf_counters"),
            AttributeFolder::Bridge => unreachable!(),
        };
        let file = format!("{directory}/{}", attribute.file);
        let Ok(original) = fs::read(tree.path(&file)) else { continue };
        // A truncated word is still a valid word.
        let is_word = attribute.format == Format::Word;
        for (what, bytes) in rubbish.iter().filter(|(what, _)| !(is_word && *what == "cut")) {
            tree.put_bytes(&file, bytes);
            let mut sample = machine().sample().unwrap();
            let case = format!("{what} {file}");
            assert!(sample.devices[0].attributes.get(attribute.attr).is_err(), "{case}");
            assert!(sample.problems.iter().any(|problem| problem.part.ends_with(attribute.file)), "{case}: {:?}", sample.problems);
            sample.devices[0].attributes.set(attribute.attr, whole.devices[0].attributes.get(attribute.attr).cloned());
            assert_eq!(sample.devices, whole.devices, "{case}: the rest");
        }
        tree.put_bytes(&file, &original);
    }
}

#[test]
fn rubbish_in_the_list_of_users() {
    for bytes in [&b"x\n"[..], &[0xFF; 300], &[b'9'; 1000]] {
        let tree = n300();
        tree.put_bytes("proc/driver/tenstorrent/0/pids", bytes);
        let snapshot = tree.snapshot();
        assert_eq!(device(&snapshot, 0).memory.dram.used, Err(Missing::Unparsable));
        assert_eq!((device(&snapshot, 0).state, snapshot.problems.len()), (State::Ok, 1));
    }
}

#[test]
fn no_device_says_which_it_is() {
    let tree = Tree::new("2.9.0");
    assert!(matches!(tree.machine().sample(), Err(Error::NoDevice)));
    fs::remove_dir(tree.path("sys/class/tenstorrent")).unwrap();
    assert!(matches!(tree.machine().sample(), Err(Error::NoDevice)));
    tree.put("sys/devices/pci0000:00/0000:00:02.0/vendor", "0x1e52");
    std::os::unix::fs::symlink("../../../devices/pci0000:00/0000:00:02.0", tree.path("sys/bus/pci/devices/0000:00:02.0")).unwrap();
    let unbound = tree.machine().sample().unwrap_err();
    assert!(matches!(unbound, Error::DriverNotLoaded { devices: 1, is_loaded: true }) && unbound.to_string().contains("has none of them"));
    fs::remove_dir_all(tree.path("sys/module/tenstorrent")).unwrap();
    assert!(matches!(tree.machine().sample(), Err(Error::DriverNotLoaded { devices: 1, is_loaded: false })));
    let tree = n300();
    tree.faults("sys/class/tenstorrent\tEACCES\n");
    assert!(matches!(tree.machine().sample(), Err(Error::Class(_))));
}

/// The limits are read again after a reset, because they may have changed with the firmware.
#[test]
fn limits_are_read_again_after_a_reset() {
    let tree = n300();
    let mut machine = tree.machine();
    machine.sample().unwrap();
    tree.faults(&format!("{CLASS}\tENODATA\n"));
    machine.sample().unwrap();
    tree.faults("");
    tree.files(0, "device/hwmon/hwmon7/temp1_max	80000");
    let snapshot = Snapshot::derive(&machine.sample().unwrap(), None);
    assert_eq!(device(&snapshot, 0).temperature_limit.map(|value| value.0), Ok(80.0));
}

/// The identity of a chip does not change while the chip does not answer. The chips behind it also stay.
#[test]
fn identity_outlasts_silence() {
    for (fault, state, reason) in [
        ("hang", State::Unreadable, Missing::Timeout),
        ("EIO", State::Unreadable, Missing::IoError),
        ("ENODATA", State::Resetting, Missing::Resetting),
        ("ENODEV", State::Gone, Missing::Gone),
    ] {
        let tree = n300();
        tree.faults("nothing\thang\n");
        let mut machine = tree.machine();
        let before = Snapshot::derive(&machine.sample().unwrap(), None);
        tree.faults(&format!("{CLASS}\t{fault}\n"));
        for _ in 0..3 {
            let now = Snapshot::derive(&machine.sample().unwrap(), None);
            assert_eq!(now.devices.len(), before.devices.len(), "{fault}");
            let (was, is) = (device(&before, 0), device(&now, 0));
            assert_eq!((is.state, is.temperature), (state, Err(reason)), "{fault}");
            assert_eq!((&is.board, &is.arch, &is.serial, is.metal_id), (&was.board, &was.arch, &was.serial, was.metal_id), "{fault}");
            assert_eq!((&is.firmware, is.memory.dram.total), (&was.firmware, was.memory.dram.total), "{fault}");
        }
    }
}

/// A device of unknown kind may have had remote chips, so the ids of later remote chips may be different.
#[test]
fn an_unknown_device_before_a_gateway_makes_ids_unstable() {
    let tree = two();
    let is_said =
        |snapshot: &Snapshot| snapshot.problems.iter().any(|problem| problem.detail.contains("ids of remote chips are not stable"));
    assert!(!is_said(&tree.snapshot()));
    fs::remove_dir_all(tree.path("sys/devices/pci0000:00/0000:00:01.0/0000:c1:00.0")).unwrap();
    let snapshot = tree.snapshot();
    assert!(device(&snapshot, 0).board.is_err() && is_said(&snapshot), "{:?}", snapshot.problems);
    let tree = two();
    fs::remove_dir_all(tree.path("sys/devices/pci0000:00/0000:00:01.0/0000:c2:00.0")).unwrap();
    assert!(!is_said(&tree.snapshot()), "the last one");
}

/// Counters read all ones during a reset of the chip.
#[test]
fn counters_out_of_range_during_a_reset_are_of_the_reset() {
    let tree = n300();
    let files = ["tt_aiclk", "tt_axiclk", "tt_arcclk", "tt_heartbeat", "device/hwmon"];
    tree.faults(&files.map(|file| format!("{CLASS}/{file}\tENODATA\n")).concat());
    let counters = fs::read_dir(tree.path("sys/class/tenstorrent/tenstorrent!0/pcie_perf_counters")).unwrap();
    let all_ones = |file: fs::DirEntry| format!("pcie_perf_counters/{}\t4294967295", file.file_name().to_string_lossy());
    tree.files(0, &counters.flatten().map(all_ones).collect::<Vec<_>>().join("\n"));
    let snapshot = tree.snapshot();
    let device = device(&snapshot, 0);
    assert_eq!((device.state, device.pcie_to_device_bytes_per_s), (State::Resetting, Err(Missing::Resetting)));
}
