//! Writers, allocators and random numbers for tests.

use ttmon_ledger::layout::{Refused, WriterKind};
use ttmon_ledger::report;
use ttmon_ledger::writer::{
    AllocatorId, AllocatorSpec, Buffer, Chip, Circular, ClockChoice, Config, Failure, Key, KindGeometry, Session, Stored, Writer,
};

pub const CONFIG: Config = Config { kind: WriterKind::Client, version: "test", clock: ClockChoice::Auto, machine: 7, on_created: None };

pub fn writer(capacity: u32) -> Writer {
    Writer::beside_others(CONFIG, capacity)
}

/// Kind 0 has twelve banks, kind 1 sixty-four; the others are unknown.
pub fn spec(given_id: u32) -> AllocatorSpec<'static> {
    let mut kinds = [KindGeometry::default(); 6];
    kinds[0] = KindGeometry { banks: 12, alignment: 64, bank_bytes: 1 << 30, base: 0 };
    kinds[1] = KindGeometry { banks: 64, alignment: 32, bank_bytes: 1 << 20, base: 0 };
    AllocatorSpec { given_id, origin: 1, mesh: (1, 1), kinds, chips: &[Chip { metal_id: 0, unique_id: 0xABC, flags: 0 }] }
}

pub fn open(session: &mut Session<'_>, given_id: u32) -> AllocatorId {
    session.open_allocator(&spec(given_id)).expect("an allocator is free")
}

/// A failed allocation of this kind.
pub fn refused(allocator: AllocatorId, kind: u8, size: u64) -> Failure<'static> {
    Failure {
        what: Refused::OutOfMemory,
        allocator,
        kind,
        size,
        per_bank: size.div_ceil(12),
        banks: 12,
        free_per_bank: 10,
        largest_free_per_bank: 5,
        tag: 0,
        operation: 0,
        stack: 0,
        message: "Out of Memory: Not enough space",
    }
}

/// A circular buffer of program 0 on four cores of all chips.
pub fn circular(allocator: AllocatorId) -> Circular {
    Circular { allocator, chip: None, program: 0, address: 0x1_9D60, size: 4096, cores: [0, 0, 1, 1], is_dataflow: false, is_global: false }
}

/// Adds a reference to the buffer with this key.
pub fn reference(session: &mut Session<'_>, key: Key) -> Option<u32> {
    let buffer = Buffer { size: session.find(key)?.size, ..Buffer::default() };
    match report::allocate(session, key, &buffer) {
        Ok(Stored::Referenced(references)) => Some(references),
        _ => None,
    }
}

pub fn key(allocator: AllocatorId, kind: u8, address: u64) -> Key {
    Key { allocator, kind, address }
}

/// SplitMix64. A test that fails prints its seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
