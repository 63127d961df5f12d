//! Real ledgers with one allocator: 12 banks of DRAM, 64 of L1.

use std::fs::File;

use ttmon_ledger::layout::{Refused, WriterKind, kind};
use ttmon_ledger::writer::{
    AllocatorId, AllocatorSpec, Buffer, Chip, ClockChoice, Config, Failure, Frame, Key, KindGeometry, Session, Writer,
};
use ttmon_ledger_reader::Region;

const BASE: u64 = 0x100;
pub(crate) const BANK: u64 = 1000;

pub(crate) fn writer() -> (Writer, AllocatorId, Region) {
    let config = Config { kind: WriterKind::Hook, version: "1", clock: ClockChoice::Auto, machine: 7, on_created: None };
    let writer = Writer::beside_others(config, 4096);
    let mut kinds = [KindGeometry::default(); 6];
    kinds[0] = KindGeometry { banks: 12, alignment: 1, bank_bytes: BANK, base: BASE };
    kinds[1] = KindGeometry { banks: 64, alignment: 1, bank_bytes: 50_000, base: 60_000 };
    kinds[2] = KindGeometry { banks: 64, alignment: 1, bank_bytes: 4096, base: 110_000 };
    let chips = [Chip { metal_id: 0, unique_id: 0, flags: 0 }];
    let spec = AllocatorSpec { given_id: 0, origin: 2, mesh: (1, 1), kinds, chips: &chips };
    let id = writer.session().expect("session").open_allocator(&spec).expect("room");
    let file = File::open(format!("/proc/self/fd/{}", writer.descriptor().expect("a ledger"))).expect("open");
    (writer, id, Region::open(file).expect("a ledger"))
}

pub(crate) fn dram(allocator: AllocatorId, start: u64) -> Key {
    Key { allocator, kind: kind::DRAM, address: BASE + start }
}

pub(crate) fn put_at(session: &mut Session<'_>, key: Key, per_bank: u32, line: u32) {
    let code = session.code("/me/model.py", "forward", 1).expect("room");
    let stack = session.add_stack(line.into(), &[Frame { code, line }], false);
    session.insert(key, &Buffer { size: u64::from(per_bank) * 12, per_bank, stack, ..Buffer::default() }).expect("room");
}

pub(crate) fn put(session: &mut Session<'_>, allocator: AllocatorId, start: u64, per_bank: u32, line: u32) {
    put_at(session, dram(allocator, start), per_bank, line);
}

pub(crate) fn refuse<'a>(allocator: AllocatorId, per_bank: u64, free: u64, largest: u64) -> Failure<'a> {
    Failure {
        what: Refused::OutOfMemory,
        allocator,
        kind: kind::DRAM,
        size: per_bank * 12,
        per_bank,
        banks: 12,
        free_per_bank: free,
        largest_free_per_bank: largest,
        tag: 0,
        operation: 0,
        stack: 0,
        message: "",
    }
}
