//! Banks and fragmentation of a process that the hook tracks.

use std::process::Command;

use ttmon_client::hooked;
use ttmon_collect::ledgers::LedgerDetail;
use ttmon_collect::{Isolation, LedgerScope, Ledgers, Options, Root};
use ttmon_ledger::layout::{self, kind, origin};
use ttmon_ledger::writer::{AllocatorSpec, Buffer, Chip, Key, KindGeometry};
use ttmon_model::{Kind, Missing, Snapshot};
use ttmon_monitor::Monitor;
use ttmon_testing::is_alone;

use crate::machine::Made;
use crate::{lines, tools};

/// Tracks four banks of 1,000 bytes with a hole of 100 between two buffers: 600 are free, 500 of them in one block.
fn track() {
    assert!(ttmon_client::start(ttmon_client::Options { machine: 0 }));
    let mut kinds = [KindGeometry::default(); layout::allocator::KINDS_MAX];
    kinds[usize::from(kind::L1)] = KindGeometry { banks: 4, alignment: 4, bank_bytes: 1000, base: 0x100 };
    let chips = [Chip { metal_id: 0, unique_id: 0, flags: 0 }];
    let spec = AllocatorSpec { given_id: 0, origin: origin::HOOK, mesh: (1, 1), kinds, chips: &chips };
    hooked::with(|session| {
        let allocator = session.open_allocator(&spec).unwrap();
        for (address, per_bank) in [(0x100, 200), (0x100 + 300, 200)] {
            let buffer = Buffer { size: u64::from(per_bank) * 4, per_bank, ..Buffer::default() };
            session.insert(Key { allocator, kind: kind::L1, address }, &buffer).unwrap();
        }
    })
    .unwrap();
}

fn listed(made: &Made) -> Snapshot {
    let ledgers = Ledgers { scope: LedgerScope::Holders, detail: LedgerDetail::Blocks, ..Options::default().ledgers };
    let options = Options { isolation: Isolation::Threads, ledgers, ..Options::default() };
    Snapshot::derive(&ttmon_collect::Machine::new(Root::at(made.path()), options).unwrap().sample().unwrap(), None)
}

#[test]
fn detailed_stats_have_banks_and_fragmentation() {
    // A process has one ledger, and that of this one is of the other tests.
    if !is_alone("banks::detailed_stats_have_banks_and_fragmentation", |_| {}) {
        return;
    }
    track();
    let made = Made::new("n150x3,procs=1");
    let monitor = Monitor::at(made.path()).unwrap();
    let own = std::process::id();
    // Successive calls use the same sample, in any order.
    monitor.set_max_age(std::time::Duration::from_secs(3600));
    let time = monitor.system_stats(0).unwrap().unwrap().time;
    let stats = monitor.detailed_stats(0).unwrap().unwrap();
    assert_eq!((stats.time, stats.allocators.len()), (time, 1));
    let allocator = &stats.allocators[0];
    assert_eq!((allocator.pid, allocator.mesh), (own, Some((1, 1))));
    let banks = allocator.kinds[Kind::L1].as_ref().unwrap();
    assert_eq!((banks.banks, banks.bank_bytes), (4, 1000));
    assert_eq!((banks.allocated_per_bank, banks.free_per_bank, banks.largest_free_per_bank), (Ok(400), Ok(600), Ok(500)));
    assert_eq!((banks.blocks, banks.table.len()), (Ok(4), 4));
    assert!((banks.fragmentation.unwrap() - 1.0 / 6.0).abs() < 1e-9);
    assert_eq!(allocator.kinds[Kind::Kernel].as_ref().err(), Some(&Missing::NotTracked));
    // The memory of a process on one device.
    let here = monitor.process_stats_on(own, 0).unwrap().unwrap();
    assert_eq!((here.device.0, here.kinds[Kind::L1].used), (0, Ok(1600)));
    assert_eq!(monitor.process_stats_on(own, 7).unwrap(), None);

    // Processes are omitted, because the time of a peak differs by nanoseconds between two reads.
    let expected = lines::lines(&listed(&made), &[]);
    assert!(expected.contains("largest_free_per_bank=500 fragmentation=0.167 blocks=4"), "{expected}");
    if tools::has("cc") && tools::has("c++") {
        let folder = tempfile::tempdir().unwrap();
        for source in ["figures.c", "figures.cpp"] {
            let mut program = Command::new(tools::program(&folder, source));
            assert_eq!(tools::succeeds(program.arg(made.path())), expected, "{source}");
        }
    }
    tools::python_prints(made.path(), &[], &expected);
}
