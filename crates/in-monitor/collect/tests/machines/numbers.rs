//! TT-Metal's numbers of remote chips, from a found cluster descriptor and from ledgers.

use ttmon_collect::Options;
use ttmon_model::identity::ProcessKey;
use ttmon_model::ledger::{Ledger, LedgerAllocator, LedgerChip, LedgerSample, LedgerWriter, VisibleDevices};
use ttmon_model::sample::Proven;
use ttmon_model::{Sample, Snapshot};

use crate::boards::check;
use crate::tree::{N300, Tree};

/// PCI address and serial of two boards with a remote chip each.
const BOARDS: [(&str, u64); 2] = [("0000:41:00.0", 72_058_990_194_901_188), ("0000:42:00.0", 72_058_990_194_901_189)];

fn two_n300() -> Tree {
    let tree = Tree::new("2.9.0");
    for (n, (bdf, serial)) in (0..).zip(BOARDS) {
        tree.device(n, bdf);
        tree.files(n, N300);
        tree.files(n, &format!("tt_serial\t{serial:016X}"));
        tree.pids(n, "7\n8\n");
    }
    tree
}

/// The unique ids of the first board's local and remote chip, then of the second's.
fn unique_ids() -> [u64; 4] {
    let low = |board: usize| ((BOARDS[board].1 >> 4) & 0xF000_0000) | (BOARDS[board].1 & 0x0FFF_FFFF);
    [2 << 32 | low(0), 3 << 32 | low(0), 2 << 32 | low(1), 3 << 32 | low(1)]
}

/// UMD leaves descriptors in /tmp. The newest one of this machine is used. Those of other machines are not used, and a descriptor that the
/// user named takes precedence.
#[test]
fn a_descriptor_that_was_left_behind_numbers_remote_chips() {
    let tree = two_n300();
    // The remote chip of the second board is found first.
    let descriptor = |shift: u64| {
        let [l0, r0, l1, r1] = unique_ids().map(|id| id + shift);
        format!(
            "arch:\n  0: wormhole_b0\n  1: wormhole_b0\n  2: wormhole_b0\n  3: wormhole_b0\nchip_unique_ids:\n  \
             0: {l0}\n  1: {l1}\n  2: {r1}\n  3: {r0}\n\
             chips_with_mmio:\n  - 0: 0\n  - 1: 1\nboards:\n  -\n    - board_id: {0}\n    - board_type: n300\n    \
             - chips:\n        - 0\n        - 3\n  \
             -\n    - board_id: {1}\n    - board_type: n300\n    - chips:\n        - 1\n        - 2\n",
            BOARDS[0].1, BOARDS[1].1
        )
    };
    check(&tree.snapshot(), 2, "chip R\nvia 0\nmetal_id !no_source");
    tree.put("tmp/umd_stranger/cluster_descriptor.yaml", &descriptor(77));
    check(&tree.snapshot(), 2, "metal_id !no_source");
    tree.put("tmp/umd_Xy12Zz/cluster_descriptor.yaml", &descriptor(0));
    let snapshot = tree.snapshot();
    check(&snapshot, 2, "chip R\nvia 0\nmetal_id 3");
    check(&snapshot, 3, "chip R\nvia 1\nmetal_id 2");
    let named = ttmon_model::cluster::Cluster::default();
    let sample = tree.machine_with(Options { cluster: Some(named.clone()), ..Options::default() }).sample().unwrap();
    assert_eq!(sample.cluster, Some(named));
    tree.remove("tmp/umd_Xy12Zz/cluster_descriptor.yaml");
    tree.put("etc/ttmon/cluster_descriptor.yaml", &descriptor(0));
    check(&tree.snapshot(), 2, "metal_id 3");
}

/// A program with these chips: number and unique id.
fn program(pid: u32, chips: &[(u32, u64)]) -> LedgerSample {
    let chip = |(number, unique_id): &(u32, u64)| LedgerChip { metal_id: Some(*number), unique_id: Some(*unique_id) };
    let allocator = LedgerAllocator {
        slot: 0,
        generation: 1,
        origin: LedgerWriter::Hook,
        chips: chips.iter().map(chip).collect(),
        ..LedgerAllocator::default()
    };
    let ledger = Ledger { events: 1, allocators: vec![allocator], ..Ledger::empty(LedgerWriter::Hook) };
    LedgerSample { owner: ProcessKey { pid, start_ticks: 1 }, content: Ok(ledger) }
}

fn with(sample: &Sample, ledgers: Vec<LedgerSample>) -> Sample {
    Sample { ledgers, ..sample.clone() }
}

#[test]
fn ledgers_prove_numbers_of_remote_chips() {
    let sample = two_n300().machine_with(Options::default()).sample().unwrap();
    let [_, r0, _, r1] = unique_ids();
    let remotes = |sample: &Sample| {
        let snapshot = Snapshot::derive(sample, None);
        [2, 3].map(|id| snapshot.devices[id].metal_id.ok())
    };
    let one = program(7, &[(3, r0)]);
    assert_eq!(remotes(&sample), [None, None]);
    assert_eq!(remotes(&with(&sample, vec![one.clone()])), [Some(3), Some(2)], "the other one is what is left");
    let kept = Sample { proven: ttmon_model::proven(&with(&sample, vec![one.clone()])), ..sample.clone() };
    assert_eq!(kept.proven, [Proven { number: 3, unique_id: r0, is_contested: false }]);
    assert_eq!(remotes(&kept), [Some(3), Some(2)], "after its end too");
    assert_eq!(remotes(&with(&sample, vec![one, program(8, &[(3, r1)])])), [None, None], "two disagree");
    assert_eq!(remotes(&with(&sample, vec![program(9, &[(3, r0)])])), [None, None], "it does not hold the chip");
    assert_eq!(remotes(&with(&sample, vec![program(7, &[(0, r0)])])), [None, None], "a number of a local chip");
    let mut mock = program(7, &[(3, r0)]);
    mock.content.as_mut().unwrap().is_mock = true;
    assert_eq!(remotes(&with(&sample, vec![mock])), [None, None]);
    let mut other_view = program(7, &[(3, r0)]);
    other_view.content.as_mut().unwrap().visible_devices = VisibleDevices::Only("1".to_owned());
    assert_eq!(remotes(&with(&sample, vec![other_view])), [None, None]);
}

/// Any user who holds a gateway may claim any number. If two claims contradict each other, neither is used.
#[test]
fn contradicted_numbers_are_none() {
    let sample = two_n300().machine_with(Options::default()).sample().unwrap();
    let [_, r0, _, r1] = unique_ids();
    let derived = |sample: &Sample| {
        let snapshot = Snapshot::derive(sample, None);
        let is_said = snapshot.problems.iter().any(|problem| problem.detail.contains("programs disagree about TT-Metal's numbers"));
        ([2, 3].map(|id| snapshot.devices[id].metal_id.ok()), is_said)
    };
    let next =
        |sample: &Sample, ledgers: Vec<LedgerSample>| Sample { proven: ttmon_model::proven(&with(sample, ledgers)), ..sample.clone() };
    let (honest, forged) = (|| program(7, &[(3, r0), (2, r1)]), || program(8, &[(2, r0)]));
    assert_eq!(derived(&with(&sample, vec![honest(), forged()])), ([None, None], true), "at the same time");
    let kept = next(&sample, vec![honest()]);
    assert_eq!(derived(&kept), ([Some(3), Some(2)], false));
    let both = with(&kept, vec![forged()]);
    assert_eq!(derived(&both), ([None, None], true), "one after the other");
    let still = next(&kept, vec![forged()]);
    assert_eq!(derived(&with(&still, vec![forged()])), ([None, None], true), "as long as it runs");
    let ended = next(&still, vec![program(9, &[])]);
    assert_eq!(derived(&ended), ([None, None], false), "nothing of either is kept");
    assert_eq!(derived(&with(&ended, vec![honest()])), ([Some(3), Some(2)], false));
}

/// If the holder of a chip is unknown, a program proves nothing.
#[test]
fn numbers_need_a_known_holder() {
    let tree = two_n300();
    tree.pids(0, "0\n8\n");
    let sample = tree.machine_with(Options::default()).sample().unwrap();
    let [_, r0, ..] = unique_ids();
    let snapshot = Snapshot::derive(&with(&sample, vec![program(7, &[(3, r0)])]), None);
    assert!(snapshot.devices[2].metal_id.is_err());
}

/// A program that starts while a card is missing gives other numbers to the cards after it.
#[test]
fn numbers_after_a_gone_card_are_not_certain() {
    let tree = two_n300();
    let mut machine = tree.machine_with(Options { sampling: ttmon_collect::reads::Sampling::Repeated, ..Options::default() });
    let [_, r0, ..] = unique_ids();
    let mut sample = machine.sample().unwrap();
    let numbers = |sample: &Sample| Snapshot::derive(sample, None).devices.iter().map(|device| device.metal_id.ok()).collect::<Vec<_>>();
    assert_eq!(numbers(&sample), [Some(0), Some(1), None, None]);
    tree.remove("sys/class/tenstorrent/tenstorrent!0");
    std::fs::remove_dir_all(tree.path("sys/devices/pci0000:00/0000:00:01.0/0000:41:00.0")).unwrap();
    sample = machine.sample().unwrap();
    sample.proven = vec![Proven { number: 3, unique_id: r0, is_contested: false }];
    assert_eq!(Snapshot::derive(&sample, None).devices[0].state, ttmon_model::snapshot::State::Gone);
    assert_eq!(numbers(&sample), [None; 4]);
}
