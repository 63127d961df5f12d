//! Ledgers with fixed contents: the real writer records events, then the times of this run are replaced.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::time::{ClockId, clock_gettime};
use ttmon_ledger::layout::{self, Coverage, Refused, WriterKind, flag, header, kind};
use ttmon_ledger::writer::{
    AllocatorId, AllocatorSpec, Buffer, Chip, Circular, ClockChoice, Config, Failure, Frame, Key, KindGeometry, SelfCheck, Session,
    TraceStep, Writer,
};

/// 2100-01-01T00:00:00Z in nanoseconds. It is later than every run, so that every age is 0.
const CREATED: u64 = 4_102_444_800_000_000_000;
/// The creation by the monotonic clock, and the time from one event to the next.
const FIRST_TIME: u64 = 1_000_000_000;
const STEP: u64 = 250_000_000;

const CAPACITY: u32 = 1024;
const CHIPS: [Chip; 2] = [Chip { metal_id: 0, unique_id: 0, flags: 0 }, Chip { metal_id: 1, unique_id: 0, flags: 0 }];

const DRAM: KindGeometry = KindGeometry { banks: 12, alignment: 32, bank_bytes: 1 << 30, base: 0x10_0040 };
const L1: KindGeometry = KindGeometry { banks: 64, alignment: 32, bank_bytes: 1 << 20, base: 0x1_9D60 };
const L1_SMALL: KindGeometry = KindGeometry { banks: 64, alignment: 32, bank_bytes: 1 << 15, base: 0x11_9D60 };
const TRACE: KindGeometry = KindGeometry { banks: 12, alignment: 32, bank_bytes: 1 << 25, base: 0x4010_0040 };

/// A ledger like that of the hook: a mesh and a submesh, banks, tags, lines, programs, refusals, phases and a trace.
pub(crate) fn hooked(pid: u32, start_ticks: u64) -> File {
    let ledger = File::from(rustix::fs::memfd_create("ttmon-ledger", MemfdFlags::CLOEXEC).unwrap());
    write(&ledger, WriterKind::Hook, pid, start_ticks, |writer| {
        let events = &mut Events { writer };
        let mesh = events.mesh(0, (1, 2), &CHIPS);
        let submesh = events.mesh(1, (1, 1), &CHIPS[..1]);
        events.features(mesh);
        events.layers(mesh);
        events.programs(mesh, submesh);
        events.refusals(mesh);
        events.after_the_mark(mesh, submesh);
    });
    ledger
}

/// A ledger like that of the service for a program that reports over its socket.
pub(crate) fn served(state: &Path, pid: u32, start_ticks: u64) {
    let ledger = File::create_new(state.join(format!("{pid}-{start_ticks}.ledger"))).unwrap();
    write(&ledger, WriterKind::Service, pid, start_ticks, |writer| {
        let spec = AllocatorSpec { given_id: 1, origin: 3, mesh: (0, 0), kinds: [KindGeometry::default(); 6], chips: &CHIPS[1..] };
        let allocator = writer.session().unwrap().open_allocator(&spec).unwrap();
        let events = &mut Events { writer };
        for (number, of) in [kind::DRAM, kind::L1, kind::L1_SMALL, kind::TRACE, kind::CB, kind::KERNEL, kind::HOST].into_iter().enumerate()
        {
            let number = number as u64 + 1;
            events.add(allocator, of, number << 12, number * 100_000, 0, |_, buffer| {
                buffer.flags = if of == kind::KERNEL { 1 << flag::KERNEL_TYPE_SHIFT } else { 0 }
            });
        }
    });
}

/// Records events into a new ledger, and copies it with another owner and fixed times.
fn write(to: &File, kind: WriterKind, pid: u32, start_ticks: u64, record: impl FnOnce(&Writer)) {
    let before = monotonic();
    let config = Config { kind, version: "test", clock: ClockChoice::Monotonic, machine: 0, on_created: None };
    let writer = Writer::beside_others(config, CAPACITY);
    drop(writer.session().unwrap());
    record(&writer);
    let after = monotonic();
    let from = File::open(format!("/proc/self/fd/{}", writer.descriptor().unwrap())).unwrap();
    let mut words = vec![0; usize::try_from(layout::entries(CAPACITY).end()).unwrap()];
    from.read_exact_at(&mut words, 0).unwrap();
    let (words, _) = words.as_chunks_mut::<8>();
    // Nothing else in a ledger is as large as the time since the boot, and so near to it.
    let of_this_run = before..=after;
    let is_time = |word: &[u8; 8]| of_this_run.contains(&u64::from_le_bytes(*word));
    let times: BTreeSet<u64> = words.iter().filter(|word| is_time(word)).map(|word| u64::from_le_bytes(*word)).collect();
    for word in words.iter_mut().filter(|word| is_time(word)) {
        let earlier = times.range(..u64::from_le_bytes(*word)).count() as u64;
        *word = (FIRST_TIME + earlier * STEP).to_le_bytes();
    }
    let mut set = |field: u64, value: u64| words[usize::try_from(field / 8).unwrap()] = value.to_le_bytes();
    set(header::CREATED_REALTIME, CREATED);
    set(header::CREATED_CLOCK, FIRST_TIME);
    set(header::PID, u64::from(pid) | (kind as u64) << 32);
    set(header::START_TICKS, start_ticks);
    if kind == WriterKind::Service {
        set(header::CLOCK, u64::from(pid) << 32);
        set(header::OWNER_START_TICKS, start_ticks);
    }
    let program = &mut words.as_flattened_mut()[usize::try_from(header::PROGRAM).unwrap()..][..header::PROGRAM_BYTES];
    program.fill(0);
    program[..7].copy_from_slice(b"python3");
    to.set_len(words.as_flattened().len() as u64).unwrap();
    // The rest of the pages stays a hole.
    for (number, page) in words.as_flattened().chunks(4096).enumerate() {
        if page.iter().any(|byte| *byte != 0) {
            to.write_all_at(page, number as u64 * 4096).unwrap();
        }
    }
}

/// Returns the time of [`ClockChoice::Monotonic`].
fn monotonic() -> u64 {
    let now: Duration = clock_gettime(ClockId::Monotonic).try_into().unwrap();
    u64::try_from(now.as_nanos()).unwrap()
}

/// Records the events of a program. Each one has a session of its own, and so a time of its own.
struct Events<'a> {
    writer: &'a Writer,
}

impl Events<'_> {
    fn session(&self) -> Session<'_> {
        self.writer.session().unwrap()
    }

    fn mesh(&self, given_id: u32, mesh: (u16, u16), chips: &[Chip]) -> AllocatorId {
        let mut kinds = [KindGeometry::default(); 6];
        for (of, geometry) in [(kind::DRAM, DRAM), (kind::L1, L1), (kind::L1_SMALL, L1_SMALL), (kind::TRACE, TRACE)] {
            kinds[usize::from(of)] = geometry;
        }
        self.session().open_allocator(&AllocatorSpec { given_id, origin: 2, mesh, kinds, chips }).unwrap()
    }

    /// Adds a buffer in each bank. `change` sets what is special.
    fn add(
        &self,
        allocator: AllocatorId,
        kind: u8,
        address: u64,
        size: u64,
        per_bank: u32,
        change: impl FnOnce(&mut Session<'_>, &mut Buffer),
    ) {
        let mut session = self.session();
        let mut buffer = Buffer { size, per_bank, page: 2048, ..Buffer::default() };
        change(&mut session, &mut buffer);
        session.insert(Key { allocator, kind, address }, &buffer).unwrap();
    }

    /// Adds a buffer in DRAM or L1 that a line of the program allocated.
    fn add_at(&self, allocator: AllocatorId, kind: u8, [address, per_bank, line]: [u64; 3], tag: &str) {
        let banks = if kind == kind::DRAM { 12 } else { 64 };
        let small = u32::try_from(per_bank).unwrap();
        self.add(allocator, kind, address, per_bank * banks - 100, small, |session, buffer| {
            buffer.tag = session.tag(tag);
            buffer.operation = session.tag(if line < 100 { "ttnn.linear" } else { "ttnn.matmul" });
            let inner = session.code("/srv/models/llama/decoder.py", "forward", 10).unwrap();
            let outer = session.code("/srv/serve.py", "generate", 200).unwrap();
            let line = u32::try_from(line).unwrap();
            buffer.stack = session.add_stack(u64::from(line), &[Frame { code: inner, line }, Frame { code: outer, line: 211 }], false);
        });
    }

    fn features(&self, mesh: AllocatorId) {
        self.session().cover(0, "allocate_buffer", Coverage::Found, "");
        self.session().cover(1, "dataflow_buffers", Coverage::SteppedAside, "unknown layout");
        self.session().cover(2, "launches", Coverage::Missing, "");
        self.session().hits(0, 12);
        self.session().check(mesh, SelfCheck::Same);
        self.writer.cost(120);
    }

    fn layers(&self, mesh: AllocatorId) {
        let mut session = self.session();
        let step = session.tag("step");
        session.phase(true, step, 900 << 20);
        drop(session);
        for layer in 0..6 {
            self.add_at(mesh, kind::DRAM, [0x10_0040 + (layer << 20), 0x8_0000, 40 + layer % 2], &format!("layer {layer}"));
        }
        self.add_at(mesh, kind::L1, [0x1_9D60, 0x4000, 120], "activations");
        self.add_at(mesh, kind::L1, [0x2_9D60, 0x8000, 120], "activations");
        self.add(mesh, kind::L1, 0x3_9D60, 4096, 64, |_, buffer| buffer.flags = flag::CACHE);
        self.add(mesh, kind::L1_SMALL, 0x11_9D60, 2048, 32, |_, _| {});
        self.add(mesh, kind::TRACE, 0x4010_0040, 12 << 16, 1 << 16, |_, _| {});
        let mut session = self.session();
        session.phase(false, step, 901 << 20);
        drop(session);
        for (allocator, of, address) in [(mesh, kind::DRAM, 0x20_0040), (mesh, kind::DRAM, 0x40_0040), (mesh, kind::L1, 0x1_9D60)] {
            self.session().remove(Key { allocator, kind: of, address }).unwrap();
        }
    }

    fn programs(&self, mesh: AllocatorId, submesh: AllocatorId) {
        let one = Circular {
            allocator: mesh,
            chip: None,
            program: 1,
            address: 0x1_9D60,
            size: 8192,
            cores: [0, 0, 7, 3],
            is_dataflow: false,
            is_global: false,
        };
        self.session().add_circular(&one).unwrap();
        self.session().add_circular(&Circular { address: 0x1_BD60, size: 4096, cores: [0, 0, 3, 3], is_dataflow: true, ..one }).unwrap();
        self.session().add_circular(&Circular { allocator: submesh, program: 2, ..one }).unwrap();
        (0..3).for_each(|_| self.writer.launched_on(&[0, 1]));
    }

    fn refusals(&self, mesh: AllocatorId) {
        let refused = Failure {
            what: Refused::OutOfMemory,
            allocator: mesh,
            kind: kind::L1,
            size: 32 << 20,
            per_bank: 512 << 10,
            banks: 64,
            free_per_bank: 700 << 10,
            largest_free_per_bank: 410 << 10,
            tag: 0,
            operation: 0,
            stack: 1,
            message: "Out of Memory: Not enough space to allocate 33554432 B L1 buffer\nbacktrace: ...",
        };
        self.session().failed(&refused);
        self.session().failed(&Failure {
            what: Refused::Clash,
            message: "Statically allocated circular buffers clash with L1 buffers",
            ..refused
        });
    }

    fn after_the_mark(&self, mesh: AllocatorId, submesh: AllocatorId) {
        self.session().mark();
        self.session().trace(mesh, TraceStep::Begin, 3);
        self.session().trace(mesh, TraceStep::End, 3);
        self.add_at(mesh, kind::DRAM, [0x90_0040, 0x10_0000, 42], "kv cache");
        self.session().trace(mesh, TraceStep::Replay, 3);
        // Both allocators have bytes of chip 0 at these addresses.
        self.add_at(submesh, kind::DRAM, [0x10_0140, 0x2000, 77], "overlap");
    }
}
