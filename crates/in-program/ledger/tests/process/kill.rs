//! Repeatedly kills a writer with four threads at random times. The ledger, which this process holds open, is compared with the intentions
//! that the threads recorded in separate shared memory.
//!
//! Random kills rarely hit a window of two instructions. So the last case stops a writer after every single instruction of a short program
//! and reads its ledger after each change. A kill at that point would leave exactly these bytes.
//!
//! TTMON_KILLS sets the number of kills (40), TTMON_SEED the random seed.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicU64};
use std::{ptr, thread};

use rustix::fs::SeekFrom;
use ttmon_ledger::layout::WriterKind;
use ttmon_ledger::writer::{
    AllocatorId, AllocatorSpec, Buffer, Chip, Circular, Config, Frame, Hosted, Owner, Session, VisibleDevicesVariable, Writer,
};
use ttmon_ledger_reader::Region;
use ttmon_testing::until;

use crate::cases::{Case, wait};
use crate::made::{self, CONFIG, Random, key, open, refused};
use crate::raw::{Raw, Truth};

const THREADS: usize = 4;
const PLACES: usize = 2000;
/// Set while the buffer of a place is being allocated or freed.
const CHANGING: u64 = 1 << 63;

/// The intentions of the threads, in memory shared with the parent.
struct Intents {
    descriptor: AtomicI32,
    ready: AtomicI32,
    /// For each thread, 1 while it frees all its buffers.
    freeing_all: [AtomicU64; THREADS],
    /// 0 if free, size + 1 if live.
    places: [[AtomicU64; PLACES]; THREADS],
}

impl Intents {
    fn shared() -> &'static Self {
        const FLAGS: libc::c_int = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: zeroed shared memory of this length, never unmapped; zeros are valid atomics.
        unsafe {
            let start = libc::mmap(ptr::null_mut(), size_of::<Self>(), libc::PROT_READ | libc::PROT_WRITE, FLAGS, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            &*start.cast::<Self>()
        }
    }

    fn clear(&self) {
        self.descriptor.store(-1, SeqCst);
        self.ready.store(0, SeqCst);
        self.freeing_all.iter().chain(self.places.iter().flatten()).for_each(|word| word.store(0, SeqCst));
    }
}

static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);

fn note(descriptor: RawFd) {
    DESCRIPTOR.store(descriptor, SeqCst);
}

pub const CASES: &[Case] = &[
    Case { name: "killed_anywhere_every_buffer_is_as_meant", run: || kills(1 << 20) },
    Case { name: "killed_anywhere_with_a_full_table", run: || kills(1 << 10) },
    Case { name: "stopped_after_every_instruction", run: stopped_after_every_instruction },
    Case { name: "taken_over_after_every_instruction", run: taken_over_after_every_instruction },
];

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn kills(capacity: u32) {
    // SAFETY: no preconditions. The cases of this file may take long.
    unsafe { libc::alarm(1200) };
    let intents = Intents::shared();
    let kills = number("TTMON_KILLS", 40);
    let seed = number("TTMON_SEED", 1);
    let mut random = Random(seed);
    let (mut odd, mut events, mut held_circulars, mut with_stacks) = (0, 0, 0, 0);
    for round in 0..kills {
        intents.clear();
        // SAFETY: this process has one thread.
        let child = unsafe { libc::fork() };
        if child == 0 {
            work(intents, capacity, seed.wrapping_mul(1_000_003).wrapping_add(round));
        }
        until("it writes", || intents.ready.load(SeqCst) != 0);
        let held = File::open(format!("/proc/{child}/fd/{}", intents.descriptor.load(SeqCst))).expect("held");
        let region = Region::open(held.try_clone().expect("a descriptor")).expect("a ledger");
        let enough = random.below(30_000);
        until("more events", || region.last_event().expect("readable") > enough);
        // SAFETY: our own child, which was not waited for yet.
        unsafe { libc::kill(child, libc::SIGKILL) };
        wait(child);
        let truth = Raw::of_file(&held).truth();
        with_stacks += compare_stacks(&held, round);
        odd += u64::from(!truth.seq.is_multiple_of(2));
        events += truth.seq / 2;
        let is_listed_all = truth.rows.values().all(|row| row.unlisted_count == 0) && truth.status & 2 == 0;
        for (allocator, circulars) in &truth.circulars {
            for (program, _, size, ..) in circulars {
                assert_eq!((*size, *program as usize % THREADS), (program * 32 + 32, *allocator), "round {round}");
            }
            held_circulars += 1;
        }
        for thread in 0..THREADS {
            compare(intents, &truth, thread, is_listed_all, round);
        }
    }
    println!("  {kills} kills, {events} events, {odd} in the middle of one, {with_stacks} live buffers with their stacks");
    assert!(held_circulars > 0 || kills < 10);
}

/// Checks that each place is as intended. A place that was changing may have either state.
fn compare(intents: &Intents, truth: &Truth, thread: usize, is_listed_all: bool, round: u64) {
    let row = thread * 8;
    let is_freeing_all = intents.freeing_all[thread].load(SeqCst) != 0;
    let (mut kept, mut gone, mut open, mut bytes) = (0_u64, 0_u64, 0_u64, 0_u64);
    for (place, intent) in intents.places[thread].iter().enumerate() {
        let intent = intent.load(SeqCst);
        let meant = intent & !CHANGING;
        let found = truth.live.get(&(row, place as u64 * 64)).map_or(0, |entry| entry.size + 1);
        if intent & CHANGING != 0 {
            assert!(found == 0 || found == meant, "round {round}: {found} at {place}, meant {meant} or nothing");
            open += 1;
        } else if found == meant {
            kept += u64::from(meant != 0);
            bytes += meant.saturating_sub(1);
        } else {
            // Not listed: the table is full, or the whole row is being freed.
            assert!(found == 0 && (is_freeing_all || !is_listed_all), "round {round}: {found} at {place}, meant {meant}");
            gone += 1;
            bytes += meant - 1;
        }
    }
    assert!(open <= 1);
    if is_freeing_all && is_listed_all {
        assert!(kept == 0 || gone == 0, "round {round}: a row is freed as a whole, {kept} kept, {gone} gone");
    }
    // The totals include unlisted entries, unless an event is incomplete.
    if truth.seq.is_multiple_of(2) && !is_freeing_all && open == 0 {
        let counted = truth.rows.get(&row).map_or((0, 0), |row| (row.count, row.live_bytes));
        assert_eq!(counted, (kept + gone, bytes), "round {round}: totals of row {row}");
    }
}

/// The child process. Never returns.
fn work(intents: &'static Intents, capacity: u32, seed: u64) -> ! {
    // SAFETY: no preconditions. The child ends with its parent.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let config = Config { on_created: Some(note), ..CONFIG };
    let writer: &'static Writer = Box::leak(Box::new(Writer::beside_others(config, capacity)));
    let ids: Vec<AllocatorId> = (0..4).map(|number| open(&mut writer.session().expect("session"), number)).collect();
    for (number, id) in ids.into_iter().enumerate() {
        let random = Random(seed ^ (number as u64) << 40);
        thread::spawn(move || allocate_for_ever(intents, writer, number, id, random));
    }
    intents.descriptor.store(DESCRIPTOR.load(SeqCst), SeqCst);
    intents.ready.store(1, SeqCst);
    loop {
        thread::park();
    }
}

fn allocate_for_ever(intents: &Intents, writer: &Writer, thread: usize, id: AllocatorId, mut random: Random) {
    let places = &intents.places[thread];
    loop {
        let place = usize::try_from(random.below(PLACES as u64)).expect("small");
        let key = key(id, 0, place as u64 * 64);
        let meant = places[place].load(Acquire);
        if meant != 0 {
            places[place].store(meant | CHANGING, Release);
            assert_eq!(writer.session().expect("session").remove(key), Some(meant - 1));
            places[place].store(0, Release);
        } else {
            let size = random.below(100_000);
            places[place].store((size + 1) | CHANGING, Release);
            let per_bank = u32::try_from(size / 12).expect("small");
            let stack = writer.stack(line_of(size).into());
            let mut session = writer.session().expect("session");
            let stack = stack.unwrap_or_else(|| new_stack(&mut session, line_of(size)));
            session.insert(key, &Buffer { size, per_bank, stack, ..Buffer::default() }).expect("room");
            drop(session);
            places[place].store(size + 1, Release);
        }
        if random.below(40) == 0 {
            let program = u32::try_from(random.below(20)).expect("small");
            let mut session = writer.session().expect("session");
            if random.below(2) == 0 {
                session.remove_program(program * 4 + u32::try_from(thread).expect("small"));
            } else {
                let program = program * 4 + u32::try_from(thread).expect("small");
                // The size identifies the program, so that a torn record is detected.
                let added = Circular { program, size: program * 32 + 32, ..made::circular(id) };
                session.add_circular(&added).expect("room");
            }
            if random.below(10) == 0 {
                session.failed(&refused(id, 0, random.below(1000)));
                session.mark();
            }
        }
        if thread == 0 && random.below(3000) == 0 {
            intents.freeing_all[0].store(1, SeqCst);
            writer.session().expect("session").free_all(id);
            places.iter().for_each(|place| place.store(0, Relaxed));
            intents.freeing_all[0].store(0, SeqCst);
        }
    }
}

/// The line that allocates buffers of a size. Another line means a wrong stack.
fn line_of(size: u64) -> u32 {
    u32::try_from(size % 3000 + 1).expect("small")
}

fn new_stack(session: &mut Session<'_>, line: u32) -> u32 {
    let code = session.code("/me/model.py", &format!("function {}", line % 100), line % 100).expect("room");
    session.add_stack(line.into(), &[Frame { code, line }, Frame { code, line: 1 }], false)
}

/// Checks that every live buffer has the stack of its allocation.
fn compare_stacks(held: &File, round: u64) -> u64 {
    let region = Region::open(held.try_clone().expect("another descriptor")).expect("a ledger");
    let (live, lines) = (region.live_events().expect("readable").live, region.lines().expect("readable"));
    for buffer in &live {
        let frames: Vec<(&str, u32)> = lines.frames(buffer.stack).iter().map(|frame| (&*frame.function, frame.line)).collect();
        let function = format!("function {}", line_of(buffer.size) % 100);
        assert_eq!(frames, [(function.as_str(), line_of(buffer.size)), (&function, 1)], "round {round}: {buffer:?}");
    }
    live.len() as u64
}

/// Events of every kind, each followed by others that depend on it.
fn short_program(writer: &Writer, id: AllocatorId) {
    let buffer = |size| Buffer { size, per_bank: 10, ..Buffer::default() };
    let insert = |address, size| {
        writer.session().expect("session").insert(key(id, 0, address), &buffer(size)).expect("room");
    };
    insert(64, 1000);
    insert(128, 500);
    // Members of the peak are freed, a slot is reused, and there is a new peak.
    writer.session().expect("session").remove(key(id, 0, 64));
    insert(192, 300);
    insert(256, 5000);
    writer.session().expect("session").remove(key(id, 0, 256));
    // Another size at a live key, and references.
    insert(128, 700);
    made::reference(&mut writer.session().expect("session"), key(id, 0, 128));
    writer.session().expect("session").unreference(key(id, 0, 128));
    writer.session().expect("session").failed(&refused(id, 0, 1));
    // Members die with their row, are swept, and their keys are reused.
    insert(320, 9000);
    writer.session().expect("session").free_all(id);
    insert(128, 10);
    insert(64, 20);
    insert(384, 20_000);
    insert(448, 1);
    writer.session().expect("session").unreference(key(id, 0, 448));
    // Programs are added and removed, also with their allocator. Marks, and a restored buffer.
    let circular = |program, address| Circular { program, address, ..made::circular(id) };
    for (program, address) in [(1, 64), (2, 64), (1, 128)] {
        writer.session().expect("session").add_circular(&circular(program, address)).expect("room");
    }
    writer.session().expect("session").remove_program(1);
    writer.session().expect("session").add_circular(&circular(3, 256)).expect("room");
    writer.session().expect("session").mark();
    writer.session().expect("session").remove(key(id, 0, 64));
    writer.session().expect("session").restore(key(id, 0, 64), &buffer(20));
    // Another allocator on the same chip. Twice they have more together than either alone, and less in between.
    let other = open(&mut writer.session().expect("session"), 1);
    writer.session().expect("session").insert(key(other, 1, 64), &buffer(3)).expect("room");
    let insert_other = |address, size| {
        writer.session().expect("session").insert(key(other, 0, address), &buffer(size)).expect("room");
    };
    insert_other(64, 15_000);
    writer.session().expect("session").remove(key(other, 0, 64));
    insert(512, 4000);
    insert_other(64, 14_000);
    insert_other(128, 6000);
    writer.session().expect("session").close_allocator(other);
    writer.session().expect("session").close_allocator(id);
}

fn stopped_after_every_instruction() {
    let intents = Intents::shared();
    intents.clear();
    // SAFETY: this process has one thread; the child requests to be traced and stops.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let config = Config { on_created: Some(note), ..CONFIG };
        let writer = Writer::beside_others(config, 1 << 10);
        let id = open(&mut writer.session().expect("session"), 0);
        intents.descriptor.store(DESCRIPTOR.load(SeqCst), SeqCst);
        // SAFETY: as above.
        unsafe {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
            short_program(&writer, id);
            libc::_exit(0);
        }
    }
    let mut status = wait(child);
    let held = File::open(format!("/proc/{child}/fd/{}", intents.descriptor.load(SeqCst))).expect("held");
    let memory = mapped(&held);
    let (mut steps, mut checks, mut odd, mut before) = (0_u64, 0_u64, 0_u64, Vec::new());
    let mut most = [0; 2];
    while libc::WIFSTOPPED(status) {
        // SAFETY: the writer is stopped, so nothing changes while this borrow is alive.
        let now = parts(unsafe { memory.as_ref() });
        if !now.iter().copied().eq(before.iter().map(Vec::as_slice)) {
            let raw = Raw::of_file(&held);
            let truth = raw.truth();
            checks += 1;
            odd += truth.seq % 2;
            for (kind, most) in most.iter_mut().enumerate() {
                let (peak, now) = raw.peak_on(&truth, 0, kind);
                *most = now.max(*most);
                assert_eq!(peak, *most, "the peak of chip 0, kind {kind}, in step {steps}");
            }
            before = now.map(<[u8]>::to_vec).to_vec();
        }
        // SAFETY: our own stopped child.
        unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, child, 0, 0) };
        steps += 1;
        status = wait(child);
    }
    assert_eq!(status, 0, "the short program ended well");
    println!("  {steps} instructions, {checks} states, {odd} in the middle of an event");
    assert!(odd > 300);
}

/// Stops a service after every instruction of a short program. After each change, another service takes over a copy of the ledger.
fn taken_over_after_every_instruction() {
    let config = Config { kind: WriterKind::Service, ..CONFIG };
    let file = memory_file();
    // SAFETY: this process has one thread; the child requests to be traced and stops.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let owner = Owner { pid: 1, start_ticks: 1, program: b"", seen: VisibleDevicesVariable::All, is_mock: false };
        let mut hosted = Hosted::create(file, &config, &owner).expect("a ledger");
        let id = hosted.open_allocator(&made::spec(0)).expect("room");
        // SAFETY: as above.
        unsafe {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
            short_service(&mut hosted, id);
            libc::_exit(0);
        }
    }
    let mut status = wait(child);
    let memory = mapped(&file);
    let (mut adopted, mut odd, mut before) = (0_u64, 0_u64, Vec::new());
    while libc::WIFSTOPPED(status) {
        // SAFETY: the writer is stopped, so nothing changes while this borrow is alive.
        let now = parts(unsafe { memory.as_ref() });
        if !now.iter().copied().eq(before.iter().map(Vec::as_slice)) {
            odd += check_adopted(&file, &config);
            adopted += 1;
            before = now.map(<[u8]>::to_vec).to_vec();
        }
        // SAFETY: our own stopped child.
        unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, child, 0, 0) };
        status = wait(child);
    }
    assert_eq!(status, 0, "the short program ended well");
    println!("  {adopted} ledgers taken over, {odd} in the middle of an event");
    assert!(odd > 200);
}

/// Takes over a copy of the ledger and checks that it has the same buffers, and works. Returns 1 if an event was open.
fn check_adopted(file: &File, config: &Config) -> u64 {
    let (killed, copy) = (Raw::of_file(file).truth(), copy_of(file));
    let mut hosted = Hosted::adopt(copy.try_clone().expect("a descriptor"), config).expect("its own ledger");
    // `truth` compares totals and peaks with the entries, because no event is open.
    let truth = Raw::of_file(&copy).truth();
    assert_eq!((truth.seq % 2, truth.repairs), (0, killed.repairs + 1));
    assert_eq!(truth.live, killed.live, "event {}", killed.seq / 2);
    assert_eq!(hosted.live_entries(), truth.live.len() as u64);
    let id = hosted.open_allocator(&made::spec(0)).expect("room");
    // The first allocator's DRAM is row 0.
    for (_, address) in truth.live.keys().filter(|(row, _)| *row == 0) {
        assert!(hosted.session().remove(key(id, 0, *address)).is_some(), "{address} is found");
    }
    hosted.session().insert(key(id, 0, 64), &Buffer { size: 7, ..Buffer::default() }).expect("room");
    assert_eq!(hosted.live_of(id, 0), (7, 1));
    Raw::of_file(&copy).truth();
    killed.seq % 2
}

/// Events of every kind that a service records.
fn short_service(hosted: &mut Hosted, id: AllocatorId) {
    let buffer = |size| Buffer { size, per_bank: 10, ..Buffer::default() };
    let insert = |hosted: &mut Hosted, address, size| hosted.session().insert(key(id, 0, address), &buffer(size)).expect("room");
    insert(hosted, 64, 1000);
    insert(hosted, 128, 500);
    // A member of the peak is freed, a slot is reused, and there is a new peak.
    hosted.session().remove(key(id, 0, 64));
    insert(hosted, 192, 5000);
    // Another size at a live key, and references.
    insert(hosted, 128, 700);
    made::reference(&mut hosted.session(), key(id, 0, 128));
    hosted.session().unreference(key(id, 0, 128));
    // Members die with their row, are swept, and their keys are reused.
    hosted.session().free_all(id);
    insert(hosted, 128, 10);
    insert(hosted, 64, 20_000);
    // Another device, which is closed with buffers and opened again.
    let spec = AllocatorSpec { chips: &[Chip { metal_id: 1, unique_id: 1, flags: 0 }], ..made::spec(1) };
    let other = hosted.open_allocator(&spec).expect("room");
    hosted.session().insert(key(other, 1, 64), &buffer(3)).expect("room");
    hosted.session().insert(key(other, 0, 64), &buffer(15_000)).expect("room");
    hosted.session().close_allocator(other);
    hosted.open_allocator(&spec).expect("room");
    hosted.session().close_allocator(id);
}

fn memory_file() -> File {
    rustix::fs::memfd_create("ledger", rustix::fs::MemfdFlags::CLOEXEC).expect("a file").into()
}

/// Copies a file, without its holes.
fn copy_of(file: &File) -> File {
    let copy = memory_file();
    let length = file.metadata().expect("its length").len();
    copy.set_len(length).expect("memory");
    let mut end = 0;
    while let Ok(start) = rustix::fs::seek(file, SeekFrom::Data(end)) {
        end = rustix::fs::seek(file, SeekFrom::Hole(start)).expect("the end of a file is a hole");
        let mut bytes = vec![0; usize::try_from(end - start).expect("small")];
        file.read_exact_at(&mut bytes, start).expect("readable");
        copy.write_all_at(&bytes, start).expect("memory");
    }
    copy
}

/// Maps a ledger until the end of this process. A system call a part after every instruction would take most of the time.
fn mapped(ledger: &File) -> ptr::NonNull<[u8]> {
    let length = usize::try_from(ledger.metadata().expect("its length").len()).expect("small");
    // SAFETY: a new mapping for reading, never unmapped.
    let start = unsafe { libc::mmap(ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, ledger.as_raw_fd(), 0) };
    assert_ne!(start, libc::MAP_FAILED);
    ptr::NonNull::slice_from_raw_parts(ptr::NonNull::new(start.cast()).expect("an address"), length)
}

/// The bytes that the short program can change, without the recorder.
fn parts(ledger: &[u8]) -> [&[u8]; 8] {
    // Header, rows of two allocators, peak copies, circulars, launches, coverage, failures, left, entries.
    [
        (0x200, 512),
        (0x51000, 2 * 8 * 256),
        (0x11_1000, 1024),
        (0x51_1000, 256),
        (0x71_5000, 2048),
        (0x72_5000, 1024),
        (0x76_5000, 256),
        (0xFE_9000, 1024),
    ]
    .map(|(offset, length)| &ledger[offset..ledger.len().min(offset + length)])
}
