//! Real boards, field by field.

use std::time::Duration;

use ttmon_collect::reads::Sampling;
use ttmon_collect::{Options, read_cluster};
use ttmon_model::attributes::{FROM_DEVICE, TO_DEVICE};
use ttmon_model::fields::{DEVICE, Value};
use ttmon_model::snapshot::{Health, State};
use ttmon_model::{Arch, Missing, Reading, Snapshot};
use ttmon_testing::until;

use crate::tree::{GALAXY_CHIP, N300, Tree, device, galaxy_chip, n300};

/// Checks fields of a device. `expected` has lines `field value`, or `field !reason` for a missing value.
pub(crate) fn check(snapshot: &Snapshot, id: u32, expected: &str) {
    let device = device(snapshot, id);
    for line in expected.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, text) = line.split_once(' ').unwrap();
        let field = DEVICE.iter().find(|field| field.name == name).unwrap_or_else(|| panic!("no field {name}"));
        assert_eq!(shown((field.get)(device)), text.trim(), "device {id}, {name}");
    }
}

fn shown(reading: Reading<Value>) -> String {
    match reading {
        Ok(Value::Text(text)) => text,
        Ok(Value::Integer(number)) => number.to_string(),
        Ok(Value::Float(number)) => number.to_string(),
        Ok(Value::Bool(flag)) => flag.to_string(),
        Ok(Value::List(list)) => list.join("; "),
        Ok(Value::Numbers(numbers)) => format!("{numbers:?}"),
        Ok(Value::Time(time)) => time.rfc3339(),
        Err(reason) => format!("!{reason}"),
    }
}

#[test]
fn an_n300_with_driver_2_9() {
    let tree = n300();
    tree.pids(0, "4242\n4242\n977\n");
    let snapshot = tree.snapshot();
    assert_eq!(snapshot.driver.as_deref(), Ok("2.9.0"));
    assert_eq!(snapshot.problems, []);
    assert_eq!(snapshot.devices.len(), 2);
    check(
        &snapshot,
        0,
        "id 0
         metal_id 0
         name Wormhole_B0
         arch wormhole
         board n300
         chip L
         location local
         via !no_source
         bdf 0000:c1:00.0
         asic_id !not_exposed
         unique_id !no_source
         serial 010001451172208F
         numa_node 1
         state ok
         health ok
         temperature 54.312
         temperature_limit 75
         board_temperature !needs_deep
         fan_rpm !not_on_this_arch
         power 12
         power_limit 100
         board_power !needs_deep
         voltage 0.795
         voltage_limit 1
         current 16
         current_limit 240
         aiclk_mhz 500
         axiclk_mhz 900
         arcclk_mhz 540
         aiclk_limit_mhz 1000
         utilization !needs_deep
         heartbeat 17120
         heartbeat_alive !first_sample
         therm_trip_count !not_on_this_arch
         pcie_gen 4
         pcie_width 16
         pcie_gen_max 4
         pcie_width_max 16
         pcie_to_device_bytes_per_s !first_sample
         pcie_from_device_words_per_s !first_sample
         firmware 18.4.0.0
         m3_fw 5.12.0.0
         m3_bl_fw 129.2.0.0
         arc_fw 2.32.0.0
         eth_fw 6.14.0
         tt_flash 0.3.2.0
         memory.total 12884901888
         memory.used !not_tracked
         memory.free !not_tracked
         memory.untracked_processes 2
         memory.hidden_processes 0",
    );
    check(
        &snapshot,
        1,
        "metal_id 1
         board n300
         chip R
         location remote
         via 0
         bdf !remote_chip
         serial 010001451172208F
         state unknown
         health unknown
         temperature !remote_chip
         power !remote_chip
         aiclk_mhz !remote_chip
         heartbeat !remote_chip
         firmware !remote_chip
         memory.total 12884901888",
    );
    assert_eq!(device(&snapshot, 0).memory.l1.total, Ok(64 * 1_499_136));
    let pids: Vec<u32> = snapshot.processes.iter().map(|process| process.key.pid).collect();
    assert_eq!(pids, [977, 4242]);
}

#[test]
fn a_blackhole_galaxy_chip_with_driver_2_10() {
    let snapshot = galaxy_chip().snapshot();
    assert_eq!(snapshot.problems, []);
    assert_eq!(snapshot.devices.len(), 1);
    check(
        &snapshot,
        5,
        "metal_id 0
         name Blackhole
         arch blackhole
         board galaxy-blackhole
         chip !no_source
         location local
         bdf 0000:06:00.0
         asic_id 3B0DF29034ED9B6C
         serial 0000047131831011
         numa_node !no_source
         state ok
         health ok
         temperature 42.138
         temperature_limit 90
         fan_rpm !no_source
         power 37
         power_limit 130
         voltage 0.744
         voltage_limit 0.9
         current 51
         current_limit 500
         aiclk_mhz 800
         axiclk_mhz 960
         arcclk_mhz 800
         aiclk_limit_mhz 1350
         heartbeat 404985
         therm_trip_count 0
         pcie_gen 4
         pcie_width 8
         pcie_gen_max 5
         pcie_width_max 8
         pcie_to_device_bytes_per_s !not_exposed
         firmware 19.5.0.0
         m3_fw 0.0.0.0
         m3_bl_fw !not_on_this_arch
         arc_fw !not_on_this_arch
         eth_fw !not_on_this_arch
         tt_flash !not_on_this_arch
         memory.total 34225520640
         memory.used 0
         memory.untracked_processes 0",
    );
    assert_eq!(device(&snapshot, 5).memory.l1.total, Ok(130 * 1_572_864));
}

type GalaxyRow = (&'static str, &'static str, u64, u64, u64, u64, u64, u64, u64, u64);

/// A whole Galaxy with measured values.
const GALAXY: &[GalaxyRow] = &[
    // Address, asic id, temperature (16.16 degrees), mV, W, A, AI clock, heartbeat, PCIe generation and width.
    ("0000:01:00.0", "30DA68D3319CDF5F", 0x2d682a, 738, 39, 53, 800, 404985, 4, 1),
    ("0000:02:00.0", "0AFA174E22393EA0", 0x28ba82, 739, 32, 44, 800, 404986, 4, 1),
    ("0000:03:00.0", "C722C9EF5253BCAA", 0x28db52, 744, 17, 24, 800, 404982, 4, 1),
    ("0000:04:00.0", "5F1058858D9E9A28", 0x2dca9a, 739, 36, 49, 800, 404987, 4, 1),
    ("0000:05:00.0", "38A62485910F7598", 0x295e92, 737, 38, 52, 800, 404983, 4, 1),
    ("0000:06:00.0", "3B0DF29034ED9B6C", 0x2a2372, 744, 37, 51, 800, 404985, 4, 8),
    ("0000:07:00.0", "470E750FE3463989", 0x29a032, 744, 17, 24, 800, 404984, 4, 1),
    ("0000:08:00.0", "2EE8B99A700A32F4", 0x28894a, 744, 16, 22, 800, 404984, 4, 1),
    ("0000:41:00.0", "BC2704C46388DC72", 0x2e4dda, 738, 42, 57, 800, 404984, 4, 1),
    ("0000:42:00.0", "3BBBC6003117FBE1", 0x28ebba, 739, 36, 49, 800, 404985, 4, 1),
    ("0000:43:00.0", "01C2B9A058A60566", 0x2b198a, 739, 35, 48, 800, 404982, 4, 1),
    ("0000:44:00.0", "701FAAAB606F3F29", 0x2cb3b2, 737, 39, 53, 800, 404987, 4, 1),
    ("0000:45:00.0", "AE417056353A8F9C", 0x2a757a, 738, 36, 49, 800, 404987, 4, 1),
    ("0000:46:00.0", "3E58F3FAC0C22E55", 0x28ebba, 744, 16, 22, 800, 404984, 4, 8),
    ("0000:47:00.0", "09D5D96FEED74C01", 0x295e92, 744, 18, 25, 800, 404986, 4, 1),
    ("0000:48:00.0", "F3BF945ADCD2B7EF", 0x2b198a, 740, 34, 47, 800, 404984, 4, 1),
    ("0000:81:00.0", "5CFE507342CFE4E1", 0x28894a, 745, 16, 22, 800, 404983, 4, 1),
    ("0000:82:00.0", "FF51A2A223203905", 0x292d5a, 744, 36, 49, 800, 404985, 4, 1),
    ("0000:83:00.0", "8D27D7ECE45D68F6", 0x2a4442, 743, 17, 24, 800, 404983, 4, 1),
    ("0000:84:00.0", "EF2552B490FF9ACC", 0x2c0fa2, 738, 39, 53, 800, 404982, 4, 1),
    ("0000:85:00.0", "443A0B5429C8374C", 0x2a757a, 744, 20, 27, 800, 404986, 4, 1),
    ("0000:86:00.0", "E2505C71EB8D9097", 0x2beed2, 737, 38, 52, 800, 404986, 4, 8),
    ("0000:87:00.0", "4300DE24B9034C67", 0x2a757a, 739, 36, 50, 800, 404990, 4, 1),
    ("0000:88:00.0", "C4AC0BA646891F5B", 0x27f5a2, 745, 15, 21, 800, 404983, 4, 1),
    ("0000:c1:00.0", "942A743E637088A4", 0x2ad7ea, 739, 32, 44, 800, 404985, 4, 1),
    ("0000:c2:00.0", "C589861878AF4F3E", 0x2cd482, 739, 35, 48, 800, 404982, 4, 1),
    ("0000:c3:00.0", "D8F9FFDC3D1B9F23", 0x2a4442, 744, 17, 23, 800, 404985, 4, 1),
    ("0000:c4:00.0", "EA25C6DBAB35C1CA", 0x2af8ba, 740, 34, 46, 800, 404984, 4, 1),
    ("0000:c5:00.0", "9019D0F85C61FF49", 0x2deb6a, 739, 37, 51, 800, 404988, 4, 1),
    ("0000:c6:00.0", "89F9D5C722A507E9", 0x2847aa, 744, 16, 22, 800, 404985, 4, 8),
    ("0000:c7:00.0", "A4D189D2740A2F25", 0x293dc2, 745, 17, 23, 800, 404985, 4, 1),
    ("0000:c8:00.0", "1092E6D0DBD47817", 0x27e53a, 745, 36, 49, 800, 404984, 4, 1),
];

#[test]
fn a_whole_blackhole_galaxy() {
    let tree = Tree::new("2.8.0");
    for (n, (bdf, asic, temperature, millivolts, watts, amperes, aiclk, heartbeat, generation, width)) in (0..).zip(GALAXY) {
        tree.device(n, bdf);
        tree.files(n, GALAXY_CHIP);
        let speed = if *generation == 4 { "16.0" } else { "32.0" };
        tree.files(
            n,
            &format!(
                "tt_asic_id\t{asic}\ntt_aiclk\t{aiclk}\ntt_heartbeat\t{heartbeat}\ndevice/current_link_speed\t{speed} GT/s PCIe
                 device/current_link_width\t{width}\ndevice/hwmon/hwmon11/temp1_input\t{}\ndevice/hwmon/hwmon11/in0_input\t{millivolts}
                 device/hwmon/hwmon11/power1_input\t{}\ndevice/hwmon/hwmon11/curr1_input\t{}",
                temperature * 1000 / 65536,
                watts * 1_000_000,
                amperes * 1000
            ),
        );
        tree.pids(n, "");
    }
    let snapshot = tree.snapshot();
    assert_eq!((snapshot.devices.len(), snapshot.problems.len()), (32, 0));
    for (n, (bdf, asic, temperature, millivolts, watts, amperes, aiclk, heartbeat, generation, width)) in (0..).zip(GALAXY) {
        let millidegrees = temperature * 1000 / 65536;
        check(
            &snapshot,
            n,
            &format!(
                "bdf {bdf}\nasic_id {asic}\ntemperature {}\nvoltage {}\npower {watts}\ncurrent {amperes}\naiclk_mhz {aiclk}
                 heartbeat {heartbeat}\npcie_gen {generation}\npcie_width {width}\nmetal_id {n}\nhealth ok\nstate ok\nmemory.used 0",
                millidegrees as f64 / 1000.0,
                *millivolts as f64 / 1000.0
            ),
        );
    }
}

/// Four n300 whose order on the bus differs from that in /dev. The ids follow /dev, the metal ids follow the bus.
#[test]
fn a_quietbox_of_four_n300() {
    let tree = Tree::new("2.9.0");
    let boards = [
        ("0000:c1:00.0", "010001451172208F"),
        ("0000:01:00.0", "0100014511722053"),
        ("0000:02:00.0", "010001451172209C"),
        ("0000:41:00.0", "0100014511722058"),
    ];
    for (n, (bdf, serial)) in (0..).zip(boards) {
        tree.device(n, bdf);
        tree.files(n, N300);
        tree.files(n, &format!("tt_serial\t{serial}"));
        tree.pids(n, "");
    }
    let snapshot = tree.snapshot();
    assert_eq!(snapshot.devices.len(), 8);
    for (n, metal_id) in [(0, 3), (1, 0), (2, 1), (3, 2)] {
        check(&snapshot, n, &format!("metal_id {metal_id}\nbdf {}\nchip L", boards[n as usize].0));
        check(&snapshot, n + 4, &format!("via {n}\nserial {}\nchip R\nstate unknown\nmetal_id !no_source", boards[n as usize].1));
    }
}

#[test]
fn a_cluster_descriptor_wins() {
    let tree = Tree::new("2.9.0");
    tree.device(1, "0000:41:00.0");
    tree.files(1, N300);
    tree.pids(1, "");
    tree.put(
        "cluster.yaml",
        "arch:\n  0: wormhole_b0\n  1: wormhole_b0\nchip_unique_ids:\n  1: 14251245764\n  0: 9956278468\nchips_with_mmio:\n  - 0: 1
boards:\n  -\n    - board_id: 72058990194901188\n    - board_type: n300\n    \
- chips:\n        - 1\n        - 0\nasic_locations:\n  0: 0\n  1: 1",
    );
    let cluster = Some(read_cluster(&tree.path("cluster.yaml")).unwrap());
    let sample = tree.machine_with(Options { cluster, ..Options::default() }).sample().unwrap();
    let snapshot = Snapshot::derive(&sample, None);
    check(&snapshot, 1, "metal_id 0\nunique_id 9956278468\nchip L");
    check(&snapshot, 2, "metal_id 1\nunique_id 14251245764\nchip R\nvia 1\nboard n300");
}

/// Early drivers print no card type for Blackhole, so the PCI subsystem id is used. Drivers before 2.9 publish no limits.
#[test]
fn an_old_driver() {
    let tree = Tree::new("2.0.0");
    tree.device(0, "0000:01:00.0");
    tree.files(
        0,
        "device/device	0xb140\ndevice/subsystem_device	0x0036\ndevice/hwmon/hwmon2/name	blackhole\ndevice/hwmon/hwmon2/temp1_input	44900",
    );
    tree.pids(0, "");
    let snapshot = tree.snapshot();
    let problems: Vec<_> =
        snapshot.problems.iter().map(|problem| (problem.part.as_str(), problem.reason, problem.detail.as_str())).collect();
    let detail = "the driver prints no card type; the board's name is that of PCI subsystem 0x0036";
    assert_eq!(problems, [("device 0", Missing::NotExposed, detail)]);
    check(
        &snapshot,
        0,
        "board p100\narch blackhole\nstate ok\nhealth unknown\ntemperature 44.9\ntemperature_limit !not_exposed\nheartbeat !not_exposed",
    );
}

/// Two hwmon directories below one device were seen after a reset. The newest readable one is used.
#[test]
fn two_hwmon_directories() {
    let tree = n300();
    tree.files(0, "device/hwmon/hwmon10/temp1_input	33800\ndevice/hwmon/hwmon10/name	wormhole");
    assert_eq!(device(&tree.snapshot(), 0).temperature.map(|value| value.0), Ok(33.8));
    tree.remove("sys/class/tenstorrent/tenstorrent!0/device/hwmon/hwmon10/temp1_input");
    tree.remove("sys/class/tenstorrent/tenstorrent!0/device/hwmon/hwmon10/name");
    assert_eq!(device(&tree.snapshot(), 0).temperature.map(|value| value.0), Ok(54.312));
}

#[test]
fn health_by_the_limits_of_the_device() {
    let check = |millidegrees: u64, milliamperes: u64, health: Health, reason: &str| {
        let tree = n300();
        tree.files(0, &format!("device/hwmon/hwmon7/temp1_input	{millidegrees}\ndevice/hwmon/hwmon7/curr1_input	{milliamperes}"));
        let snapshot = tree.snapshot();
        assert_eq!((device(&snapshot, 0).health, device(&snapshot, 0).health_reasons.join(";")), (health, reason.to_owned()));
    };
    check(67_000, 16_000, Health::Ok, "");
    check(67_500, 16_000, Health::Warning, "temperature 68 of 75 °C");
    check(75_000, 16_000, Health::Critical, "temperature 75 of 75 °C");
    check(50_000, 239_000, Health::Warning, "current 239 of 240 A");
    check(50_000, 240_000, Health::Critical, "current 240 of 240 A");
}

/// A chip with a low clock is throttling only if it is in use, and only if its temperature or power is at the limit.
#[test]
fn throttling_needs_load_a_low_clock_and_a_limit() {
    let check = |pids: &str, mhz: u64, millidegrees: u64, watts: u64, expected: Option<&str>| {
        let tree = n300();
        tree.pids(0, pids);
        tree.files(
            0,
            &format!("tt_aiclk	{mhz}\ndevice/hwmon/hwmon7/temp1_input	{millidegrees}\ndevice/hwmon/hwmon7/power1_input	{watts}000000"),
        );
        let snapshot = tree.snapshot();
        let found = device(&snapshot, 0).health_reasons.iter().find(|reason| reason.starts_with("throttling"));
        let case = format!("{pids:?} {mhz} MHz {millidegrees} m°C {watts} W");
        assert_eq!(found.map(String::as_str), expected, "{case}");
        assert!(expected.is_none() || device(&snapshot, 0).health >= Health::Warning, "{case}");
    };
    check("4242\n", 800, 72_000, 40, Some("throttling: AI clock 800 of 1000 MHz at the temperature limit"));
    check("4242\n", 800, 54_000, 96, Some("throttling: AI clock 800 of 1000 MHz at the power limit"));
    check("4242\n", 800, 54_000, 40, None);
    check("4242\n", 800, 69_000, 40, None);
    check("4242\n", 1000, 74_000, 99, None);
    check("4242\n", 960, 74_000, 99, None);
    check("", 500, 74_000, 40, None);
}

#[test]
fn a_narrow_link_matters_while_the_device_is_used() {
    let tree = n300();
    tree.files(0, "device/current_link_width	4");
    assert_eq!(device(&tree.snapshot(), 0).health, Health::Ok);
    tree.pids(0, "4242\n");
    assert_eq!(device(&tree.snapshot(), 0).health_reasons, ["PCIe link x4 of x16"]);
    tree.put("sys/devices/pci0000:00/0000:00:01.0/max_link_width", "4");
    assert_eq!(device(&tree.snapshot(), 0).health, Health::Ok, "the slot has no more");
}

#[test]
fn rates_need_two_samples_and_survive_the_wrap() {
    let tree = n300();
    let mut machine = tree.machine_with(Options { sampling: Sampling::Repeated, ..Options::default() });
    let before = machine.sample().unwrap();
    tree.files(
        0,
        "pcie_perf_counters/mst_posted_wr_data_word_sent0	704
         pcie_perf_counters/mst_posted_wr_data_word_sent1	1120
         tt_heartbeat	17121",
    );
    let mut now = machine.sample().unwrap();
    now.devices[0].counted.as_mut().unwrap().elapsed = Duration::from_secs(2);
    let snapshot = Snapshot::derive(&now, Some(&before));
    // In 2 s, NoC 0 sent 2^32 - 4294960000 + 704 words and NoC 1 sent 1000, of 32 bytes each.
    let bytes = (7296 + 704 + 1000) * 32 / 2;
    check(&snapshot, 0, &format!("pcie_to_device_bytes_per_s {bytes}\npcie_from_device_bytes_per_s 0\nheartbeat_alive true"));

    tree.files(0, "pcie_perf_counters/mst_posted_wr_data_word_sent0	4294967295\ntt_heartbeat	3");
    let reset = machine.sample().unwrap();
    check(&Snapshot::derive(&reset, Some(&before)), 0, "pcie_to_device_bytes_per_s !first_sample");
}

/// The sum of the other counters would be too low.
#[test]
fn a_direction_with_an_unreadable_counter_has_no_rate() {
    let tree = n300();
    tree.files(0, "pcie_perf_counters/mst_posted_wr_data_word_sent1	nonsense");
    let mut machine = tree.machine_with(Options { sampling: Sampling::Repeated, ..Options::default() });
    let before = machine.sample().unwrap();
    let mut now = machine.sample().unwrap();
    now.devices[0].counted.as_mut().unwrap().elapsed = Duration::from_secs(2);
    let snapshot = Snapshot::derive(&now, Some(&before));
    check(&snapshot, 0, "pcie_to_device_bytes_per_s !unparsable\npcie_from_device_bytes_per_s 0");
}

/// The rate of the last two readings is shown until the counters are read again.
#[test]
fn rates_outlast_samples_without_counters() {
    let tree = n300();
    let mut machine = tree.machine_with(Options { sampling: Sampling::Repeated, ..Options::default() });
    machine.sample().unwrap();
    tree.files(0, "pcie_perf_counters/mst_posted_wr_data_word_sent1	1120");
    let mut second = machine.sample().unwrap();
    let counted = second.devices[0].counted.take();
    assert!(counted.is_some());
    tree.files(0, "pcie_perf_counters/mst_posted_wr_data_word_sent1	9999999");
    assert_eq!(machine.sample().unwrap().devices[0].counted, counted);
}

/// A single sample has no rate, so the other counters are not read.
#[test]
fn single_sample_reads_one_counter() {
    let tree = n300();
    let sample = tree.machine().sample().unwrap();
    let counters = TO_DEVICE.iter().chain(FROM_DEVICE).filter(|attr| sample.devices[0].attributes.get(**attr).is_ok());
    assert_eq!(counters.count(), 1);
}

/// A heartbeat is judged over one second, independent of the sampling rate.
#[test]
fn a_heartbeat_stops() {
    let tree = n300();
    let mut machine = tree.machine();
    let mut alive = || {
        let snapshot = Snapshot::derive(&machine.sample().unwrap(), None);
        (device(&snapshot, 0).heartbeat_alive, device(&snapshot, 0).health)
    };
    assert_eq!(alive(), (Err(Missing::FirstSample), Health::Ok));
    assert_eq!(alive(), (Err(Missing::FirstSample), Health::Ok));
    tree.files(0, "tt_heartbeat	17121");
    assert_eq!(alive(), (Ok(true), Health::Ok));
    assert_eq!(alive(), (Ok(true), Health::Ok));
    let mut now = alive();
    until("a heartbeat that stopped is noticed", || {
        now = alive();
        now != (Ok(true), Health::Ok)
    });
    assert_eq!(now, (Ok(false), Health::Warning));
}

/// A descriptor of another machine removes no device.
#[test]
fn a_strangers_cluster_descriptor() {
    let tree = n300();
    tree.put("cluster.yaml", "arch:\n  0: blackhole\nchips_with_mmio:\n  - 0: 0\nchip_unique_ids:\n  0: 5");
    let cluster = Some(read_cluster(&tree.path("cluster.yaml")).unwrap());
    let sample = tree.machine_with(Options { cluster, ..Options::default() }).sample().unwrap();
    let snapshot = Snapshot::derive(&sample, None);
    assert_eq!((snapshot.devices.len(), snapshot.problems.len()), (2, 2), "{:?}", snapshot.problems);
    check(&snapshot, 0, "metal_id !no_source\nunique_id !no_source");
}

#[test]
fn health_is_unknown_when_the_temperature_is() {
    let tree = n300();
    tree.files(0, "device/hwmon/hwmon7/temp1_input	x");
    assert_eq!(device(&tree.snapshot(), 0).health, Health::Unknown);
    let tree = n300();
    tree.files(0, "device/hwmon/hwmon7/temp1_max	0");
    assert_eq!(device(&tree.snapshot(), 0).health, Health::Unknown);
}

#[test]
fn a_device_comes_back_under_another_number() {
    let tree = n300();
    let mut machine = tree.machine();
    machine.sample().unwrap();
    std::fs::remove_dir_all(tree.path("sys/devices")).unwrap();
    tree.remove("sys/class/tenstorrent/tenstorrent!0");
    tree.remove("sys/bus/pci/devices/0000:c1:00.0");
    tree.remove("proc/driver/tenstorrent/0/pids");
    for _ in 0..3 {
        let gone = Snapshot::derive(&machine.sample().unwrap(), None);
        assert_eq!((gone.devices.len(), device(&gone, 0).state, device(&gone, 1).state), (2, State::Gone, State::Gone));
        check(&gone, 0, "temperature !gone\nmemory.holders !gone\nboard n300\nmetal_id 0\nserial 010001451172208F");
    }
    tree.device(3, "0000:c1:00.0");
    tree.files(3, N300);
    tree.pids(3, "");
    let back = Snapshot::derive(&machine.sample().unwrap(), None);
    assert_eq!(back.devices.iter().map(|device| (device.id.0, device.state)).collect::<Vec<_>>(), [(3, State::Ok), (4, State::Unknown)]);
}

#[test]
fn mixed_architectures_have_no_certain_metal_id() {
    let tree = n300();
    tree.device(5, "0000:06:00.0");
    tree.files(5, GALAXY_CHIP);
    tree.pids(5, "");
    let snapshot = tree.snapshot();
    assert_eq!(device(&snapshot, 0).metal_id, Err(Missing::NoSource));
    assert_eq!(device(&snapshot, 5).arch, Ok(Arch::Blackhole));
}
