//! Attacks by ledgers: very long lists, and false counts.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::MemfdFlags;
use ttmon_ledger::layout::{ROWS, WriterKind, allocator, header, kind, origin, row};
use ttmon_ledger::writer::{AllocatorId, AllocatorSpec, Buffer, Chip, Circular, ClockChoice, Config, Key, KindGeometry, Session, Writer};

use crate::host::{Actor, hold, strength};
use crate::isolation::{PROGRAM, Pids};
use crate::scan::{By, attack, many};
use crate::{Case, Role};

pub(crate) const CASES: &[Case] = &[
    ("circular_buffers_of_one_user_are_cut", Pids::Private, circular_buffers),
    ("allocators_of_one_user_are_cut", Pids::Private, many_allocators),
    ("chips_in_ledgers_of_one_user_are_cut", Pids::Private, many_chips),
    ("derive_steps_of_one_user_are_cut", Pids::Private, costly_circulars),
    ("understated_ledgers_are_cut", Pids::Private, understated_ledgers),
];

pub(crate) const ROLES: &[Role] = &[
    ("circulars", circulars),
    ("spread", spread),
    ("allocators", allocators),
    ("buffers", buffers),
    ("understated", understated),
    ("holding", holding),
];

static WRITER: Writer =
    Writer::new(Config { kind: WriterKind::Client, version: "test", clock: ClockChoice::Auto, machine: 0, on_created: None });

fn open_allocator(session: &mut Session<'_>, given_id: u32, chips: u32) -> AllocatorId {
    open_allocator_of(session, given_id, chips, origin::CLIENT)
}

fn open_allocator_of(session: &mut Session<'_>, given_id: u32, chips: u32, origin: u32) -> AllocatorId {
    let chips: Vec<Chip> = (0..chips).map(|chip| Chip { metal_id: given_id * chips + chip, unique_id: 0, flags: 0 }).collect();
    let kinds = [KindGeometry { banks: 1, alignment: 32, bank_bytes: 1 << 40, base: 0 }; allocator::KINDS_MAX];
    session.open_allocator(&AllocatorSpec { given_id, origin, mesh: (1, 1), kinds, chips: &chips }).unwrap()
}

fn insert(session: &mut Session<'_>, allocator: AllocatorId, kind: u8, number: u64) {
    let buffer = Buffer { size: 16, per_bank: 16, page: 16, layout: 1, ..Buffer::default() };
    session.insert(Key { allocator, kind, address: number * 32 }, &buffer).unwrap();
}

fn circular_buffers() {
    attack(|| many(strength(8, 300), "circulars", &["65536"]), "circular buffers", By::Everybody);
}

/// COUNT: writes a ledger with this many live circular buffers.
fn circulars(arguments: &[String]) {
    let mut session = WRITER.session().unwrap();
    let allocator = open_allocator(&mut session, 0, 1);
    for number in 0..arguments[0].parse().unwrap() {
        let circular = Circular {
            allocator,
            chip: None,
            program: number,
            address: number * 16,
            size: 16,
            cores: [0, 0, 1, 1],
            is_dataflow: false,
            is_global: false,
        };
        session.add_circular(&circular).unwrap();
    }
    drop(session);
    hold();
}

fn many_allocators() {
    attack(|| many(strength(40, 300), "allocators", &["256", "1"]), "allocators", By::Everybody);
}

fn many_chips() {
    attack(|| many(strength(24, 100), "allocators", &["24", "64"]), "chips of allocators", By::Everybody);
}

/// A few circular buffers that are expensive to add up per core: each has a different rectangle of cores, and one a chip.
fn costly_circulars() {
    attack(|| many(strength(40, 300), "spread", &["200"]), "derive steps", By::Everybody);
}

/// The last column and row that a ledger can name.
const LAST_CORE: u32 = 63;

/// COUNT: writes a ledger with this many circular buffers on different cores of 64 chips.
fn spread(arguments: &[String]) {
    let mut session = WRITER.session().unwrap();
    let allocator = open_allocator_of(&mut session, 0, 64, origin::HOOK);
    for number in 0..arguments[0].parse::<u32>().unwrap() {
        let (column, row) = (u8::try_from(number % LAST_CORE).unwrap(), u8::try_from(number / 3 % LAST_CORE).unwrap());
        let last = u8::try_from(LAST_CORE).unwrap();
        let circular = Circular {
            allocator,
            chip: (number == 0).then_some(0),
            program: number,
            address: number * 16,
            size: 16,
            cores: [column, row, last, last],
            is_dataflow: false,
            is_global: false,
        };
        session.add_circular(&circular).unwrap();
    }
    drop(session);
    hold();
}

/// COUNT CHIPS: opens this many allocators, each with this many chips.
fn allocators(arguments: &[String]) {
    let mut session = WRITER.session().unwrap();
    for number in 0..arguments[0].parse().unwrap() {
        let allocator = open_allocator(&mut session, number, arguments[1].parse().unwrap());
        insert(&mut session, allocator, kind::DRAM, 1);
    }
    drop(session);
    hold();
}

/// COUNT: writes a ledger with this many live buffers.
fn buffers(arguments: &[String]) {
    fill(arguments[0].parse().unwrap());
    hold();
}

fn fill(count: u64) {
    let mut session = WRITER.session().unwrap();
    let allocator = open_allocator(&mut session, 0, 1);
    // Kernels are listed in every scan.
    insert(&mut session, allocator, kind::KERNEL, 1);
    for number in 0..count {
        insert(&mut session, allocator, kind::DRAM, number);
    }
}

fn understated_ledgers() {
    let count = strength(2, 40);
    attack(|| (0..count).map(|_| Actor::start(crate::host::ATTACKER, "understated", &["1000000"])).collect(), "buffers", By::Everybody);
}

/// COUNT: holds a ledger with this many live buffers whose header and row count ten. The ledger is a copy, because a process cannot write
/// to its own ledger through the file. The process then executes another program with the same pid, which has only the copy.
fn understated(arguments: &[String]) {
    let count: u64 = arguments[0].parse().unwrap();
    fill(count);
    let ledger = File::open(format!("/proc/self/fd/{}", WRITER.descriptor().unwrap())).unwrap();
    let copy = File::from(rustix::fs::memfd_create("ttmon-ledger", MemfdFlags::empty()).unwrap());
    let length = ledger.metadata().unwrap().len();
    copy.set_len(length).unwrap();
    let mut piece = vec![0; 1 << 16];
    for offset in (0..length).step_by(piece.len()) {
        let count = ledger.read_at(&mut piece, offset).unwrap();
        if piece[..count].iter().any(|byte| *byte != 0) {
            copy.write_all_at(&piece[..count], offset).unwrap();
        }
    }
    copy.write_all_at(&10_u64.to_le_bytes(), header::LIVE_ENTRIES).unwrap();
    // The row of the first allocator.
    let row_of_dram = ROWS.offset + u64::from(kind::DRAM) * u64::from(ROWS.stride);
    copy.write_all_at(&(count - 10).to_le_bytes(), row_of_dram + row::FREES).unwrap();
    let error = Command::new(PROGRAM).args(["role", "holding"]).exec();
    panic!("{error}");
}

fn holding(_: &[String]) {
    hold();
}
