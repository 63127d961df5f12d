//! Test machines: samples built by hand, and random ones.

mod hooked;

use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use ttmon_model::attributes::{ATTRIBUTES, Attributes};
use ttmon_model::identity::{ChipPosition, unique_id_candidates};
use ttmon_model::product::{PRODUCTS, Product};
use ttmon_model::region::{Region, Slot};
use ttmon_model::sample::{DeviceSample, FdMemory, Origin, Problem, ProcessFacts, ProcessSample, RegionSample, Users, Workload};
use ttmon_model::units::UnixTime;
use ttmon_model::{Arch, Attr, DeviceId, Kind, Missing, PerKind, ProcessKey, Raw, Reading, Sample, Snapshot};

pub use hooked::{any_hooked, hooked, overfull};

const NOW: UnixTime = UnixTime(1_795_075_965_120_000_000);
const HOUR: u64 = 3_600_000_000_000;
const MIB: u64 = 1 << 20;
const SERIAL: u64 = 0x0100_0145_1172_2058;

/// Returns how many random machines a test tries: few, because each takes milliseconds. `PROPTEST_CASES` sets another number.
#[must_use]
pub fn cases() -> ProptestConfig {
    const USUAL: u32 = 64;
    let is_given = std::env::var_os("PROPTEST_CASES").is_some();
    if is_given { ProptestConfig::default() } else { ProptestConfig::with_cases(USUAL) }
}

/// All machines that were made by hand, by name.
#[must_use]
pub fn all() -> Vec<(&'static str, Snapshot)> {
    vec![
        ("n300", n300()),
        ("mixed", mixed()),
        ("galaxy", galaxy()),
        ("blank", blank()),
        ("troubled", troubled()),
        ("statuses", statuses()),
        ("hostile", hostile()),
        ("hooked", hooked()),
    ]
}

/// One n300 in use on both chips.
#[must_use]
pub fn n300() -> Snapshot {
    let mut board = device(0, "n300");
    hold(&mut board, &[12345]);
    let right = unique_id_candidates(None, Some(SERIAL), Some(ChipPosition::Right), false)[0];
    Snapshot::derive(
        &Sample {
            processes: vec![process(12345, "python3", "/usr/bin/python3 -u /srv/models/serve.py --port 8000")],
            regions: vec![region(asic_id(0), 12345, [2_576_980_377, 22 * MIB, 13 * MIB]), region(right, 12345, [800 * MIB, 10 * MIB, MIB])],
            ledgers: Vec::new(),
            denied_processes: 0,
            ..sample(vec![board])
        },
        None,
    )
}

/// Four cards of both architectures: one warm, one with an untracked holder, one with hidden holders and dead slots.
#[must_use]
pub fn mixed() -> Snapshot {
    let mut devices = vec![device(0, "n150"), device(1, "n300"), device(2, "p150a"), device(3, "p100a")];
    hold(&mut devices[0], &[200, 201]);
    hold(&mut devices[1], &[200]);
    devices[1].attributes.set(Attr::Temperature, Ok(Raw::Number(71_000)));
    devices[2].users = Ok(Users { pids: Vec::new(), hidden: 2, is_complete: true });
    let in_pod = |mut process: ProcessSample| {
        process.workload.pod = Some("5f2c9a1e-77aa-4c1b-9f4e-0d9b8a7c6d5e".to_owned());
        process.workload.container = Some("0123456789ab".to_owned());
        process.workload.pod_name = Some("vllm-0".to_owned());
        process.workload.namespace = Some("ml".to_owned());
        process.workload.container_name = Some("server".to_owned());
        process
    };
    Snapshot::derive(
        &Sample {
            processes: vec![in_pod(process(200, "bert", "/opt/bert --batch 32")), process(201, "test_app", "./build/test_app")],
            regions: vec![
                region(asic_id(0), 200, [3 << 30, 20 * MIB, 0]),
                region(asic_id(1), 200, [11 << 30, 40 * MIB, 2 * MIB]),
                region(asic_id(3), 999, [1_288_490_189, 0, 0]),
            ],
            ..sample(devices)
        },
        None,
    )
}

/// Thirty-two chips and one process on all of them.
#[must_use]
pub fn galaxy() -> Snapshot {
    let mut devices: Vec<_> = (0..32).map(|id| device(id, "galaxy-wormhole")).collect();
    devices.iter_mut().for_each(|device| hold(device, &[4_000_000]));
    let used = |id: u32| [u64::from(id + 1) * 300 * MIB, u64::from(id) * MIB, 0];
    let mut train = process(4_000_000, "python3", "python3 -m torch.distributed.run train.py");
    train.workload.job = Some("918273".to_owned());
    Snapshot::derive(
        &Sample {
            origin: Origin::Sim,
            processes: vec![train],
            regions: (0..32).map(|id| region(asic_id(id), 4_000_000, used(id))).collect(),
            ledgers: Vec::new(),
            denied_processes: 0,
            ..sample(devices)
        },
        None,
    )
}

/// Four chips with fifty processes on each. Each round has different processes. Every second process is a separate job.
#[must_use]
pub fn churn(round: u32) -> Snapshot {
    let pids: Vec<u32> = (1..=50).map(|number| round * 50 + number).collect();
    let mut devices: Vec<_> = (0..4).map(|id| device(id, "n150")).collect();
    devices.iter_mut().for_each(|device| hold(device, &pids));
    let named = |pid: &u32| {
        let mut process = process(*pid, &format!("step-{pid}"), &format!("python3 step.py --run {pid}"));
        process.workload.job = pid.is_multiple_of(2).then(|| pid.to_string());
        process
    };
    let used = PerKind::from_fn(|_| MIB);
    let regions = (0..4).map(|id| region_of(asic_id(id), pids.iter().map(|pid| (*pid, used.clone())).collect())).collect();
    Snapshot::derive(&Sample { processes: pids.iter().map(named).collect(), regions, ..sample(devices) }, None)
}

/// A device without any known value.
#[must_use]
pub fn blank() -> Snapshot {
    let nothing = DeviceSample {
        id: DeviceId(0),
        bdf: Err(Missing::IoError),
        attributes: Attributes::all_missing(Missing::NotExposed),
        was_listed: true,
        counted: None,
        beat: None,
        users: Err(Missing::NoPermission),
        deep: Err(Missing::NeedsDeep),
    };
    Snapshot::derive(&Sample { driver: Err(Missing::NotExposed), ..sample(vec![nothing]) }, None)
}

/// A chip that is being reset, one that left the bus, one without permission, one with invalid values, and an old driver.
#[must_use]
pub fn troubled() -> Snapshot {
    let mut devices: Vec<_> = (0..4).map(|id| device(id, "n300")).collect();
    for (device, reason) in devices.iter_mut().zip([Missing::Resetting, Missing::Gone, Missing::NoPermission, Missing::OutOfRange]) {
        for row in ATTRIBUTES.iter().filter(|row| row.shows_state) {
            device.attributes.set(row.attr, Err(reason));
        }
    }
    let mut old = device(4, "p150a");
    old.attributes.set(Attr::Heartbeat, Err(Missing::NotExposed));
    old.attributes.set(Attr::ThermTrips, Ok(Raw::Number(2)));
    old.attributes.set(Attr::Temperature, Ok(Raw::Number(105_000)));
    devices.push(old);
    let timeout = |id| Problem {
        part: format!("device {id}"),
        reason: Missing::Timeout,
        detail: "tt_aiclk did not come back within 200 ms; the device may hang".to_owned(),
    };
    Snapshot::derive(&Sample { driver: Ok("2.4.1".to_owned()), problems: (0..7).map(timeout).collect(), ..sample(devices) }, None)
}

/// A process with each status, and memory that matches no row.
#[must_use]
pub fn statuses() -> Snapshot {
    let mut devices = vec![device(0, "n150"), device(1, "n150")];
    hold(&mut devices[0], &[100, 101, 103]);
    hold(&mut devices[1], &[102]);
    let mut dead = process(103, "", "");
    dead.facts = Err(Missing::Gone);
    dead.command = Err(Missing::Gone);
    let mut boxed = process(100, "python3", "python3 bench.py");
    boxed.workload.container = Some("feedc0ffee00".to_owned());
    let denied = RegionSample { unique_id: asic_id(1), through: None, writer: None, content: Err(Missing::NoPermission) };
    Snapshot::derive(
        &Sample {
            processes: vec![boxed, process(101, "test_app", "./test_app"), process(102, "secret", "secret"), dead],
            regions: vec![region(asic_id(0), 100, [MIB, 64 * 1024, 4096]), region(9_956_278_468, 100, [1 << 30, 0, 0]), denied],
            ledgers: Vec::new(),
            denied_processes: 0,
            ..sample(devices)
        },
        None,
    )
}

/// Names that try to manipulate the terminal.
#[must_use]
pub fn hostile() -> Snapshot {
    let names =
        ["\u{1b}[31mred\u{1b}]0;title\u{7}", "two\nlines\r\tand a tab", "\u{202e}txt.exe", "a\u{9b}2J\u{7f}b", "名前が長いプロセス🙂"];
    let mut only = device(0, "p150a");
    let pids: Vec<u32> = (0..).map(|index| 500 + index).take(names.len()).collect();
    hold(&mut only, &pids);
    let hostile = |(pid, name): (&u32, &&str)| {
        let mut process = process(*pid, name, &format!("/bin/{name} --{name}, \"{name}\""));
        process.facts = process.facts.map(|facts| ProcessFacts { user: Some((*name).to_owned()), ..facts });
        process.workload.job = Some((*name).to_owned());
        process
    };
    let processes = pids.iter().zip(&names).map(hostile).collect();
    let problem = Problem { part: names[1].to_owned(), reason: Missing::Unparsable, detail: names[0].to_owned() };
    Snapshot::derive(&Sample { host: names[2].to_owned(), processes, problems: vec![problem], ..sample(vec![only]) }, None)
}

/// A sample with these devices and nothing else.
#[must_use]
pub fn sample(devices: Vec<DeviceSample>) -> Sample {
    Sample {
        at: Duration::from_secs(100),
        time: NOW,
        scan_age: Duration::ZERO,
        host: "tt-qb-01".to_owned(),
        origin: Origin::Local,
        driver: Ok("2.9.0".to_owned()),
        cluster: None,
        proven: Vec::new(),
        devices,
        processes: Vec::new(),
        regions: Vec::new(),
        ledgers: Vec::new(),
        denied_processes: 0,
        problems: Vec::new(),
    }
}

fn asic_id(id: u32) -> u64 {
    0xA51C_0000_0000_0000 + u64::from(id)
}

/// A healthy device without holders.
fn device(id: u32, board: &str) -> DeviceSample {
    let product = Product::by_card_type(board).unwrap();
    let is_blackhole = product.arch == Arch::Blackhole;
    let pci_device = if is_blackhole { 0xb140 } else { 0x401e };
    let mut attributes = Attributes::all_missing(Missing::NotExposed);
    let numbers = [
        (Attr::Temperature, 54_312),
        (Attr::TemperatureMax, if is_blackhole { 95_000 } else { 75_000 }),
        (Attr::Power, 38_000_000),
        (Attr::PowerMax, if is_blackhole { 300_000_000 } else { 100_000_000 }),
        (Attr::Voltage, 850),
        (Attr::Current, 42_000),
        (Attr::CurrentMax, 160_000),
        (Attr::Aiclk, 1000),
        (Attr::Heartbeat, 77),
        (Attr::Serial, SERIAL + (u64::from(id) << 8)),
        (Attr::AsicId, asic_id(id)),
        (Attr::PciDevice, pci_device),
        (Attr::NumaNode, 0),
        (Attr::LinkSpeed, 4),
        (Attr::LinkSpeedMax, 4),
        (Attr::LinkWidth, 16),
        (Attr::LinkWidthMax, 16),
    ];
    for (attr, number) in numbers {
        attributes.set(attr, Ok(Raw::Number(number)));
    }
    attributes.set(Attr::CardType, Ok(Raw::Text(board.into())));
    attributes.set(Attr::FirmwareBundle, Ok(Raw::Text("19.5.0.0".into())));
    let bdf = format!("0000:{:02x}:00.0", 0xc1 - id).parse().unwrap();
    DeviceSample {
        id: DeviceId(id),
        bdf: Ok(bdf),
        attributes,
        was_listed: true,
        counted: None,
        beat: None,
        users: Ok(Users { is_complete: true, ..Users::default() }),
        deep: Err(Missing::NeedsDeep),
    }
}

fn hold(device: &mut DeviceSample, pids: &[u32]) {
    device.users = Ok(Users { pids: pids.to_vec(), hidden: 0, is_complete: true });
}

fn process(pid: u32, name: &str, command: &str) -> ProcessSample {
    ProcessSample {
        key: ProcessKey { pid, start_ticks: 1 },
        namespace_pid: pid,
        facts: Ok(ProcessFacts {
            name: name.to_owned(),
            uid: 1000,
            parent: 1,
            user: Some("ana".to_owned()),
            start_time: UnixTime(NOW.0 - 2 * HOUR - 14 * HOUR / 60),
            cpu_time: Duration::from_secs(9),
            rss: 900 * MIB,
        }),
        command: Ok(command.to_owned()),
        workload: Workload::default(),
        fdinfo: Vec::new(),
    }
}

fn region(unique_id: u64, pid: u32, [dram, l1, cb]: [u64; 3]) -> RegionSample {
    let mut used = PerKind::default();
    (used[Kind::Dram], used[Kind::L1], used[Kind::Cb]) = (dram, l1, cb);
    region_of(unique_id, vec![(pid, used)])
}

fn region_of(unique_id: u64, slots: Vec<(u32, PerKind<u64>)>) -> RegionSample {
    let slots = slots.into_iter().map(|(pid, used)| Slot { pid, used, updated: NOW, name: "python3".to_owned() }).collect();
    RegionSample {
        unique_id,
        through: None,
        writer: None,
        content: Ok(Region { version: 3, device_id: 0, totals: PerKind::default(), slots }),
    }
}

/// Machines with one to six devices. Any value may be missing, out of range or in an unusual script.
pub fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    let pids = vec(1u32..9_999_999, 0..6);
    (vec(any_device(), 1..6), pids, any::<bool>(), any_reading(any::<String>()), any::<String>())
        .prop_flat_map(|(devices, pids, is_sim, driver, host)| {
            let users = vec((subsequence(pids.clone(), 0..=pids.len()), 0u64..3, any::<bool>()), devices.len());
            let processes: Vec<_> = pids.iter().map(|pid| any_process(*pid)).collect();
            let owners = if pids.is_empty() { vec![1] } else { pids };
            let regions = vec((0u32..8, select(owners), [any::<u64>(), any::<u64>(), any::<u64>()]), 0..8);
            (Just((devices, is_sim, driver, host)), users, processes, regions, vec(any_problem(), 0..9))
        })
        .prop_map(|((mut devices, is_sim, driver, host), users, mut processes, regions, problems)| {
            for ((id, device), (pids, hidden, is_complete)) in (0..).zip(&mut devices).zip(users) {
                device.id = DeviceId(id);
                device.users = Ok(Users { pids, hidden, is_complete });
            }
            processes.sort_by_key(|process| process.key.pid);
            processes.dedup_by_key(|process| process.key.pid);
            let regions = regions.into_iter().map(|(id, pid, used)| region(asic_id(id), pid, used)).collect();
            let origin = if is_sim { Origin::Sim } else { Origin::Local };
            Snapshot::derive(&Sample { origin, driver, host, processes, regions, problems, ..sample(devices) }, None)
        })
}

fn any_reading<T: std::fmt::Debug + Clone>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Reading<T>> {
    prop_oneof![3 => value.prop_map(Ok), 1 => select(Missing::ALL.to_vec()).prop_map(Err)]
}

fn any_device() -> impl Strategy<Value = DeviceSample> {
    let number = prop_oneof![0u64..2000, 0u64..2_000_000_000, any::<u64>()].prop_map(Raw::Number);
    let boards: Vec<_> = PRODUCTS.iter().map(|product| product.card_type).chain(["a-board-with-a-very-long-name"]).collect();
    (0u32..8, select(boards), vec(any_reading(number), ATTRIBUTES.len())).prop_map(|(asic, board, readings)| {
        let mut attributes = Attributes::all_missing(Missing::NotExposed);
        for (row, reading) in ATTRIBUTES.iter().zip(readings) {
            attributes.set(row.attr, reading);
        }
        attributes.set(Attr::CardType, Ok(Raw::Text(board.into())));
        attributes.set(Attr::AsicId, Ok(Raw::Number(asic_id(asic))));
        DeviceSample {
            id: DeviceId(0),
            bdf: "12345678:c1:00.0".parse().map_err(|()| Missing::Unparsable),
            attributes,
            was_listed: true,
            counted: None,
            beat: None,
            users: Err(Missing::IoError),
            deep: Err(Missing::NeedsDeep),
        }
    })
}

fn any_process(pid: u32) -> impl Strategy<Value = ProcessSample> {
    let workload = (option::of(any::<String>()), option::of(any::<String>()), option::of(any::<String>()));
    let fdinfo = vec((0u32..8, option::of(any::<u64>())), 0..3);
    (any_reading(any::<String>()), any_reading(any::<String>()), workload, any::<u64>(), fdinfo).prop_map(
        move |(name, command, (container, pod, job), start, fdinfo)| {
            let mut process = process(pid, "", "");
            process.facts = name.and_then(|name| {
                process.facts.map(|facts| ProcessFacts { user: Some(name.clone()), name, start_time: UnixTime(start), ..facts })
            });
            process.command = command;
            process.workload = Workload { container, pod, job, ..Workload::default() };
            let memory = |(id, bytes)| FdMemory { device: DeviceId(id), used: PerKind::from_fn(|_| bytes) };
            process.fdinfo = fdinfo.into_iter().map(memory).collect();
            process
        },
    )
}

fn any_problem() -> impl Strategy<Value = Problem> {
    (any::<String>(), select(Missing::ALL.to_vec()), any::<String>()).prop_map(|(part, reason, detail)| Problem { part, reason, detail })
}
