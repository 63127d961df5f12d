//! Which row a ledger's memory is added to, and which source takes precedence.

use std::time::Duration;

use ttmon_collect::ledgers::LedgerDetail;
use ttmon_collect::reads::Sampling;
use ttmon_collect::{LedgerScope, Ledgers, Options};
use ttmon_model::ledger::{
    BufferKind, Ledger, LedgerAllocator, LedgerChip, LedgerCircular, LedgerRow, LedgerSample, LedgerWriter, VisibleDevices,
};
use ttmon_model::snapshot::Status;
use ttmon_model::units::UnixTime;
use ttmon_model::{DeviceId, Kind, Missing, Sample, Snapshot, Source};

use crate::tree::{N300, Tree, device};

const PID: u32 = 4242;
const MINUTE: Duration = Duration::from_secs(60);

/// Two n300 whose order on the bus differs from that in /dev: ids 0 and 1 are metal ids 1 and 0.
fn crossed() -> Tree {
    let tree = Tree::new("2.9.0");
    for (n, bdf, serial) in [(0, "0000:c1:00.0", "010001451172208F"), (1, "0000:41:00.0", "0100014511722053")] {
        tree.device(n, bdf);
        tree.files(n, N300);
        tree.files(n, &format!("tt_serial\t{serial}"));
        tree.pids(n, &format!("{PID}\n"));
    }
    tree.process(PID, "python3", MINUTE);
    tree
}

fn row(kind: Kind, used: u64, peak: u64) -> LedgerRow {
    LedgerRow { used, count: 1, peak, peak_time: UnixTime(7), ..LedgerRow::empty(BufferKind::Of(kind)) }
}

fn allocator(slot: u16, chip: LedgerChip, is_open: bool, rows: Vec<LedgerRow>) -> LedgerAllocator {
    LedgerAllocator {
        slot,
        generation: 1,
        closed: (!is_open).then_some(UnixTime(9)),
        origin: LedgerWriter::Client,
        chips: vec![chip],
        rows,
        ..LedgerAllocator::default()
    }
}

fn with_ledger(tree: &Tree, visible: Option<&str>, is_mock: bool, allocators: Vec<LedgerAllocator>) -> Snapshot {
    let sample = tree.machine().sample().unwrap();
    Snapshot::derive(&and_ledger(sample, visible, is_mock, allocators), None)
}

fn and_ledger(mut sample: Sample, visible: Option<&str>, is_mock: bool, allocators: Vec<LedgerAllocator>) -> Sample {
    let owner = sample.processes.iter().find(|process| process.key.pid == PID).unwrap().key;
    let visible_devices = visible.map_or(VisibleDevices::All, |text| VisibleDevices::Only(text.to_owned()));
    let ledger = Ledger { is_mock, visible_devices, events: 1, allocators, ..Ledger::empty(LedgerWriter::Client) };
    sample.ledgers = vec![LedgerSample { owner, content: Ok(ledger) }];
    sample
}

/// Returns the id of the device to which memory on a metal id is added, if any.
fn place(visible: Option<&str>, metal_id: u32) -> Option<u32> {
    let chip = LedgerChip { metal_id: Some(metal_id), unique_id: None };
    let snapshot = with_ledger(&crossed(), visible, false, vec![allocator(0, chip, true, vec![row(Kind::Dram, 4096, 4096)])]);
    let process = &snapshot.processes[0];
    assert_eq!((process.status, process.total(Kind::Dram)), (Status::Tracked, Ok(4096)));
    let on = process.devices.iter().find(|use_of| use_of.kinds[Kind::Dram].used == Ok(4096));
    assert_eq!(on.is_none(), process.unmapped.iter().any(|unmapped| unmapped.id == u64::from(metal_id)));
    on.map(|use_of| use_of.device.0)
}

#[test]
fn metal_ids_follow_the_bus() {
    assert_eq!((place(None, 0), place(None, 1)), (Some(1), Some(0)));
    assert_eq!(place(None, 2), None, "which remote chip that is depends on the links");
}

#[test]
fn a_process_that_sees_some_devices() {
    assert_eq!(place(Some("0000:c1:00.0"), 0), Some(0));
    assert_eq!(place(Some("c1:00"), 0), Some(0));
    assert_eq!(place(Some("0000:c1:00.0,0000:41:00.0"), 0), Some(1), "numbered anew in the order of addresses");
    assert_eq!(place(Some("0"), 0), None, "a /dev number before UMD 0.9.3, a position since");
    assert_eq!(place(Some(""), 0), None);
    assert_eq!(place(Some("nonsense"), 0), None);
}

#[test]
fn unique_ids_are_certain_and_mock_chips_are_nowhere() {
    let left = LedgerChip { metal_id: Some(0), unique_id: Some((2 << 32) | 0x5172_208F) };
    let allocators = || vec![allocator(0, left, true, vec![row(Kind::Dram, 4096, 4096)])];
    let snapshot = with_ledger(&crossed(), None, false, allocators());
    assert_eq!(device(&snapshot, 0).memory.kinds[Kind::Dram].figure.used, Ok(4096));
    assert_eq!(snapshot.allocators[0].devices, [DeviceId(0)]);
    let mock = with_ledger(&crossed(), None, true, allocators());
    assert_eq!(mock.processes[0].unmapped.len(), 1);
    assert_eq!(device(&mock, 0).memory.dram.used, Err(Missing::NotTracked));
}

/// The service received memory under a number that may be this chip's. The chip's memory is then unknown, not zero, even if the owner has
/// no device open.
#[test]
fn memory_of_an_unknown_chip_leaves_no_chip_at_zero() {
    let used_by = |writer: LedgerWriter, visible: Option<&str>, metal_id: u32, bytes: u64, is_mock: bool| -> Vec<_> {
        let chip = LedgerChip { metal_id: Some(metal_id), unique_id: None };
        let mut sample = crossed().machine().sample().unwrap();
        for device in &mut sample.devices {
            device.users.as_mut().unwrap().pids.clear();
        }
        let mut sample = and_ledger(sample, visible, is_mock, vec![allocator(0, chip, true, vec![row(Kind::Dram, bytes, bytes)])]);
        sample.ledgers[0].content.as_mut().unwrap().writer = writer;
        Snapshot::derive(&sample, None).devices.iter().map(|device| device.memory.kinds[Kind::Dram].figure.used).collect()
    };
    let used = |visible, metal_id, bytes, is_mock| used_by(LedgerWriter::Service, visible, metal_id, bytes, is_mock);
    let unknown = Err(Missing::NotTracked);
    assert_eq!(used_by(LedgerWriter::Client, None, 2, 4096, false), [Ok(0); 4], "any user may write into their own ledger");
    assert_eq!(used(None, 2, 4096, false), [Ok(0), Ok(0), unknown, unknown], "one of the two remote chips");
    assert_eq!(used(None, 0, 4096, false), [Ok(0), Ok(4096), Ok(0), Ok(0)]);
    assert_eq!(used(None, 2, 0, false), [Ok(0); 4]);
    assert_eq!(used(None, 2, 4096, true), [Ok(0); 4], "of no chip of this machine");
    assert_eq!(used(Some("0"), 0, 4096, false), [unknown; 4], "the chip is unknown");
}

#[test]
fn a_claim_on_a_device_that_another_holds_counts_nowhere() {
    let tree = crossed();
    tree.pids(0, "1\n");
    let chip = LedgerChip { metal_id: Some(1), unique_id: None };
    let snapshot = with_ledger(&tree, None, false, vec![allocator(0, chip, true, vec![row(Kind::Dram, 1 << 50, 1 << 50)])]);
    let process = snapshot.processes.iter().find(|process| process.key.pid == PID).unwrap();
    assert_eq!(process.total(Kind::Dram), Ok(1 << 50), "it is listed under the process");
    assert_eq!(device(&snapshot, 0).memory.dram.used, Err(Missing::NotTracked), "of the one that holds it nothing is known");
    assert!(snapshot.problems.iter().any(|problem| problem.detail.contains("does not hold")), "{:?}", snapshot.problems);
    tree.pids(0, "");
    let chip = LedgerChip { metal_id: Some(1), unique_id: None };
    let snapshot = with_ledger(&tree, None, false, vec![allocator(0, chip, true, vec![row(Kind::Dram, 1 << 50, 1 << 50)])]);
    assert_eq!(device(&snapshot, 0).memory.dram.used, Ok(0), "nobody holds it");
}

#[test]
fn the_ledger_wins_kind_by_kind() {
    let tree = crossed();
    tree.region("dev/shm", (2 << 32) | 0x5172_208F, &[(PID, "python3", 999, 111)]);
    let chip = LedgerChip { metal_id: Some(1), unique_id: None };
    let snapshot = with_ledger(&tree, None, false, vec![allocator(0, chip, true, vec![row(Kind::Dram, 4096, 8192)])]);
    let kinds = &snapshot.processes[0].on(DeviceId(0)).unwrap().kinds;
    assert_eq!((kinds[Kind::Dram].used, kinds[Kind::Dram].source, kinds[Kind::Dram].peak), (Ok(4096), Ok(Source::Ledger), Ok(8192)));
    assert_eq!((kinds[Kind::L1].used, kinds[Kind::L1].source), (Ok(111), Ok(Source::Shm)), "never added, never dropped");
    assert_eq!(kinds[Kind::Kernel].used, Err(Missing::NotTracked));
}

/// A device was closed and opened again. The live bytes are those of now, and the peak is the highest ever.
#[test]
fn a_closed_allocator_had_its_peak() {
    let chip = LedgerChip { metal_id: Some(1), unique_id: None };
    let closed = allocator(0, chip, false, vec![row(Kind::Dram, 0, 9000)]);
    let open = allocator(1, chip, true, vec![row(Kind::Dram, 100, 200)]);
    let snapshot = with_ledger(&crossed(), None, false, vec![closed, open]);
    let figure = &snapshot.processes[0].on(DeviceId(0)).unwrap().kinds[Kind::Dram];
    assert_eq!((figure.used, figure.peak), (Ok(100), Ok(9000)));
}

/// A mock's unique ids are 0 and 1 << 32. TT-Metal's statistics have the same ids. The program numbers its chips 0 and 1.
#[test]
fn unmapped_chips_have_the_programs_numbers_in_every_ledger() {
    let tree = crossed();
    tree.region("dev/shm", 0, &[(PID, "python3", 999, 111)]);
    tree.region("dev/shm", 1 << 32, &[(PID, "python3", 999, 222)]);
    let chip = |metal_id: u32, unique_id: Option<u64>| LedgerChip { metal_id: Some(metal_id), unique_id };
    let mut mesh = allocator(0, chip(0, None), true, vec![row(Kind::Dram, 4096, 8192)]);
    mesh.chips.push(chip(1, Some(1 << 32)));
    let snapshot = with_ledger(&tree, None, true, vec![mesh]);
    let unmapped = &snapshot.processes[0].unmapped;
    assert_eq!(unmapped.iter().map(|chip| (chip.id, chip.unique_id)).collect::<Vec<_>>(), [(0, Ok(0)), (1, Ok(1 << 32))]);
    let sources = |kind: Kind| unmapped.iter().map(|chip| (chip.kinds[kind].used, chip.kinds[kind].source)).collect::<Vec<_>>();
    assert_eq!(sources(Kind::Dram), [(Ok(4096), Ok(Source::Ledger)); 2]);
    assert_eq!(sources(Kind::L1), [(Ok(111), Ok(Source::Shm)), (Ok(222), Ok(Source::Shm))]);
    assert_eq!(snapshot.allocators[0].unmapped, [0, 1]);
}

/// A program that changed its visible devices has two chips with number 0. Memory that the program itself reported on an unknown chip is a
/// third one.
#[test]
fn numbers_that_two_chips_had_are_no_names() {
    let chip = |unique_id: Option<u64>| LedgerChip { metal_id: Some(0), unique_id };
    let allocators = [Some(70), Some(71), None].map(|unique_id| allocator(0, chip(unique_id), true, vec![row(Kind::Dram, 4096, 8192)]));
    let unique_ids = |allocators: &[LedgerAllocator]| {
        let snapshot = with_ledger(&crossed(), None, true, allocators.to_vec());
        snapshot.processes[0].unmapped.iter().map(|chip| (chip.id, chip.unique_id)).collect::<Vec<_>>()
    };
    assert_eq!(unique_ids(&allocators), [(0, Err(Missing::NoSource)), (70, Ok(70)), (71, Ok(71))]);
    assert_eq!(unique_ids(&allocators[1..]), [(0, Ok(71))]);
}

/// The service's ledger and the process's own ledger describe the same memory, so the memory is listed only once.
#[test]
fn a_ledger_reported_twice_is_listed_once() {
    let chip = LedgerChip { metal_id: Some(1), unique_id: None };
    let mut sample = and_ledger(crossed().machine().sample().unwrap(), None, false, vec![allocator(0, chip, true, vec![])]);
    let own = sample.ledgers[0].content.as_mut().unwrap();
    own.circulars =
        vec![LedgerCircular { allocator: 0, chip: None, program: 1, address: 0, size: 64, cores: [0, 0, 1, 1], is_global: false }];
    let mut reported = sample.ledgers[0].clone();
    reported.content.as_mut().unwrap().writer = LedgerWriter::Service;
    sample.ledgers.push(reported);
    let snapshot = Snapshot::derive(&sample, None);
    assert_eq!((snapshot.allocators.len(), snapshot.circulars.len()), (1, 1));
}

/// A process without a device is checked again only when its mappings change.
#[test]
fn a_process_is_looked_through_again_when_its_mappings_change() {
    const OTHER: u32 = 77;
    let tree = crossed();
    tree.process(OTHER, "late", MINUTE);
    tree.put(&format!("proc/{OTHER}/maps"), "");
    std::fs::create_dir_all(tree.path(&format!("proc/{OTHER}/fd"))).unwrap();
    let ledgers = Ledgers { detail: LedgerDetail::Totals, scope: LedgerScope::Everybody, machine: 0 };
    let mut machine = tree.machine_with(Options { sampling: Sampling::Repeated, ledgers, ..Options::default() });
    let mut is_taken =
        |samples: usize| (0..samples).any(|_| machine.sample().unwrap().processes.iter().any(|process| process.key.pid == OTHER));
    assert!(!is_taken(6), "nothing leads to a ledger");
    std::os::unix::fs::symlink("/memfd:ttmon-ledger (deleted)", tree.path(&format!("proc/{OTHER}/fd/3"))).unwrap();
    assert!(!is_taken(6), "a ledger is a mapping more, and there is none");
    let stat = format!("proc/{OTHER}/stat");
    let text = std::fs::read_to_string(tree.path(&stat)).unwrap();
    let mut fields: Vec<&str> = text.split(' ').collect();
    // Field 23 is the size of the process's memory.
    fields[22] = "987654321";
    tree.put(&stat, &fields.join(" "));
    assert!(is_taken(6), "its mappings changed");
}

/// A program often ends after a failed allocation, before the next snapshot.
#[test]
fn refusals_stay_counted_after_the_program_ended() {
    let chip = LedgerChip { metal_id: Some(0), unique_id: None };
    let tree = crossed();
    let refused = |count: u64| vec![allocator(0, chip, true, vec![LedgerRow { refused: count, ..row(Kind::Dram, 1, 1) }])];
    let sample = |count: u64| and_ledger(tree.machine().sample().unwrap(), None, false, refused(count));
    let mut refusals = ttmon_model::Refusals::default();
    let mut count = |live: Option<u64>, departed: Option<u64>, ended: Option<u64>| {
        let departed: Vec<LedgerSample> = departed.map(sample).map_or_else(Vec::new, |sample| sample.ledgers);
        let mut snapshot = Snapshot::derive(&sample(live.unwrap_or(0)), None);
        if live.is_none() {
            snapshot.allocators.clear();
            snapshot.processes.clear();
        }
        let ended = ended.map_or_else(Vec::new, |count| Snapshot::derive(&sample(count), None).allocators);
        refusals.apply(&mut snapshot, departed.iter(), &ended);
        [0, 1].map(|id| device(&snapshot, id).memory.refusals)
    };
    assert_eq!(count(Some(0), None, None), [Ok(0), Ok(0)], "its allocator is on device 1");
    assert_eq!(count(Some(2), None, None), [Ok(0), Ok(2)]);
    assert_eq!(count(None, Some(3), Some(3)), [Ok(0), Ok(3)], "found by both ways, counted once");
    assert_eq!(count(None, Some(3), None), [Ok(0), Ok(3)], "the ledger stays listed for a while");
    assert_eq!(count(None, None, None), [Ok(0), Ok(3)]);
    assert_eq!(count(Some(1), None, None), [Ok(0), Ok(4)], "another program");
    assert_eq!(count(None, None, None), [Ok(0), Ok(4)]);
    assert_eq!(count(None, None, Some(5)), [Ok(0), Ok(9)], "one that ended between two samples");
    assert_eq!(count(None, None, None), [Ok(0), Ok(9)]);
}
