//! Compares the reader and the writer of this crate with each other, and with a simple map.

use std::collections::HashMap;
use std::fs::{self, File};
use std::num::NonZeroU32;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use ttmon_ledger::layout::{Op, WriterKind, flag};
use ttmon_ledger::report;
use ttmon_ledger::writer::{AllocatorId, AllocatorSpec, Buffer, Chip, ClockChoice, Config, Frame, Key, KindGeometry, Writer};
use ttmon_model::KernelType;
use ttmon_model::ledger::{Buffer as ModelBuffer, BufferLayout, Exactness, LedgerWriter};

use super::{list, live_bytes};
use crate::entry::Names;
use crate::list::{Listing, live};
use crate::numbers::kind_number;
use crate::peak::PeakSet;
use crate::{LedgerDetail, Lines, ReadError, Region};

fn writer(clock: ClockChoice) -> Writer {
    Writer::beside_others(Config { kind: WriterKind::Hook, version: "1.2.3", clock, machine: 5, on_created: None }, 1 << 10)
}

fn reader(writer: &Writer) -> Region {
    Region::open(File::open(format!("/proc/self/fd/{}", writer.descriptor().unwrap())).unwrap()).unwrap()
}

fn spec(chips: &[Chip]) -> AllocatorSpec<'_> {
    let dram = KindGeometry { banks: 12, alignment: 32, bank_bytes: 1 << 30, base: 32 };
    let kinds = [dram, KindGeometry::default(), dram, dram, dram, dram];
    AllocatorSpec { given_id: 3, origin: 2, mesh: (2, 4), kinds, chips }
}

fn key(allocator: AllocatorId, kind: u8, address: u64) -> Key {
    Key { allocator, kind, address }
}

fn now_ns() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap()
}

fn assert_whole(listing: &Listing) {
    assert_eq!(listing.bad_entries, 0);
    assert!(listing.peak_sets.iter().all(PeakSet::is_whole), "{:?}", listing.peak_sets);
    let sum: u64 = listing.entries.iter().map(|entry| entry.size).sum();
    let unlisted: u64 = listing.figures.ledger.allocators.iter().flat_map(|a| &a.rows).map(|row| row.unlisted_bytes).sum();
    assert_eq!(sum + unlisted, live_bytes(&listing.figures.ledger));
}

#[test]
fn a_ledger_is_read_as_written() {
    for clock in [ClockChoice::Auto, ClockChoice::Monotonic] {
        let before = now_ns();
        let writer = writer(clock);
        let chips = [Chip { metal_id: 4, unique_id: 0xAB, flags: 0 }];
        let allocator = writer.session().unwrap().open_allocator(&spec(&chips)).unwrap();
        let tag = writer.session().unwrap().tag("layer 7");
        let operation = writer.session().unwrap().tag("ttnn::relu");
        let stack = writer.session().unwrap().add_stack(7, &[], false);
        let buffer = Buffer { size: 4096, per_bank: 352, page: 1024, layout: 3, cores: 64, flags: 1, tag, operation, stack };
        writer.session().unwrap().insert(key(allocator, 0, 0x4000), &buffer).unwrap();
        report::allocate(&mut writer.session().unwrap(), key(allocator, 0, 0x4000), &buffer).unwrap();
        let written = now_ns();
        while now_ns() < written + 20_000_000 {
            thread::yield_now();
        }
        let (read, after) = (reader(&writer), now_ns());

        let identity = read.identity();
        assert_eq!((identity.pid, identity.writer, identity.machine), (std::process::id(), LedgerWriter::Hook, 5));
        assert_eq!(identity.version, "1.2.3");
        let listing = list(&read);
        assert_eq!(listing.figures.ledger.exactness, Exactness::Exact);
        assert_whole(&listing);
        let entry = listing.entries[0];
        assert_eq!((entry.address, entry.size, entry.per_bank, entry.page), (0x4000, 4096, 352, 1024));
        assert_eq!((entry.layout, entry.cores, entry.flags, entry.operation, entry.refs, entry.stack), (3, 64, 1, operation, 2, 1));
        assert_eq!(listing.tags.get(entry.tag).unwrap().as_str(), "layer 7");
        assert!((before..after - 15_000_000).contains(&entry.time), "{before} {} {after}", entry.time);
        let read_allocator = &listing.figures.ledger.allocators[0];
        assert_eq!((read_allocator.given_id, read_allocator.mesh, read_allocator.is_open()), (3, Some((2, 4)), true));
        assert_eq!((read_allocator.chips[0].metal_id, read_allocator.chips[0].unique_id), (Some(4), Some(0xAB)));
        assert_eq!((read_allocator.rows[0].allocated, read_allocator.rows[0].used), (Some(352 * 12), 4096));
        let ops: Vec<Op> = read.events(0).unwrap().events.iter().map(|event| event.op).collect();
        assert_eq!(ops, [Op::Open, Op::Alloc, Op::Ref]);
    }
}

/// Each kind of buffer, as the rest of the program sees it.
#[test]
fn buffers_are_those_of_the_model() {
    let writer = writer(ClockChoice::Auto);
    let mut session = writer.session().unwrap();
    let first = session.open_allocator(&spec(&[])).unwrap();
    let second = session.open_allocator(&AllocatorSpec { given_id: 9, ..spec(&[]) }).unwrap();
    let (tag, operation) = (session.tag("layer 7"), session.tag("ttnn::relu"));
    let code = session.code("model.py", "forward", 1).unwrap();
    let stack = session.add_stack(7, &[Frame { code, line: 12 }], false);
    let whole = Buffer { size: 4096, per_bank: 352, page: 1024, layout: 3, cores: 64, flags: flag::CACHE, tag, operation, stack };
    session.insert(key(second, 0, 0x4000), &whole).unwrap();
    session.insert(key(first, 1, 0x40), &Buffer { size: 7, flags: flag::PER_CORE, ..Buffer::default() }).unwrap();
    session.insert(key(first, 5, 0x80), &Buffer { size: 9, flags: report::kernel_flags(2), ..Buffer::default() }).unwrap();
    drop(session);
    let region = reader(&writer);
    let ledger = region.ledger(|_| LedgerDetail::Buffers, || region.lines().unwrap(), &mut |_, _| true).unwrap().unwrap();
    assert!(ledger.is_listed && ledger.exactness == Exactness::Exact);
    let [buffer, per_core, kernel] = &ledger.buffers[..] else { panic!("three: {:?}", ledger.buffers) };
    assert_eq!((buffer.allocator, buffer.kind.name(), buffer.address, buffer.size), (1, "dram", 0x4000, 4096));
    let layout = [buffer.per_bank, buffer.page_size, buffer.cores].map(|number| number.map(NonZeroU32::get));
    assert_eq!((layout, buffer.layout, buffer.refs), ([Some(352), Some(1024), Some(64)], Some(BufferLayout::WidthSharded), 1));
    let names = [&buffer.tag, &buffer.operation].map(|name| name.as_ref().unwrap().as_str());
    assert_eq!((names, buffer.line().unwrap().to_string().as_str()), (["layer 7", "ttnn::relu"], "model.py:12 forward"));
    assert_eq!((buffer.is_cached, buffer.is_per_core, buffer.kernel_type), (true, false, None));
    assert_eq!((per_core.allocator, per_core.kind.name(), per_core.is_per_core, per_core.per_bank), (0, "l1", true, None));
    assert_eq!((kernel.kind.name(), kernel.kernel_type), ("kernel", Some(KernelType::Dispatch)));
    let rows = &ledger.allocators[0].rows;
    assert_eq!(rows.iter().map(|row| (row.has_per_core, row.has_unknown_blocks)).collect::<Vec<_>>(), [(true, false), (false, true)]);
}

/// The entries of a million buffers are turned into buffers in the same memory.
#[test]
fn buffers_are_collected_in_place() {
    let writer = writer(ClockChoice::Auto);
    let allocator = writer.session().unwrap().open_allocator(&spec(&[])).unwrap();
    for address in 0..1000 {
        writer.session().unwrap().insert(key(allocator, 0, address), &Buffer { size: 7, ..Buffer::default() }).unwrap();
    }
    let Listing { figures, entries, tags, .. } = list(&reader(&writer));
    let (memory, lines) = (entries.as_ptr().cast::<u8>(), Lines::default());
    let names = Names::new(&figures.ledger.allocators, &tags, &lines);
    let buffers: Vec<ModelBuffer> = entries.into_iter().filter_map(|entry| entry.buffer(&names)).collect();
    assert_eq!((buffers.len(), buffers.as_ptr().cast::<u8>()), (1000, memory));
}

/// Reads a process whose descriptors are all closed, like a user would.
#[test]
fn a_ledger_is_read_from_the_memory_of_a_process() {
    let writer = writer(ClockChoice::Auto);
    let allocator = writer.session().unwrap().open_allocator(&spec(&[])).unwrap();
    writer.session().unwrap().insert(key(allocator, 0, 1), &Buffer { size: 77, ..Buffer::default() }).unwrap();
    let inode = fs::metadata(format!("/proc/self/fd/{}", writer.descriptor().unwrap())).unwrap().ino();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.split_whitespace().nth(4) == Some(&inode.to_string())).unwrap();
    let (start, rest) = line.split_once('-').unwrap();
    let end = rest.split_once(' ').unwrap().0;
    let (start, end) = (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
    let read = Region::open_at(File::open("/proc/self/mem").unwrap(), start, end - start).unwrap();
    let listing = list(&read);
    assert_eq!((listing.entries.len(), live_bytes(&listing.figures.ledger)), (1, 77));
}

/// Entries that died with their allocator's row are neither listed nor counted, though they are still in the table.
#[test]
fn live_entries_are_listed_up_to_a_limit() {
    let writer = writer(ClockChoice::Auto);
    let allocator = writer.session().unwrap().open_allocator(&spec(&[])).unwrap();
    let insert = |first: u64, count: u64| {
        for address in first..first + count {
            writer.session().unwrap().insert(key(allocator, 0, address), &Buffer { size: 7, ..Buffer::default() }).unwrap();
        }
    };
    insert(0, 300);
    assert_eq!(live(&reader(&writer), 299).err(), Some(ReadError::TooMany));
    assert_eq!(live(&reader(&writer), 300).unwrap().1.len(), 300);
    writer.session().unwrap().free_all(allocator);
    insert(1000, 3);
    let (figures, entries, _) = live(&reader(&writer), 3).unwrap();
    assert_eq!((entries.len(), figures.ledger.live_entries(), figures.ledger.exactness), (3, 3, Exactness::Exact));
    assert_eq!(live(&reader(&writer), 2).err(), Some(ReadError::TooMany));
}

#[test]
fn recycled_allocators_are_told_apart() {
    let writer = writer(ClockChoice::Auto);
    let open = |n: u64| {
        let mut session = writer.session().unwrap();
        // A different device each time, because the same one would get its slot back.
        let allocator = session.open_allocator(&AllocatorSpec { given_id: u32::try_from(n).unwrap(), ..spec(&[]) }).unwrap();
        let buffer = Buffer { size: 10 + n, ..Buffer::default() };
        session.insert(key(allocator, (n % 2) as u8, 0x1000), &buffer).unwrap();
        allocator
    };
    for n in 0..700 {
        let allocator = open(n);
        writer.session().unwrap().close_allocator(allocator);
    }
    open(701);
    let read = reader(&writer);
    let listing = list(&read);
    assert_eq!(
        (listing.figures.ledger.exactness, listing.figures.ledger.allocators.len(), listing.entries.len()),
        (Exactness::Exact, 256, 1)
    );
    assert_eq!(listing.entries[0].size, 711);
    assert_whole(&listing);
    let recorded = read.events(0).unwrap();
    assert_eq!((recorded.events.len(), recorded.events[0].op), (2, Op::Open), "older ones name rows of others");
    assert_eq!(recorded.overrun + 2, recorded.next);
}

/// The table has room for 1,024.
#[test]
fn unlisted_buffers_are_counted() {
    let writer = writer(ClockChoice::Auto);
    let allocator = writer.session().unwrap().open_allocator(&spec(&[])).unwrap();
    for n in 0..1_500 {
        writer.session().unwrap().insert(key(allocator, 1, n * 64), &Buffer { size: 64, ..Buffer::default() }).unwrap();
    }
    let listing = list(&reader(&writer));
    assert_eq!((listing.figures.ledger.exactness, listing.entries.len()), (Exactness::Exact, 1_024));
    let row = &listing.figures.ledger.allocators[0].rows[0];
    assert_eq!((row.count, row.used, row.unlisted_count, row.unlisted_bytes), (1_500, 1_500 * 64, 476, 476 * 64));
    assert_whole(&listing);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert { kind: u8, address: u64, size: u64 },
    Remove { kind: u8, address: u64 },
    FreeAll,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..2_u8, 0..200_u64, 1..5_000_u64).prop_map(|(kind, address, size)| Step::Insert { kind, address, size }),
        6 => (0..2_u8, 0..200_u64).prop_map(|(kind, address)| Step::Remove { kind, address }),
        1 => Just(Step::FreeAll),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reader_and_writer_agree_with_a_map(script in prop::collection::vec(step(), 1..400)) {
        let writer = writer(ClockChoice::Auto);
        let allocator = writer.session().unwrap().open_allocator(&spec(&[])).unwrap();
        let read = reader(&writer);
        let mut map = HashMap::new();
        let mut peaks = [0_u64; 2];
        for (n, step) in script.into_iter().enumerate() {
            let mut session = writer.session().unwrap();
            match step {
                Step::Insert { kind, address, size } => {
                    // Replacing is a free and then an allocation.
                    map.insert((kind, address), size);
                    session.insert(key(allocator, kind, address), &Buffer { size, ..Buffer::default() }).unwrap();
                }
                Step::Remove { kind, address } => {
                    prop_assert_eq!(session.remove(key(allocator, kind, address)), map.remove(&(kind, address)));
                }
                Step::FreeAll => {
                    session.free_all(allocator);
                    map.clear();
                }
            }
            drop(session);
            for kind in 0..2_u8 {
                let used = map.iter().filter(|((k, _), _)| *k == kind).map(|(_, size)| size).sum();
                peaks[usize::from(kind)] = peaks[usize::from(kind)].max(used);
            }
            if n % 37 == 0 {
                check(&read, &map, peaks);
            }
        }
        check(&read, &map, peaks);
    }
}

fn check(read: &Region, map: &HashMap<(u8, u64), u64>, peaks: [u64; 2]) {
    let listing = list(read);
    assert_eq!(listing.figures.ledger.exactness, Exactness::Exact);
    assert_whole(&listing);
    let live: HashMap<(u8, u64), u64> = listing.entries.iter().map(|e| ((e.kind, e.address), e.size)).collect();
    assert_eq!(&live, map);
    for row in &listing.figures.ledger.allocators[0].rows {
        assert_eq!(row.peak, peaks[usize::from(kind_number(row.kind))]);
    }
}

/// Threads write while everything is read continuously: a few thousand events during each list.
#[test]
fn lists_of_running_threads_are_exact() {
    let writer = writer(ClockChoice::Auto);
    let allocator = writer.session().unwrap().open_allocator(&spec(&[])).unwrap();
    let read = reader(&writer);
    let granted = AtomicU64::new(0);
    let (mut exact, mut whole, mut next) = (0_u32, 0_u32, 0);
    thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (writer, granted) = (&writer, &granted);
            scope.spawn(move || work(writer, allocator, thread, granted));
        }
        for _ in 0..LISTS {
            granted.fetch_add(EVENTS_PER_LIST, Relaxed);
            let listing = list(&read);
            if listing.figures.ledger.exactness == Exactness::Exact {
                exact += 1;
                whole += u32::from(listing.peak_sets.iter().all(PeakSet::is_whole));
                assert_eq!(listing.entries.iter().map(|entry| entry.size).sum::<u64>(), live_bytes(&listing.figures.ledger));
            }
            let recorded = read.events(next).unwrap();
            assert_eq!(recorded.events.len() as u64 + recorded.overrun, recorded.next - next);
            next = recorded.next;
        }
        granted.store(u64::MAX, Relaxed);
    });
    println!("{LISTS} lists, {exact} exact, {whole} with whole peaks, {next} events");
    assert!(exact > LISTS / 4, "{exact} of {LISTS}");
    let last = list(&read);
    assert_eq!(last.figures.ledger.exactness, Exactness::Exact);
    assert_whole(&last);
}

const LISTS: u32 = 400;
/// Events that each thread may make during a list. The ring holds many more.
const EVENTS_PER_LIST: u64 = 1_000;

/// Makes as many events as `granted` says. Returns when that is the maximum.
fn work(writer: &Writer, allocator: AllocatorId, thread: u64, granted: &AtomicU64) {
    let mut random = 0x9E37_79B9_7F4A_7C15 ^ thread;
    let mut done = 0;
    loop {
        match granted.load(Relaxed) {
            u64::MAX => return,
            until if done >= until => thread::yield_now(),
            _ => {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let key = key(allocator, (thread % 2) as u8, random % 400);
                if let Ok(mut session) = writer.session()
                    && session.remove(key).is_none()
                {
                    session.insert(key, &Buffer { size: random % 10_000, ..Buffer::default() }).unwrap();
                }
                done += 1;
            }
        }
    }
}
