//! Machines for tests.

use std::time::Duration;

use ttmon_collect::reads::Sampling;
use ttmon_collect::{Isolation, Machine, Root};
use ttmon_model::identity::ProcessKey;
use ttmon_model::sample::{ProcessFacts, ProcessSample, Users, Workload};
use ttmon_model::snapshot::{Allocator, Device};
use ttmon_model::units::{Amperes, BytesPerSecond, Celsius, Rpm, UnixTime, Volts, Watts, WordsPerSecond};
use ttmon_model::{Kind, Missing, PerKind, Sample, Snapshot};
use ttmon_testing::machine as machines;

use crate::service::Service;
use crate::{MetricsDetail, Options};

/// Options of a service without state.
pub(crate) fn options() -> Options {
    Options {
        version: "0",
        interval: Duration::from_secs(1),
        allow_remote: false,
        token: None,
        tls: None,
        metrics_detail: MetricsDetail::Full,
        process_metrics: false,
        state: None,
        fleet: None,
        alerts: ttmon_alerts::Config::default(),
        complain: |_| {},
    }
}

/// A service without data.
pub(crate) fn service() -> Service {
    Service::new(options(), None, None)
}

/// Four cards, and two processes of two users. The first process is tracked.
pub(crate) fn machine() -> Snapshot {
    let mut snapshot = machines::mixed();
    snapshot.processes[1].uid = snapshot.processes[0].uid.map(|uid| uid + 1);
    snapshot.allocators.push(Allocator {
        id: "200.0.1".to_owned(),
        process: snapshot.processes[0].key,
        slot: 0,
        is_open: true,
        mesh: None,
        devices: vec![snapshot.devices[0].id],
        unmapped: Vec::new(),
        coverage: Err(Missing::NoSource),
        self_check: ttmon_model::ledger::LedgerSelfCheck::default(),
        kinds: PerKind::from_fn(|_| None),
        others: Vec::new(),
        buffers_left_out: 0,
        refused: 0,
    });
    snapshot
}

pub(crate) use ttmon_testing::machine::churn;

/// All hand-made machines, by name.
pub(crate) fn all() -> Vec<(&'static str, Snapshot)> {
    machines::all()
}

/// A machine with this many chips and a value in every field that has a history.
pub(crate) fn with_devices(count: usize) -> Snapshot {
    let mut snapshot = machines::galaxy();
    snapshot.devices.truncate(count);
    assert_eq!(snapshot.devices.len(), count);
    snapshot.devices.iter_mut().for_each(fill);
    snapshot
}

fn fill(device: &mut Device) {
    const LARGE: u64 = 1 << 35;
    (device.temperature, device.power) = (Ok(Celsius(55.125)), Ok(Watts(120.0)));
    (device.voltage, device.current) = (Ok(Volts(0.8)), Ok(Amperes(150.0)));
    (device.fan_rpm, device.heartbeat_alive, device.therm_trip_count) = (Ok(Rpm(1800)), Ok(true), Ok(1));
    (device.pcie_to_device_bytes_per_s, device.pcie_from_device_bytes_per_s) = (Ok(BytesPerSecond(1e10)), Ok(BytesPerSecond(1e10)));
    if device.id.0 >= 32 {
        (device.pcie_to_device_words_per_s, device.pcie_from_device_words_per_s) = (Ok(WordsPerSecond(1e9)), Ok(WordsPerSecond(1e9)));
    }
    (device.memory.dram.used, device.memory.l1.used) = (Ok(LARGE), Ok(LARGE));
    for kind in Kind::ALL {
        device.memory.kinds[kind].figure.used = Ok(LARGE);
    }
}

/// Writes a machine as files. Returns the directory and a reader.
pub(crate) fn in_files(spec: &str) -> (tempfile::TempDir, Machine) {
    let directory = ttmon_testing::directory();
    let machine = ttmon_sim::Machine::new(&ttmon_sim::Spec::parse(spec).expect("a spec"), 1).expect("a machine");
    machine.write(directory.path(), 0, &vec![None; machine.process_count()]).expect("a tree");
    let options = ttmon_collect::Options {
        isolation: Isolation::Threads,
        sampling: Sampling::Repeated,
        read_timeout: Duration::from_secs(20),
        ..ttmon_collect::Options::default()
    };
    let machine = Machine::new(Root::at(directory.path()), options).expect("a machine");
    (directory, machine)
}

/// One device, held by one process with this processor time.
pub(crate) fn held(cpu_time: Duration) -> Sample {
    const PID: u32 = 12345;
    let (_directory, mut machine) = in_files("n150,idle");
    let mut sample = machine.sample().expect("a sample");
    sample.devices[0].users = Ok(Users { pids: vec![PID], hidden: 0, is_complete: true });
    let (name, start_time) = ("python3".to_owned(), UnixTime(0));
    let facts = ProcessFacts { name, uid: 1000, user: None, parent: 1, start_time, cpu_time, rss: 0 };
    sample.processes = vec![ProcessSample {
        key: ProcessKey { pid: PID, start_ticks: 1 },
        namespace_pid: PID,
        facts: Ok(facts),
        command: Err(Missing::NoSource),
        workload: Workload::default(),
        fdinfo: Vec::new(),
    }];
    sample
}

/// A sample of a machine with one blank device.
pub(crate) fn sample() -> Sample {
    machines::sample(Vec::new())
}
