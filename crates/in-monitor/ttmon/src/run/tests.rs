//! Tests of the summary, with an artificial ledger and machine.

use std::fs::File;

use ttmon_buffer_history::History;
use ttmon_buffer_history::{Checks, ChipName, CommandEnd, LedgerSummary, RunSummary};
use ttmon_collect::{Isolation, Machine, Options, Root};
use ttmon_ledger::layout::{WriterKind, flag, kind};
use ttmon_ledger::writer::{AllocatorSpec, Buffer, Chip, ClockChoice, Config, Key, KindGeometry, Writer};
use ttmon_ledger_reader::Region;
use ttmon_model::{DeviceId, Sample};
use ttmon_print::Style;

use super::epilogue;

/// A machine with two n300: devices 0 and 1 on PCIe, 2 and 3 behind them.
fn machine() -> Sample {
    let folder = ttmon_testing::directory();
    let machine = ttmon_sim::Machine::new(&ttmon_sim::Spec::parse("n300x2").unwrap(), 1).unwrap();
    machine.write(folder.path(), 0, &vec![None; machine.process_count()]).unwrap();
    let options = Options { isolation: Isolation::Threads, ..Options::default() };
    Machine::new(Root::at(folder.path()), options).unwrap().sample().unwrap()
}

/// A program with a mesh of two chips. It has weights, layers, a leftover buffer and a buffer of the program cache.
fn summarized() -> LedgerSummary {
    summarized_on([0, 1].map(|metal_id| Chip { metal_id, unique_id: 0, flags: 0 }))
}

fn summarized_on(chips: [Chip; 2]) -> LedgerSummary {
    let config = Config { kind: WriterKind::Hook, version: "test", clock: ClockChoice::Auto, machine: 0, on_created: None };
    let writer = Writer::beside_others(config, 1024);
    let mut session = writer.session().unwrap();
    let mut kinds = [KindGeometry::default(); 6];
    kinds[0] = KindGeometry { banks: 12, alignment: 32, bank_bytes: 1 << 30, base: 0 };
    let spec = AllocatorSpec { given_id: 0, origin: 2, mesh: (1, 2), kinds, chips: &chips };
    let allocator = session.open_allocator(&spec).unwrap();
    let key = |kind, address| Key { allocator, kind, address };
    let tags = ["load", "layer 1", "layer 2"].map(|tag| session.tag(tag));
    for (address, (size, tag)) in (1..).zip([(6 << 30, tags[0]), (1 << 30, tags[1]), (2_u64 << 30, tags[2]), (1 << 30, 0)]) {
        session.insert(key(kind::DRAM, address), &Buffer { size, per_bank: 1 << 20, layout: 5, tag, ..Buffer::default() }).unwrap();
    }
    session.insert(key(kind::L1, 1), &Buffer { size: 4096, per_bank: 64, flags: flag::CACHE, ..Buffer::default() }).unwrap();
    for address in [1, 2, 4] {
        session.remove(key(kind::DRAM, address)).unwrap();
    }
    drop(session);
    let file = File::open(format!("/proc/self/fd/{}", writer.descriptor().unwrap())).unwrap();
    LedgerSummary::read(&Region::open(file).unwrap(), History::default(), Some(4242), false, 1000).unwrap()
}

fn run(machine: Option<&Sample>) -> RunSummary {
    let summary = summarized();
    let opened = summary.ledger.allocators[0].opened.0;
    let command = ["python", "model.py"].map(str::to_owned).to_vec();
    RunSummary::new(command, CommandEnd::Exit(0), (opened - 41_500_000_000, opened + 92_500_000_000), vec![summary], machine)
}

fn unmapped(number: u64) -> ChipName {
    ChipName::Unmapped { identity: number, number, is_mock: false }
}

fn lines(run: &RunSummary) -> Vec<String> {
    epilogue::lines(run, &Style::plain("0.1.0"), None)
}

#[test]
fn figures_stand_on_the_devices_of_the_machine() {
    let run = run(Some(&machine()));
    assert_eq!(run.chips.keys().copied().collect::<Vec<_>>(), [ChipName::Device(DeviceId(0)), ChipName::Device(DeviceId(1))]);
    assert_eq!(
        lines(&run),
        [
            "ttmon: python model.py: exit 0 after 2m14s, 5 allocations",
            "  devices 0-1  DRAM peak 10.0GB of 12.0GB (83%) at 00:41   L1 peak 4.0KB of 91.5MB (<1%) at 00:41   LEFT 2.0GB in 1 buffer",
            "  at the DRAM peak of device 0:   6.0GB tag \"load\"   3.0GB tag \"layer *\" (2 buffers)   1.0GB other",
            "  left at exit on devices 0-1:  2.0GB DRAM 0x3 tag \"layer 2\" age 1m32s",
        ]
    );
    let document = run.report("0", |_| None);
    assert_eq!((&document["devices"][1]["id"], &document["leaks"][0]["devices"]), (&1.into(), &serde_json::json!([0, 1])));
    assert_eq!((&document["leaks"][0]["layout"], &document["cache"][0]["layout"]), (&"nd_sharded".into(), &serde_json::Value::Null));
    assert_eq!((&document["cache"][0]["size"], &document["leaked"]["bytes"]), (&4096.into(), &(2_u64 << 30).into()));
    let peak_time = document["devices"][0]["kinds"]["dram"]["peak_time_s"].as_f64().unwrap();
    assert!((41.0..42.0).contains(&peak_time), "{peak_time}");
}

#[test]
fn without_a_machine_they_stand_under_the_programs_own_ids() {
    let run = run(None);
    assert_eq!(run.chips.keys().copied().collect::<Vec<_>>(), [0, 1].map(unmapped));
    let lines = lines(&run);
    assert!(
        lines[1].starts_with("  chips 0,1  DRAM peak 10.0GB of 12.0GB") && lines.last().unwrap().contains("no device here"),
        "{lines:?}"
    );
}

/// A mesh and its submesh share a chip, and both are closed with live buffers. The chip held the buffers of both at the same time. The
/// ledger records this sum only for allocators with the same origin; for others the sum of the leftover buffers is a lower bound.
#[test]
fn a_peak_of_a_chip_is_of_all_its_allocators() {
    assert_eq!(peaks_of_a_mesh_and_its_submesh(2), ["  chip 0  DRAM peak 2.0MB", "  chip 1  DRAM peak 2.5MB"]);
    assert_eq!(peaks_of_a_mesh_and_its_submesh(1), ["  chip 0  DRAM peak 2.0MB", "  chip 1  DRAM peak at least 2.5MB"]);
}

fn peaks_of_a_mesh_and_its_submesh(origin_of_submesh: u32) -> [String; 2] {
    let config = Config { kind: WriterKind::Hook, version: "test", clock: ClockChoice::Auto, machine: 0, on_created: None };
    let writer = Writer::beside_others(config, 1024);
    // Each session has a later time.
    let session = || writer.session().unwrap();
    let chips = [0, 1].map(|metal_id| Chip { metal_id, unique_id: 0, flags: 0 });
    let open = |chips: &[Chip], origin| {
        let spec = AllocatorSpec { given_id: 0, origin, mesh: (0, 0), kinds: [KindGeometry::default(); 6], chips };
        session().open_allocator(&spec).unwrap()
    };
    let insert = |allocator, size| {
        session().insert(Key { allocator, kind: kind::DRAM, address: 1 }, &Buffer { size, ..Buffer::default() }).unwrap();
    };
    let (mesh, submesh, later) = (open(&chips, 2), open(&chips[1..], origin_of_submesh), open(&chips[1..], 2));
    insert(mesh, 2 << 20);
    insert(submesh, 512 << 10);
    session().close_allocator(submesh);
    session().close_allocator(mesh);
    // The other allocators are closed, so their buffers do not count.
    insert(later, 1 << 20);
    session().close_allocator(later);
    let file = File::open(format!("/proc/self/fd/{}", writer.descriptor().unwrap())).unwrap();
    let summary = LedgerSummary::read(&Region::open(file).unwrap(), History::default(), Some(4242), false, 1000).unwrap();
    let run = RunSummary::new(vec!["true".to_owned()], CommandEnd::Exit(0), (0, u64::MAX), vec![summary], None);
    let lines = lines(&run);
    let until_time = |line: usize| lines[line].split("   LEFT").next()?.rsplit_once(" at ").map(|(text, _)| text.to_owned());
    [1, 2].map(|line| until_time(line).unwrap_or_default())
}

/// The unique ids of a mock device are 0 and 1 << 32. No device of the machine has them.
#[test]
fn chips_go_by_the_numbers_that_the_program_gave() {
    for machine in [None, Some(machine())] {
        let mut summary = summarized_on([(0, 0), (1, 1 << 32)].map(|(metal_id, unique_id)| Chip { metal_id, unique_id, flags: 0 }));
        summary.ledger.is_mock = true;
        let run = RunSummary::new(vec!["x".to_owned()], CommandEnd::Exit(0), (0, u64::MAX), vec![summary], machine.as_ref());
        assert!(lines(&run)[1].starts_with("  simulated chips 0,1  DRAM"), "{:?}", lines(&run));
        let document = run.report("0", |_| None);
        let unmapped: Vec<_> = document["devices"].as_array().unwrap().iter().map(|device| &device["unmapped"]).collect();
        assert_eq!(unmapped, ["0", "1"]);
        assert_eq!(document["leaks"][0]["unmapped"], serde_json::json!(["0", "1"]));
        assert!(document["peak_set"].as_array().unwrap().iter().all(|group| group["device"] == "0" || group["device"] == "1"));
    }
}

/// Two programs see different devices: number 0 of the second program is number 1 of the first.
#[test]
fn numbers_of_different_chips_are_no_names() {
    let summaries = [[70, 71], [71, 72]].map(|unique_ids| {
        let mut number = 0..;
        summarized_on(unique_ids.map(|unique_id| Chip { metal_id: number.next().unwrap(), unique_id, flags: 0 }))
    });
    let run = RunSummary::new(vec!["x".to_owned()], CommandEnd::Exit(0), (0, u64::MAX), summaries.into(), None);
    assert_eq!(run.chips.keys().copied().collect::<Vec<_>>(), [70, 71, 72].map(unmapped));
    assert_eq!(ChipName::list(&[70, 71, 72].map(unmapped)), "chips 70,71,72");
}

/// If the allocator does not give its capacity, a percentage is computed from the capacity of the device.
#[test]
fn shares_of_a_chip() {
    let limits = |l1: &str| Checks { max_l1: Some(l1.parse().unwrap()), ..Checks::default() };
    let (known, unknown) = (run(Some(&machine())), run(None));
    assert_eq!(limits("1%").failures(&known), [""; 0]);
    assert_eq!(limits("0.001%").failures(&known).len(), 2);
    assert!(limits("1%").failures(&unknown)[0].contains("cannot be checked"));
}

/// The script name is at the beginning of the command, and its arguments are at the end.
#[test]
fn a_long_command_loses_its_middle() {
    let mut run = run(None);
    run.command = ["python", &format!("/home/developer/{}/train.py", "deep/".repeat(20)), "--batch", "32"].map(str::to_owned).to_vec();
    let head = lines(&run).remove(0);
    assert!(
        head.starts_with("ttmon: python /home/") && head.contains("...") && head.contains("train.py --batch 32: exit 0 after"),
        "{head}"
    );
    let narrow = epilogue::lines(&run, &Style::plain("0.1.0"), Some(80));
    assert!(narrow.iter().all(|line| line.chars().count() <= 80), "{narrow:#?}");
    assert!(narrow[0].starts_with("ttmon: python /home/") && narrow[0].ends_with("5 allocations"), "{narrow:#?}");
}

#[test]
fn no_more_lines_than_a_screen_has() {
    let mut run = run(None);
    let chip = run.chips.values().next().unwrap().clone();
    for id in 2..60 {
        let mut other = chip.clone();
        other.leaked = (id, id << 20);
        run.chips.insert(unmapped(id), other);
    }
    let lines = lines(&run);
    assert_eq!(lines.len(), 24);
    assert!(lines[23].contains("more lines; --report FILE has everything"), "{}", lines[23]);
}
