//! The Rust API.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ttmon_collect::LedgerScope;
use ttmon_model::memory::{Figure, PerKind};
use ttmon_model::snapshot::Status;
use ttmon_model::{DeviceId, Kind, Missing, Reading};
use ttmon_monitor::{Error, Monitor};

use crate::machine::{Made, show_process, snapshot, track};

/// Returns the figures without times. Times differ by nanoseconds between two reads, because each read measures the rate of the counter
/// again.
fn figures(kinds: &PerKind<Figure>) -> Vec<[Reading<u64>; 4]> {
    kinds.iter().map(|(_, figure)| [figure.used, figure.allocated, figure.peak, figure.count]).collect()
}

#[test]
fn figures_are_those_of_the_snapshot() {
    track();
    let made = Made::new("n300,p150,procs=3");
    let (expected, monitor) = (snapshot(made.path(), LedgerScope::Holders), Monitor::at(made.path()).unwrap());
    assert_eq!(monitor.device_ids().unwrap(), [0, 1, 2]);
    assert_eq!(monitor.device_count().unwrap(), 3);
    for device in &expected.devices {
        let stats = monitor.system_stats(device.id.0).unwrap().unwrap();
        let (dram, l1) = (device.memory.dram, device.memory.l1);
        assert_eq!((stats.dram_total, stats.dram_used, stats.dram_free), (dram.total, dram.used, dram.free()));
        assert_eq!((stats.l1_total, stats.l1_used, stats.l1_free), (l1.total, l1.used, l1.free()));
        assert_eq!((stats.temperature, stats.power, stats.aiclk), (device.temperature, device.power, device.aiclk_mhz));
        assert_eq!((stats.state, stats.health), (device.state, device.health));
        assert_eq!(stats.untracked_processes, device.memory.untracked_processes);

        let detailed = monitor.detailed_stats(device.id.0).unwrap().unwrap();
        assert_eq!(detailed.kinds, device.memory.kinds);
        let of_snapshot: Vec<_> = expected.processes_on(device.id).map(|(one, here)| (one.key.pid, one.status, &here.kinds)).collect();
        let of_monitor: Vec<_> = detailed.processes.iter().map(|one| (one.pid, one.status, &one.kinds)).collect();
        assert_eq!(of_monitor, of_snapshot);
        assert_eq!(stats.processes, of_snapshot.len() as u64);
    }
    for process in &expected.processes {
        let stats = monitor.process_stats(process.key.pid).unwrap().unwrap();
        assert_eq!((&stats.name, stats.status), (&process.name, process.status));
        assert_eq!(stats.devices, process.devices);
        let ids = |unmapped: &[ttmon_model::snapshot::Unmapped]| unmapped.iter().map(|one| one.id).collect::<Vec<_>>();
        assert_eq!(ids(&stats.unmapped), ids(&process.unmapped));
        for (one, other) in stats.unmapped.iter().zip(&process.unmapped) {
            assert_eq!(figures(&one.kinds), figures(&other.kinds));
        }
    }
    assert_eq!(monitor.system_stats(2).unwrap().unwrap().temperature, Err(Missing::RemoteChip));
    assert_eq!(monitor.system_stats(3).unwrap(), None);
    assert_eq!(monitor.detailed_stats(3).unwrap(), None);
    assert_eq!(monitor.process_stats(1 << 30).unwrap(), None);
}

#[test]
fn a_tracked_process_has_what_it_reported() {
    track();
    let made = Made::new("n150x2,procs=1");
    let monitor = Monitor::at(made.path()).unwrap();
    let stats = monitor.process_stats(std::process::id()).unwrap().unwrap();
    assert_eq!(stats.status, Status::Tracked);
    let kinds = stats.on(0).unwrap();
    let used = Kind::ALL.map(|kind| kinds[kind].used);
    assert_eq!(used, [Ok(4096), Ok(1000), Ok(50), Ok(7), Ok(300), Ok(11)]);
    assert_eq!((kinds[Kind::Dram].peak, kinds[Kind::Dram].count), (Ok(4096 + (1 << 20)), Ok(1)));
    assert_eq!(stats.on(1).unwrap()[Kind::Dram].used, Ok(12_345));
    let total = stats.total();
    assert_eq!((total[Kind::Dram].used, total[Kind::Dram].count), (Ok(4096 + 12_345), Ok(2)));
    assert_eq!(total[Kind::Dram].peak, Err(Missing::NoSource));
    assert_eq!(monitor.system_stats(0).unwrap().unwrap().dram_used, Ok(4096 + 7));
    assert_eq!(monitor.system_stats(0).unwrap().unwrap().l1_used, Ok(1000 + 50 + 300));
}

/// The process holds no device. It is still found, but only if requested.
#[test]
fn a_tracked_process_without_a_device_is_found() {
    track();
    let made = Made::new("n150,idle");
    let monitor = Monitor::at(made.path()).unwrap();
    assert_eq!(monitor.system_stats(0).unwrap().unwrap().dram_used, Ok(0));
    let stats = monitor.process_stats(std::process::id()).unwrap().unwrap();
    let expected = snapshot(made.path(), LedgerScope::Everybody);
    let (here, expected) = (&stats.devices[0], &expected.processes[0].devices[0]);
    assert_eq!((here.device, figures(&here.kinds)), (expected.device, figures(&expected.kinds)));
    assert_eq!((stats.status, stats.on(0).unwrap()[Kind::L1].used), (Status::Tracked, Ok(1000)));
}

/// Two processes are requested one after the other, within the age of a sample. Each result belongs to its own process.
#[test]
fn processes_are_not_taken_for_each_other() {
    track();
    let made = Made::new("n150,idle");
    let monitor = Monitor::at(made.path()).unwrap();
    monitor.set_max_age(Duration::from_secs(3600));
    for _ in 0..2 {
        assert_eq!(monitor.process_stats(std::process::id()).unwrap().unwrap().status, Status::Tracked);
        for unknown in [1, u32::MAX] {
            assert_eq!(monitor.process_stats(unknown).unwrap(), None);
        }
    }
}

#[test]
fn a_machine_without_devices_has_tracked_processes() {
    track();
    let tree = tempfile::tempdir().unwrap();
    show_process(tree.path(), std::process::id());
    let monitor = Monitor::at(tree.path()).unwrap();
    assert_eq!(monitor.device_count().unwrap(), 0);
    assert_eq!(monitor.system_stats(0).unwrap(), None);
    let stats = monitor.process_stats(std::process::id()).unwrap().unwrap();
    assert_eq!((stats.devices.len(), stats.unmapped.len()), (0, 2));
    assert_eq!(stats.total()[Kind::Dram].used, Ok(4096 + 12_345));
}

#[test]
fn calls_in_a_row_share_a_sample() {
    let made = Made::new("n150,idle");
    let monitor = Monitor::at(made.path()).unwrap();
    let time = || monitor.system_stats(0).unwrap().unwrap().time;
    monitor.set_max_age(Duration::from_secs(3600));
    let first = time();
    fs::remove_dir_all(made.path().join("sys/class")).unwrap();
    assert_eq!(time(), first);
    assert_eq!(monitor.detailed_stats(0).unwrap().unwrap().time, first);
    monitor.set_max_age(Duration::ZERO);
    let second = monitor.system_stats(0).unwrap().unwrap();
    assert!(second.time > first);
    assert_eq!(second.state, ttmon_monitor::State::Gone);
}

#[test]
fn a_chip_that_hangs_costs_its_own_figures_only() {
    let made = Made::new("n150x2,idle,fault=hang:0");
    let monitor = Monitor::at(made.path()).unwrap();
    let ill = monitor.system_stats(0).unwrap().unwrap();
    let well = monitor.system_stats(1).unwrap().unwrap();
    assert!(ill.temperature.is_err() && well.temperature.is_ok());
    assert_eq!(snapshot(made.path(), LedgerScope::Holders).device(DeviceId(0)).unwrap().temperature, ill.temperature);
}

#[test]
fn errors_of_opening_and_reading_have_a_reason() {
    let error = Monitor::at(Path::new("/nonexistent")).unwrap_err();
    assert!(error.to_string().starts_with("cannot look below /nonexistent: "), "{error}");
    assert!(matches!(error, Error::Root { .. }));

    let made = Made::new("n150,idle");
    for part in ["sys/class", "sys/module"] {
        fs::remove_dir_all(made.path().join(part)).unwrap();
    }
    let error = Monitor::at(made.path()).unwrap().system_stats(0).unwrap_err();
    assert!(error.to_string().contains("driver is not loaded"), "{error}");
    assert!(Monitor::new().is_ok());
}
